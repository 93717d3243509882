"""Rows of a conversation that are at hand, as `Analytics` shows them: cut, with their lengths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pywrapai_monitor.db.base import Row


def cut_fields(row: Row, cut: int, *names: str) -> Row:
    """These texts of a row, cut, and `<name>_length` beside each."""
    fields: Row = {}
    for name in names:
        text = row.get(name)
        text = text if text is None or isinstance(text, str) else str(text)
        fields[name] = text if text is None else text[:cut]
        fields[f"{name}_length"] = len(text or "")
    return fields


def message_of(row: Row, cut: int) -> Row:
    """One of `Analytics.messages`."""
    plain = ("id", "created_at", "role", "status", "call_id", "history_count")
    return {name: row.get(name) for name in plain} | cut_fields(row, cut, "content")


def whole_message_of(row: Row, cut: int) -> Row:
    """What `Analytics.message` has."""
    chunks = row.get("rag_context")
    return {
        **message_of(row, cut),
        "user_id": row["user_id"],
        "session_id": row["session_id"],
        **cut_fields(row, cut, "system_prompt"),
        "rag_context": None if chunks is None else [chunk_of(chunk, cut) for chunk in chunks],
    }


def chunk_of(chunk: Any, cut: int) -> Row:
    """One chunk of a `rag_context`, whatever a store made of it."""
    chunk = chunk if isinstance(chunk, dict) else {"text": str(chunk)}
    plain = {name: chunk.get(name) for name in ("score", "doc_id", "metadata")}
    return cut_fields(chunk, cut, "text") | plain


def history_before(rows: Sequence[Row], place: int) -> list[Row]:
    """The turns that were sent with the question at `place`, as its `history_count` says."""
    turns = rows[place].get("history_count") or 0
    before = [row for row in rows[:place] if row["role"] in ("user", "assistant")]
    starts = [i for i, row in enumerate(before) if row["role"] == "user"]
    return before[starts[-min(turns, len(starts))] :] if turns and starts else []


def tools_of(rows: Sequence[Row], cut: int) -> list[Row]:
    """The tool calls that these rows of one model call tell of."""
    told = {}
    for row in rows:
        if row["role"] == "tool_result":
            told.update({each.get("tool_call_id"): each for each in _list_in(row)})
    return [
        _tool_of(row, call, told.get(call.get("id")), cut)
        for row in rows
        if row["role"] == "tool_call"
        for call in _list_in(row)
    ]


def _tool_of(row: Row, call: Row, result: Row | None, cut: int) -> Row:
    failed = result is None or bool(result.get("is_error"))
    content = "no result was recorded" if result is None else result.get("content")
    texts = {
        "arguments": json.dumps(call.get("arguments"), ensure_ascii=False, default=str),
        "result": None if failed else content,
        "error": content if failed else None,
    }
    return {
        "id": None,
        "tool_name": str(call.get("name")),
        "tool_call_id": call.get("id"),
        "turn_num": None,
        "status": "error" if failed else "ok",
        "created_at": row.get("created_at"),
        "duration_ms": None,
        **cut_fields(texts, cut, "arguments", "result", "error"),
    }


def _list_in(row: Row) -> list[Row]:
    try:
        found = json.loads(row["content"])
    except (TypeError, ValueError):
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def excerpt(text: str, wanted: str, most: int = 160) -> str | None:
    """What stands around the first place where `text` has `wanted`, whatever the case."""
    place = text.casefold().find(wanted.casefold())
    if place < 0:
        return None
    start = max(0, place - (most - len(wanted)) // 2)
    return text[start : start + most]
