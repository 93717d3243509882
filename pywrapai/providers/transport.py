"""HTTP connections: one pool for the sync callers of a process, one for each event loop.

All providers share them, so a second LLM costs no new TLS context (27 ms) and finds connections
open. A pool never crosses a fork or outlives its event loop, and neither does an SDK client,
which lives in the pool that it uses.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from pywrapai.core.process import after_fork_in_child

if TYPE_CHECKING:
    import ssl
    from asyncio import AbstractEventLoop

    import httpx2

H = TypeVar("H")
S = TypeVar("S")


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


_lock = threading.Lock()
_tls: ssl.SSLContext | None = None
_pool: Pool[httpx2.Client] | None = None
_apools: dict[AbstractEventLoop, Pool[httpx2.AsyncClient]] = {}
_owners: dict[AbstractEventLoop, AsyncGenerator[None, None]] = {}


def pool() -> Pool[httpx2.Client]:
    """The pool for the sync calls of this process."""
    global _pool
    if _pool is None:
        import httpx2

        with _lock:
            if _pool is None:
                _pool = Pool(httpx2.Client(**_settings()))
    return _pool


async def apool() -> Pool[httpx2.AsyncClient]:
    """The pool for the async calls of the running event loop; closed when that shuts down."""
    import asyncio

    loop = asyncio.get_running_loop()
    known = _apools.get(loop)
    if known is None:
        import httpx2

        with _lock:
            http = httpx2.AsyncClient(**_settings())
            known = _apools[loop] = Pool(http)
            _forget_closed_loops()
        # What a loop closes in good order before it ends are its suspended async generators
        # (loop.shutdown_asyncgens, called by asyncio.run), so one of them owns the connections.
        _owners[loop] = owner = _own(http, loop)
        await anext(owner)
    return known


async def _own(http: httpx2.AsyncClient, loop: AbstractEventLoop) -> AsyncGenerator[None, None]:
    try:
        async with http:
            yield
    finally:
        _apools.pop(loop, None)
        _owners.pop(loop, None)


def _forget_closed_loops() -> None:
    for loop in [loop for loop in _apools if loop.is_closed()]:
        _apools.pop(loop, None)
        _owners.pop(loop, None)


def _settings() -> dict[str, Any]:
    import httpx2

    global _tls
    if _tls is None:
        _tls = httpx2.create_ssl_context()
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
    return {"verify": _tls, "limits": limits, "follow_redirects": True}


def _after_fork() -> None:
    """Forget the parent's sockets in the child; the parent goes on using them."""
    global _lock, _pool
    _lock = threading.Lock()
    _pool = None
    _apools.clear()
    _owners.clear()


def _at_exit() -> None:
    if _pool is not None:
        _pool.http.close()


after_fork_in_child(_after_fork)
atexit.register(_at_exit)
