"""A real HTTP server on loopback that speaks the providers' wires and misbehaves on request.

It checks what it gets, records it, and answers what a test has queued. How a provider's JSON
looks is the business of `pywrapai.testing.wires`; here is HTTP/1.1, one thread, and the script.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import responses
from typing import Self, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from pywrapai.testing.wires import (
    Failure,
    Refusal,
    Reply,
    Request,
    Response,
    Wire,
    json_bytes,
    text,
)
from pywrapai.testing.wires.table import WIRES

Script: TypeAlias = str | Reply
"""What a request is answered with; a str is `text(str)`."""

_HOST = "127.0.0.1"
_MAX_HEAD = 64 * 1024
_BACKLOG = 1024
_POLL_SECONDS = 0.002
_NO_RETRY = {"x-should-retry": "false"}  # the test is wrong, and stays so


class StubServer:
    """Answers model calls over HTTP with what a test queues, in the order of arrival.

        with StubServer() as server:
            server.reply("Hello there", status(429, retry_after=1), text("a b c").cut_after(2))
            client = OpenAI(base_url=server.url("openai"), api_key="sk-test")

    With the queue empty, chats get `answer`: a text, a `Reply`, or a function of the `Request`,
    which runs on the server's thread and so must not wait. Without it they get an HTTP 500 that
    says so. Models and embeddings need no script. What the provider would refuse is refused with
    its 400 or 401 and takes nothing from the queue; `check=False` lets everything pass, and
    `require_key=False` requests without a key.
    """

    def __init__(
        self,
        answer: Script | Callable[[Request], Script] | None = None,
        *,
        check: bool = True,
        require_key: bool = True,
    ) -> None:
        self._answer = answer if callable(answer) or answer is None else _as_reply(answer)
        self._check = check
        self._require_key = require_key
        self._queue: deque[Reply] = deque()
        self._refusals: list[str] = []
        self._traffic = _Traffic()
        self._thread: _ServerThread | None = None

    # The script

    def reply(self, *replies: Script) -> None:
        """Queue replies, one for each request to come, of whatever kind that is."""
        self._queue.extend([_as_reply(reply) for reply in replies])

    def url(self, wire: str | None = None) -> str:
        """The base URL that the provider's SDK wants; without a wire, host and port alone."""
        if wire is not None and wire not in WIRES:
            raise ValueError(f"no wire {wire!r}; there are: {', '.join(WIRES)}")
        return f"http://{_HOST}:{self.port}{WIRES[wire].BASE_PATH if wire else ''}"

    @property
    def port(self) -> int:
        """The port it listens on; it was free when the server started."""
        if self._thread is None:
            raise RuntimeError("the server is not running: use `with StubServer() as server:`")
        return self._thread.port

    # What came in

    @property
    def requests(self) -> list[Request]:
        """All requests so far, refused ones included."""
        return list(self._traffic.requests)

    @property
    def refusals(self) -> list[str]:
        """What the checks found wrong, so that a test can see what a client swallowed."""
        return list(self._refusals)

    @property
    def connections(self) -> int:
        """How many connections were opened so far."""
        return self._traffic.opened

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._traffic.open)

    @property
    def in_flight(self) -> int:
        """How many requests are being answered now."""
        return self._traffic.in_flight

    @property
    def peak_in_flight(self) -> int:
        """How many requests were being answered at once at most."""
        return self._traffic.peak

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> bool:
        """Wait for counts and requests to be as `condition` says; False after `timeout` seconds."""
        with self._traffic.changed:
            return self._traffic.changed.wait_for(condition, timeout)

    # Its life

    def start(self) -> Self:
        """Listen on a free port, in a thread of its own. `with` does it too."""
        if self._thread is not None:
            raise RuntimeError("a StubServer starts only once; make another one")
        self._thread = _ServerThread(self._respond, self._traffic)
        return self

    def close(self) -> None:
        """Hang up on everybody and stop; what it recorded stays. Does nothing after a fork."""
        if self._thread is not None:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _respond(self, request: Request) -> Response:
        wire = next((wire for wire in WIRES.values() if wire.handles(request)), None)
        if wire is None:
            return self._not_found(request)
        try:
            if self._check:
                wire.check(request, require_key=self._require_key)
            return self._scripted(wire, request)
        except Refusal as refusal:
            self._refusals.append(str(refusal))
            return wire.failure(request, refusal.failure)
        except Exception as error:  # the test's own function, or a body that was let pass
            message = f"the stub server could not answer: {error!r}"
            return wire.failure(request, Failure(500, message, headers=_NO_RETRY))

    def _scripted(self, wire: Wire, request: Request) -> Response:
        if self._queue:
            return self._queue.popleft().render(wire, request)
        if (usual := wire.usual(request)) is not None:
            return usual
        if self._answer is None:
            return wire.failure(request, _nothing_queued(request))
        answer = self._answer(request) if callable(self._answer) else self._answer
        return _as_reply(answer).render(wire, request)

    def _not_found(self, request: Request) -> Response:
        message = f"no wire ({', '.join(WIRES)}) has {request.method} {request.path}"
        self._refusals.append(message)
        return Response.whole(json_bytes({"error": {"message": message}}), status=404)


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that refuses connections for as long as the block runs; nobody else can get it."""
    with socket.socket() as bound:
        bound.bind((_HOST, 0))
        yield bound.getsockname()[1]


def _as_reply(script: Script) -> Reply:
    if isinstance(script, str):
        return text(script)
    if isinstance(script, Reply):
        return script
    given = type(script).__name__
    raise TypeError(f"a reply is a str or what text(), status(), raw(), ... return, not {given}")


def _nothing_queued(request: Request) -> Failure:
    message = (
        f"nothing is queued for request {request.number} ({request.method} {request.path}): "
        "call server.reply(...) once for each request, or give StubServer(answer=...)"
    )
    return Failure(500, message, "nothing_queued", headers=_NO_RETRY)


class _Traffic:
    """What the server has seen. Written by its thread alone, under the lock of `changed`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.requests: list[Request] = []
        self.open: set[_Connection] = set()
        self.opened = 0
        self.in_flight = 0
        self.peak = 0

    def connect(self, connection: _Connection) -> int:
        with self.changed:
            self.opened += 1
            self.open.add(connection)
            self.changed.notify_all()
        return self.opened

    def disconnect(self, connection: _Connection) -> None:
        with self.changed:
            self.open.discard(connection)
            self.changed.notify_all()

    @contextmanager
    def answering(self, request: Request) -> Iterator[None]:
        with self.changed:
            self.requests.append(request)
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.in_flight -= 1
                self.changed.notify_all()


