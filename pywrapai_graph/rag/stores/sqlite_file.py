"""An SQLite file, or memory, as a store uses it: connections, transactions, locks and errors.

What is in the tables is the store's own business.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from pywrapai_graph.rag.errors import VectorStoreError

MEMORY = ":memory:"
_BUSY_TIMEOUT_S = 30.0
_FORK_WAIT_S = 5.0
_WAL_LIMIT_BYTES = 64 * 1024 * 1024


class SQLiteFile:
    """One connection that reads and one that writes; in memory it is one for both.

    Whoever needs several locks takes them in the order `_write_lock`, `refreshing`, `_use_lock`.
    `refreshing` is the store's, for what it has in memory.
    """

    def __init__(self, db_path: str | os.PathLike[str]) -> None:
        self.path = _checked_path(db_path)
        self.generation = 0
        """Another one when what was read before may have been read by halves."""
        self._in_memory = self.path == MEMORY
        self._unusable = ""
        self._seal: tuple[int, ...] | None = None
        self._opened = 0
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._new_locks()
        _OPEN.add(self)

    def _new_locks(self) -> None:
        self._write_lock = threading.Lock()
        self.refreshing = threading.Lock()
        self._use_lock = threading.Lock()
        self._held: list[threading.Lock] = []

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of one query."""
        with self._use_lock:
            return self._read(query, values)

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            rows = self._reading_connection().execute(query, values).fetchall()
        except _DRIVER_ERRORS as error:
            raise self._explained(error) from error
        self._check_seal()
        return rows

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For several queries, which see one state of the file."""
        with self._use_lock:
            try:
                connection = self._reading_connection()
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:
                        connection.execute("COMMIT")
            except _DRIVER_ERRORS as error:
                raise self._explained(error) from error
            self._check_seal()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it, or nothing. Threads queue here, and processes at the file."""
        with self._write_lock, self._use_lock if self._in_memory else nullcontext():
            try:
                connection = self._writing_connection()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except _DRIVER_ERRORS as error:
                raise self._explained(error) from error

    @contextmanager
    def still(self) -> Iterator[None]:
        """While this is open nobody writes, in this process or another, if it is ours to say."""
        with ExitStack() as held:
            if self._in_memory:
                held.enter_context(self._write_lock)
            else:
                with suppress(VectorStoreError):  # a file that we may only read
                    held.enter_context(self.writing())
            yield

    def version(self) -> tuple[int, int, int]:
        """Another one after every change, whoever made it."""
        with self._use_lock:
            [(by_others,)] = self._read("PRAGMA data_version")
            return self._opened, by_others, self._reading_connection().total_changes

    def close(self) -> None:
        """Nothing can be done from now on."""
        with self._write_lock, self._use_lock:
            self._unusable = "is closed: make a new store to use it again"
            self._close_connections()

    def _close_connections(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    def _reading_connection(self) -> sqlite3.Connection:
        self._check_usable()
        if self._reader is not None and self._is_stale():
            self._reader.close()
            self._reader = None
        if self._reader is None:
            self._reader = self._open_to_read()
            self._opened += 1
        return self._reader

    def _writing_connection(self) -> sqlite3.Connection:
        if self._in_memory:
            return self._reading_connection()
        self._check_usable()
        if self._writer is None:
            self._writer = _connection(self.path)
        return self._writer

    def _check_usable(self) -> None:
        if self._unusable:
            raise VectorStoreError(f"{self.path} {self._unusable}")

    def _open_to_read(self) -> sqlite3.Connection:
        """Where we can make no files beside a database that has none, it is read as it is.

        SQLite then takes no locks and sees no changes, so that we look for these ourselves.
        """
        self._seal = None
        try:
            return _connection(self.path)
        except sqlite3.OperationalError:
            if os.access(os.path.dirname(self.path), os.W_OK):
                raise
            self._seal = _seal_of(self.path)
            if self._seal is None:
                raise
            return _connection(f"{Path(self.path).as_uri()}?immutable=1")

    def _is_stale(self) -> bool:
        return self._seal is not None and self._seal != _seal_of(self.path)

    def _check_seal(self) -> None:
        if self._is_stale():
            self.generation += 1
            raise VectorStoreError(f"{self.path} was written while it was read: try again")

    def _explained(self, error: Exception) -> VectorStoreError:
        name = getattr(error, "sqlite_errorname", "")
        advice = "".join(f": {text}" for code, text in _ADVICE.items() if name.startswith(code))
        return VectorStoreError(f"{self.path}: {error}{advice}")

    def before_fork(self) -> None:
        """Let nothing be open, and nobody at work, at the moment of a fork.

        SQLite keeps its locks per process: a child born with the file open would believe to hold
        locks that only its parent holds, and could lose what it writes.
        """
        for lock in (self._write_lock, self.refreshing, self._use_lock):
            if not lock.acquire(timeout=_FORK_WAIT_S):
                return
            self._held.append(lock)
        if not self._in_memory:
            self._close_connections()

    def after_fork(self, in_child: bool) -> None:
        """Go on in the parent, and begin afresh in the child."""
        held, self._held = self._held, []
        if not in_child:
            for lock in held:
                lock.release()
            return
        self._new_locks()
        if len(held) < 3:
            self._abandon()

    def _abandon(self) -> None:
        _PARENTS.extend((self._reader, self._writer))
        self._reader = self._writer = None
        self.generation += 1
        if self._in_memory:
            self._unusable = "is not in this process: it was in use when the process was forked"


_OPEN: WeakSet[SQLiteFile] = WeakSet()
_PARENTS: list[sqlite3.Connection | None] = []  # open in the parent: closing them harms its file
_DRIVER_ERRORS = (sqlite3.Error, OverflowError)
_ADVICE = {
    "SQLITE_BUSY": "another process has held the lock for a long time; close or wait for it",
    "SQLITE_READONLY": "make the file and its directory writable for this user",
    "SQLITE_CANTOPEN": "make the file and its directory readable and writable for this user",
    "SQLITE_PERM": "make the file and its directory readable and writable for this user",
    "SQLITE_NOTADB": "this is no SQLite database; give another path, or move the file away",
    "SQLITE_CORRUPT": "the file is damaged; restore a copy of it, or try `sqlite3 FILE .recover`",
    "SQLITE_FULL": "the disk is full; free some space",
}


def _checked_path(db_path: str | os.PathLike[str]) -> str:
    """An absolute path, or ":memory:"."""
    path = os.fspath(db_path)
    if not isinstance(path, str):
        raise TypeError(f"db_path is a str or a Path, not {type(path).__name__}")
    if not path or "\0" in path:
        raise ValueError(f'db_path is {path!r}; expected the path of a file, or ":memory:"')
    if path == MEMORY:
        return path
    path = os.path.abspath(path)
    if os.path.isdir(path):
        raise VectorStoreError(f"{path}: this is a directory: give the path of a file in it")
    if not os.path.isdir(parent := os.path.dirname(path)):
        raise VectorStoreError(f"{path}: there is no directory {parent}: create it first")
    return path


def _connection(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,  # we begin ourselves; the driver would do it too late
        check_same_thread=False,
        uri=path.startswith("file://"),
    )
    try:
        if _uses_wal(connection):
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA journal_size_limit={_WAL_LIMIT_BYTES}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _uses_wal(connection: sqlite3.Connection) -> bool:
    """Turn to write-ahead logging, in which readers and a writer do not wait for each other.

    Some file systems cannot share its memory; there the file keeps its rollback journal.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            return bool(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal")
        except sqlite3.OperationalError as error:
            # The switch does not wait for others that are switching, whatever the timeout.
            busy = error.sqlite_errorname.startswith("SQLITE_BUSY")
            if not busy or time.monotonic() > deadline:
                return False
        time.sleep(0.01)


def _seal_of(path: str) -> tuple[int, ...] | None:
    """What changes when a file is written; None where the last changes are in a log beside it."""
    try:
        file = os.stat(path)
    except OSError:
        return None
    with suppress(OSError):
        if os.stat(f"{path}-wal").st_size:
            return None
    return file.st_ino, file.st_size, file.st_mtime_ns


def _before_fork() -> None:
    for file in list(_OPEN):
        file.before_fork()


def _after_fork(in_child: bool) -> None:
    for file in list(_OPEN):
        file.after_fork(in_child)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
