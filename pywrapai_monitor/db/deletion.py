"""Deleting from an SQL store: what is old, a session, a user. Nobody waits for it for long.

Every transaction is small and takes its rows out of the running totals, so that what is killed in
the middle leaves true totals, and can be done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection, Table
from typing_extensions import override

from pywrapai_monitor.db import codec, purge
from pywrapai_monitor.db.batch import ROW_TABLES
from pywrapai_monitor.db.buckets import SUMS, Width
from pywrapai_monitor.db.days import whole_number
from pywrapai_monitor.db.purge import Choice, Key
from pywrapai_monitor.db.transactions import TransactionalStore

_DAY_US = 24 * 60 * 60 * 1_000_000
_MIN_ROWS, _FIRST_ROWS, _MAX_ROWS = 20, 100, 500
_REST_S = 0.005
_BUCKETS = 10  # at once, each with a row for every model and lane


class DeletingStore(TransactionalStore):
    """`purge_before`, `delete_session` and `delete_user`."""

    @override
    def purge_before(self, days: int) -> int:
        """Some rows per transaction: nobody waits for long, and a crash leaves true totals."""
        cutoff = max(0, self._now() - whole_number("days", days) * _DAY_US)
        gone = sum(self._delete(purge.older_than(cutoff, table)) for table in ROW_TABLES)
        gone += self._repeat(lambda conn, limit: purge.delete_lost_feedback(conn, cutoff, limit))
        for table in purge.SHARED_TOTALS:
            for width in SUMS:
                self._tidy_buckets(table, width, cutoff)
        self._tidy_tools()
        self._tidy_sessions(cutoff)
        return gone

    @override
    def delete_session(self, user_id: str, session_id: str) -> int:
        return self._delete_of(codec.key("user_id", user_id), codec.key("session_id", session_id))

    @override
    def delete_user(self, user_id: str) -> int:
        return self._delete_of(codec.key("user_id", user_id), None)

    def _delete_of(self, user_id: str, session_id: str | None) -> int:
        gone = sum(
            self._delete(purge.belonging_to(user_id, session_id, table)) for table in ROW_TABLES
        )
        return gone + self._write(lambda conn: purge.delete_rest(conn, user_id, session_id))

    def _delete(self, choice: Choice) -> int:
        add_totals = self._write_totals
        return self._repeat(lambda conn, limit: purge.delete_some(conn, choice, limit, add_totals))

    def _repeat(self, delete: Callable[[Connection, int], int]) -> int:
        """Delete some rows after others, in transactions of about `_deletion_s`, until there are
        none. Between two of them the others have as much time.
        """
        gone, limit = 0, _FIRST_ROWS
        while True:
            began, some = self._write(partial(_timed, delete, limit))
            if not some:
                return gone
            gone += some
            spent_s = time.perf_counter() - began
            fit = int(limit * min(self._deletion_s / spent_s, 1.25))
            limit = min(max(fit, _MIN_ROWS), _MAX_ROWS)
            self._rest(spent_s)

    def _rest(self, spent_s: float) -> None:
        if self._unit() is None:  # in one transaction with others there is nobody to let by
            time.sleep(max(spent_s, _REST_S))

    def _tidy_buckets(self, table: Table, width: Width, cutoff: int) -> None:
        after = width.first - 1
        while True:
            with self._reading() as conn:
                buckets = purge.past_buckets(conn, table, width, cutoff, after, _BUCKETS)
            if not buckets:
                return
            self._write(partial(purge.drop_empty, table=table, buckets=buckets))
            after = buckets[-1]
            self._rest(0.0)

    def _tidy_tools(self) -> None:
        while True:
            with self._reading() as conn:
                empty = purge.empty_tools(conn, _FIRST_ROWS)
            if not empty:
                return
            self._write(partial(purge.drop_tools, keys=empty))
            self._rest(0.0)

    def _tidy_sessions(self, cutoff: int) -> None:
        """Drop those that have lost all rows; let the others begin with what they still have."""
        after: Key | None = None
        while True:
            with self._reading() as conn:
                found = purge.old_sessions(conn, cutoff, after, _FIRST_ROWS)
                times = purge.first_times(conn, [row for row in found if row["row_count"] > 0])
            if empty := [purge.session_of(row) for row in found if row["row_count"] <= 0]:
                self._write(partial(purge.drop_sessions, keys=empty))
            if times:
                self._write(partial(purge.set_first_times, times=times))
            if len(found) < _FIRST_ROWS:
                return
            after = purge.session_of(found[-1])
            self._rest(0.0)


def _timed(
    delete: Callable[[Connection, int], int], limit: int, conn: Connection
) -> tuple[float, int]:
    return time.perf_counter(), delete(conn, limit)
