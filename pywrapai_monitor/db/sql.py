"""The store on SQLAlchemy Core, for every SQL database alike.

A subclass makes the engine and says what differs: how its database upserts, how it begins to
write, what keeps two processes from making the schema at once, and which errors pass by themselves.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import randrange
from typing import TYPE_CHECKING, ClassVar

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.sql.dml import Insert
from typing_extensions import override

from pywrapai_monitor.db import codec, purge, queries, rows
from pywrapai_monitor.db import prompts as registry
from pywrapai_monitor.db.base import BaseStore, MessageRecord, Row, StoreError, TokenRecord
from pywrapai_monitor.db.batch import ROW_TABLES, Batch, Merge, Writer
from pywrapai_monitor.db.days import MAX_DAYS, last_days, midnight, time_zone, today, whole_number
from pywrapai_monitor.db.fork import survive_fork
from pywrapai_monitor.db.schema import prepare
from pywrapai_monitor.db.tables import conversations, token_records, tool_calls

if TYPE_CHECKING:
    from pywrapai import Message, ToolCall, ToolResult

_DAY_US = 24 * 60 * 60 * 1_000_000
_ATTEMPTS = 5


class _Unit:
    """What one thread has open: rows to write, and a connection if it had to begin early."""

    __slots__ = ("batch", "connection", "failed", "held")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.connection: Connection | None = None
        self.held = ExitStack()
        self.failed = False


class SQLStore(BaseStore):
    """All nineteen methods. Rows are written at the end of a transaction, reads see them before.

    `clock` returns nanoseconds since 1970.
    """

    _lanes: ClassVar[int] = 1
    """Over how many rows a hot total is spread; above 1 where a row is locked until commit."""

    def __init__(
        self, engine: Engine, *, name: str | None = None, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._engine = engine
        self._name = name or engine.url.render_as_string(hide_password=True)
        self._clock = clock
        self._local = threading.local()
        self._writer = Writer(engine.dialect, self._upsert)
        self._prompts = registry.Prompts(self._upsert)
        with self._errors():
            self._open()
        survive_fork(self)

    # What a database has of its own

    @abstractmethod
    def _upsert(self, table: Table, keys: Sequence[str], merge: Merge) -> Insert:
        """Insert a row or, where one with these keys is there, merge into it."""

    def _open(self) -> None:
        """Make the schema where there is none."""
        with self._begin() as conn:
            self._lock_schema(conn)
            prepare(conn, self._name)

    def _lock_schema(self, conn: Connection) -> None:
        """Wait until no other process makes the schema; unnecessary where `_begin` does that."""

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        """A connection in a transaction that will write."""
        with self._engine.begin() as conn:
            yield conn

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """A connection to read from."""
        with self._engine.connect() as conn:
            yield conn

    def _passes(self, error: BaseException) -> bool:
        """Whether the same transaction, tried again, may well succeed: a deadlock, say."""
        return False

    def _advice(self, error: BaseException) -> str:
        """What the user can do about this error; empty if we do not know."""
        return ""

    def _before_fork(self) -> None:
        """Called in the parent, which must not wait long."""

    def _after_fork(self, in_child: bool) -> None:
        if in_child:
            self._local = threading.local()
            self._engine.dispose(close=False)  # the connections are the parent's

    # Transactions

    @contextmanager
    @override
    def transaction(self) -> Iterator[None]:
        if (outer := self._current()) is not None:
            with self._joined(outer):
                yield
            return
        unit = self._local.unit = _Unit(self._new_batch())
        try:
            yield
            with self._errors():
                self._commit(unit)
        except BaseException as exc:
            unit.held.__exit__(type(exc), exc, exc.__traceback__)
            raise
        finally:
            self._local.unit = None

    @contextmanager
    def _joined(self, outer: _Unit) -> Iterator[None]:
        try:
            yield
        except BaseException:
            outer.failed = True
            raise

    def _current(self) -> _Unit | None:
        unit: _Unit | None = getattr(self._local, "unit", None)
        if unit is not None and unit.failed:
            raise StoreError(
                f"{self._name}: this transaction was given up, because a part of it failed; "
                f"nothing of it is kept: let the error leave `with store.transaction()`"
            )
        return unit

    def _commit(self, unit: _Unit) -> None:
        self._local.unit = unit
        self._current()
        if unit.connection is not None:
            self._writer.write(unit.connection, unit.batch)
            unit.held.close()
        elif unit.batch:
            self._write(unit.batch)

    def _write(self, batch: Batch) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._begin() as conn:
                    self._writer.write(conn, batch)
                return
            except self._driver_errors() as exc:
                if attempt == _ATTEMPTS or not self._passes(exc):
                    raise
            time.sleep(0.01 * 2**attempt)

    def _new_batch(self) -> Batch:
        return Batch(self._now(), randrange(self._lanes) if self._lanes > 1 else 0)

    def _now(self) -> int:
        return self._clock() // 1000
