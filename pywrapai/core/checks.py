"""What a caller gives, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_FOREVER = 2_000_000.0
"""Seconds, 23 days: systems count a wait in milliseconds, and not much further than that."""


def at_least_1(name: str, value: int) -> int:
    """The value itself. ValueError unless it is an int of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; expected an int of 1 or more")
    return value


def timeout_seconds(timeout: Any) -> float:
    """The seconds of a time-out. ValueError for one that is no positive number."""
    if not _is_positive(timeout):
        raise ValueError(f"timeout is in seconds and must be above 0, not {timeout!r}")
    return float(min(timeout, _FOREVER))


def ttl_seconds(ttl: float | None) -> float | None:
    """The seconds that something is kept, None for ever. ValueError unless they are above 0."""
    if ttl is not None and not _is_positive(ttl):
        raise ValueError(f"ttl is in seconds and must be above 0, or None, not {ttl!r}")
    return ttl


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def check_tools(tools: Sequence[Mapping[str, Any]] | None, tool_choice: str | None) -> None:
    """TypeError or ValueError for tools, or a choice among them, that no provider could take."""
    if tools is not None and not isinstance(tools, (list, tuple)):
        raise TypeError(
            f"tools is a list of dicts, such as registry.to_schema(), not {tools!r:.80}"
        )
    for tool in tools or ():
        _check_tool(tool)
    if tool_choice is None:
        return
    if not tools:
        raise ValueError(f"tool_choice={tool_choice!r} needs tools=[...] to choose from")
    names = [tool["name"] for tool in tools]
    if tool_choice not in ("auto", "required", "none", *names):
        raise ValueError(
            f"tool_choice={tool_choice!r} is neither 'auto', 'required', 'none' nor one of the "
            f"tools: {', '.join(names)}"
        )


def _check_tool(tool: Any) -> None:
    parameters = tool.get("parameters") if isinstance(tool, Mapping) else None
    named = isinstance(tool, Mapping) and isinstance(tool.get("name"), str) and tool["name"]
    if not named or not isinstance(parameters, (Mapping, type(None))):
        raise ValueError(
            'a tool is {"name": ..., "description": ..., "parameters": a JSON Schema}, '
            f"not {tool!r:.80}"
        )
