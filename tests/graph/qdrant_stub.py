"""A server that speaks the routes of Qdrant that QdrantVectorStore needs, backed by its local mode.

What it shows is that the requests are such as the client's own models read them, and what is in
them. It is no Qdrant: how that answers is known from its documentation alone.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from qdrant_client import QdrantClient, models


@dataclass
class QdrantStub:
    """The server; its collections are `client`'s."""

    url: str = ""
    api_key: str | None = None
    """What requests must have, if anything."""
    silent: threading.Event | None = None
    """Where it is set, no request is answered before the event."""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path with its query, and body of each."""
    client: QdrantClient = field(default_factory=lambda: QdrantClient(":memory:"))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bodies(self, method: str, end: str) -> list[Any]:
        """Those of the requests whose path ends so."""
        return [body for m, path, body in self.requests if m == method and path.endswith(end)]


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    client.upsert(name, models.PointsList(**body).points)
    return {"operation_id": 1, "status": "completed"}


def _delete(client: QdrantClient, name: str, body: Any) -> Any:
    client.delete(name, models.PointIdsList(**body))
    return {"operation_id": 1, "status": "completed"}


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.QueryRequest(**body)
    return client.query_points(
        name,
        asked.query,
        query_filter=asked.filter,
        limit=asked.limit,
        with_payload=asked.with_payload,
        with_vectors=asked.with_vector,
    )


def _retrieve(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.PointRequest(**body)
    return client.retrieve(name, asked.ids, with_vectors=asked.with_vector)


def _create(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.CreateCollection(**body)
    if client.collection_exists(name):
        raise Refused(409, f"Collection `{name}` already exists!")
    return client.create_collection(name, asked.vectors)


def _count(client: QdrantClient, name: str, body: Any) -> Any:
    return client.count(name, models.CountRequest(**body).filter)


ROUTES: list[tuple[str, str, Callable[[QdrantClient, str, Any], Any]]] = [
    ("GET", "", lambda client, name, _: client.get_collection(name)),
    ("PUT", "", _create),
    ("DELETE", "", lambda client, name, _: client.delete_collection(name)),
    ("PUT", "/index", lambda *_: {"operation_id": 1, "status": "completed"}),
    ("PUT", "/points", _upsert),
    ("POST", "/points", _retrieve),
    ("POST", "/points/delete", _delete),
    ("POST", "/points/query", _query),
    ("POST", "/points/count", _count),
]


@contextmanager
def qdrant_stub(**options: Any) -> Iterator[QdrantStub]:
    """A stub on a free port of this machine."""
    stub = QdrantStub(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if stub.silent is not None:
                stub.silent.wait()
                self.close_connection = True
                return
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            stub.requests.append((self.command, self.path, body))
            status, told = _answer(stub, self.command, self.path, body, self.headers["api-key"])
            content = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        if stub.silent is not None:
            stub.silent.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(
    stub: QdrantStub, method: str, path: str, body: Any, key: str | None
) -> tuple[int, dict[str, Any]]:
    try:
        if key != stub.api_key:
            raise Refused(401, "Must provide an API key or an Authorization bearer token")
        found = re.fullmatch(r"/collections/([^/]+)(/.*)?", urlsplit(path).path)
        assert found is not None, path
        [answer] = [a for m, end, a in ROUTES if (m, end) == (method, found[2] or "")]
        with stub.lock:
            result = _plain(answer(stub.client, unquote(found[1]), body))
    except Refused as error:
        return error.status, {"status": {"error": str(error)}, "time": 0.0}
    except ValueError as error:
        status = 404 if "not found" in str(error) else 400
        return status, {"status": {"error": str(error)}, "time": 0.0}
    return 200, {"result": result, "status": "ok", "time": 0.0}


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return [_plain(one) for one in result]
    return result.model_dump(mode="json") if hasattr(result, "model_dump") else result
