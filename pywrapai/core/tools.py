"""Tool calls as models send them: arguments that may be broken, ids that may be missing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from pywrapai.core.base import ToolCall


def tool_call(call_id: Any, name: Any, arguments: Any, **more: Any) -> ToolCall:
    """A ToolCall of whatever a server sent for its parts."""
    parsed, raw = parse_arguments(arguments)
    return ToolCall(str(call_id or ""), str(name or ""), parsed, raw, **more)


def parse_arguments(arguments: Any) -> tuple[dict[str, Any], str | None]:
    """A tool call's arguments as a dict; when they are no JSON object, `{}` and the raw text."""
    if arguments is None or arguments == "":
        return {}, None
    text = arguments
    if not isinstance(arguments, str):
        text = json.dumps(arguments, ensure_ascii=False)
    try:
        parsed = json.loads(text, strict=False, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        parsed = None
    return (parsed, None) if isinstance(parsed, dict) else ({}, text)


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON: it could not be sent back")


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _no_number(number)


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
