"""What rows add to the running totals, as numbers; batch.py and purge.py write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add
from typing import Any, TypeAlias

from sqlalchemy import Table, case
from sqlalchemy.sql.elements import ColumnElement

from pywrapai_monitor.db import buckets
from pywrapai_monitor.db.latency import bin_of
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.tables import (
    conversations,
    latency_totals,
    prompt_totals,
    session_totals,
    token_records,
    tool_calls,
    tool_totals,
    usage_totals,
    user_totals,
)

Columns: TypeAlias = Mapping[str, ColumnElement[Any]]

# What every writer of a server adds to comes last, and so is locked for the shortest time.
TOTALS_TABLES = (
    session_totals,
    user_totals,
    tool_totals,
    prompt_totals,
    usage_totals,
    latency_totals,
)

_Sums: TypeAlias = dict[tuple[Any, ...], list[Any]]
"""Primary key to the other columns, both in the order of the table."""
# Of session_totals, those that not every row adds to.
_CALLS, _ERRORS, _TURNS, _TOKENS, _COST, _FIRST_AT, _LAST_AT = range(1, 8)


class Totals:
    """What rows add to the running totals or, with `sign=-1`, take away from them."""

    __slots__ = ("_lane", "_sums")

    def __init__(self, lane: int = 0) -> None:
        self._lane = lane
        self._sums: dict[Table, _Sums] = {table: {} for table in TOTALS_TABLES}

    def of(self, table: Table) -> list[tuple[Any, ...]]:
        """The rows to merge into that table, in one order for all writers: no deadlocks."""
        sums = self._sums[table]
        return [(*key, *sums[key]) for key in sorted(sums)]

    def keys(self, table: Table) -> list[tuple[Any, ...]]:
        """The keys of those rows."""
        return sorted(self._sums[table])

    def add(self, table: Table, row: Found, sign: int = 1) -> None:
        """Count a row of one of the ROW_TABLES."""
        _COUNT[table](self, row, sign)

    def _add_message(self, row: Found, sign: int) -> None:
        session = self._session(row, sign)
        if row["role"] == "user":
            session[_TURNS] += sign

    def _add_record(self, row: Found, sign: int) -> None:
        failed = sign if row["status"] == "error" else 0
        tokens_in, tokens_out = sign * row["input_tokens"], sign * row["output_tokens"]
        tokens, cost, kind = tokens_in + tokens_out, sign * row["cost"], row["kind"]
        duration_ms, cached = sign * row["duration_ms"], sign if row["cached"] else 0
        calls, errors = (sign, failed) if kind == "chat" else (0, 0)
        when = buckets.of(row["created_at"])
        lane = self._lane
        usage = (
            sign, failed, 0 if row["priced"] else sign, cached, tokens_in, tokens_out,
            sign * row["cache_read_tokens"], sign * row["cache_write_tokens"],
            sign * row["reasoning_tokens"], cost, duration_ms,
            duration_ms if cached else 0.0,
        )  # fmt: skip
        what = (row["provider"], row["model"], kind)
        _add(self._sums[usage_totals], [(bucket, lane, *what) for bucket in when], usage)
        if calls and not cached:
            number = bin_of(row["duration_ms"])
            keys = [(bucket, lane, number) for bucket in when]
            _add(self._sums[latency_totals], keys, (sign,))
        if calls and (name := row["prompt_name"]) is not None:
            version = row["prompt_version"] or ""
            keys_of_prompt = [(bucket, lane, name, version) for bucket in when]
            timed = (0, 0.0) if cached else (sign, duration_ms)
            _add(self._sums[prompt_totals], keys_of_prompt, (sign, failed, cost, *timed))
        user_id = row["user_id"]
        of_user = [(bucket, user_id) for bucket in buckets.of_user(row["created_at"])]
        _add(self._sums[user_totals], of_user, (sign, calls, errors, tokens, cost))
        session = self._session(row, sign)
        session[_CALLS] += calls
        session[_ERRORS] += errors
        session[_TOKENS] += tokens
        session[_COST] += cost

    def _add_tool_call(self, row: Found, sign: int) -> None:
        failed = sign if row["status"] == "error" else 0
        duration = row["duration_ms"]
        timed = (0, 0.0) if duration is None else (sign, sign * duration)
        lane, tool = self._lane, row["tool_name"]
        all_time, *when = buckets.of(row["created_at"])
        keys = [(bucket, lane, "", tool) for bucket in when]
        keys.append((all_time, 0, row["user_id"], tool))
        _add(self._sums[tool_totals], keys, (sign, failed, *timed))

    def _session(self, row: Found, sign: int) -> list[Any]:
        """The session's sums, in which the row itself is counted already."""
        key, at = (row["user_id"], row["session_id"]), row["created_at"]
        sessions = self._sums[session_totals]
        sums = sessions.get(key)
        if sums is None:
            sums = sessions[key] = [sign, 0, 0, 0, 0, 0, at, at]
            return sums
        sums[0] += sign
        if at < sums[_FIRST_AT]:
            sums[_FIRST_AT] = at
        elif at > sums[_LAST_AT]:
            sums[_LAST_AT] = at
        return sums


_COUNT: dict[Table, Callable[[Totals, Found, int], None]] = {
    conversations: Totals._add_message,
    token_records: Totals._add_record,
    tool_calls: Totals._add_tool_call,
}
COUNTED = {
    "user_id", "session_id", "created_at", "role", "status", "kind", "model", "provider",
    "priced", "cached", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "reasoning_tokens", "cost", "duration_ms", "prompt_name",
    "prompt_version", "tool_name",
}  # fmt: skip
"""The columns that `Totals.add` reads."""


def _add(sums: _Sums, keys: list[tuple[Any, ...]], amounts: tuple[Any, ...]) -> None:
    for key in keys:
        old = sums.get(key)
        sums[key] = list(amounts) if old is None else [*map(add, old, amounts)]


def accumulate(old: Columns, new: Columns) -> dict[str, Any]:
    """The Merge of running totals."""
    merged: dict[str, Any] = {}
    for name in [name for name in new if name not in _IDENTITY]:
        match name:
            case "first_at":
                merged[name] = case((new[name] < old[name], new[name]), else_=old[name])
            case "last_at":
                merged[name] = case((new[name] > old[name], new[name]), else_=old[name])
            case _:
                merged[name] = old[name] + new[name]
    return merged


_IDENTITY = {column.name for t in TOTALS_TABLES for column in t.primary_key.columns}
