"""`Analytics` of the SQL stores: what is asked is checked here, and answered in sql_*.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from sqlalchemy import Connection, select, text
from typing_extensions import override

from pywrapai_monitor.db import (
    codec,
    prompts,
    sql_details,
    sql_figures,
    sql_lists,
    sql_prompts,
    sql_sessions,
)
from pywrapai_monitor.db.analytics import (
    Analytics,
    Body,
    BodyTable,
    CallFilter,
    Page,
    SessionFilter,
    Span,
)
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.days import whole_number
from pywrapai_monitor.db.tables import schema_info

Reading: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Gives a connection for as long as an answer takes."""

_MOST_ROWS = 10_000
_HIGHEST_ID = 2**63 - 1


class SQLAnalytics(Analytics):
    """Of one store; may be used by many threads at once.

    `about` is a statement that gives the version of the database's product, and its bytes.
    """

    def __init__(self, reading: Reading, product: str, about: str) -> None:
        self._reading = reading
        self._product = product
        self._about = text(about)

    @override
    def figures(self, span: Span) -> Row:
        with self._reading() as conn:
            return sql_figures.figures(conn, span)

    @override
    def series(self, bounds: Sequence[int]) -> list[Row]:
        with self._reading() as conn:
            return sql_figures.series(conn, bounds)

    @override
    def models(self, span: Span) -> list[Row]:
        with self._reading() as conn:
            return sql_figures.models(conn, span)

    @override
    def users(self, span: Span, limit: int, cursor: str | None = None) -> Page:
        whole_number("limit", limit, _MOST_ROWS)
        with self._reading() as conn:
            return sql_figures.users(conn, span, limit, cursor)

    @override
    def tools(self, span: Span) -> list[Row]:
        with self._reading() as conn:
            return sql_figures.tools(conn, span)

    @override
    def calls(self, wanted: CallFilter, limit: int, cursor: str | None = None) -> Page:
        whole_number("limit", limit, _MOST_ROWS)
        with self._reading() as conn:
            return sql_lists.calls(conn, wanted, limit, cursor)

    @override
    def call(self, call_id: str, cut: int) -> Row:
        _check_cut(cut)
        with self._reading() as conn:
            return sql_details.call(conn, codec.label(call_id), cut)

    @override
    def sessions(self, wanted: SessionFilter, limit: int, cursor: str | None = None) -> Page:
        whole_number("limit", limit, _MOST_ROWS)
        with self._reading() as conn:
            return sql_sessions.sessions(conn, wanted, limit, cursor)

    @override
    def session(self, user_id: str, session_id: str) -> Row:
        user_id, session_id = codec.key("user_id", user_id), codec.key("session_id", session_id)
        with self._reading() as conn:
            return sql_sessions.session(conn, user_id, session_id)

    @override
    def messages(
        self,
        user_id: str,
        session_id: str,
        limit: int,
        cut: int,
        *,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Row]:
        whole_number("limit", limit, _MOST_ROWS)
        _check_cut(cut)
        user_id, session_id = codec.key("user_id", user_id), codec.key("session_id", session_id)
        before, after = _id_or_none(before), _id_or_none(after)
        with self._reading() as conn:
            return sql_details.messages(conn, user_id, session_id, limit, cut, before, after)

    @override
    def message(self, message_id: int, cut: int) -> Row:
        _check_cut(cut)
        with self._reading() as conn:
            return sql_details.message(conn, _id(message_id), cut)

    @override
    def history_of(self, message_id: int, cut: int) -> list[Row]:
        _check_cut(cut)
        with self._reading() as conn:
            return sql_details.history_of(conn, _id(message_id), cut)

    @override
    def tool_calls(self, call_id: str, cut: int) -> list[Row]:
        _check_cut(cut)
        with self._reading() as conn:
            return sql_details.tools(conn, codec.label(call_id), cut)

    @override
    def body(self, table: BodyTable, row_id: int, name: Body) -> str | None:
        with self._reading() as conn:
            return sql_details.body(conn, table, _id(row_id), name)

    @override
    def prompt_versions(self, name: str, span: Span) -> list[Row]:
        with self._reading() as conn:
            return sql_prompts.versions(conn, codec.key("name", name), span)

    @override
    def pins(self, name: str, limit: int, cursor: str | None = None) -> Page:
        whole_number("limit", limit, _MOST_ROWS)
        with self._reading() as conn:
            return sql_lists.pins(conn, codec.key("name", name), limit, cursor)

    @override
    def prompt_text(self, name: str, version: str) -> str:
        name, version = codec.key("name", name), codec.key("version", version)
        with self._reading() as conn:
            return prompts.require(conn, name, version)

    @override
    def about(self) -> Row:
        with self._reading() as conn:
            version, size = conn.execute(self._about).one()
            schema_version = conn.execute(select(schema_info.c.version)).scalar()
        return {
            "database": f"{self._product} {version}",
            "schema_version": schema_version,
            "size_bytes": None if size is None else int(size),
        }


def _check_cut(cut: int) -> None:
    if isinstance(cut, bool) or not isinstance(cut, int) or not 0 <= cut < 2**31:
        raise ValueError(f"cut must be a whole number of at least 0, not {cut!r}")


def _id(row_id: int) -> int:
    """An id that a database can compare; no row has one beyond."""
    return max(-1, min(row_id, _HIGHEST_ID))


def _id_or_none(row_id: int | None) -> int | None:
    return None if row_id is None else _id(row_id)
