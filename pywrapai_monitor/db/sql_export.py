"""What `export_rows` gives: a whole table, some rows at a time, and with nobody waiting.

The ids come first, some thousands at a time out of an index, then their rows, page by page. Each is
a transaction of its own. What is written meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, FromClause, Select, Table, bindparam, func, select
from sqlalchemy.sql.elements import BindParameter, ColumnElement

from pywrapai_monitor.db import rows
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.feedback import WITH_CALL
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.tables import conversations, feedback, token_records, tool_calls

Reading: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Gives a connection for as long as a page takes."""

_IDS_AT_ONCE = 10_000
_PAGE = 200  # rows; each may have megabytes


@dataclass(frozen=True, slots=True)
class _Source:
    table: Table
    owners: FromClause
    """Where the user and the session of a row stand."""
    rows: Select[Any]
    to_row: Callable[[Found], Row]


_SOURCES = {
    "conversations": _Source(
        conversations, conversations, select(conversations), rows.message_from_row
    ),
    "token_records": _Source(
        token_records, token_records, select(token_records), rows.record_from_row
    ),
    "tool_calls": _Source(tool_calls, tool_calls, select(tool_calls), rows.tool_call_from_row),
    "feedback": _Source(feedback, token_records, WITH_CALL, rows.feedback_from_row),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows: of whom, from when (included) and up to when (excluded), in microseconds."""

    user_id: str | None = None
    session_id: str | None = None
    since: int | None = None
    until: int | None = None


_IDS: BindParameter[int] = bindparam("ids", expanding=True, literal_execute=True)


def check(table: str) -> None:
    """ValueError if this is no table that can be read so."""
    if table not in _SOURCES:
        raise ValueError(f"table must be one of {', '.join(_SOURCES)}, not {table!r:.80}")


def read(reading: Reading, table: str, wanted: Wanted) -> Iterator[Row]:
    """The rows in the order of their ids."""
    source = _SOURCES[table]
    page = source.rows.where(source.table.c.id.in_(_IDS)).order_by(source.table.c.id)
    for ids in _ids(reading, source, wanted):
        for start in range(0, len(ids), _PAGE):
            with reading() as conn:
                found = conn.execute(page, {"ids": ids[start : start + _PAGE]}).mappings().all()
            yield from map(source.to_row, found)


def _ids(reading: Reading, source: _Source, wanted: Wanted) -> Iterator[Sequence[int]]:
    row_id = source.table.c.id
    chosen = source.rows.with_only_columns(row_id).where(*_conditions(source, wanted))
    next_ids = (
        chosen.where(row_id > bindparam("after"), row_id <= bindparam("last"))
        .order_by(row_id)
        .limit(_IDS_AT_ONCE)
    )
    with reading() as conn:
        last = conn.execute(select(func.max(row_id))).scalar() or 0
    after = 0
    while True:
        with reading() as conn:
            ids = conn.execute(next_ids, {"after": after, "last": last}).scalars().all()
        if not ids:
            return
        yield ids
        after = ids[-1]


def _conditions(source: _Source, wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    if wanted.user_id is not None:
        yield source.owners.c.user_id == wanted.user_id
    if wanted.session_id is not None:
        yield source.owners.c.session_id == wanted.session_id
    if wanted.since is not None:
        yield source.table.c.created_at >= wanted.since
    if wanted.until is not None:
        yield source.table.c.created_at < wanted.until
