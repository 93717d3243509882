"""The database that a command works on: looked at as it is, and never made by looking."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from typing_extensions import override

from pywrapai.core.extras import needs
from pywrapai_monitor.db.base import BaseStore, StoreError
from pywrapai_monitor.db.urls import STORES, store_from_url
from pywrapai_monitor.spool_files import spool_dir_of

_BUSY_TIMEOUT_S = 10.0


@contextmanager
def existing(url: str) -> Iterator[BaseStore]:
    """The store of a database that is there and has our tables.

    StoreError if there is none, ConfigurationError and ValueError as store_from_url says.
    """
    with look_at(url) as found:
        found.require()
    with closing(store_from_url(url)) as store:
        yield store


class Found:
    """A database from outside. Nothing is connected to before it is asked."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @property
    def place(self) -> str:
        """Its path, or its URL without a password."""
        return str(self._store._name)

    @property
    def spool_dir(self) -> str:
        """Where its records wait."""
        return str(spool_dir_of(self._store))

    def version(self) -> int | None:
        """Of its schema; 0 if that is half made, None if it has none. StoreError."""
        with needs("monitor"):
            from sqlalchemy import inspect, select

            from pywrapai_monitor.db.tables import schema_info
        with self._store._reading() as conn:
            if not inspect(conn).has_table(schema_info.name):
                return None
            return conn.execute(select(schema_info.c.version)).scalar() or 0

    def require(self) -> int:
        """The version of its schema. StoreError if there is none."""
        version = self.version()
        if version is None:
            raise StoreError(
                f"{self.place}: no Monitor has made its tables there: check the path or URL"
            )
        return version


class FoundFile(Found):
    """A file of SQLite's."""

    @property
    def path(self) -> Path:
        """Where it is; it need not be there."""
        return Path(self.place)

    @override
    def version(self) -> int | None:
        with self.connected() as connection:
            table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_info'"
            if connection.execute(table).fetchone() is None:
                return None
            found = connection.execute("SELECT version FROM schema_info").fetchone()
            return int(found[0] or 0) if found else 0

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """A connection that begins no transaction by itself. StoreError, also for what is done
        with it.
        """
        if not self.path.exists():
            raise StoreError(f"there is no database at {self.place!r}: check the path")
        with self._store._errors():
            # Not read-only, which leaves the files of the write-ahead log behind.
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw",
                uri=True,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,
            )
            with closing(connection):
                yield connection


@contextmanager
def look_at(url: str) -> Iterator[Found]:
    """The database, whether it is there or not.

    ConfigurationError, MissingDependencyError and ValueError if this is no URL of one.
    """
    scheme = url.partition("://")[0].partition("+")[0] if "://" in url else "sqlite"
    if scheme not in STORES:
        store_from_url(url)  # says so
    home, name, extra = STORES[scheme]
    with needs(extra):
        store_class = getattr(import_module(home), name)
    store = type(name, (_Unopened, store_class), {})(os.fspath(url))
    if spool_dir_of(store) is None:
        raise ValueError("a database in memory is seen by the program alone that made it")
    with closing(store):
        yield FoundFile(store) if scheme == "sqlite" else Found(store)


class _Unopened:
    """Before the class of a store: one that does not even connect before it is asked."""

    def _open(self) -> None:
        pass