class _ServerThread:
    """The listening socket, and the event loop that serves it."""

    def __init__(self, respond: Callable[[Request], Response], traffic: _Traffic) -> None:
        self._connection = lambda: _Connection(respond, traffic)
        self._traffic = traffic
        self._listener = socket.create_server((_HOST, 0), backlog=_BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self._listener.setblocking(False)
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stub-server", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        # Windows' usual loop has no add_reader()
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with asyncio.TaskGroup() as arrivals:
            self._loop.add_reader(self._listener, self._accept, arrivals)
            self._ready.set()
            await self._stopped.wait()
            self._loop.remove_reader(self._listener)
            self._listener.close()
        while self._traffic.open:
            for connection in list(self._traffic.open):
                connection.abort()
            await asyncio.sleep(0)

    def _accept(self, arrivals: asyncio.TaskGroup) -> None:
        # asyncio's own server breaks on a client that arrives while it closes
        with suppress(OSError):  # a client that has left already
            client, _ = self._listener.accept()
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a packet leaves at once
            arrivals.create_task(self._loop.connect_accepted_socket(self._connection, client))

    def stop(self) -> None:
        if self._pid == os.getpid() and self._thread.is_alive():  # a forked child has no thread
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()


class _Connection(asyncio.Protocol):
    """One client: reads its requests one after another and sends each one's response."""

    def __init__(self, respond: Callable[[Request], Response], traffic: _Traffic) -> None:
        self._respond = respond
        self._traffic = traffic
        self._reader = asyncio.StreamReader(limit=_MAX_HEAD)
        self._unanswered: Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._number = self._traffic.connect(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._unanswered is not None:
            self._unanswered.client_left.set()
        self._task.cancel()
        self._traffic.disconnect(self)

    def hang_up(self) -> None:
        """Close once everything is sent."""
        self._unanswered = None
        with suppress(OSError):  # a client that has left already
            self._transport.write_eof()  # close() alone is unseen if a forked child has the socket
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.hang_up()
        self._transport.abort()

    async def _serve(self) -> None:
        try:
            while await self._exchange(await self._receive()):
                pass
        except (ValueError, asyncio.LimitOverrunError) as error:
            body = json_bytes({"error": {"message": f"not an HTTP/1.1 request: {error}"}})
            await self._send(Response.whole(body, status=400))
        finally:
            self.hang_up()

    async def _receive(self) -> Request:
        head = await self._reader.readuntil(b"\r\n\r\n")
        method, target, headers = _parse_head(head)
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        url = urlsplit(target)
        return Request(
            number=len(self._traffic.requests) + 1,
            connection=self._number,
            method=method,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query)),
            headers=headers,
            body=body,
        )

    async def _exchange(self, request: Request) -> bool:
        """Answer; whether the connection is good for another request."""
        with self._traffic.answering(request):
            self._unanswered = request
            response = self._respond(request)
            await self._send(response)
            self._unanswered = None
        return response.complete and request.headers.get("connection", "") != "close"

    async def _send(self, response: Response) -> None:
        await asyncio.sleep(response.wait)
        while response.held_until and not response.held_until():  # noqa: ASYNC110 (not an Event)
            await asyncio.sleep(_POLL_SECONDS)
        chunked = "content-length" not in response.headers
        self._transport.write(_head(response, chunked))
        for step in response.steps:
            if not isinstance(step, bytes):
                await asyncio.sleep(step)
            elif step:
                self._transport.write(b"%x\r\n%b\r\n" % (len(step), step) if chunked else step)
                await asyncio.sleep(0)  # let the other clients have their turn
        if chunked and response.complete:
            self._transport.write(b"0\r\n\r\n")


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _version = first.split(" ")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "transfer-encoding" in headers:
        raise ValueError("a chunked request body is not understood, send a content-length")
    return method, target, headers


def _head(response: Response, chunked: bool) -> bytes:
    if response.status is None:
        return b""
    phrase = responses.get(response.status, "Unknown")
    lines = [f"HTTP/1.1 {response.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    if chunked:
        lines.append("transfer-encoding: chunked")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")
