"""What BaseStore's reading methods ask of an SQL database, in statements that are built once.

The figures come from the `*_totals` tables. Sums arrive as int, Decimal or None, depending on the
database, and leave as int and float.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta, tzinfo
from typing import Any

from sqlalchemy import Connection, bindparam, desc, distinct, func, select
from sqlalchemy.sql.elements import BindParameter, ColumnElement

from pywrapai.core.base import Message, Role
from pywrapai_monitor.db import codec, rows
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.buckets import ALL_TIME, EIGHT_DAYS, END, QUARTER
from pywrapai_monitor.db.days import midnight
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.sql_sums import Summed
from pywrapai_monitor.db.tables import (
    conversations,
    session_totals,
    token_records,
    tool_totals,
    usage_totals,
    user_totals,
)

_DIALOGUE = ("user", "assistant")
_FOREVER = QUARTER.of(END)

_message, _record = conversations.c, token_records.c
_usage, _session, _tool = usage_totals.c, session_totals.c, tool_totals.c
_user = user_totals.c


def _sum(column: ColumnElement[Any], name: str | None = None) -> ColumnElement[Any]:
    return func.sum(column).label(name or column.name)


_IN_CONVERSATION = (
    _message.user_id == bindparam("user_id"),
    _message.session_id == bindparam("session_id"),
)
_HISTORY_START = (
    select(_message.id)
    .where(*_IN_CONVERSATION, _message.role == "user")
    .order_by(_message.id.desc())
    .limit(1)
    .offset(bindparam("skip"))
)
_HISTORY = (
    select(_message.role, _message.content)
    .where(*_IN_CONVERSATION, _message.id >= bindparam("start"), _message.role.in_(_DIALOGUE))
    .order_by(_message.id)
)


def history(conn: Connection, user_id: str, session_id: str, turns: int | None) -> list[Message]:
    """The newest turns, oldest first, read from the end of the session."""
    # In two steps, because MySQL reads a whole session for a start that it has yet to look up.
    asked = {"user_id": user_id, "session_id": session_id}
    start = None
    if turns is not None:
        start = conn.execute(_HISTORY_START, {**asked, "skip": turns - 1}).scalar()
    found = conn.execute(_HISTORY, {**asked, "start": start or 0})
    messages = [Message(Role(role), rows.as_text(content)) for role, content in found]
    return messages if turns is None else _newest(messages, turns)


def _newest(messages: list[Message], turns: int) -> list[Message]:
    """Without what others wrote between the two steps."""
    questions = [i for i, message in enumerate(messages) if message.role is Role.USER]
    return messages if len(questions) <= turns else messages[questions[-turns] :]


_CONVERSATION = select(conversations).where(*_IN_CONVERSATION).order_by(_message.id)


def conversation(conn: Connection, user_id: str, session_id: str) -> list[Row]:
    """Every row of one session."""
    found = conn.execute(_CONVERSATION, {"user_id": user_id, "session_id": session_id})
    return [rows.message_from_row(row) for row in found.mappings()]


_SESSION_RECORDS = (
    select(token_records)
    .where(_record.user_id == bindparam("user_id"), _record.session_id == bindparam("session_id"))
    .order_by(_record.id)
)
_RECENT_RECORDS = select(token_records).order_by(_record.id.desc()).limit(bindparam("limit"))


def session_records(conn: Connection, user_id: str, session_id: str) -> list[Row]:
    """Every token record of one session."""
    found = conn.execute(_SESSION_RECORDS, {"user_id": user_id, "session_id": session_id})
    return [rows.record_from_row(row) for row in found.mappings()]


def recent_records(conn: Connection, limit: int) -> list[Row]:
    """The newest token records."""
    found = conn.execute(_RECENT_RECORDS, {"limit": limit})
    return [rows.record_from_row(row) for row in found.mappings()]


_KNOWN_CALLS = select(_record.call_id).where(
    _record.call_id.in_(bindparam("call_ids", expanding=True))
)
_CALLS_AT_ONCE = 500


def known_calls(conn: Connection, call_ids: Sequence[str]) -> set[str]:
    """Which of these calls have a token record."""
    known: set[str] = set()
    for start in range(0, len(call_ids), _CALLS_AT_ONCE):
        some = call_ids[start : start + _CALLS_AT_ONCE]
        known.update(conn.execute(_KNOWN_CALLS, {"call_ids": some}).scalars())
    return known


_USAGE_SUMS = (
    _sum(_usage.calls),
    _sum(_usage.errors),
    _sum(_usage.unpriced),
    _sum(_usage.input_tokens),
    _sum(_usage.output_tokens),
    _sum(_usage.cost),
    _sum(_usage.duration_ms),
)
_USAGE_BY_KIND = (
    select(_usage.kind, *_USAGE_SUMS)
    .where(_usage.bucket.between(bindparam("first"), bindparam("last")))
    .group_by(_usage.kind)
)
_SINCE: BindParameter[int] = bindparam("since")
_SPAN = select(
    select(func.min(_record.created_at)).where(_record.created_at >= _SINCE).scalar_subquery(),
    select(func.max(_record.created_at)).where(_record.created_at >= _SINCE).scalar_subquery(),
)
_BY_USER = (
    select(func.count().label("sessions"))
    .where(_session.row_count > 0)  # the others wait for the end of a purge
    .group_by(_session.user_id)
    .subquery()
)
# Grouped, all sessions are counted along their key; counted apart, a day's along their time.
_ALL_SESSIONS = select(func.count(), func.coalesce(func.sum(_BY_USER.c.sessions), 0)).select_from(
    _BY_USER
)
_ACTIVE_SESSIONS = select(func.count(distinct(_session.user_id)), func.count()).where(
    _session.last_at >= _SINCE
)


def overview(conn: Connection, since_us: int | None = None) -> Row:
    """The figures of all time or, with `since_us`, those since then."""
    buckets = {"first": ALL_TIME, "last": ALL_TIME}
    if since_us is not None:
        buckets = {"first": QUARTER.of(since_us), "last": _FOREVER}
    by_kind = list(conn.execute(_USAGE_BY_KIND, buckets).mappings())
    since = {"since": since_us or 0}
    active = _ALL_SESSIONS if since_us is None else _ACTIVE_SESSIONS
    user_count, session_count = conn.execute(active, since).one()
    first_at, last_at = conn.execute(_SPAN, since).one()
    chats = [row for row in by_kind if row["kind"] == "chat"]
    calls = _total(chats, "calls")
    input_tokens, output_tokens = _total(by_kind, "input_tokens"), _total(by_kind, "output_tokens")
    return {
        "calls": calls,
        "errors": _total(chats, "errors"),
        "unpriced_calls": _total(chats, "unpriced"),
        "embeddings": _total(by_kind, "calls") - calls,
        "cost_usd": codec.cost_usd(_total(by_kind, "cost")),
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "users": int(user_count),
        "sessions": int(session_count),
        "avg_duration_ms": _average(sum(row["duration_ms"] for row in chats), calls),
        "first_at": codec.iso_time_or_none(first_at),
        "last_at": codec.iso_time_or_none(last_at),
    }


def _total(found: Sequence[Found], name: str) -> int:
    return sum(int(row[name]) for row in found)


def _average(total: float | None, number: int) -> float:
    """0.0 of nothing; rounding that a purge left behind never shows as a negative duration."""
    return max(float(total or 0.0), 0.0) / number if number else 0.0


_PER_DAY = ("calls", "cost", "input_tokens", "output_tokens")
_USAGE_BY_DAY = Summed(usage_totals, ("kind",), _PER_DAY)


def cost_over_time(conn: Connection, days: Sequence[date], zone: tzinfo) -> list[Row]:
    """One row per day of `days`, which follow each other and end today."""
    bounds = [midnight(day, zone) for day in (*days, days[-1] + timedelta(days=1))]
    sums = [dict.fromkeys(_PER_DAY, 0) for _ in days]
    for (number, kind), found in _USAGE_BY_DAY.steps(conn, bounds).items():
        for name, value in zip(_PER_DAY, found, strict=True):
            if name != "calls" or kind == "chat":
                sums[number][name] += int(value)
    return [
        {
            "date": day.isoformat(),
            "calls": total["calls"],
            "cost_usd": codec.cost_usd(total["cost"]),
            "input_tokens": total["input_tokens"],
            "output_tokens": total["output_tokens"],
        }
        for day, total in zip(days, sums, strict=True)
    ]


_USAGE_BY_MODEL = (
    select(_usage.model, _usage.provider, _usage.kind, *_USAGE_SUMS)
    .where(_usage.bucket == ALL_TIME)
    .group_by(_usage.model, _usage.provider, _usage.kind)
    .having(func.sum(_usage.calls) > 0)
    .order_by(desc("cost"), desc("calls"), _usage.model, _usage.provider, _usage.kind)
)


def model_usage(conn: Connection) -> list[Row]:
    """Per model, dearest first."""
    return [
        {
            "model": row["model"],
            "provider": row["provider"],
            "kind": row["kind"],
            "calls": int(row["calls"]),
            "errors": int(row["errors"]),
            "input_tokens": int(row["input_tokens"]),
            "output_tokens": int(row["output_tokens"]),
            "cost_usd": codec.cost_usd(row["cost"]),
            "avg_duration_ms": _average(row["duration_ms"], int(row["calls"])),
            "unpriced_calls": int(row["unpriced"]),
        }
        for row in conn.execute(_USAGE_BY_MODEL).mappings()
    ]


_OF_SESSIONS = (
    select(
        _session.user_id,
        func.count().label("sessions"),
        func.max(_session.last_at).label("last_at"),
    )
    .where(_session.row_count > 0)
    .group_by(_session.user_id)
    .subquery()
)
_SUMS_OF_USER = ("calls", "errors", "total_tokens", "cost")
# Of the records, not of the sessions, of which a user may have a hundred in eight days.
_OF_RECORDS = (
    select(_user.user_id, *(_sum(_user[name]) for name in _SUMS_OF_USER))
    .where(_user.bucket >= EIGHT_DAYS.first)
    .group_by(_user.user_id)
    .subquery()
)
_USERS = (
    select(
        _OF_SESSIONS,
        *(func.coalesce(_OF_RECORDS.c[name], 0).label(name) for name in _SUMS_OF_USER),
    )
    .outerjoin_from(_OF_SESSIONS, _OF_RECORDS, _OF_SESSIONS.c.user_id == _OF_RECORDS.c.user_id)
    .order_by(desc("cost"), desc("calls"), _OF_SESSIONS.c.user_id)
)


def users(conn: Connection) -> list[Row]:
    """Per user, dearest first."""
    return [
        {
            "user_id": row["user_id"],
            "sessions": int(row["sessions"]),
            "calls": int(row["calls"]),
            "errors": int(row["errors"]),
            "total_tokens": int(row["total_tokens"]),
            "cost_usd": codec.cost_usd(row["cost"]),
            "last_at": codec.iso_time(row["last_at"]),
        }
        for row in conn.execute(_USERS).mappings()
    ]


_SESSIONS = (
    select(
        _session.user_id,
        _session.session_id,
        _session.calls,
        _session.errors,
        _session.turns,
        _session.total_tokens,
        _session.cost,
        _session.first_at,
        _session.last_at,
    )
    .where(_session.row_count > 0)
    .order_by(_session.last_at.desc(), _session.user_id, _session.session_id)
)
_USER_SESSIONS = _SESSIONS.where(_session.user_id == bindparam("user_id"))


def sessions(conn: Connection, user_id: str | None) -> list[Row]:
    """Per session, newest first."""
    statement = _SESSIONS if user_id is None else _USER_SESSIONS
    return [
        {
            "user_id": user,
            "session_id": session,
            "calls": calls,
            "errors": errors,
            "turns": turns,
            "total_tokens": tokens,
            "cost_usd": codec.cost_usd(cost),
            "first_at": codec.iso_time(first_at),
            "last_at": codec.iso_time(last_at),
        }
        for user, session, calls, errors, turns, tokens, cost, first_at, last_at in conn.execute(
            statement, {"user_id": user_id}
        )
    ]


_TOOLS = (
    select(
        _tool.tool_name,
        _sum(_tool.calls),
        _sum(_tool.errors),
        _sum(_tool.timed),
        _sum(_tool.duration_ms),
    )
    .where(_tool.bucket == ALL_TIME)
    .group_by(_tool.tool_name)
    .having(func.sum(_tool.calls) > 0)
    .order_by(desc("calls"), _tool.tool_name)
)
_USER_TOOLS = _TOOLS.where(_tool.lane == 0, _tool.user_id == bindparam("user_id"))


def tool_usage(conn: Connection, user_id: str | None) -> list[Row]:
    """Per tool, most used first."""
    statement = _TOOLS if user_id is None else _USER_TOOLS
    return [
        {
            "tool_name": row["tool_name"],
            "calls": int(row["calls"]),
            "successes": int(row["calls"]) - int(row["errors"]),
            "errors": int(row["errors"]),
            "avg_duration_ms": _average(row["duration_ms"], int(row["timed"])),
        }
        for row in conn.execute(statement, {"user_id": user_id}).mappings()
    ]
