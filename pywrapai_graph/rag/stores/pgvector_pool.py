"""Connections to one PostgreSQL database: shared by threads, healed after a drop, told in words."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from pywrapai.core.extras import needs
from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError

T = TypeVar("T")

# What libpq is given where the connection string does not say otherwise. A server that vanished
# without a word is noticed within a minute, and a firewall sees that the connection is in use.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
    "fallback_application_name": "pywrapai",
}
_ATTEMPTS = 5
_LOSSES = 2  # a server that goes down may still have given out a connection that it then cuts
_STARTUP_S = 10.0
_STARTUP_POLL_S = 0.1
# How a server says, in English alone, that it will be there; the last is said by one that is
# taken down, and by what is no PostgreSQL, too.
_STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting connections")
_CLOSED = "closed the connection unexpectedly"
# admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout,
# idle_in_transaction_session_timeout, connection_does_not_exist, connection_failure
_GONE = {"57P01", "57P02", "57P03", "57P05", "25P03", "08003", "08006"}
# unique_violation, serialization_failure, deadlock_detected, duplicate_object, duplicate_table
_CONFLICTS = {"23505", "40001", "40P01", "42710", "42P07"}
_WRONG_DATA = "22000"  # pgvector's, for a vector of another size; its values were checked before
_ADVICE = {
    "25006": "this server is read-only: connect to the primary",
    "42501": "grant this user what is missing, or connect as the owner of the table",
    "42P01": "somebody dropped the table: open the store again, which makes it",
    "53100": "the disk of the server is full: free some space",
    "57014": "the server's statement_timeout ended it, or an administrator: raise the timeout",
}
_WRONG_STRING = (
    "connection_string is nothing that PostgreSQL understands; expected "
    "'postgresql://user:password@host:5432/database', with @, :, / and % in user and password "
    "written as %40, %3A, %2F and %25"
)


class Connections:
    """At most `size` connections, made when they are needed; each call has one to itself.

    A call whose connection was lost is done again on a new one, and one that collided with another
    writer, too; so it must bear being done twice. A forked child makes its own connections.
    """

    def __init__(self, connection_string: str, size: int, owner: str) -> None:
        with needs("pgvector"):
            import psycopg2
            import psycopg2.extensions
        self.driver: Any = psycopg2
        self._parameters = _parsed(self.driver, connection_string)
        self._size = size
        self._owner = owner
        self._closed = False
        self.place = _place(self._parameters)
        self._start()

    def _start(self) -> None:
        """Begin with no connections. A child only forgets its parent's, whose sockets these are."""
        self._free = threading.BoundedSemaphore(self._size)
        self._idle: list[Any] = []
        self._pid = os.getpid()  # last: another thread of the child may look at it meanwhile

    def run(self, work: Callable[[Any, int], T]) -> T:
        """What `work` makes of a cursor and the number of the attempt, from 0.

        Outside of transactions that `work` begins itself, each execute() is one.

        Raises:
            VectorStoreError: the server cannot be reached, or refused; the driver's error is the
                cause.
        """
        if self._pid != os.getpid():
            self._start()
        with self._free:
            for attempt in range(_ATTEMPTS):
                self.check_open()
                connection = self._idle_one() or self._connect(again=attempt > 0)
                try:
                    with connection.cursor() as cursor:
                        result = work(cursor, attempt)
                except BaseException as error:
                    self._give_up_unless_it_may_pass(connection, error, attempt)
                else:
                    self._keep(connection)
                    return result
        raise AssertionError("the last attempt returns or raises")

    def _keep(self, connection: Any) -> None:
        self._idle.append(connection)
        if self._closed:
            self._forget_idle()

    def _give_up_unless_it_may_pass(self, connection: Any, error: Any, attempt: int) -> None:
        """Whatever failed, its connection is closed, and with that what it had begun is undone."""
        from_driver = isinstance(error, self.driver.Error)
        lost = from_driver and (bool(connection.closed) or error.pgcode in _GONE)
        connection.close()
        if lost:
            self._forget_idle()  # most likely they are lost, too
        if not from_driver:
            raise error
        conflict = error.pgcode in _CONFLICTS and attempt + 1 < _ATTEMPTS
        if not conflict and not (lost and attempt < _LOSSES):
            raise self._explained(error) from error

    def check_open(self) -> None:
        """VectorStoreError once `close` was called."""
        if self._closed:
            raise VectorStoreError(f"this {self._owner} is closed: make a new one")

    def close(self) -> None:
        """Close the connections: the idle ones now, others when their call has ended."""
        self._closed = True
        if self._pid == os.getpid():
            self._forget_idle()

    def _idle_one(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _forget_idle(self) -> None:
        while (connection := self._idle_one()) is not None:
            connection.close()

    def _connect(self, *, again: bool) -> Any:
        """A new connection. A server that is starting is waited for."""
        deadline = time.monotonic() + _STARTUP_S
        signs = (*_STARTING, _CLOSED) if again else _STARTING
        while True:
            try:
                connection = self.driver.connect(**self._parameters)
                break
            except self.driver.Error as error:
                text = _one_line(error)
                if not any(sign in text for sign in signs) or time.monotonic() > deadline:
                    raise VectorStoreError(
                        f"cannot connect to PostgreSQL at {self.place}: {text}"
                    ) from error
            time.sleep(_STARTUP_POLL_S)
        connection.autocommit = True
        return connection

    def _explained(self, error: Any) -> Exception:
        text = error.diag.message_primary or _one_line(error)
        if error.pgcode == _WRONG_DATA:
            return DimensionMismatchError(f"PostgreSQL at {self.place}: {text}")
        advice = _ADVICE.get(error.pgcode, "")
        return VectorStoreError(
            f"PostgreSQL at {self.place}: {text}" + (f"; {advice}" if advice else "")
        )


def _parsed(driver: Any, connection_string: str) -> dict[str, Any]:
    if not isinstance(connection_string, str):
        raise TypeError(f"connection_string is a str, not {type(connection_string).__name__}")
    try:
        given: dict[str, Any] = driver.extensions.parse_dsn(connection_string)
    except (driver.Error, UnicodeEncodeError):
        raise ValueError(_WRONG_STRING) from None  # libpq's text may have the password in it
    if "@" in given.get("host", "")[1:]:  # a password's own: what follows it would be shown
        raise ValueError(_WRONG_STRING)
    defaults = dict(_DEFAULTS)
    if "PGCONNECT_TIMEOUT" in os.environ:
        del defaults["connect_timeout"]
    return defaults | given | {"client_encoding": "UTF8"}


def _place(parameters: dict[str, Any]) -> str:
    host = parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOST")
    port = parameters.get("port") or os.environ.get("PGPORT", "5432")
    return f"{host or 'localhost'}:{port}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
