"""The rows of one transaction, kept until it ends and then written with a few statements.

Because nothing touches the database before the end, a transaction holds no lock while its caller
works, and one that the database broke off can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import Dialect, Table
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert

from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.tables import conversations, token_records, tool_calls
from pywrapai_monitor.db.totals import TOTALS_TABLES, Columns, Totals, accumulate

Merge: TypeAlias = Callable[[Columns, Columns], dict[str, Any]]
"""From the columns of the row that is there and of the new one: what the row becomes."""
Upsert: TypeAlias = Callable[[Table, Sequence[str], Merge], Insert]
"""Insert into a table or, where a row with these key columns is there, merge."""
Statement: TypeAlias = tuple[str, list[Any]]
"""An insert in the driver's own form, and the parameters of each row."""

ROW_TABLES = (conversations, tool_calls, token_records)


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
