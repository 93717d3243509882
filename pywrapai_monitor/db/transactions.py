"""What an SQL store does with its database: open it, begin and end, explain errors, survive forks.

A backend's own file overrides the hooks at the top of `TransactionalStore` and nothing else.
"""

from __future__ import annotations

# It has hooks for forks: if another thread imported it while ours wait, half of them would run.
import concurrent.futures.thread  # noqa: F401
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from random import randrange
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, PoolProxiedConnection, Table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql.dml import Insert
from typing_extensions import override

from pywrapai_monitor.db.base import BaseStore, Row, StoreError
from pywrapai_monitor.db.batch import Batch, Merge, Statement, Writer
from pywrapai_monitor.db.schema import prepare
from pywrapai_monitor.db.totals import Totals

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
    _deletion_s: ClassVar[float] = 0.03
    """How long a transaction may take that deletes some rows of many; then others have their turn.
    Most of it is over when it locks the totals, which is what others wait for."""
    _product_name: ClassVar[str]
    _about: ClassVar[str]
    """Selects the version of the product, and how many bytes the database has."""
    _turn: AbstractContextManager[Any] = nullcontext()
    """Held by the thread that writes, where the database has one writer at a time."""

    def __init__(
        self, engine: Engine, *, name: str = "", clock: Callable[[], int] = time.time_ns
    ) -> None:
        engine.hide_parameters = True  # an error must not repeat what users wrote
        self._engine = engine
        self._name = name or engine.url.render_as_string(hide_password=True)
        self._clock = clock
        self._local = threading.local()
        self._writer = Writer(engine.dialect, self._upsert)
        self._driver = engine.dialect.loaded_dbapi
        self._driver_errors = (SQLAlchemyError, self._driver.Error)
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
        with self._for_schema() as conn:
            self._lock_schema(conn)
            prepare(conn, self._name, self._write_totals)

    def _for_schema(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction that changes the schema."""
        return self._begin()

    def _lock_schema(self, conn: Connection) -> None:
        """Wait until no other process makes the schema; nothing to do where `_begin` waits."""

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        """A connection in a transaction that will write."""
        with self._turn, self._engine.begin() as conn:
            self._start(_cursor(conn))
            yield conn

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """A connection to read from."""
        with self._engine.connect() as conn:
            yield conn

    def _start(self, cursor: Any) -> None:
        """Begin a transaction that will write, where the driver does not do it itself."""

    def _take(self) -> PoolProxiedConnection:
        """The driver's connection, to write rows with."""
        return self._engine.raw_connection()

    def _give_back(self, connection: PoolProxiedConnection) -> None:
        """It is in no transaction any more."""
        connection.close()

    def _run(self, cursor: Any, statements: Sequence[Statement]) -> None:
        """Execute inserts, in their order, with as few round trips as the driver can."""
        for text, rows in statements:
            if len(rows) == 1:
                cursor.execute(text, rows[0])
            else:
                cursor.executemany(text, rows)

    def _passes(self, error: BaseException) -> bool:
        """Whether the same transaction may well succeed at once, as after a deadlock."""
        return False

    def _is_lost(self, error: Any) -> bool:
        """Whether the driver's error means that its connection is of no use any more."""
        return self._engine.dialect.is_disconnect(error, None, None)

    def _is_away(self, error: BaseException) -> bool:
        """Whether the database is out of reach or cannot write now, and may later."""
        cause = getattr(error, "orig", error)
        away = (self._driver.OperationalError, self._driver.InterfaceError)
        return getattr(error, "connection_invalidated", False) or isinstance(cause, away)

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

    @property
    @override
    def location(self) -> str:
        return self._name

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
                self._keep(batch)

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
            return self._attempt(lambda: self._in_transaction(work))

    def _keep(self, batch: Batch) -> None:
        """Write a batch in a transaction of its own."""
        statements = self._writer.statements(batch)
        self._attempt(lambda: self._insert(statements))

    def _write_totals(self, conn: Connection, totals: Totals) -> None:
        """Add to the running totals."""
        self._run(_cursor(conn), list(self._writer.totals(totals)))

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
            statements = self._writer.statements(unit.batch)
            self._run(_cursor(unit.connection), statements)
            unit.batch = unit.batch.next()
        return unit.connection

    def _commit(self, unit: _Unit) -> None:
        self._unit()
        if unit.connection is not None:
            self._begun(unit)
            unit.held.close()
        elif unit.batch:
            self._keep(unit.batch)

    def _attempt(self, once: Callable[[], T]) -> T:
        for pause_s in _PAUSES_S:
            try:
                return once()
            except self._driver_errors as exc:
                if not self._passes(exc):
                    raise
            time.sleep(pause_s)
        return once()

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        with self._begin() as conn:
            return work(conn)

    def _insert(self, statements: Sequence[Statement]) -> None:
        """A turn is a few rows: SQLAlchemy's own way to run them would cost more than they do."""
        with self._turn:
            connection = self._take()
            try:
                # A cursor that outlives its turn keeps a file open that is closed for a fork.
                with closing(connection.cursor()) as cursor:
                    self._start(cursor)
                    self._run(cursor, statements)
                    connection.commit()
            except self._driver.Error as exc:
                raise self._rolled_back(connection, exc) from exc
            except BaseException:
                with suppress(self._driver.Error):
                    connection.rollback()
                raise
            finally:
                self._give_back(connection)

    def _rolled_back(self, connection: PoolProxiedConnection, error: Any) -> BaseException:
        """The error as SQLAlchemy would have raised it, after what it would have done."""
        lost = self._is_lost(error)
        if lost:
            connection.invalidate(error)
        else:
            with suppress(self._driver.Error):
                connection.rollback()
        wrapped: BaseException = DBAPIError.instance(
            None,
            None,
            error,
            self._driver.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=self._engine.dialect,
        )
        return wrapped

    def _new_batch(self) -> Batch:
        return Batch(self._now(), randrange(self._lanes) if self._lanes > 1 else 0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._driver_errors as exc:
            cause = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
            if self._is_lost(cause):
                self._engine.dispose()  # the idle connections were lost with this one
            advice = self._advice(cause)
            message = f"{self._name}: {cause}" + (f": {advice}" if advice else "")
            retryable = isinstance(exc, PoolTimeoutError) or self._is_away(exc)
            raise StoreError(message, retryable=retryable) from exc


def _cursor(conn: Connection) -> Any:
    return conn.connection.cursor()


_OPEN_STORES: WeakSet[TransactionalStore] = WeakSet()
_FORK_WAIT_S = 10.0
_forking = threading.Lock()
"""One fork after another: the end of one would let threads in that the next has sent out."""


def _before_fork() -> None:
    _forking.acquire(timeout=_FORK_WAIT_S)
    for store in list(_OPEN_STORES):
        store._before_fork()


def _after_fork(in_child: bool) -> None:
    global _forking
    for store in list(_OPEN_STORES):
        store._after_fork(in_child)
    if in_child:
        _forking = threading.Lock()
    elif _forking.locked():
        _forking.release()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
