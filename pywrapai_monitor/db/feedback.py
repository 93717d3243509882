"""Feedback: what was thought of an answer, found by the call that gave it."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from pywrapai_monitor.db import codec, rows
from pywrapai_monitor.db.base import Feedback, Row
from pywrapai_monitor.db.batch import Upsert
from pywrapai_monitor.db.tables import feedback, token_records
from pywrapai_monitor.db.totals import Columns

_feedback, _record = feedback.c, token_records.c

# Also feedback whose call has not been written yet, or never was.
WITH_CALL = select(
    _feedback.id,
    _feedback.call_id,
    _feedback.score,
    _feedback.comment,
    _feedback.created_at,
    _record.user_id,
    _record.session_id,
    _record.model,
    _record.prompt_name,
    _record.prompt_version,
).select_from(feedback.outerjoin(token_records, _record.call_id == _feedback.call_id))
_NEWEST_FIRST = WITH_CALL.order_by(_feedback.id.desc())
_OF_USER = _NEWEST_FIRST.where(_record.user_id == bindparam("user_id"))
_BY_SESSION = _record.session_id == bindparam("session_id")


class FeedbackTable:
    """The table in one SQL dialect."""

    def __init__(self, upsert: Upsert) -> None:
        self._save = upsert(feedback, ("call_id",), _replace)

    def save(self, conn: Connection, row: Row) -> None:
        """Keep a row, or let it take the place of what was said before."""
        conn.execute(self._save, row)


def to_row(given: Feedback, at: int) -> Row:
    """A row of `feedback`, without id."""
    return {
        "call_id": codec.label(given.call_id),
        "score": float(given.score),
        "created_at": at,
        "updated_at": at,
        "comment": codec.readable_or_none(given.comment),
    }


def find(conn: Connection, user_id: str | None, session_id: str | None) -> list[Row]:
    """All feedback, or that to one user or session, newest first."""
    statement = _NEWEST_FIRST if user_id is None else _OF_USER
    if session_id is not None:
        statement = statement.where(_BY_SESSION)
    asked = {"user_id": user_id, "session_id": session_id}
    found = conn.execute(statement, {k: v for k, v in asked.items() if v is not None})
    return [_without_id(rows.feedback_from_row(row)) for row in found.mappings()]


def _without_id(row: Row) -> Row:
    del row["id"]
    return row


def _replace(old: Columns, new: Columns) -> dict[str, object]:
    return {name: new[name] for name in ("score", "comment", "updated_at")}
