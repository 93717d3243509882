"""Make the running totals anew out of the rows, after a migration: whatever a schema kept of them.

A killed process leaves tables that are half filled; whoever comes next begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, Table, inspect, select

from pywrapai_monitor.db.batch import ROW_TABLES
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.totals import COUNTED, TOTALS_TABLES, Totals

AddTotals: TypeAlias = Callable[[Connection, Totals], None]
"""Adds to the running totals."""

_AT_ONCE = 5000


def recount(conn: Connection, add_totals: AddTotals) -> None:
    """Drop the tables of totals, make and fill them. Nobody may write meanwhile."""
    present = set(inspect(conn).get_table_names())
    for table in TOTALS_TABLES:
        if table.name in present:
            table.drop(conn)
        table.create(conn)
    for table in ROW_TABLES:
        for some in _pages(conn, table):
            totals = Totals()
            for row in some:
                totals.add(table, row)
            add_totals(conn, totals)


def _pages(conn: Connection, table: Table) -> Iterator[Sequence[Found]]:
    columns = [column for column in table.columns if column.name in COUNTED]
    following = select(table.c.id, *columns).order_by(table.c.id).limit(_AT_ONCE)
    last = 0
    while some := conn.execute(following.where(table.c.id > last)).mappings().all():
        yield some
        last = some[-1]["id"]
