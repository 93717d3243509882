"""Rows of a conversation as a reader wants to see them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pywrapai_monitor.dashboard.views.rows import is_cut
from pywrapai_monitor.db.base import Row

_SHORT = 300
"""So many characters of an argument or a result stand in a bubble."""


def with_items(rows: Iterable[Row]) -> list[Row]:
    """Messages, with what a row of tool calls or results lists as `items`; None where it cannot be
    read, and in other rows.
    """
    return [{**row, "items": _items(row)} for row in rows]


def _items(row: Row) -> list[Row] | None:
    if row["role"] not in ("tool_call", "tool_result") or is_cut(row, "content"):
        return None
    try:
        found = json.loads(row["content"])
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        return None
    return [_call(each) if row["role"] == "tool_call" else _result(each) for each in found]


def _call(item: Row) -> Row:
    arguments = item.get("arguments", item.get("raw_arguments"))
    return {"name": _text(item.get("name")), "arguments": _text(arguments)}


def _result(item: Row) -> Row:
    return {
        "name": _text(item.get("name")),
        "content": _text(item.get("content")),
        "is_error": bool(item.get("is_error")),
    }


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
