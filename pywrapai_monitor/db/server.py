"""What the stores on a database server share: their URL, and connections that heal when cut.

Nothing is held between two calls: a connection goes back to the pool when its statement is done,
so that any number of model calls may be under way over a few connections.
"""

from __future__ import annotations

import select
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from typing_extensions import override

from pywrapai.core.extras import needs
from pywrapai.exceptions import MissingDependencyError
from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.days import whole_number
from pywrapai_monitor.db.pool import Pool
from pywrapai_monitor.db.sql import SQLStore

CONNECT_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 60
LOCK_TIMEOUT_S = 5  # and then once more, up to five times
_POOL_TIMEOUT_S = 30.0
_RECYCLE_S = 30 * 60  # what stands between, as a load balancer, may spread the load anew
_IDLE_S = 30.0
_MOST_CONNECTIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What is known of a kind of server before one is connected to."""

    schemes: tuple[str, ...]
    dialect: str
    driver: str
    """Of a URL that names none."""
    extra: str
    port: int
    connect_args: Mapping[str, Mapping[str, Any]]
    """By driver: what it connects with where the URL does not say otherwise."""
    passing: frozenset[str | int]
    """Codes of deadlocks, of locks that others held for too long, and the like."""
    advice: Mapping[str | int | None, str]
    """What the user can do, by code."""


class ServerStore(SQLStore):
    """A store on a server. It may be shared by threads, and any number of processes may have one.

    A call for which no connection is free waits for one.
    """

    _lanes = 8  # a row that was added to is locked until the commit
    _product: ClassVar[Product]

    def __init__(
        self,
        url: str | URL,
        *,
        max_connections: int = 8,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        whole_number("max_connections", max_connections, _MOST_CONNECTIONS)
        self._url = parsed(url, self._product)
        engine = self._make_engine(
            self._url,
            self._product.connect_args.get(self._url.get_driver_name(), {}),
            poolclass=Pool,
            pool_size=max_connections,
            max_overflow=0,
            pool_timeout=_POOL_TIMEOUT_S,
            pool_recycle=_RECYCLE_S,
            pool_use_lifo=True,  # a quiet hour is served by one of them, and not by all in turn
        )
        event.listen(engine, "checkin", _note_time)
        event.listen(engine, "checkout", self._refuse_dead)
        super().__init__(engine, name=place(self._url, self._product), clock=clock)

    def _make_engine(self, url: URL, connect_args: Mapping[str, Any], **options: Any) -> Engine:
        ours = {name: arg for name, arg in connect_args.items() if name not in url.query}
        engine = _engine(url, self._product, connect_args=ours, **options)
        # First of all, so that SQLAlchemy finds the session as it will be.
        event.listen(engine, "connect", self._configure, insert=True)
        return engine

    def _configure(self, connection: Any, _record: Any) -> None:
        """Make a new connection independent of what the server's administrator likes."""

    def _refuse_dead(self, connection: Any, record: Any, _proxy: Any) -> None:
        """Let the pool replace a connection that was cut while it was idle.

        A ping would cost every call a round trip. A server that cuts a connection sends something,
        so silence is a good sign, and only a long one is not trusted: then a firewall may have
        forgotten the connection.
        """
        free_since = record.info.get(_FREE_SINCE)
        if free_since is None:
            return
        if time.monotonic() - free_since < _IDLE_S and _is_silent(connection):
            return
        try:
            self._engine.dialect.do_ping(connection)
            connection.rollback()
        except self._driver.Error as exc:
            raise DisconnectionError from exc

    @contextmanager
    @override
    def _errors(self) -> Iterator[None]:
        try:
            with super()._errors():
                yield
        except StoreError as exc:
            exc.args = (" ".join(exc.message.split()),)  # libpq writes several lines
            raise

    @abstractmethod
    def _code(self, error: Any) -> str | int | None:
        """What the server calls its error; None of those that are not the server's."""

    @override
    def _passes(self, error: BaseException) -> bool:
        return self._code(_cause(error)) in self._product.passing

    @override
    def _advice(self, error: BaseException) -> str:
        if isinstance(error, PoolTimeoutError):
            return "all connections were in use: give the store more of them with max_connections"
        return self._product.advice.get(self._code(error), "")

    @override
    def _is_away(self, error: BaseException) -> bool:
        code = self._code(_cause(error))
        if getattr(error, "connection_invalidated", False):
            return True
        return super()._is_away(error) if code is None else self._means_away(code)

    @abstractmethod
    def _means_away(self, code: Any) -> bool:
        """Whether that is said by a server that cannot write now, and may later."""


def _cause(error: BaseException) -> BaseException:
    """The driver's error, if it is one of SQLAlchemy's around that."""
    return getattr(error, "orig", None) or error


_FREE_SINCE = "pywrapai_free_since"


def _note_time(_connection: Any, record: Any) -> None:
    record.info[_FREE_SINCE] = time.monotonic()


def _is_silent(connection: Any) -> bool:
    """Whether the server has sent nothing since it was last asked; False where that is unknown."""
    try:
        socket = getattr(connection, "_sock", connection)  # PyMySQL gives no other access
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return not poll.poll(0)
    except Exception:  # closed, or another driver, or Windows
        return False


def parsed(url: str | URL, product: Product) -> URL:
    """The URL with its dialect and driver. ValueError, which repeats none of it, if it is none."""
    wrong = ValueError(
        f"this is no URL of {product.dialect}: expected '{product.schemes[0]}://user:password@host:"
        f"{product.port}/database', with @, :, / and % in user and password written as %40, %3A, "
        f"%2F and %25"
    )
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise wrong from None  # its text may have the password in it
    scheme, _, driver = found.drivername.partition("+")
    # An @ in the host is one of the password, and would be shown with what follows it.
    if scheme not in product.schemes or "@" in (found.host or ""):
        raise wrong
    if not 0 < (found.port or product.port) < 65536:
        raise wrong
    return found.set(drivername=f"{product.dialect}+{driver or product.driver}")


def place(url: URL, product: Product) -> str:
    """The server and the database as a URL, with the port and without a password."""
    host = url.host or url.query.get("host") or url.query.get("unix_socket") or "localhost"
    if not isinstance(host, str):
        host = ",".join(host)
    elif ":" in host:
        host = f"[{host}]"
    user = f"{url.username}@" if url.username else ""
    return f"{product.schemes[0]}://{user}{host}:{url.port or product.port}/{url.database or ''}"


def _engine(url: URL, product: Product, **options: Any) -> Engine:
    try:
        if url.get_driver_name() == product.driver:
            with needs(product.extra):
                engine = create_engine(url, **options)
        else:
            engine = create_engine(url, **options)
    except MissingDependencyError:
        raise
    except ImportError as exc:
        raise MissingDependencyError(
            f"{exc.name} is not installed, which {url.drivername}:// stands for: install it, or "
            f"write {product.schemes[0]}:// for {product.driver}"
        ) from exc
    except ArgumentError as exc:
        raise ValueError(f"{url.drivername}:// names a driver that SQLAlchemy lacks") from exc
    if engine.dialect.is_async:
        raise ValueError(
            f"{url.drivername}:// is an async driver, and a store waits in threads: "
            f"write {product.schemes[0]}://"
        )
    return engine
