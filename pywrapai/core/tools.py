"""Tool calls as models send them: arguments that may be broken, ids that may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pywrapai.core.base import ToolCall


def tool_call(call_id: Any, name: Any, arguments: Any, **more: Any) -> ToolCall:
    """A ToolCall of whatever a server sent for its parts."""
    parsed, raw = parse_arguments(arguments)
    return ToolCall(str(call_id or ""), str(name or ""), parsed, raw, **more)


def parse_arguments(arguments: Any) -> tuple[dict[str, Any], str | None]:
    """A tool call's arguments as a dict; when they are no JSON object, `{}` and the raw text."""
    if arguments is None or arguments == "":
        return {}, None
    if isinstance(arguments, dict):
        return arguments, None
    try:
        parsed = json.loads(arguments, strict=False)
    except (TypeError, ValueError):
        parsed = None
    return (parsed, None) if isinstance(parsed, dict) else ({}, str(arguments))


def with_unique_ids(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """The calls with an id each: some servers send none, or one and the same for all."""
    seen: set[str] = {""}
    result: list[ToolCall] = []
    for call in calls:
        if call.id in seen:
            from uuid import uuid4

            call = replace(call, id=f"call_{uuid4().hex[:24]}")
        seen.add(call.id)
        result.append(call)
    return result
