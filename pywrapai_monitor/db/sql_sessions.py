"""The list of sessions of `Analytics`, last used first, and the search in what was said in them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from pywrapai_monitor.db import codec, cursors, matching
from pywrapai_monitor.db.analytics import Page, SessionFilter
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.sql_figures import in_span
from pywrapai_monitor.db.tables import conversations, session_totals

SESSIONS_LOOKED_AT = 100_000
"""For each request: sessions whose times are looked at, which are in the index."""
ROWS_LOOKED_AT = 4_000
"""Of sessions, for each request: rows whose text is looked at."""
_SESSIONS_AT_ONCE = 500
_EXCERPT = 160

_session, _message = session_totals.c, conversations.c
_NEWEST_FIRST = (_session.last_at.desc(), _session.user_id.desc(), _session.session_id.desc())
_SESSIONS = select(session_totals).order_by(*_NEWEST_FIRST)
_PLACES = select(_session.last_at, _session.user_id, _session.session_id).order_by(*_NEWEST_FIRST)
_OF_SESSION = (_message.user_id == _session.user_id, _message.session_id == _session.session_id)


def sessions(conn: Connection, wanted: SessionFilter, limit: int, cursor: str | None) -> Page:
    """Sessions, last used first, or those that have a text."""
    if wanted.text:
        return _search(conn, wanted, matching.wanted(wanted.text), limit, cursor)
    where = _of_user(wanted)
    if cursor is not None:
        where.append(_after(*cursors.decode(cursor, int, str, str)))
    end = None
    if wanted.span.until is not None:  # of newer sessions, most are not wanted
        newer = _PLACES.where(*where, _session.last_at >= wanted.span.until)
        end = conn.execute(newer.offset(SESSIONS_LOOKED_AT - 1).limit(1)).first()
    if end is not None:
        where.append(_through(*end))
    # Out of the index alone, for most of what is looked at may be of another time.
    places = _PLACES.where(*where, *in_span(wanted.span)).limit(limit + 1).subquery("places")
    same = places.c.user_id == _session.user_id, places.c.session_id == _session.session_id
    found = conn.execute(_SESSIONS.join_from(places, session_totals, and_(*same))).mappings().all()
    rows = [_row(row) for row in found[:limit]]
    if len(found) > limit:
        return Page(rows=rows, next=cursors.encode(*_place(found[limit - 1])))
    if end is not None:
        at = codec.iso_time(end[0])
        return Page(rows=rows, next=cursors.encode(*end), searched_to=at)
    return Page(rows=rows)


def session(conn: Connection, user_id: str, session_id: str) -> Row:
    """The totals of one. KeyError if there is none."""
    this = _session.user_id == user_id, _session.session_id == session_id, _session.row_count > 0
    found = conn.execute(select(session_totals).where(*this)).mappings().first()
    if found is None:
        raise KeyError(f"there is no session {session_id!r} of user {user_id!r}")
    return _row(found)


def _row(found: Found) -> Row:
    return {
        "user_id": found["user_id"],
        "session_id": found["session_id"],
        "calls": found["calls"],
        "errors": found["errors"],
        "turns": found["turns"],
        "total_tokens": found["total_tokens"],
        "cost_usd": codec.cost_usd(found["cost"]),
        "first_at": codec.iso_time(found["first_at"]),
        "last_at": codec.iso_time(found["last_at"]),
    }


def _place(found: Found) -> tuple[int, str, str]:
    return found["last_at"], found["user_id"], found["session_id"]


# The conditions for sessions that come after a place in the list, at it or after it, and at it or
# before it. Each begins with a range of times, which is what the index is asked for.


def _after(last_at: int, user_id: str, session_id: str) -> ColumnElement[bool]:
    of_user = and_(_session.user_id == user_id, _session.session_id < session_id)
    same_time = or_(_session.user_id < user_id, of_user)
    return and_(_session.last_at <= last_at, or_(_session.last_at < last_at, same_time))


def _from(last_at: int, user_id: str, session_id: str) -> ColumnElement[bool]:
    of_user = and_(_session.user_id == user_id, _session.session_id <= session_id)
    same_time = or_(_session.user_id < user_id, of_user)
    return and_(_session.last_at <= last_at, or_(_session.last_at < last_at, same_time))


def _through(last_at: int, user_id: str, session_id: str) -> ColumnElement[bool]:
    of_user = and_(_session.user_id == user_id, _session.session_id >= session_id)
    same_time = or_(_session.user_id > user_id, of_user)
    return and_(_session.last_at >= last_at, or_(_session.last_at > last_at, same_time))


def _of_user(wanted: SessionFilter) -> list[ColumnElement[bool]]:
    if wanted.user_id is None:
        return []
    return [_session.user_id == codec.key("user_id", wanted.user_id)]


# Search. The cursor also has the row of a conversation before which a session goes on, or 0.


def _search(
    conn: Connection, wanted: SessionFilter, text: str, limit: int, cursor: str | None
) -> Page:
    where = [*_of_user(wanted), *in_span(wanted.span)]
    before = 0
    if cursor is not None:
        last_at, user_id, session_id, before = cursors.decode(cursor, int, str, str, int)
        place = (last_at, user_id, session_id)
        where.append(_from(*place) if before else _after(*place))
    following = conn.execute(_SESSIONS.where(*where).limit(_SESSIONS_AT_ONCE + 1)).mappings().all()
    if not following:
        return Page(rows=[])
    if before or following[0]["row_count"] > ROWS_LOOKED_AT:
        return _search_long(conn, following[0], text, before, len(following) > 1)
    some = _as_many_as_fit(following)
    found = _having(conn, some, text)
    ended = len(some) == len(following)
    if len(found) > limit:
        found = found[:limit]
        return Page(rows=[row for row, _ in found], next=cursors.encode(*found[-1][1], 0))
    rows = [row for row, _ in found]
    if ended:
        return Page(rows=rows)
    at = codec.iso_time(some[-1]["last_at"])
    full = len(rows) == limit
    next_one = cursors.encode(*_place(some[-1]), 0)
    return Page(rows=rows, next=next_one, searched_to=None if full else at)


def _as_many_as_fit(following: Sequence[Found]) -> Sequence[Found]:
    rows = 0
    for number, found in enumerate(following[:_SESSIONS_AT_ONCE]):
        rows += found["row_count"]
        if rows > ROWS_LOOKED_AT:
            return following[:number]
    return following[:_SESSIONS_AT_ONCE]


def _having(
    conn: Connection, some: Sequence[Found], text: str
) -> list[tuple[Row, tuple[int, str, str]]]:
    """Those of some sessions that have the text, with their places in the list."""
    newest = (
        select(func.max(_message.id))
        .where(*_OF_SESSION, matching.contains(_message.content, text, conn.dialect.name))
        .scalar_subquery()
    )
    first, last = _place(some[0]), _place(some[-1])
    looked = (
        select(session_totals, newest.label("message_id"))
        .where(_from(*first), _through(*last))
        .order_by(*_NEWEST_FIRST)
    )
    wanted = {_place(row) for row in some}
    found = []
    for row in conn.execute(looked).mappings():
        if _place(row) in wanted and (row["message_id"] is not None or _named(row, text)):
            found.append(row)
    excerpts = _excerpts(conn, [row["message_id"] for row in found if row["message_id"]], text)
    return [({**_row(row), **_where(row["message_id"], excerpts)}, _place(row)) for row in found]


def _named(row: Found, text: str) -> bool:
    return text.casefold() in f"{row['user_id']}\n{row['session_id']}".casefold()


def _where(message_id: int | None, excerpts: dict[int, str]) -> Row:
    if message_id is None:
        return {"message_id": None, "excerpt": None}
    return {"message_id": message_id, "excerpt": excerpts.get(message_id)}


def _excerpts(conn: Connection, ids: Sequence[int], text: str) -> dict[int, str]:
    if not ids:
        return {}
    around = matching.around(_message.content, text, _EXCERPT, conn.dialect.name)
    chosen = select(_message.id, around).where(_message.id.in_(ids))
    return {row_id: str(excerpt) for row_id, excerpt in conn.execute(chosen)}


def _search_long(conn: Connection, found: Found, text: str, before: int, more: bool) -> Page:
    """Look in one session that has too many rows to be looked at as one of some."""
    of_session = [
        _message.user_id == found["user_id"], _message.session_id == found["session_id"],
    ]  # fmt: skip
    if before:
        of_session.append(_message.id < before)
    ids = select(_message.id).where(*of_session).order_by(_message.id.desc())
    end: int | None = conn.execute(ids.offset(ROWS_LOOKED_AT - 1).limit(1)).scalar()
    if end is not None:
        of_session.append(_message.id >= end)
    newest = select(func.max(_message.id)).where(
        *of_session, matching.contains(_message.content, text, conn.dialect.name)
    )
    message_id: int | None = conn.execute(newest).scalar()
    place = _place(found)
    if message_id is not None or (not before and _named(found, text)):
        excerpts = _excerpts(conn, [message_id] if message_id else [], text)
        row = {**_row(found), **_where(message_id, excerpts)}
        return Page(rows=[row], next=cursors.encode(*place, 0) if more else None)
    if end is None and not more:
        return Page(rows=[])
    at = codec.iso_time(found["last_at"])
    return Page(rows=[], next=cursors.encode(*place, end or 0), searched_to=at)
