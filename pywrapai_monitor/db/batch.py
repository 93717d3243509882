"""The rows of one transaction, kept until it ends and then written with a few statements.

Because nothing touches the database before the end, a transaction holds no lock while its caller
works, and one that the database broke off can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import add, itemgetter
from typing import Any, TypeAlias

from sqlalchemy import Dialect, Table, case
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.elements import ColumnElement

from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.tables import (
    ALL_TIME,
    BUCKET_US,
    conversations,
    session_totals,
    token_records,
    tool_calls,
    tool_totals,
    usage_totals,
)

Columns: TypeAlias = Mapping[str, ColumnElement[Any]]
Merge: TypeAlias = Callable[[Columns, Columns], dict[str, Any]]
"""From the columns of the row that is there and of the new one: what the row becomes."""
Upsert: TypeAlias = Callable[[Table, Sequence[str], Merge], Insert]
"""Insert into a table or, where a row with these key columns is there, merge."""
Statement: TypeAlias = tuple[str, list[Any]]
"""An insert in the driver's own form, and the parameters of each row."""

ROW_TABLES = (conversations, tool_calls, token_records)
# What every writer of a server adds to comes last, and so is locked for the shortest time.
TOTALS_TABLES = (session_totals, tool_totals, usage_totals)

_Sums: TypeAlias = dict[tuple[Any, ...], list[Any]]
"""Primary key to the other columns, both in the order of the table."""
# Of session_totals, those that not every row adds to.
_CALLS, _ERRORS, _TURNS, _TOKENS, _COST, _FIRST_AT, _LAST_AT = range(1, 8)


class Totals:
    """What rows add to the running totals or, with `sign=-1`, take away from them."""

    __slots__ = ("_lane", "sessions", "tools", "usage")

    def __init__(self, lane: int = 0) -> None:
        self._lane = lane
        self.sessions: _Sums = {}
        self.tools: _Sums = {}
        self.usage: _Sums = {}

    def of(self, table: Table) -> list[tuple[Any, ...]]:
        """The rows to merge into that table, in one order for all writers: no deadlocks."""
        sums = _SUMS[table](self)
        return [(*key, *sums[key]) for key in sorted(sums)]

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
        cost, unpriced = sign * row["cost"], 0 if row["priced"] else sign
        kind, bucket = row["kind"], row["created_at"] // BUCKET_US
        amounts = [
            sign, failed, unpriced, tokens_in, tokens_out, cost, sign * row["duration_ms"],
        ]  # fmt: skip
        what = (self._lane, row["provider"], row["model"], kind)
        _add(self.usage, (ALL_TIME, *what), amounts)
        _add(self.usage, (bucket, *what), amounts)
        session = self._session(row, sign)
        session[_TOKENS] += tokens_in + tokens_out
        session[_COST] += cost
        if kind == "chat":
            session[_CALLS] += sign
            session[_ERRORS] += failed

    def _add_tool_call(self, row: Found, sign: int) -> None:
        failed = sign if row["status"] == "error" else 0
        duration = row["duration_ms"]
        timed = [0, 0.0] if duration is None else [sign, sign * duration]
        _add(self.tools, (row["user_id"], row["tool_name"]), [sign, failed, *timed])

    def _session(self, row: Found, sign: int) -> list[Any]:
        """The session's sums, in which the row itself is counted already."""
        key, at = (row["user_id"], row["session_id"]), row["created_at"]
        sums = self.sessions.get(key)
        if sums is None:
            sums = self.sessions[key] = [sign, 0, 0, 0, 0, 0, at, at]
            return sums
        sums[0] += sign
        if at < sums[_FIRST_AT]:
            sums[_FIRST_AT] = at
        elif at > sums[_LAST_AT]:
            sums[_LAST_AT] = at
        return sums


_SUMS: dict[Table, Callable[[Totals], _Sums]] = {
    session_totals: lambda totals: totals.sessions,
    tool_totals: lambda totals: totals.tools,
    usage_totals: lambda totals: totals.usage,
}
_COUNT: dict[Table, Callable[[Totals, Found, int], None]] = {
    conversations: Totals._add_message,
    token_records: Totals._add_record,
    tool_calls: Totals._add_tool_call,
}


def _add(sums: _Sums, key: tuple[Any, ...], amounts: list[Any]) -> None:
    old = sums.get(key)
    sums[key] = amounts if old is None else [*map(add, old, amounts)]


class Batch:
    """Rows to be written together. Those without a time of their own bear that of the batch, so
    that a turn is of one age.
    """

    __slots__ = ("_created_at", "_lane", "_rows", "totals")

    def __init__(self, created_at: int, lane: int = 0) -> None:
        self._created_at, self._lane = created_at, lane
        self._rows: dict[Table, list[Row]] = {}
        self.totals = Totals(lane)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, table: Table, row: Row, at: int | None = None) -> None:
        """Append a row of one of the ROW_TABLES, without id and time."""
        row["created_at"] = self._created_at if at is None else at
        self._rows.setdefault(table, []).append(row)
        self.totals.add(table, row)

    def next(self) -> Batch:
        """An empty one of the same time, for the rest of the transaction."""
        return Batch(self._created_at, self._lane)

    def of(self, table: Table) -> list[Row]:
        """The rows of that table in the order of writing."""
        return self._rows.get(table, [])


class Writer:
    """The statements that write a batch, compiled once: building them anew costs twenty times."""

    def __init__(self, dialect: Dialect, upsert: Upsert) -> None:
        self._inserts = [(t, _Insert(t.insert().inline(), t, dialect)) for t in ROW_TABLES]
        self._upserts = [
            (t, _Insert(upsert(t, [c.name for c in t.primary_key], accumulate), t, dialect))
            for t in TOTALS_TABLES
        ]

    def statements(self, batch: Batch) -> list[Statement]:
        """What inserts the rows and adds them to the totals."""
        inserts = [
            (insert.text, [insert.bind(row) for row in rows])
            for table, insert in self._inserts
            if (rows := batch.of(table))
        ]
        inserts.extend(self.totals(batch.totals))
        return inserts

    def totals(self, totals: Totals) -> Iterator[Statement]:
        """What adds to the totals alone."""
        for table, upsert in self._upserts:
            if rows := totals.of(table):
                yield upsert.text, [upsert.bind_values(row) for row in rows]


class _Insert:
    """An insert as its driver wants it: the text, and what turns a row into its parameters."""

    __slots__ = ("bind", "bind_values", "text")

    def __init__(self, insert: Insert, table: Table, dialect: Dialect) -> None:
        names = [c.name for c in table.columns if c.autoincrement is not True]
        compiled = insert.compile(dialect=dialect, column_keys=names)
        assert isinstance(compiled, SQLCompiler)
        order = compiled.positiontup
        self.text = str(compiled)
        self.bind: Callable[[Row], Any] = dict if order is None else itemgetter(*order)
        self.bind_values: Callable[[tuple[Any, ...]], Any]
        """The same, for the values of a row in the order of its table."""
        if order is None:
            self.bind_values = lambda values: dict(zip(names, values, strict=True))
        elif order == names:
            self.bind_values = tuple
        else:
            self.bind_values = itemgetter(*map(names.index, order))


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
