"""The rows of one transaction, kept until it ends and then written with a few statements.

Because nothing touches the database before the end, a transaction holds no lock while its caller
works, and one that the database broke off can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import Connection, Dialect, Table, case
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

ROW_TABLES = (conversations, tool_calls, token_records)
TOTALS_TABLES = (usage_totals, session_totals, tool_totals)


class Totals:
    """What rows add to the running totals or, with `sign=-1`, take away from them."""

    __slots__ = ("_lane", "_rows")

    def __init__(self, lane: int = 0) -> None:
        self._lane = lane
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {t.name: {} for t in TOTALS_TABLES}

    def of(self, table: Table) -> list[Row]:
        """The rows to merge into that table, in one order for all writers: no deadlocks."""
        rows = self._rows[table.name]
        return [rows[key] for key in sorted(rows)]

    def add(self, table: Table, row: Found, sign: int = 1) -> None:
        """Count a row of one of the ROW_TABLES."""
        _COUNT[table.name](self, row, sign)

    def _add_message(self, row: Found, sign: int) -> None:
        self._add_session(row, sign, turns=sign if row["role"] == "user" else 0)

    def _add_record(self, row: Found, sign: int) -> None:
        failed = sign if row["status"] == "error" else 0
        amounts = {
            "calls": sign,
            "errors": failed,
            "unpriced": 0 if row["priced"] else sign,
            "input_tokens": sign * row["input_tokens"],
            "output_tokens": sign * row["output_tokens"],
            "cost": sign * row["cost"],
            "duration_ms": sign * row["duration_ms"],
        }
        for bucket in (ALL_TIME, row["created_at"] // BUCKET_US):
            identity = {
                "bucket": bucket,
                "lane": self._lane,
                "provider": row["provider"],
                "model": row["model"],
                "kind": row["kind"],
            }
            _merge(self._rows[usage_totals.name], identity, amounts)
        is_call = row["kind"] == "chat"
        self._add_session(
            row,
            sign,
            calls=sign if is_call else 0,
            errors=failed if is_call else 0,
            total_tokens=sign * (row["input_tokens"] + row["output_tokens"]),
            cost=amounts["cost"],
        )

    def _add_tool_call(self, row: Found, sign: int) -> None:
        timed = row["duration_ms"] is not None
        amounts = {
            "calls": sign,
            "errors": sign if row["status"] == "error" else 0,
            "timed": sign if timed else 0,
            "duration_ms": sign * row["duration_ms"] if timed else 0.0,
        }
        identity = {"user_id": row["user_id"], "tool_name": row["tool_name"]}
        _merge(self._rows[tool_totals.name], identity, amounts)

    def _add_session(self, row: Found, sign: int, **amounts: int) -> None:
        at = row["created_at"]
        identity = {"user_id": row["user_id"], "session_id": row["session_id"]}
        rows = self._rows[session_totals.name]
        total = _merge(rows, identity, _NO_AMOUNTS | amounts | {"row_count": sign})
        total["first_at"] = min(at, total.get("first_at", at))
        total["last_at"] = max(at, total.get("last_at", at))


_NO_AMOUNTS = dict.fromkeys(("calls", "errors", "turns", "total_tokens", "cost"), 0)
_COUNT: dict[str, Callable[[Totals, Found, int], None]] = {
    conversations.name: Totals._add_message,
    token_records.name: Totals._add_record,
    tool_calls.name: Totals._add_tool_call,
}


def _merge(rows: dict[tuple[Any, ...], Row], identity: Row, amounts: Mapping[str, Any]) -> Row:
    key = tuple(identity.values())
    row = rows.get(key)
    if row is None:
        row = rows[key] = {**identity, **amounts}
        return row
    for name, amount in amounts.items():
        row[name] += amount
    return row


class Batch:
    """Rows to be written together. All bear the time of the batch, so a turn is of one age."""

    __slots__ = ("_created_at", "_lane", "_rows", "totals")

    def __init__(self, created_at: int, lane: int = 0) -> None:
        self._created_at, self._lane = created_at, lane
        self._rows: dict[str, list[Row]] = {t.name: [] for t in ROW_TABLES}
        self.totals = Totals(lane)

    def __bool__(self) -> bool:
        return any(self._rows.values())

    def add(self, table: Table, row: Row) -> None:
        """Append a row of one of the ROW_TABLES, without id and time."""
        row["created_at"] = self._created_at
        self._rows[table.name].append(row)
        self.totals.add(table, row)

    def next(self) -> Batch:
        """An empty one of the same time, for the rest of the transaction."""
        return Batch(self._created_at, self._lane)

    def of(self, table: Table) -> list[Row]:
        """The rows of that table in the order of writing."""
        return self._rows[table.name]


class Writer:
    """The statements that write a batch, compiled once: building them anew costs twenty times."""

    def __init__(self, dialect: Dialect, upsert: Upsert) -> None:
        self._inserts = [(t, _Compiled(t.insert().inline(), t, dialect)) for t in ROW_TABLES]
        self._upserts = [
            (
                t,
                _Compiled(
                    upsert(t, [c.name for c in t.primary_key.columns], accumulate), t, dialect
                ),
            )
            for t in TOTALS_TABLES
        ]

    def write(self, conn: Connection, batch: Batch) -> None:
        """Insert the rows and add them to the totals."""
        for table, insert in self._inserts:
            insert.run(conn, batch.of(table))
        self.write_totals(conn, batch.totals)

    def write_totals(self, conn: Connection, totals: Totals) -> None:
        """Add to the totals alone."""
        for table, upsert in self._upserts:
            upsert.run(conn, totals.of(table))


class _Compiled:
    """An insert as its driver wants it: the text, and what turns a row into its parameters."""

    __slots__ = ("_bind", "_text")

    def __init__(self, insert: Insert, table: Table, dialect: Dialect) -> None:
        names = [c.name for c in table.columns if c.autoincrement is not True]
        compiled = insert.compile(dialect=dialect, column_keys=names)
        self._text = str(compiled)
        order = getattr(compiled, "positiontup", None)
        self._bind: Callable[[Row], Any] = dict if order is None else itemgetter(*order)

    def run(self, conn: Connection, rows: Iterable[Row]) -> None:
        if parameters := [self._bind(row) for row in rows]:
            conn.exec_driver_sql(self._text, parameters)


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
