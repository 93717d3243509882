"""The details of `Analytics`: one call, one message, its history, its tool calls, whole texts.

Texts are cut by the database, so that nobody waits for megabytes that are not shown.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from pywrapai_monitor.db import codec, rows
from pywrapai_monitor.db.analytics import BODIES, check_body
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.feedback import WITH_CALL
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.tables import conversations, feedback, token_records, tool_calls

_MOST_HISTORY = 1000
"""Messages of a history, which are the newest."""
_TABLES = {table.name: table for table in (conversations, token_records, tool_calls)}

_record, _message, _tool = token_records.c, conversations.c, tool_calls.c
_LISTED = (
    _message.id, _message.created_at, _message.role, _message.status, _message.call_id,
    _message.history_count,
)  # fmt: skip


def _cut(cut: int, *columns: ColumnElement[str]) -> list[ColumnElement[Any]]:
    """Each of these texts, cut, and how long it is."""
    found: list[ColumnElement[Any]] = []
    for column in columns:
        found.append(func.substr(column, 1, cut).label(column.name))
        found.append(func.char_length(column).label(f"{column.name}_length"))
    return found


def _lengths(found: Row) -> Row:
    """Of what is None, the length is 0."""
    return {
        name: (int(value or 0) if name.endswith("_length") else value)
        for name, value in found.items()
    }


def call(conn: Connection, call_id: str, cut: int) -> Row:
    """One token record and what belongs to it. KeyError if there is none."""
    plain = [c for c in token_records.columns if c.name not in BODIES["token_records"]]
    columns = [*plain, *_cut(cut, _record.error_message, _record.partial)]
    found = conn.execute(select(*columns).where(_record.call_id == call_id)).mappings().first()
    if found is None:
        raise KeyError(f"there is no call {call_id!r}")
    return {
        **_lengths(rows.record_from_row(found)),
        "messages": _messages_of(conn, found, cut),
        "tools": tools(conn, call_id, cut),
        "feedback": _feedback(conn, call_id),
    }


def _messages_of(conn: Connection, record: Found, cut: int) -> list[Row]:
    # They are of one transaction, so of one time, for which there is an index.
    of_call = (
        select(*_LISTED, *_cut(cut, _message.content))
        .where(_message.created_at == record["created_at"], _message.call_id == record["call_id"])
        .order_by(_message.id)
    )
    return [_listed(row) for row in conn.execute(of_call).mappings()]


def _listed(found: Found) -> Row:
    return _lengths({
        **found,
        "created_at": codec.iso_time(found["created_at"]),
        "content": rows.as_text(found["content"]),
    })  # fmt: skip


def _feedback(conn: Connection, call_id: str) -> Row | None:
    found = conn.execute(WITH_CALL.where(feedback.c.call_id == call_id)).mappings().first()
    if found is None:
        return None
    row = rows.feedback_from_row(found)
    del row["id"]
    return row


def messages(
    conn: Connection,
    user_id: str,
    session_id: str,
    limit: int,
    cut: int,
    before: int | None,
    after: int | None,
) -> list[Row]:
    """Rows of one session, in the order of writing."""
    chosen = select(*_LISTED, *_cut(cut, _message.content)).where(
        _message.user_id == user_id, _message.session_id == session_id
    )
    if before is not None:
        chosen = chosen.where(_message.id < before)
    if after is not None:
        chosen = chosen.where(_message.id > after)
    order = _message.id.desc() if after is None else _message.id
    found = conn.execute(chosen.order_by(order).limit(limit)).mappings().all()
    return [_listed(row) for row in (found[::-1] if after is None else found)]


def message(conn: Connection, message_id: int, cut: int) -> Row:
    """One row of a conversation. KeyError if there is none."""
    columns = [
        *_LISTED, _message.user_id, _message.session_id, _message.rag_context,
        *_cut(cut, _message.content, _message.system_prompt),
    ]  # fmt: skip
    found = conn.execute(select(*columns).where(_message.id == message_id)).mappings().first()
    if found is None:
        raise KeyError(f"there is no message {message_id}")
    chunks = rows.from_json(conversations, found, "rag_context")
    return {
        **_listed(found),
        "rag_context": None if chunks is None else [_chunk(chunk, cut) for chunk in chunks],
    }


def _chunk(chunk: Any, cut: int) -> Row:
    known = chunk if isinstance(chunk, dict) else {"text": chunk}
    text = known.get("text")
    whole = "" if text is None else str(text)
    plain = {name: known.get(name) for name in ("score", "doc_id", "metadata")}
    return {"text": whole[:cut], "text_length": len(whole), **plain}


_QUESTION = select(_message.user_id, _message.session_id, _message.history_count)


def history_of(conn: Connection, message_id: int, cut: int) -> list[Row]:
    """The turns that were sent with a question. KeyError if there is no such row."""
    asked = conn.execute(_QUESTION.where(_message.id == message_id)).first()
    if asked is None:
        raise KeyError(f"there is no message {message_id}")
    user_id, session_id, turns = asked
    if not turns:
        return []
    before = [
        _message.user_id == user_id, _message.session_id == session_id, _message.id < message_id,
    ]  # fmt: skip
    questions = select(_message.id).where(*before, _message.role == "user")
    start = conn.execute(questions.order_by(_message.id.desc()).offset(turns - 1).limit(1)).scalar()
    sent = (
        select(*_LISTED, *_cut(cut, _message.content))
        .where(*before, _message.id >= (start or 0), _message.role.in_(("user", "assistant")))
        .order_by(_message.id.desc())
        .limit(_MOST_HISTORY)
    )
    return [_listed(row) for row in conn.execute(sent).mappings().all()[::-1]]


def tools(conn: Connection, call_id: str, cut: int) -> list[Row]:
    """The tool calls that one model call asked for."""
    asked_for = (
        select(
            _tool.id,
            _tool.tool_name,
            _tool.call_id.label("tool_call_id"),
            _tool.turn_num,
            _tool.status,
            _tool.created_at,
            _tool.duration_ms,
            *_cut(cut, _tool.arguments, _tool.result, _tool.error),
        )
        .where(_tool.model_call_id == call_id)
        .order_by(_tool.id)
    )
    return [
        _lengths({**row, "created_at": codec.iso_time(row["created_at"])})
        for row in conn.execute(asked_for).mappings()
    ]


def body(conn: Connection, table: str, row_id: int, name: str) -> str | None:
    """A whole text. KeyError if there is no such row, ValueError if no such column."""
    check_body(table, name)
    column = _TABLES[table].c
    row = conn.execute(select(column[name]).where(column.id == row_id)).first()
    if row is None:
        raise KeyError(f"there is no row {row_id} in {table}")
    return None if row[0] is None else rows.as_text(row[0])
