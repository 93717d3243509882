r"""An Entry as one line of JSON, and back: what waits in a spool.

What is read equals what was written, NaN, lone surrogates and NUL included. Where a value is none
of JSON's (a set, an object, what contains itself), a readable form of it is kept. Lines end in "\n"
alone, and hold none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from sys import getsizeof
from typing import Any, TypeVar

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_graph.tools.values import plain
from pywrapai_monitor.db.base import Entry, MessageRecord, TokenRecord, ToolStep

T = TypeVar("T", TokenRecord, MessageRecord, ToolStep, ToolCall, ToolResult)

_OF_ANY_KIND = ("rag_context", "metadata", "arguments", "provider_data")
_RECORD_BYTES = 1024


def to_line(entry: Entry) -> bytes:
    """The entry as a line, with its end."""
    whole = _entry_fields(entry)
    try:
        text = _ENCODER.encode(whole)
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, a cycle, great depth
        text = _ENCODER.encode(_readable(whole))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def from_line(line: bytes) -> Entry:
    """What `to_line` gave. Fields that it does not know, of a newer version, are left out.

    ValueError where the line is something else, or a part of one.
    """
    try:
        return _entry(json.loads(line.decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise ValueError(f"{line[:80]!r} is no record: {type(exc).__name__}: {exc}") from exc


def bytes_of(entry: Entry) -> int:
    """Roughly what an entry takes in memory, and rather more than less."""
    total, seen, waiting = _RECORD_BYTES, set[int](), list(_contents(entry))
    while waiting:
        value = waiting.pop()
        total += getsizeof(value)
        if isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value)
            if isinstance(value, dict):
                waiting.extend(value.values())
    return total


def _contents(entry: Entry) -> Iterator[Any]:
    """What may be large in it."""
    token = entry.token
    yield from (token.error_message, token.partial, token.tags, token.metadata)
    for message in entry.messages:
        yield from (message, message.content, message.rag_context, message.system_prompt)
    if (step := entry.tools) is not None:
        for call in step.calls:
            yield from (call, call.arguments, call.raw_arguments, call.provider_data)
        for result in step.results:
            yield from (result, result.content)


def _other(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else plain(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_other)


def _entry_fields(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {"at": entry.at, "token": _fields(TokenRecord, entry.token)}
    if entry.messages:
        found["messages"] = [_fields(MessageRecord, message) for message in entry.messages]
    if (step := entry.tools) is not None:
        found["tools"] = _fields(ToolStep, step) | {
            "calls": [_fields(ToolCall, call) for call in step.calls],
            "results": [_fields(ToolResult, result) for result in step.results],
        }
    return found


def _fields(kind: type, record: Any) -> dict[str, Any]:
    """Those that are not as they would be anyway."""
    return {
        name: value
        for name, default in _DEFAULTS[kind].items()
        if (value := getattr(record, name)) is not default
    }


_DEFAULTS: dict[type, dict[str, Any]] = {
    kind: {field.name: field.default for field in fields(kind)}
    for kind in (TokenRecord, MessageRecord, ToolStep, ToolCall, ToolResult)
}


def _readable(value: Any) -> Any:
    match value:
        case list():
            return [_readable(item) for item in value]
        case dict():
            return {
                name: plain(it) if name in _OF_ANY_KIND else _readable(it)
                for name, it in value.items()
            }
    return value


def _entry(found: Mapping[str, Any]) -> Entry:
    step = found.get("tools")
    return Entry(
        token=_record(TokenRecord, found["token"]),
        messages=tuple(_record(MessageRecord, message) for message in found.get("messages", ())),
        tools=None if step is None else _record(ToolStep, step | _step_parts(step)),
        at=int(found["at"]),
    )


def _step_parts(step: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "calls": tuple(_record(ToolCall, call) for call in step["calls"]),
        "results": tuple(_record(ToolResult, result) for result in step["results"]),
    }


def _record(kind: type[T], found: Mapping[str, Any]) -> T:
    known = {name: value for name, value in found.items() if name in _DEFAULTS[kind]}
    for name in ("tags", "durations_ms"):
        if name in known:
            known[name] = tuple(known[name])
    return kind(**known)
