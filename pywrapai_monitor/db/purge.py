"""Delete rows, some at a time, and take them out of the running totals in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, and_, bindparam, delete, func, select, union_all, update
from sqlalchemy.sql.elements import BindParameter, ColumnElement

from pywrapai_monitor.db.batch import ROW_TABLES
from pywrapai_monitor.db.buckets import ALL_TIME, Width
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.tables import (
    conversations,
    feedback,
    latency_totals,
    prompt_totals,
    session_totals,
    token_records,
    tool_totals,
    usage_totals,
    user_settings,
    user_totals,
)
from pywrapai_monitor.db.totals import COUNTED, Totals

AddTotals: TypeAlias = Callable[[Connection, Totals], None]
"""Adds to the running totals."""

_COUNTED = COUNTED | {"call_id"}
_session, _tool, _user = session_totals.c, tool_totals.c, user_totals.c
SHARED_TOTALS = (usage_totals, latency_totals, prompt_totals, tool_totals)
"""Those of everybody, in buckets and lanes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows of a table go, and in which order an index finds them."""

    table: Table
    which: tuple[ColumnElement[bool], ...]
    order: tuple[ColumnElement[Any], ...]


def older_than(cutoff: int, table: Table) -> Choice:
    """The rows from before a time."""
    return Choice(table, (table.c.created_at < cutoff,), (table.c.created_at,))


def belonging_to(user_id: str, session_id: str | None, table: Table) -> Choice:
    """The rows of a user, or of one session."""
    which = [table.c.user_id == user_id]
    if session_id is not None:
        which.append(table.c.session_id == session_id)
    time_or_id = table.c.created_at if table is token_records else table.c.id
    return Choice(table, tuple(which), (table.c.user_id, table.c.session_id, time_or_id))


def delete_some(conn: Connection, choice: Choice, limit: int, add_totals: AddTotals) -> int:
    """Delete up to `limit` rows and the feedback to them; says how many rows went in all."""
    table = choice.table
    columns = [c for c in table.columns if c.name in _COUNTED]
    chosen = (
        select(table.c.id, *columns)
        .where(*choice.which)
        .order_by(*choice.order)
        .limit(limit)
        .with_for_update()  # two that delete at once must not both count a row out
    )
    rows = conn.execute(chosen).mappings().all()
    if not rows:
        return 0
    totals = Totals()
    for row in rows:
        totals.add(table, row, sign=-1)
    conn.execute(_BY_ID[table], {"ids": [row["id"] for row in rows]})
    gone = len(rows)
    if table is token_records and (calls := [c for row in rows if (c := row["call_id"])]):
        gone += conn.execute(_BY_CALL, {"calls": calls}).rowcount
    add_totals(conn, totals)
    if keys := totals.keys(user_totals):
        of = {"buckets": [bucket for bucket, _ in keys], "users": [user for _, user in keys]}
        conn.execute(_EMPTY_USERS, {name: sorted(set(found)) for name, found in of.items()})
    return gone


# As literals, which whole numbers may be: a hundred parameters cost more than a hundred rows.
_IDS: BindParameter[int] = bindparam("ids", expanding=True, literal_execute=True)
_BY_ID = {t: delete(t).where(t.c.id.in_(_IDS)) for t in ROW_TABLES}
_BY_CALL = delete(feedback).where(feedback.c.call_id.in_(bindparam("calls", expanding=True)))

_EMPTY_USERS = delete(user_totals).where(
    _user.bucket.in_(bindparam("buckets", expanding=True, literal_execute=True)),
    _user.user_id.in_(bindparam("users", expanding=True)),
    _user.records <= 0,
)


def delete_lost_feedback(conn: Connection, cutoff: int, limit: int) -> int:
    """Delete old feedback whose call is not there, and never was or has gone."""
    its_call = select(token_records.c.id).where(token_records.c.call_id == feedback.c.call_id)
    lost = (
        select(feedback.c.id)
        .where(feedback.c.created_at < cutoff, ~its_call.exists())
        .order_by(feedback.c.created_at)
        .limit(limit)
    )
    ids = conn.execute(lost).scalars().all()
    return conn.execute(delete(feedback).where(feedback.c.id.in_(ids))).rowcount if ids else 0


_OF_USERS = and_(_tool.bucket == ALL_TIME, _tool.lane == 0)


def delete_rest(conn: Connection, user_id: str, session_id: str | None) -> int:
    """Delete what has come to nothing in the totals of a user or of one session and, of a user,
    the pins; says how many pins.
    """
    empty = delete(session_totals).where(_session.user_id == user_id, _session.row_count <= 0)
    if session_id is not None:
        conn.execute(empty.where(_session.session_id == session_id))
        return 0
    conn.execute(empty)
    conn.execute(delete(tool_totals).where(_OF_USERS, _tool.user_id == user_id, _tool.calls <= 0))
    return conn.execute(delete(user_settings).where(user_settings.c.user_id == user_id)).rowcount


# What is left in the totals. Each step reads where no lock is held, and writes a few rows.

Key: TypeAlias = tuple[Any, ...]


def past_buckets(
    conn: Connection, table: Table, width: Width, cutoff: int, after: int, limit: int
) -> Sequence[int]:
    """Buckets of that width from before a time, and after one of them, in their order."""
    bucket = table.c.bucket
    past = bucket.between(after + 1, width.of(cutoff) - 1)
    found = select(bucket).where(past).distinct().order_by(bucket).limit(limit)
    return conn.execute(found).scalars().all()


def drop_empty(conn: Connection, table: Table, buckets: Sequence[int]) -> None:
    """Delete the totals in these buckets that have come to nothing. Lanes do so together: what was
    added to one may have been taken out of another.
    """
    names = [column.name for column in table.primary_key]
    locked = select(*table.primary_key, table.c.calls).where(table.c.bucket.in_(buckets))
    lanes: dict[Key, list[Found]] = {}
    for row in conn.execute(locked.with_for_update()).mappings():
        lanes.setdefault(tuple(row[n] for n in names if n != "lane"), []).append(row)
    empty = [some for some in lanes.values() if sum(row["calls"] for row in some) <= 0]
    drop(conn, table, [tuple(row[n] for n in names) for some in empty for row in some])


def empty_tools(conn: Connection, limit: int) -> list[Key]:
    """Keys of the tools that nobody has called."""
    found = select(*tool_totals.primary_key).where(_OF_USERS, _tool.calls <= 0).limit(limit)
    return [tuple(row) for row in conn.execute(found)]


def drop(conn: Connection, table: Table, keys: Sequence[Key], *only: ColumnElement[bool]) -> None:
    """Delete the totals of these keys."""
    if keys:
        names = [f"of_{column.name}" for column in table.primary_key]
        this = [c == bindparam(name) for c, name in zip(table.primary_key, names, strict=True)]
        conn.execute(
            delete(table).where(*this, *only),
            [dict(zip(names, key, strict=True)) for key in keys],
        )


def drop_sessions(conn: Connection, keys: Sequence[Key]) -> None:
    """Delete these, but for those that have got rows since."""
    drop(conn, session_totals, keys, _session.row_count <= 0)


def drop_tools(conn: Connection, keys: Sequence[Key]) -> None:
    """Delete these, but for those that have been called since."""
    drop(conn, tool_totals, keys, _tool.calls <= 0)


def session_of(row: Found) -> Key:
    """The key of a session."""
    return row["user_id"], row["session_id"]


def old_sessions(conn: Connection, cutoff: int, after: Key | None, limit: int) -> list[Found]:
    """Totals of sessions that began before a time, in the order of their keys, after one of them:
    `user_id`, `session_id`, `first_at`, `row_count`.
    """
    begun = (
        select(_session.user_id, _session.session_id, _session.first_at, _session.row_count)
        .where(_session.first_at < cutoff)
        .order_by(_session.user_id, _session.session_id)
        .limit(limit)
    )
    if after is not None:
        user_id, session_id = after
        of_same_user = _session.session_id > session_id
        begun = begun.where(
            _session.user_id >= user_id, (_session.user_id > user_id) | of_same_user
        )
    return list(conn.execute(begun).mappings())


_USER_ID: BindParameter[str] = bindparam("of_user")
_SESSION_ID: BindParameter[str] = bindparam("of_session")
_FIRST = select(func.min(union_all(*(
    select(t.c.created_at).where(t.c.user_id == _USER_ID, t.c.session_id == _SESSION_ID)
    for t in (conversations, token_records)
)).subquery().c.created_at))  # fmt: skip
_SET_FIRST = (
    update(session_totals)
    .where(
        _session.user_id == _USER_ID,
        _session.session_id == _SESSION_ID,
        _session.first_at == bindparam("seen"),
    )
    .values(first_at=bindparam("first"))
)


def first_times(conn: Connection, sessions: Sequence[Found]) -> list[dict[str, Any]]:
    """When these sessions now begin, for `set_first_times`."""
    times = []
    for session in sessions:
        of = {"of_user": session["user_id"], "of_session": session["session_id"]}
        if (first := conn.execute(_FIRST, of).scalar()) is not None:
            times.append({**of, "seen": session["first_at"], "first": first})
    return times


def set_first_times(conn: Connection, times: Sequence[dict[str, Any]]) -> None:
    """Let these sessions begin then, but for those that have got older rows since."""
    conn.execute(_SET_FIRST, list(times))
