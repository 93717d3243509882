"""What an SQL store does with its database: open it, begin and end, explain errors, survive forks.

A backend's own file overrides the hooks at the top of `TransactionalStore` and nothing else.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import randrange
from typing import ClassVar, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.sql.dml import Insert
from typing_extensions import override

from pywrapai_monitor.db.base import BaseStore, Row, StoreError
from pywrapai_monitor.db.batch import Batch, Merge, Writer
from pywrapai_monitor.db.schema import prepare

T = TypeVar("T")

_PAUSES_S = (0.01, 0.03, 0.1, 0.3)


class _Unit:
    """What one thread has open: rows to write, and a connection if it had to begin early."""

    __slots__ = ("batch", "connection", "failed", "held")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.connection: Connection | None = None
        self.held = ExitStack()
        self.failed = False

    def give_up(self, error: BaseException) -> None:
        """Roll back now: the lock is not ours to keep while the error travels."""
        self.failed = True
        self.connection = None
        self.held.pop_all().__exit__(type(error), error, error.__traceback__)


class TransactionalStore(BaseStore):
    """Rows are gathered per thread and written at the end of its transaction.

    `clock` returns nanoseconds since 1970.
    """

    _lanes: ClassVar[int] = 1
    """Over how many rows a hot total is spread; above 1 where a row is locked until the commit."""

    def __init__(
        self, engine: Engine, *, name: str = "", clock: Callable[[], int] = time.time_ns
    ) -> None:
        engine.hide_parameters = True  # an error must not repeat what users wrote
        self._engine = engine
        self._name = name or engine.url.render_as_string(hide_password=True)
        self._clock = clock
        self._local = threading.local()
        self._writer = Writer(engine.dialect, self._upsert)
        self._driver_errors = (SQLAlchemyError, engine.dialect.loaded_dbapi.Error)
        try:
            with self._errors():
                self._open()
        except BaseException:
            engine.dispose()
            raise
        _OPEN_STORES.add(self)

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
        """Wait until no other process makes the schema; nothing to do where `_begin` waits."""

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
        """Whether the same transaction may well succeed at once, as after a deadlock."""
        return False

    def _advice(self, error: BaseException) -> str:
        """What the user can do about an error, where we know."""
        return ""

    def _before_fork(self) -> None:
        """Runs in the parent."""

    def _after_fork(self, in_child: bool) -> None:
        """Runs in both."""
        if in_child:
            self._local = threading.local()
            self._engine.dispose(close=False)  # the connections are the parent's

    # What the methods of a store stand on

    @override
    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    @override
    def transaction(self) -> Iterator[None]:
        if (outer := self._unit()) is not None:
            with self._joined(outer):
                yield
            return
        unit = self._local.unit = _Unit(self._new_batch())
        try:
            yield
            with self._errors():
                self._commit(unit)
        except BaseException as exc:
            unit.give_up(exc)
            raise
        finally:
            self._local.unit = None

    def _save(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows, in this thread's transaction or in one of their own."""
        unit = self._unit()
        batch = self._new_batch() if unit is None else unit.batch
        for row in rows:
            batch.add(table, row)
        if unit is None and batch:
            with self._errors():
                self._attempt(lambda conn: self._writer.write(conn, batch))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A connection that sees what this thread has saved."""
        unit = self._unit()
        with self._errors():
            if unit is None:
                with self._connect() as conn:
                    yield conn
                return
            try:
                yield self._begun(unit)
            except self._driver_errors as exc:
                unit.give_up(exc)
                raise

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Let `work` write, in this thread's transaction or in one of its own.

        One of its own is tried again after a deadlock, so `work` may run several times.
        """
        if self._unit() is not None:
            with self._reading() as conn:
                return work(conn)
        with self._errors():
            return self._attempt(work)

    def _now(self) -> int:
        """Microseconds since 1970."""
        return self._clock() // 1000

    def _unit(self) -> _Unit | None:
        unit: _Unit | None = getattr(self._local, "unit", None)
        if unit is not None and unit.failed:
            raise StoreError(
                f"{self._name}: this transaction was given up because a part of it failed, and "
                f"nothing of it is kept: let the error leave `with store.transaction()`"
            )
        return unit

    @contextmanager
    def _joined(self, outer: _Unit) -> Iterator[None]:
        try:
            yield
        except BaseException:
            outer.failed = True
            raise

    def _begun(self, unit: _Unit) -> Connection:
        if unit.connection is None:
            unit.connection = unit.held.enter_context(self._begin())
        if unit.batch:
            self._writer.write(unit.connection, unit.batch)
            unit.batch = unit.batch.next()
        return unit.connection

    def _commit(self, unit: _Unit) -> None:
        self._unit()
        if unit.connection is not None:
            self._begun(unit)
            unit.held.close()
        elif unit.batch:
            self._attempt(lambda conn: self._writer.write(conn, unit.batch))

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        for pause_s in _PAUSES_S:
            try:
                with self._begin() as conn:
                    return work(conn)
            except self._driver_errors as exc:
                if not self._passes(exc):
                    raise
            time.sleep(pause_s)
        with self._begin() as conn:
            return work(conn)

    def _new_batch(self) -> Batch:
        return Batch(self._now(), randrange(self._lanes) if self._lanes > 1 else 0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._driver_errors as exc:
            cause = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
            advice = self._advice(cause)
            raise StoreError(f"{self._name}: {cause}" + (f": {advice}" if advice else "")) from exc


_OPEN_STORES: WeakSet[TransactionalStore] = WeakSet()


def _before_fork() -> None:
    for store in list(_OPEN_STORES):
        store._before_fork()


def _after_fork(in_child: bool) -> None:
    for store in list(_OPEN_STORES):
        store._after_fork(in_child)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
