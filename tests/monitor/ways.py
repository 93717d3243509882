"""Every way in which a monitored graph is called."""

from __future__ import annotations

import inspect

import pytest
from pydantic import BaseModel

from pywrapai_monitor import MonitoredGraph

TOOL = {"name": "f", "description": "", "parameters": {"type": "object"}}
ANN = '{"name": "Ann"}'
WAYS = ("chat", "stream", "stream_events", "chat_structured")


class Person(BaseModel):
    name: str


async def go(tracked: MonitoredGraph, way: str, question="hi", **more):
    """Call it in this way and read all of it; what came."""
    schema = (Person,) if "structured" in way else ()
    found = getattr(tracked, way)(question, *schema, **more)
    if inspect.isawaitable(found):
        return await found
    if hasattr(found, "__anext__"):
        return [piece async for piece in found]
    return list(found) if hasattr(found, "__next__") else found


BOTH = [*WAYS, *(f"a{way}" for way in WAYS)]
EACH = pytest.mark.parametrize("way", BOTH)
