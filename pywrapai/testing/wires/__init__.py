"""What a stub server can be told to say, free of any provider's format, and what a wire has.

A `Reply` is what a test queues. The wire that a request came in on turns it into a `Response`,
which is HTTP and nothing else; all misbehaviour is a change of that Response. So a new wire
brings no misbehaviour of its own, and every one works on every wire.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, Self, TypeAlias

Step: TypeAlias = bytes | float
"""A packet to send, or seconds to wait."""
Event: TypeAlias = Mapping[str, Any] | str | bytes
"""A JSON payload, a payload that is text as it is, or exact bytes with no framing at all."""


@dataclass(frozen=True, eq=False)
class Request:
    """One request as it arrived."""

    number: int
    """1 for the first request that a server gets."""
    connection: int
    """The connection it came on; 1 is the first that the server accepted."""
    method: str
    path: str
    """Without the query."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    client_left: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set once the client has closed the connection before its reply was over."""

    @cached_property
    def json(self) -> Any:
        """The body read as JSON. ValueError if it is not; NaN and Infinity are not."""
        return json.loads(self.body.decode(), parse_constant=_not_json)


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@dataclass(frozen=True, slots=True)
class Response:
    """What goes over the socket. Without a content-length header the body is sent in chunks."""

    status: int | None
    """None hangs up instead of answering."""
    headers: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    wait: float = 0.0
    """Seconds before the first byte."""
    held_until: Callable[[], bool] | None = None
    """What must be true before the first byte."""
    complete: bool = True
    """False hangs up after the last step, without the end that HTTP asks for."""

    @classmethod
    def whole(
        cls,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A body whose length is announced."""
        fixed = {"content-type": content_type, "content-length": str(len(body))}
        return cls(status, {**fixed, **(headers or {})}, (body,))

    @classmethod
    def streamed(
        cls, packets: Iterable[bytes], *, content_type: str, headers: Mapping[str, str]
    ) -> Self:
        """A body of unknown length, each packet in a chunk of its own."""
        return cls(200, {"content-type": content_type, **headers}, tuple(packets))


# What a reply holds


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes. Text as `arguments` is sent as it is, broken or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model says; None lets the wire fill in what is usual."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Mapping[str, Any] | None = None
    """In the wire's own keys; empty leaves it out."""
    finish_reason: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in the wire's own form."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Events:
    """A stream given event by event; `done` adds the wire's end mark."""

    events: tuple[Event, ...]
    done: bool = True


class Refusal(Exception):
    """A wire's check found something that the real server would not take."""

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.failure = Failure(status, message, code, param)


class Wire(Protocol):
    """What a module of this package has: one provider's format, as functions without I/O."""

    BASE_PATH: str
    """What the provider's SDK expects after the host in its base URL."""

    def handles(self, request: Request) -> bool:
        """Whether this request is of this wire, by method, path and headers."""

    def check(self, request: Request, *, require_key: bool) -> None:
        """Raise Refusal for what the real server would refuse."""

    def usual(self, request: Request) -> Response | None:
        """The answer to what needs no script, such as a list of models; None for a chat."""

    def answer(self, request: Request, answer: Answer) -> Response:
        """A whole reply, or a stream where the request asks for one."""

    def events(self, request: Request, events: Events) -> Response:
        """The events in this wire's framing."""

    def failure(self, request: Request, failure: Failure) -> Response:
        """An error body in this wire's form."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply for one request, and how it goes wrong; the methods return a changed copy.

    A packet is one chunk of the body: one event of a stream, the whole body otherwise.
    """

    content: Answer | Failure | Events | Response
    changes: tuple[Callable[[Response], Response], ...] = ()

    def delayed(self, seconds: float) -> Reply:
        """Wait before the first byte, headers included."""
        return self._changed(lambda r: replace(r, wait=r.wait + seconds))

    def held_until(self, condition: Callable[[], bool]) -> Reply:
        """Wait before the first byte until `condition()`, which the server asks over and over.

        `held_until(lambda: server.peak_in_flight == 100)` lets a hundred requests gather.
        """
        return self._changed(lambda r: replace(r, held_until=condition))

    def paced(self, seconds: float) -> Reply:
        """Wait before every packet; the headers go out at once."""
        return self._each_packet(lambda packet: (seconds, packet))

    def cut_after(self, packets: int) -> Reply:
        """Hang up after this many packets, in the middle of the body."""
        return self._changed(partial(_cut, packets=packets))

    def stall_after(self, packets: int) -> Reply:
        """Fall silent after this many packets, until the client leaves."""
        return self._changed(partial(_stall, packets=packets))

    def in_packets_of(self, size: int) -> Reply:
        """Send `size` bytes at a time, also in the middle of a character."""
        return self._each_packet(
            lambda packet: [packet[at : at + size] for at in range(0, len(packet), size)]
        )

    def in_one_packet(self) -> Reply:
        """Send all events at once."""
        return self._changed(
            lambda r: replace(r, steps=(b"".join(s for s in r.steps if isinstance(s, bytes)),))
        )

    def with_crlf(self) -> Reply:
        """End the lines of an event stream with CR LF."""
        return self._each_packet(lambda packet: [packet.replace(b"\n", b"\r\n")])

    def without_spaces(self) -> Reply:
        """Leave out the space after the field names of an event stream: `data:{...}`."""
        return self._each_packet(
            lambda packet: [re.sub(rb"(?m)^(data|event|id): ", rb"\1:", packet)]
        )

    def with_comments(self, comment: str = "keep-alive") -> Reply:
        """Put a comment before every event of an event stream, as proxies do."""
        line = f": {comment}\n\n".encode()
        return self._each_packet(lambda packet: (line, packet))

    def render(self, wire: Wire, request: Request) -> Response:
        """The HTTP of this reply, on the wire that the request came in on."""
        response = self._unchanged(wire, request)
        for change in self.changes:
            response = change(response)
        return response

    def _unchanged(self, wire: Wire, request: Request) -> Response:
        match self.content:
            case Response() as response:
                return response
            case Answer() as answer:
                return wire.answer(request, answer)
            case Failure() as failure:
                return wire.failure(request, failure)
            case Events() as events:
                return wire.events(request, events)

    def _changed(self, change: Callable[[Response], Response]) -> Reply:
        return replace(self, changes=(*self.changes, change))

    def _each_packet(self, change: Callable[[bytes], Iterable[Step]]) -> Reply:
        return self._changed(partial(_change_packets, change=change))


def _first(steps: tuple[Step, ...], packets: int) -> tuple[Step, ...]:
    ends = [at + 1 for at, step in enumerate(steps) if isinstance(step, bytes)]
    return steps[: ends[min(packets, len(ends)) - 1]] if packets and ends else ()


def _cut(response: Response, packets: int) -> Response:
    return replace(response, steps=_first(response.steps, packets), complete=False)


def _stall(response: Response, packets: int) -> Response:
    return replace(response, steps=(*_first(response.steps, packets), math.inf))


def _change_packets(response: Response, change: Callable[[bytes], Iterable[Step]]) -> Response:
    changed = ((change(s) if isinstance(s, bytes) else (s,)) for s in response.steps)
    return replace(response, steps=tuple(step for steps in changed for step in steps))


# What a test writes


def text(
    content: str,
    *,
    usage: Mapping[str, Any] | None = None,
    finish_reason: str | None = None,
    model: str | None = None,
) -> Reply:
    """The model answers in words; a stream sends them one a packet.

    `usage` is in the provider's own keys; `{}` leaves it out, None counts words.
    """
    return Reply(Answer(text=content, usage=usage, finish_reason=finish_reason, model=model))


def tool_calls(
    *calls: Call,
    text: str = "",
    usage: Mapping[str, Any] | None = None,
    finish_reason: str | None = None,
    model: str | None = None,
) -> Reply:
    """The model calls tools, after `text` if there is any."""
    return Reply(
        Answer(text=text, calls=calls, usage=usage, finish_reason=finish_reason, model=model)
    )


def status(
    status_code: int,
    message: str | None = None,
    *,
    code: str | None = None,
    retry_after: float | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An error in the provider's form. `retry_after` is sent as it is: seconds, date or garbage."""
    hint = {} if retry_after is None else {"retry-after": str(retry_after)}
    message = message or f"the stub server was told to answer {status_code}"
    return Reply(Failure(status_code, message, code, headers={**hint, **(headers or {})}))


def raw(
    body: object = b"",
    *,
    status: int = 200,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Exactly this body: text and bytes as they are, anything else as JSON."""
    match body:
        case bytes():
            content = body
        case str():
            content = body.encode()
        case _:
            content = json_bytes(body)
    return Reply(Response.whole(content, status=status, content_type=content_type, headers=headers))


def html(page: str, *, status: int = 200) -> Reply:
    """A web page where an API should be, such as a proxy's login."""
    return raw(page, status=status, content_type="text/html; charset=utf-8")


def events(*payloads: Event, done: bool = True) -> Reply:
    """A stream, event by event: dicts as JSON, text as it is, bytes without any framing.

    `done=False` leaves out the provider's end mark; the HTTP body still ends as it should.
    """
    return Reply(Events(payloads, done))


def hang_up() -> Reply:
    """Close the connection without a byte of an answer."""
    return Reply(Response(None, complete=False))


# What wires share


def json_bytes(value: object) -> bytes:
    """JSON in UTF-8, as providers send it."""
    return json.dumps(value, ensure_ascii=False).encode()


def sse(event: Event, name: str | None = None) -> bytes:
    """One server-sent event."""
    if isinstance(event, bytes):
        return event
    payload = event.encode() if isinstance(event, str) else json_bytes(event)
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + payload + b"\n\n"


def json_body(request: Request) -> Any:
    """The JSON that was sent. Refusal for another content type, and for what is no JSON."""
    kind = request.headers.get("content-type", "none")
    if not kind.startswith("application/json"):
        raise Refusal(f"the content-type must be application/json, not {kind}", "content-type")
    try:
        return request.json
    except ValueError as error:
        raise Refusal(f"the body is not valid JSON: {error}") from error
