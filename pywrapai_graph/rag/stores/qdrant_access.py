"""Clients of Qdrant: in memory, in a folder, and of a server; their errors told in words."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pywrapai.core.extras import needs
from pywrapai.core.process import ProcessLock
from pywrapai.exceptions import PyWrapAIError
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.forking import stays_with_the_parent

_IN_MEMORY = ":memory:"
_SERVER_BYTES = 8e6
"""In one request; servers take 32 MB if nobody told them otherwise."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_INSECURE = "Api key is used with an insecure connection"


class MissingCollection(VectorStoreError):
    """The collection is not there, or not any more."""


class LocalAccess:
    """To Qdrant's local mode, which is Python in this process and not made for threads."""

    is_server = False
    most_chunks, most_bytes = 1 << 62, float("inf")

    def __init__(self, location: str) -> None:
        with needs("qdrant"):
            from qdrant_client import QdrantClient
        if "://" in location:
            raise ValueError(f"location is a folder or {_IN_MEMORY!r}; give {location!r} as url")
        self._in_memory = location == _IN_MEMORY
        self.place = location if self._in_memory else os.path.realpath(location)
        self._lock = ProcessLock()
        self._pid = os.getpid()
        self.closed = False
        with _explaining(self.place):
            if not self._in_memory:
                _check_free(self.place)
            self._client = QdrantClient(
                location=location if self._in_memory else None,
                path=None if self._in_memory else self.place,
                force_disable_check_same_thread=True,
            )
        if not self._in_memory:
            stays_with_the_parent(self._client)

    def ask(self, method: str, **options: Any) -> Any:
        """Call a method of the client, alone."""
        if self._pid != os.getpid() and not self._in_memory:
            raise VectorStoreError(
                f"the Qdrant folder {self.place} was opened before this process was forked, and "
                "stays with the parent: open it where it is used"
            )
        with self._lock:
            if self.closed:
                raise VectorStoreError("this QdrantVectorStore is closed: make another one")
            with _explaining(self.place):
                return getattr(self._client, method)(**options)

    def close(self) -> None:
        """Give the folder free. A child that was forked leaves it to the parent, whose it is."""
        with self._lock:
            if not self.closed and (self._in_memory or self._pid == os.getpid()):
                self._client.close()
            self.closed = True


class ServerAccess:
    """To a server, over HTTP. A process that was forked gets connections of its own."""

    is_server = True
    most_chunks, most_bytes = 1000, _SERVER_BYTES

    def __init__(self, url: str, api_key: str | None, timeout: float) -> None:
        with needs("qdrant"):
            import qdrant_client  # noqa: F401
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError('url is no address of a server such as "http://localhost:6333"')
        if api_key and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            warnings.warn(
                f"the api_key for {parts.hostname} goes over http, where others can read it: "
                "use https",
                stacklevel=3,
            )
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without a password
        self._url, self._key, self._timeout = url, api_key, timeout
        self.closed = False
        self._connect()

    def _connect(self) -> None:
        from qdrant_client import QdrantClient

        # Its check of versions is a thread that asks the server, and warns where it cannot.
        options: dict[str, Any] = {"timeout": self._timeout, "check_compatibility": False}
        if self._url.startswith("http:"):
            options["verify"] = False  # to load certificates takes 60 ms, and there are none
        with _explaining(self.place), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_INSECURE)
            self._client = QdrantClient(url=self._url, api_key=self._key, **options)
        self._pid = os.getpid()

    def ask(self, method: str, **options: Any) -> Any:
        """Call a method of the client."""
        if self.closed:
            raise VectorStoreError("this QdrantVectorStore is closed: make another one")
        if self._pid != os.getpid():
            self._connect()
        with _explaining(self.place):
            return getattr(self._client, method)(**options)

    def close(self) -> None:
        """Close the connections."""
        if not self.closed and self._pid == os.getpid():
            self._client.close()
        self.closed = True


def _check_free(folder: str) -> None:
    """The client sees that a folder is in use only after it has loaded it, and leaks the lock."""
    import portalocker

    path = os.path.join(folder, ".lock")
    if not os.path.exists(path):
        return
    with open(path, "r+") as file:
        try:
            portalocker.lock(
                file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
            )
        except portalocker.LockException:
            raise VectorStoreError(
                f"another store has the Qdrant folder {folder} open: close() that one first, or "
                "run a server and give both its url"
            ) from None
        portalocker.unlock(file)


Access = LocalAccess | ServerAccess


@contextmanager
def _explaining(place: str) -> Iterator[None]:
    try:
        yield
    except PyWrapAIError:
        raise
    except Exception as error:  # the client raises any kind
        raise _explained(place, error) from error


def _explained(place: str, error: Exception) -> VectorStoreError:
    import httpx
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    cause = error.source if isinstance(error, ResponseHandlingException) else error
    status = error.status_code if isinstance(error, UnexpectedResponse) else None
    kind, text = VectorStoreError, " ".join(str(cause).split()) or type(cause).__name__
    if status == 404 or (text.startswith("Collection ") and text.endswith(" not found")):
        kind = MissingCollection
    elif status in (401, 403):
        text = f"the server refuses the api_key: {text}"
    elif isinstance(cause, httpx.TimeoutException):
        text = f"no answer in time ({type(cause).__name__}): give a longer timeout"
    elif isinstance(cause, httpx.TransportError):
        text = f"cannot reach a server there: {text}"
    return kind(f"Qdrant at {place}: {text}")
