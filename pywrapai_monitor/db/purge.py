"""Delete what is old, some rows at a time, and take them out of the running totals."""

from __future__ import annotations

from sqlalchemy import Connection, Table, bindparam, delete, func, select, union_all, update
from sqlalchemy.sql.elements import BindParameter

from pywrapai_monitor.db.batch import Totals, Writer
from pywrapai_monitor.db.tables import (
    ALL_TIME,
    BUCKET_US,
    conversations,
    session_totals,
    token_records,
    tool_totals,
    usage_totals,
)

BATCH_ROWS = 1000
_COUNTED = {
    "user_id", "session_id", "created_at", "role", "status", "kind", "model", "provider",
    "priced", "input_tokens", "output_tokens", "cost", "duration_ms", "tool_name",
}  # fmt: skip
_session = session_totals.c


def purge_some(conn: Connection, table: Table, cutoff: int, writer: Writer) -> int:
    """Delete up to BATCH_ROWS of the oldest rows from before `cutoff`; says how many."""
    columns = [c for c in table.columns if c.name in _COUNTED]
    oldest = (
        select(table.c.id, *columns)
        .where(table.c.created_at < cutoff)
        .order_by(table.c.created_at)
        .limit(BATCH_ROWS)
        .with_for_update()  # two purges at once must not both count a row out
    )
    rows = conn.execute(oldest).mappings().all()
    totals = Totals()
    for row in rows:
        totals.add(table, row, sign=-1)
    conn.execute(delete(table).where(table.c.id.in_([row["id"] for row in rows])))
    writer.write_totals(conn, totals)
    if touched := totals.of(session_totals):
        conn.execute(_DROP_EMPTY, [_of(row["user_id"], row["session_id"]) for row in touched])
    return len(rows)


_USER_ID: BindParameter[str] = bindparam("of_user")
_SESSION_ID: BindParameter[str] = bindparam("of_session")
_THIS_SESSION = (_session.user_id == _USER_ID, _session.session_id == _SESSION_ID)
_DROP_EMPTY = delete(session_totals).where(*_THIS_SESSION, _session.row_count <= 0)
_FIRST = select(func.min(union_all(*(
    select(t.c.created_at).where(t.c.user_id == _USER_ID, t.c.session_id == _SESSION_ID)
    for t in (conversations, token_records)
)).subquery().c.created_at))  # fmt: skip
_SET_FIRST = update(session_totals).where(*_THIS_SESSION).values(first_at=bindparam("first"))


def tidy_totals(conn: Connection, cutoff: int) -> None:
    """Drop the totals that have come to nothing, and let sessions begin where they now do."""
    past = usage_totals.c.bucket.between(ALL_TIME + 1, cutoff // BUCKET_US - 1)
    conn.execute(delete(usage_totals).where(past))
    conn.execute(delete(tool_totals).where(tool_totals.c.calls <= 0))
    begun = select(_session.user_id, _session.session_id).where(_session.first_at < cutoff)
    for user_id, session_id in conn.execute(begun).all():
        of = _of(user_id, session_id)
        first = conn.execute(_FIRST, of).scalar_one()
        if first is not None:
            conn.execute(_SET_FIRST, {**of, "first": first})


def _of(user_id: str, session_id: str) -> dict[str, str]:
    return {"of_user": user_id, "of_session": session_id}
