"""Types for the parameters of tools, and the schemas that tools make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from pywrapai_graph import Tool


class Place(BaseModel):
    """Where something is."""

    city: str
    title: str = "none"


@dataclass
class Route:
    start: Place
    stops: list[Place]


def parameters(fn: Callable[..., Any]) -> dict[str, Any]:
    made = getattr(fn, "_pywrapai_tool", None) or Tool.from_function(fn, name="f")
    return made.parameters


def properties(fn: Callable[..., Any]) -> dict[str, Any]:
    return parameters(fn)["properties"]
