"""HTTP connections: one pool for the sync callers of a process, one for each event loop.

All providers on one HTTP library share them, so a second LLM costs no new TLS context (27 ms) and
finds connections open. A pool never crosses a fork or outlives its event loop, and neither does an
SDK client, which lives in the pool that it uses.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.request import getproxies
from weakref import WeakKeyDictionary

from pywrapai.core.process import after_fork_in_child
from pywrapai.exceptions import ConfigurationError
from pywrapai.providers.lanes import Lanes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    import httpx
    import httpx2

H = TypeVar("H")
C = TypeVar("C")
A = TypeVar("A")
S = TypeVar("S")

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Pool(Generic[H]):
    """An HTTP client and the SDK clients that stand on it, one for each provider object."""

    def __init__(self, http: H) -> None:
        self.http = http
        self._sdks: WeakKeyDictionary[object, Any] = WeakKeyDictionary()

    def sdk(self, owner: object, make: Callable[[H], S]) -> S:
        """The owner's SDK client, made when it is first asked for."""
        known: S | None = self._sdks.get(owner)
        if known is None:
            known = self._sdks[owner] = make(self.http)
        return known

    def forget(self, owner: object) -> None:
        """Drop the owner's SDK client."""
        self._sdks.pop(owner, None)


class Pools(Generic[C, A]):
    """All pools of one HTTP library: `httpx2`, on which the SDKs stand, or `httpx`."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._tls: Any = None
        self._forget()
        after_fork_in_child(self._forget)
        atexit.register(self._at_exit)

    def _forget(self) -> None:
        """A forked child leaves its parent's sockets alone; the parent goes on using them."""
        self._lock = threading.Lock()
        self._pool: Pool[C] | None = None
        self._apools: dict[AbstractEventLoop, Pool[A]] = {}
        self._owners: dict[AbstractEventLoop, AsyncGenerator[None, None]] = {}

    def pool(self) -> Pool[C]:
        """The pool for the sync calls of this process."""
        known = self._pool
        if known is None:
            http = import_module(self._library)
            with self._lock, _environment(http):
                known = self._pool or Pool(http.Client(**self._settings(http)))
                self._pool = known
        return known

    async def apool(self) -> Pool[A]:
        """The pool for the async calls of the running event loop; closed when that shuts down."""
        import asyncio

        loop = asyncio.get_running_loop()
        known = self._apools.get(loop)
        if known is None:
            http = import_module(self._library)
            with self._lock, _environment(http):
                client = http.AsyncClient(**self._async_settings(http))
                known = self._apools[loop] = Pool(client)
                self._forget_closed_loops()
            # What a loop closes in good order before it ends are its suspended async generators
            # (loop.shutdown_asyncgens, called by asyncio.run): one of them owns the connections.
            self._owners[loop] = owner = self._own(client, loop)
            await anext(owner)
        return known

    async def _own(self, client: Any, loop: AbstractEventLoop) -> AsyncGenerator[None, None]:
        try:
            async with client:
                yield
        finally:
            self._apools.pop(loop, None)
            self._owners.pop(loop, None)

    def _forget_closed_loops(self) -> None:
        for loop in list(self._apools):  # a copy: other threads' loops come and go
            if loop.is_closed():
                self._apools.pop(loop, None)
                self._owners.pop(loop, None)

    def _settings(self, http: Any) -> dict[str, Any]:
        if self._tls is None:
            self._tls = http.create_ssl_context()
        return {
            "verify": self._tls,
            "limits": http.Limits(max_connections=1000, max_keepalive_connections=100),
            "follow_redirects": False,  # a redirect must not carry the key to another server
            # A proxy of the environment cannot reach a model server on this machine.
            "mounts": {f"all://{host}": None for host in _LOOPBACK},
        }

    def _async_settings(self, http: Any) -> dict[str, Any]:
        settings = self._settings(http)
        make = partial(http.AsyncHTTPTransport, verify=self._tls, limits=settings["limits"])
        # A mount yields to the more precise ones that a proxy of the environment makes.
        places = [*settings["mounts"], *([] if "all" in getproxies() else ["all://"])]
        return {**settings, "mounts": dict.fromkeys(places, Lanes(make, http.AsyncByteStream))}

    def _at_exit(self) -> None:
        client: Any = self._pool and self._pool.http
        if client is not None:
            client.close()


@contextmanager
def _environment(http: Any) -> Iterator[None]:
    """A client reads proxies and certificates from the environment, which may be wrong."""
    try:
        yield
    except (ImportError, OSError, ValueError, http.InvalidURL) as error:
        raise ConfigurationError(
            f"the environment asks for connections that cannot be made ({error}): look at "
            "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from error


HTTPX2: Pools[httpx2.Client, httpx2.AsyncClient] = Pools("httpx2")
HTTPX: Pools[httpx.Client, httpx.AsyncClient] = Pools("httpx")

pool = HTTPX2.pool
apool = HTTPX2.apool
