"""Records as rows of the tables, and rows as the dicts that the store's readers get."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Table

from pywrapai_monitor.db import codec
from pywrapai_monitor.db.base import Entry, MessageRecord, Row, TokenRecord
from pywrapai_monitor.db.tables import conversations, token_records, tool_calls

if TYPE_CHECKING:
    from pywrapai import ToolCall, ToolResult

Found: TypeAlias = Mapping[Any, Any]
"""A row by column name, as the database gave it."""

_log = logging.getLogger(__name__)

_MAX_INTEGER = 2**31 - 1
_NO_RESULT = "no result was recorded"


def entry_to_rows(entry: Entry) -> Iterator[tuple[Table, Row]]:
    """All rows of a model call and their tables, without id and time, in the order of writing."""
    call_id = codec.label_or_none(entry.token.call_id)
    for message in entry.messages:
        row = message_to_row(message)
        if row["call_id"] is None:
            row["call_id"] = call_id
        yield conversations, row
    if (step := entry.tools) is not None:
        for row in tool_step_to_rows(
            step.user_id,
            step.session_id,
            step.turn_num,
            step.calls,
            step.results,
            step.durations_ms,
            call_id,
        ):
            yield tool_calls, row
    yield token_records, record_to_row(entry.token)


def message_to_row(record: MessageRecord) -> Row:
    """A row of `conversations`, without id and time."""
    chunks = record.rag_context
    return {
        "user_id": codec.key("user_id", record.user_id),
        "session_id": codec.key("session_id", record.session_id),
        "role": codec.label(record.role, 32),
        "status": codec.label(record.status, 32),
        "history_count": None if record.history_count is None else _small(record.history_count),
        "call_id": codec.label_or_none(record.call_id),
        "content": codec.readable(record.content),
        "rag_context": None if chunks is None else codec.to_json(chunks),
        "system_prompt": codec.readable_or_none(record.system_prompt),
    }


def message_from_row(row: Found) -> Row:
    """A row of `conversations` for the dashboard."""
    return {
        "id": row["id"],
        "created_at": codec.iso_time(row["created_at"]),
        "user_id": row["user_id"],
        "session_id": row["session_id"],
        "role": row["role"],
        "content": as_text(row["content"]),
        "rag_context": from_json(conversations, row, "rag_context"),
        "system_prompt": row["system_prompt"],
        "history_count": row["history_count"],
        "status": row["status"],
        "call_id": row["call_id"],
    }


def record_to_row(record: TokenRecord) -> Row:
    """A row of `token_records`, without id and time."""
    cost_known = abs(record.cost_usd) < float("inf")  # False for NaN, too
    return {
        "user_id": codec.key("user_id", record.user_id),
        "session_id": codec.key("session_id", record.session_id),
        "model": codec.label(record.model),
        "provider": codec.label(record.provider),
        "kind": codec.label(record.kind, 32),
        "status": codec.label(record.status, 32),
        "input_tokens": codec.count(record.input_tokens),
        "output_tokens": codec.count(record.output_tokens),
        "cache_read_tokens": codec.count(record.cache_read_tokens),
        "cache_write_tokens": codec.count(record.cache_write_tokens),
        "reasoning_tokens": codec.count(record.reasoning_tokens),
        "cost": codec.cost_units(record.cost_usd) if cost_known else 0,
        "priced": bool(record.priced) and cost_known,
        "cached": bool(record.cached),
        "duration_ms": codec.milliseconds(record.duration_ms),
        "ttft_ms": codec.milliseconds_or_none(record.ttft_ms),
        "error_type": codec.label_or_none(record.error_type),
        "request_id": codec.label_or_none(record.request_id),
        "prompt_name": codec.label_or_none(record.prompt_name),
        "prompt_version": codec.label_or_none(record.prompt_version),
        "call_id": codec.label_or_none(record.call_id),
        "finish_reason": codec.label_or_none(record.finish_reason, 32),
        "tags": codec.to_json(list(record.tags)) if record.tags else None,
        "metadata": None if record.metadata is None else codec.to_json(record.metadata),
        "error_message": codec.readable_or_none(record.error_message),
        "partial": codec.readable_or_none(record.partial),
    }


def record_from_row(row: Found) -> Row:
    """A row of `token_records` for the dashboard: TokenRecord's fields, id and time.

    `tags` is a list.
    """
    found = dict(row)
    cost = found.pop("cost")
    found["created_at"] = codec.iso_time(found["created_at"])
    found["cost_usd"] = codec.cost_usd(cost)
    found["priced"] = bool(found["priced"])
    found["cached"] = bool(found["cached"])
    found["tags"] = from_json(token_records, row, "tags") or []
    found["metadata"] = from_json(token_records, row, "metadata")
    return found


def tool_step_to_rows(
    user_id: str,
    session_id: str,
    turn_num: int,
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult],
    durations_ms: Sequence[float | None],
    model_call_id: str | None = None,
) -> Iterator[Row]:
    """Rows of `tool_calls`, without id and time. Ids that repeat are matched in their order."""
    waiting = list(results)
    shared = {
        "user_id": codec.key("user_id", user_id),
        "session_id": codec.key("session_id", session_id),
        "turn_num": _small(turn_num),
        "model_call_id": codec.label_or_none(model_call_id),
    }
    for call, duration in zip_longest(calls, durations_ms[: len(calls)]):
        result = next((r for r in waiting if r.tool_call_id == call.id), None)
        if result is not None:
            waiting.remove(result)
        yield shared | _call_to_row(call, result, duration)


def _call_to_row(call: ToolCall, result: ToolResult | None, duration: float | None) -> Row:
    content = _NO_RESULT if result is None else codec.readable(result.content)
    failed = result is None or result.is_error
    arguments = call.arguments if call.raw_arguments is None else call.raw_arguments
    return {
        "tool_name": codec.label(call.name),
        "call_id": codec.label(call.id),
        "status": "error" if failed else "ok",
        "duration_ms": codec.milliseconds_or_none(duration),
        "arguments": codec.to_json(arguments),
        "result": None if failed else content,
        "error": content if failed else None,
    }


def tool_call_from_row(row: Found) -> Row:
    """A row of `tool_calls` for an export."""
    found = dict(row)
    found["created_at"] = codec.iso_time(found["created_at"])
    found["arguments"] = from_json(tool_calls, row, "arguments")
    return found


def feedback_from_row(row: Found) -> Row:
    """A row of `feedback`, joined with the call that it is about."""
    found = dict(row)
    found["created_at"] = codec.iso_time(found["created_at"])
    return found


def as_text(content: Any) -> str:
    """A body whatever somebody else's tool has made of it."""
    if isinstance(content, bytes):
        return content.decode(errors="replace")
    return str(content)


def _small(number: int) -> int:
    return max(-_MAX_INTEGER, min(int(number), _MAX_INTEGER))


def from_json(table: Table, row: Found, name: str) -> Any:
    """A column that holds JSON; None where what it holds is none, of which the log tells."""
    try:
        return codec.from_json(row[name])
    except ValueError as exc:
        _log.warning("%s row %s: %s is left out, it is no JSON: %s", table, row["id"], name, exc)
        return None
