"""A MariaDB or MySQL for the tests: the one of PYWRAPAI_TEST_MYSQL_URL, or the machine's own.

A module of tests imports the fixtures:

    from tests.mariadb import mariadb, mariadb_url  # noqa: F401
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pymysql
import pytest

OWN_URL = "mysql://root@127.0.0.1:3306/"
HOW_TO_START = (
    "start one with `apt-get install mariadb-server && service mariadb start` and let root in "
    "without a password, or set PYWRAPAI_TEST_MYSQL_URL=mysql://user:password@host/ to a user who "
    "may make databases"
)


class MariaDB:
    """A running server; `url` is of a user who may make databases."""

    def __init__(self, url: str) -> None:
        self.url = url

    def connect(self, url: str | None = None) -> Any:
        """A connection that commits each statement, to a database or to none."""
        parts = urlsplit(url or self.url)
        return pymysql.connect(
            host=parts.hostname,
            port=parts.port or 3306,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=parts.path.lstrip("/") or None,
            autocommit=True,
            ssl_disabled=True,
        )

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """What a statement gives, run by itself."""
        connection = self.connect(url)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def url_of(self, database: str) -> str:
        """The URL of a database of this server."""
        return urlsplit(self.url)._replace(path=f"/{database}").geturl()

    @contextmanager
    def database(self, options: str = "") -> Iterator[str]:
        """The URL of a new database, which is dropped in the end."""
        name = f"pywrapai_test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} {options}")
        try:
            yield self.url_of(name)
        finally:
            self.execute(f"DROP DATABASE {name}")


def missing(server: str, how_to_start: str) -> None:
    """In CI there is every server, so that one is missing is a failure; elsewhere it is a skip."""
    message = f"there is no {server} to test with: {how_to_start}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def mariadb() -> MariaDB:
    server = MariaDB(os.environ.get("PYWRAPAI_TEST_MYSQL_URL") or OWN_URL)
    try:
        server.execute("SELECT 1")
    except pymysql.OperationalError as exc:
        missing("MariaDB", f"{exc}; {HOW_TO_START}")
    return server


@pytest.fixture(scope="session")
def mariadb_url(mariadb: MariaDB) -> Iterator[str]:
    """The URL of a database that all tests of the session share."""
    with mariadb.database() as url:
        yield url
