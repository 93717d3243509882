"""The store in one SQLite file, or in memory: nothing to install, backed up by a file copy."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    PoolProxiedConnection,
    Table,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.dml import Insert
from typing_extensions import override

from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.batch import Merge, Statement
from pywrapai_monitor.db.gate import GATE, Turn
from pywrapai_monitor.db.pool import Pool
from pywrapai_monitor.db.sql import SQLStore

MEMORY = ":memory:"
_BUSY_TIMEOUT_S = 30.0
_IMPATIENT = "PRAGMA busy_timeout=5"
_PATIENT = f"PRAGMA busy_timeout={int(_BUSY_TIMEOUT_S * 1000)}"
_WAIT_S = 1.0
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
_CHECKPOINT_PAGES = 1000
_PAGES_OF_ROWS = 16  # a turn's, or a batch of them
_PAGES_OF_WORK = 500  # more than it may be, so that who purges does it, not who saves a turn
_TRANSIENT = {"SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_PROTOCOL"}
# Not SQLITE_ERROR, which is ours ("no such table"). A damaged file can be replaced by a good copy.
_AWAY = tuple(
    f"SQLITE_{name}"
    for name in (
        *("BUSY", "CANTOPEN", "CORRUPT", "FULL", "IOERR"),
        *("LOCKED", "NOTADB", "PERM", "PROTOCOL", "READONLY"),
    )
)
_REOPENED = ("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY")


class SQLiteStore(SQLStore):
    """A store in a file, given as a path or as "sqlite:///...", or in memory (":memory:").

    Any number of threads and processes may use one file at once. Every statement that fails, an
    unusable path included, is a StoreError.
    """

    _product_name = "SQLite"
    _about = (
        "SELECT sqlite_version(), page_count * page_size "
        "FROM pragma_page_count(), pragma_page_size()"
    )
    _deletion_s = 0.01  # in which nobody else can write
    _turn: Turn

    def __init__(
        self, db_path: str | os.PathLike[str], *, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._path = _database(db_path)
        self._in_memory = self._path == MEMORY
        # SQLite has one writer at a time and lets the others poll; our own threads queue up here.
        self._turn = Turn()
        self._checkpointing = threading.Lock()
        self._logged_pages = 0
        self._in_wal = False
        self._kept: PoolProxiedConnection | None = None
        self._opening = threading.RLock()
        self._is_opening = True
        self._file: tuple[int, int] | None = None
        if not self._in_memory:
            _check(Path(self._path))
        super().__init__(self._make_engine(), name=self._path, clock=clock)
        self._file = _identity(self._path)
        self._is_opening = False

    def _make_engine(self) -> Engine:
        engine = create_engine(
            URL.create("sqlite", database=self._path),
            poolclass=StaticPool if self._in_memory else Pool,
            connect_args={"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False},
        )
        event.listen(engine, "connect", self._configure)
        return engine

    def _configure(self, connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # we begin ourselves; the driver would do it too late
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        connection.execute("PRAGMA secure_delete=ON")  # by default, not everywhere
        self._in_wal = _uses_wal(connection)
        if self._in_wal:
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA journal_size_limit={_WAL_LIMIT_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint={8 * _CHECKPOINT_PAGES}")

    @override
    def _upsert(self, table: Table, keys: Sequence[str], merge: Merge) -> Insert:
        statement = insert(table)
        merged = merge(dict(table.c), dict(statement.excluded))
        return statement.on_conflict_do_update(index_elements=keys, set_=merged)

    # What is written into a file that somebody has deleted is lost, and SQLite does not say so.

    def _follow(self) -> None:
        """Where there is another file at the path by now, or none, turn to that."""
        if self._in_memory or _identity(self._path) == self._file:
            return
        with self._opening:
            found = _identity(self._path)
            if self._is_opening or found == self._file:
                return
            self._is_opening = True
            try:
                with self._turn:
                    self._let_go()
                    self._engine.dispose()
                self._open()
                self._file = _identity(self._path)
            finally:
                self._is_opening = False

    @contextmanager
    @override
    def _connect(self) -> Iterator[Connection]:
        self._follow()
        with self._turn if self._in_memory else GATE, self._engine.begin() as conn:
            _cursor(conn).execute("BEGIN")
            yield conn

    @override
    def _start(self, cursor: sqlite3.Cursor) -> None:
        # The lock is taken first: one asked for in mid-transaction may be refused at once.
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise

    # SQLite looks ever more rarely whether the lock is free, so that who has waited is overtaken.
    # Where it gives up soon, `_start` begins anew.

    @contextmanager
    @override
    def _begin(self) -> Iterator[Connection]:
        self._follow()
        with self._turn, self._engine.begin() as conn:
            with closing(_cursor(conn)) as cursor:  # one left open would keep the file open
                cursor.execute(_IMPATIENT)
                try:
                    self._start(cursor)
                finally:
                    cursor.execute(_PATIENT)
            yield conn
        if self._may_checkpoint(_PAGES_OF_WORK):
            self._checkpoint()

    # Whoever has the turn writes, so one connection serves all; the pool costs more than a row.

    @override
    def _take(self) -> PoolProxiedConnection:
        connection, self._kept = self._kept, None
        if connection is None:
            connection = super()._take()
            if self._in_wal:  # else its commit has to wait for readers, and must not give up
                connection.cursor().execute(_IMPATIENT)
        return connection

    @override
    def _give_back(self, connection: PoolProxiedConnection) -> None:
        if self._in_memory or not connection.is_valid:
            super()._give_back(connection)
        else:
            self._kept = connection

    @override
    def _insert(self, statements: Sequence[Statement]) -> None:
        self._follow()
        super()._insert(statements)
        if self._may_checkpoint(_PAGES_OF_ROWS):
            self._checkpoint_aside()

    # SQLite itself would move its log into the file in somebody's commit, while other threads wait
    # for their turn. It takes as long as the disk does: too long for who saves a turn. SQLite still
    # does it when turns are saved much faster than we move the log.

    def _may_checkpoint(self, pages: int) -> bool:
        """Count what went into the log. If that is enough by now, and nobody else is at it, the
        caller is to `_checkpoint`.
        """
        self._logged_pages += pages
        if self._logged_pages < _CHECKPOINT_PAGES or not self._in_wal:
            return False
        return self._checkpointing.acquire(blocking=False)

    def _checkpoint_aside(self) -> None:
        try:
            start_new_thread(self._checkpoint, ())  # a Thread would be waited for until it runs
        except RuntimeError:  # there are too many, or the interpreter is about to end
            self._checkpoint()

    def _checkpoint(self, mode: str = "PASSIVE") -> None:
        lock = self._checkpointing
        try:
            self._logged_pages = 0
            with (
                GATE,
                closing(self._engine.raw_connection()) as connection,
                closing(connection.cursor()) as cursor,
            ):
                cursor.execute(_IMPATIENT)
                try:
                    cursor.execute(f"PRAGMA wal_checkpoint({mode})")
                finally:
                    cursor.execute(_PATIENT)
        except (sqlite3.Error, SQLAlchemyError):
            pass  # what was written is written, and whatever it is will meet the next one
        finally:
            lock.release()

    @override
    def _delete_of(self, user_id: str, session_id: str | None) -> int:
        gone = super()._delete_of(user_id, session_id)
        # The log has it until it is emptied, which a reader or a writer may keep us from.
        if self._in_wal and self._unit() is None and self._checkpointing.acquire(timeout=_WAIT_S):
            self._checkpoint("TRUNCATE")
        return gone

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.invalidate()
            self._kept = None

    @override
    def close(self) -> None:
        if self._turn.acquire(timeout=_WAIT_S):  # not for ever: it may be this thread's own
            self._let_go()
            self._turn.release()
        if self._checkpointing.acquire(timeout=_WAIT_S):
            self._checkpointing.release()
        with GATE:
            super().close()

    @override
    def _passes(self, error: BaseException) -> bool:
        return _name(error) in _TRANSIENT

    @override
    def _is_lost(self, error: Any) -> bool:
        # What was opened where it could not be written stays so, and a moved file stays open.
        return _name(error).startswith(_REOPENED) and not self._in_memory

    @override
    def _is_away(self, error: BaseException) -> bool:
        return _name(error).startswith(_AWAY)

    @override
    def _advice(self, error: BaseException) -> str:
        name = _name(error)
        return next((advice for code, advice in _ADVICE.items() if name.startswith(code)), "")

    @override
    def _before_fork(self) -> None:
        # SQLite keeps its locks per process: a child born with the file open would believe to hold
        # locks that only its parent holds, and could lose what it writes. So nothing is open then.
        GATE.close()
        if not self._in_memory:
            self._let_go()
            self._engine.dispose()

    @override
    def _after_fork(self, in_child: bool) -> None:
        if in_child:
            GATE.begin()
            self._turn = Turn()
            self._checkpointing = threading.Lock()
            self._opening = threading.RLock()
            self._is_opening = False
            self._kept = None
            self._local = threading.local()
            if not self._in_memory:
                self._engine.dispose(close=False)
        else:
            GATE.open()


def _name(error: BaseException) -> str:
    """ "SQLITE_BUSY" and the like, of the driver's error or SQLAlchemy's; "" of others."""
    return getattr(getattr(error, "orig", error), "sqlite_errorname", "")


_ADVICE = {
    "SQLITE_BUSY": "another process has held the lock for a long time; close or wait for it",
    "SQLITE_READONLY": "make the file and its directory writable for this user",
    "SQLITE_CANTOPEN": "make the file and its directory readable and writable for this user",
    "SQLITE_PERM": "make the file and its directory readable and writable for this user",
    "SQLITE_NOTADB": "this is no SQLite database; give another path, or move the file away",
    "SQLITE_CORRUPT": "the file is damaged; restore a copy of it, or try `sqlite3 FILE .recover`",
    "SQLITE_FULL": "the disk is full; free some space",
}


def _database(db_path: str | os.PathLike[str]) -> str:
    """An absolute path, or ":memory:"."""
    text = os.fspath(db_path)
    if not isinstance(text, str):
        raise TypeError(f"db_path must be a str or a Path, not {type(text).__name__}")
    if text.startswith("sqlite") and "://" in text:
        text = _from_url(text)
    if not text:
        raise ValueError("db_path is empty: give a path, 'sqlite:///path.db' or ':memory:'")
    return text if text == MEMORY else os.path.abspath(text)


def _from_url(text: str) -> str:
    try:
        url = make_url(text)
    except ArgumentError as exc:
        raise ValueError(f"{text!r} is no SQLite URL: write 'sqlite:///path.db'") from exc
    if url.drivername not in ("sqlite", "sqlite+pysqlite") or url.host or url.query:
        raise ValueError(
            f"{text!r} is no SQLite URL that this store takes: write 'sqlite:///relative.db', "
            f"'sqlite:////absolute.db' or 'sqlite:///:memory:', without options"
        )
    return url.database or MEMORY


def _check(path: Path) -> None:
    """Say what SQLite would only call "unable to open database file"."""
    if path.is_dir():
        raise StoreError(f"{path}: this is a directory: give the path of a file in it")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no directory {path.parent}: create it first")


def _identity(path: str) -> tuple[int, int] | None:
    """Which file it is; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _uses_wal(connection: sqlite3.Connection) -> bool:
    """Turn to write-ahead logging, in which readers and a writer do not wait for each other.

    Some file systems cannot share its memory; there the file keeps its rollback journal.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            return bool(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal")
        except sqlite3.OperationalError as exc:
            # The switch does not wait for other processes that are switching, whatever the timeout.
            if not exc.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                return False
        time.sleep(0.01)


def _cursor(conn: Connection) -> sqlite3.Cursor:
    driver_connection = conn.connection.dbapi_connection
    assert isinstance(driver_connection, sqlite3.Connection)
    return driver_connection.cursor()


LibraryStore = SQLiteStore
"""The store's older name."""
