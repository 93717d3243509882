"""Clients of Chroma: of a folder, which one process has at a time, and of a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pywrapai.core.extras import needs
from pywrapai.core.filelock import HeldLock, hold
from pywrapai.core.process import ProcessLock, after_fork_in_child
from pywrapai.exceptions import PyWrapAIError
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.forking import stays_with_the_parent
from pywrapai_graph.rag.stores.locks import SharedLock

if TYPE_CHECKING:
    import httpx

_LOCK_FILE = "pywrapai.lock"
_PORT = 8000
_SERVER_BYTES = 16e6
"""In one request; servers take 40 MB if nobody told them otherwise."""
_ADVICE = {
    "hnsw": "the index is damaged: put the folder back from a backup, or remove it and add all "
    "documents again",
    "not a database": "put the folder back from a backup, or give another one",
    "malformed": "put the folder back from a backup, or remove it and add all documents again",
    "already exists for": "this process has the folder open with another client of Chroma: close "
    "that one",
    "Could not connect": "is it a server of Chroma?",
}


@dataclass(slots=True)
class Turns:
    """Whose turn it is, among the stores of this process that have one folder."""

    lock: SharedLock = field(default_factory=SharedLock)
    """Where reading and writing happen at once, Chroma mixes old and new, or fails."""
    changes: int = 0
    """How often somebody wrote."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Alone."""
        with self.lock.writing:
            self.changes += 1
            yield


@dataclass(slots=True)
class _Folder:
    """A folder that this process has, for as many stores as opened it."""

    held: HeldLock
    stores: int = 0
    turns: Turns = field(default_factory=Turns)


_folders: dict[str, _Folder] = {}
_opening = ProcessLock()
_used = False
_used_before_fork = False


def _forget() -> None:
    """In a child that was forked: what the parent opened is the parent's."""
    global _used_before_fork
    _used_before_fork = _used
    _folders.clear()  # their locks forget themselves


after_fork_in_child(_forget)


class FolderAccess:
    """To a folder on this machine.

    Two processes that write in one folder damage its index, and then chunks are not found, without
    any error: so it has a lock, which ends with the process.
    """

    most_bytes = float("inf")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with needs("chroma"):
            import chromadb
        global _used
        if _used_before_fork:
            raise VectorStoreError(
                "this process was forked from one that had opened a Chroma folder, and Chroma does "
                "not outlive that: start it by 'spawn', or give all processes the url of a server"
            )
        _used = True
        self.place = os.path.realpath(os.fspath(path))
        self._pid = os.getpid()
        self._closed = False
        with _opening, explaining(self.place):
            self.turns = _hold(self.place).turns
            try:
                self._client: Any = chromadb.PersistentClient(self.place, _settings())
            except BaseException:
                _let_go(self.place)
                raise
        stays_with_the_parent(self._client)

    def client(self) -> Any:
        """The client. VectorStoreError in a process that was forked, where it would hang."""
        if self._pid != os.getpid():
            raise VectorStoreError(
                f"the Chroma folder {self.place} was opened before this process was forked, and "
                "Chroma does not outlive that: start the process by 'spawn', or give all "
                "processes the url of a server"
            )
        return self._client

    def close(self) -> None:
        """Free the folder for other processes. In a child that was forked, it is the parent's."""
        if self._pid != os.getpid():
            return
        with self.turns.lock.writing, _opening:
            if not self._closed:
                self._closed = True
                self._client.close()
                _let_go(self.place)


class ServerAccess:
    """To a server. A process that was forked gets connections of its own."""

    most_bytes = _SERVER_BYTES

    def __init__(self, url: str, timeout: float) -> None:
        with needs("chroma"):
            import chromadb  # noqa: F401
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError('url is no address of a server such as "http://localhost:8000"')
        self._url = url
        self._timeout = timeout
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without a password
        self.turns = Turns()
        self._connect()

    def _connect(self) -> None:
        import chromadb
        import httpx

        ssl = self._url.startswith("https")
        settings = _settings(
            chroma_server_host=self._url,
            chroma_server_http_port=_PORT,
            chroma_server_ssl_verify=ssl,  # to load certificates takes 60 ms, and http has none
        )
        with explaining(self.place):
            # Chroma's own first request waits without end, and there is no option for that.
            alive = f"{self._url.rstrip('/')}/api/v2/heartbeat"
            httpx.get(alive, timeout=self._timeout, verify=ssl)
            self._client: Any = chromadb.HttpClient(self._url, _PORT, ssl, settings=settings)
        self._sessions = list(_sessions_of(self._client))
        for session in self._sessions:
            session.timeout = self._timeout
        self._pid = os.getpid()

    def client(self) -> Any:
        """The client of this process."""
        if self._pid != os.getpid():
            self._connect()
        return self._client

    def close(self) -> None:
        """Close the connections."""
        if self._pid == os.getpid():
            self._client.close()
            for session in self._sessions:
                session.close()


Access = FolderAccess | ServerAccess


def _sessions_of(client: Any) -> Iterator[httpx.Client]:
    """The connections of a client, which Chroma gives no time-out and does not close."""
    for part in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(part, "_server", None), "_session", None)
        if session is not None:
            yield session


def _settings(**given: Any) -> Any:
    """No telemetry, and nothing out of a .env file that happens to lie where the program runs."""
    from chromadb.config import Settings

    options: dict[str, Any] = {"_env_file": None, "anonymized_telemetry": False}
    return Settings(**options, **given)


@contextmanager
def explaining(place: str, check: Callable[[], None] = lambda: None) -> Iterator[ModuleType]:
    """Errors of Chroma as VectorStoreErrors; gives its own, for those that are no failure.

    `check` may raise an error that says more about any failure.
    """
    import httpx
    from chromadb import errors

    try:
        yield errors
    except PyWrapAIError:
        raise
    except httpx.TimeoutException as error:
        raise VectorStoreError(
            f"Chroma at {place}: no answer in time ({type(error).__name__}); give a longer timeout"
        ) from error
    except httpx.TransportError as error:
        raise VectorStoreError(
            f"Chroma at {place}: cannot reach a server there ({error}); start one with `chroma run`"
        ) from error
    except Exception as error:  # Chroma raises any kind, and bare Exceptions, too
        check()
        text = " ".join(str(error).split()) or type(error).__name__
        advice = next((f"; {advice}" for sign, advice in _ADVICE.items() if sign in text), "")
        raise VectorStoreError(f"Chroma at {place}: {text:.500}{advice}") from error


def _hold(path: str) -> _Folder:
    """The folder, locked for this process; within it, any number of stores may have it."""
    if path not in _folders:
        os.makedirs(path, exist_ok=True)
        lock = hold(os.path.join(path, _LOCK_FILE), mode=0o666)
        if lock is None:
            raise VectorStoreError(
                f"another process has the Chroma folder {path} open: close that store, or run "
                f"`chroma run --path {path}` and give both processes its url"
            )
        _folders[path] = _Folder(lock)
    _folders[path].stores += 1
    return _folders[path]


def _let_go(path: str) -> None:
    folder = _folders[path]
    folder.stores -= 1
    if not folder.stores:
        del _folders[path]
        folder.held.release()
