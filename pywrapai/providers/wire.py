"""A provider behind HTTP: everything that is the same whatever the vendor's JSON looks like."""

from __future__ import annotations

import json
import os
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pywrapai.core import received
from pywrapai.core.base import LLMResponse, Message, Request, StreamEnd, StreamEvent, TextDelta
from pywrapai.core.flow import Flow, Step, StreamFlow, arun, astream, io, run, stream
from pywrapai.core.stream import StreamRecord
from pywrapai.core.text import well_formed
from pywrapai.exceptions import (
    AuthError,
    ConfigurationError,
    InvalidRequestError,
    ProviderError,
    PyWrapAIError,
    ServerError,
)
from pywrapai.providers.base import BaseLLM, reading
from pywrapai.providers.errors import from_status, redacted

if TYPE_CHECKING:  # making protocols takes three milliseconds, and only a type checker reads them

    class Reply(Protocol):
        """An HTTP response, as httpx and httpx2 have it."""

        headers: Any
        read: Callable[[], bytes]
        aread: Callable[[], Awaitable[bytes]]
        iter_bytes: Callable[[], Iterator[bytes]]
        aiter_bytes: Callable[[], AsyncIterator[bytes]]
        close: Callable[[], None]
        aclose: Callable[[], Awaitable[None]]

        @property
        def content(self) -> bytes:
            """The body, once it has been read."""

    class Decoder(Protocol):
        """A stream's bytes in, events out; and at any time what is known of the response."""

        def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
            """The events that `chunk` completes. Raises the error that a stream may carry."""

        def finish(self) -> Iterator[StreamEvent]:
            """The events that only the end completes. Raises if the end mark has not come."""

        def response(self) -> LLMResponse:
            """The response so far; `finish_reason` is None until the stream is complete.

            It never raises: what cannot be part of a response is refused by `feed`.
            """

        @property
        def ended(self) -> bool:
            """Whether the end mark has come: the answer is whole, however the connection ends."""

else:
    Reply = Decoder = object


class WireProvider(BaseLLM):
    """Turns `to_wire`, one line of I/O and `from_wire` into a provider."""

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if base_url is not None and "://" not in base_url:
            raise ConfigurationError(
                f"base_url {base_url!r} has no scheme: begin it with https:// or http://"
            )
        super().__init__(model, api_key=api_key, base_url=base_url, timeout=timeout)

    stream_type: ClassVar[str] = "text/event-stream"
    """The media type of its streams."""
    takes_images: ClassVar[bool] = True
    models_path: ClassVar[str] = "/models"
    """Where the list of models is."""
    key_env: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold the key, first one first; none where none is needed."""

    @abstractmethod
    def to_wire(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """The body of the HTTP request."""

    @abstractmethod
    def from_wire(self, body: Any) -> LLMResponse:
        """The response that the body of a reply holds."""

    @abstractmethod
    def decoder(self, request: Request) -> Decoder:
        """What reads the stream that answers the request."""

    @abstractmethod
    def path(self, request: Request, *, stream: bool) -> str:
        """Where on the server the request goes."""

    @abstractmethod
    def post(self, path: str, body: dict[str, Any], *, timeout: float, stream: bool) -> Reply:
        """Make a request; the reply's body is read unless `stream`."""

    @abstractmethod
    async def apost(
        self, path: str, body: dict[str, Any], *, timeout: float, stream: bool
    ) -> Reply:
        """`post`, awaited."""

    @abstractmethod
    def get(self, path: str, *, timeout: float) -> Reply:
        """Read something, such as the list of models."""

    @abstractmethod
    async def aget(self, path: str, *, timeout: float) -> Reply:
        """`get`, awaited."""

    @abstractmethod
    def map_error(self, error: Exception) -> ProviderError | None:
        """Ours for what the SDK or the connection raised; None for an error that is neither's."""

    def require_key(self) -> str:
        """The key that was given or that the environment holds; AuthError if there is none."""
        key = self._key()
        if not key and self.key_env:
            raise AuthError(
                f"no API key for {self.name!r}: pass api_key=... or set {' or '.join(self.key_env)}"
                " (for a compatible server that needs none, any text will do)"
            )
        if not _SENDABLE.fullmatch(key):
            raise AuthError(
                f"the API key for {self.name!r} holds a character that no key has, such as a line "
                "break or a letter with an accent: copy it again"
            )
        return key or "none"

    def _key(self) -> str:
        """The key without the white space that a file or a paste may have left around it."""
        given = (self.api_key, *(os.environ.get(name) for name in self.key_env))
        return next((key.strip() for key in given if key), "")

    def chat_flow(self, request: Request) -> Flow[LLMResponse]:
        """One request, one response."""
        with self._mapping():
            reply = yield from self._send(request, stream=False)
            with _decoding():
                response = self.from_wire(self._json(reply))
        return replace(response, request_id=_request_id(reply) or response.request_id)

    def structured_flow(self, request: Request) -> Flow[LLMResponse]:
        """The same request: `to_wire` holds the model to its schema."""
        return self.chat_flow(request)

    def stream_flow(
        self, request: Request, record: StreamRecord
    ) -> StreamFlow[StreamEvent, LLMResponse]:
        """One request, and its events as they arrive."""
        with self._mapping():
            reply = yield from self._send(request, stream=True)
            decoder = self.decoder(request)
            try:
                if not _content_type(reply).startswith(self.stream_type):
                    yield from io(reply.read, reply.aread)
                    raise self._not_a_stream(reply)
                with _decoding():
                    yield from _events(reply, decoder, record)
            finally:
                response = decoder.response()
                response = replace(response, request_id=_request_id(reply) or response.request_id)
                record.response = response
                yield from io(reply.close, reply.aclose)
        return response

    def models_flow(self) -> Flow[list[str]]:
        """The names of the models that the provider offers, sorted."""
        with self._mapping():
            reply = yield from io(self.get, self.aget, self.models_path, timeout=self.timeout)
            with _decoding():
                return sorted(self.models_from_wire(self._json(reply)))

    def models_from_wire(self, body: Any) -> list[str]:
        """The names in a list of models."""
        return [model["id"] for model in body["data"]]

    def _send(self, request: Request, *, stream: bool) -> Flow[Reply]:
        if any(message.images for message in request.messages) and not self.takes_images:
            raise InvalidRequestError(f"{self.name} models take no images: send text alone")
        try:
            path, body = self.path(request, stream=stream), self.to_wire(request, stream=stream)
        except RecursionError as error:
            raise InvalidRequestError(
                "the request is nested too deeply, or holds itself: look at its tools and schema"
            ) from error
        timeout = self.timeout if request.timeout is None else request.timeout
        return io(self.post, self.apost, path, body, timeout=timeout, stream=stream)

    @contextmanager
    def _mapping(self) -> Iterator[None]:
        """Whatever goes wrong inside leaves as one of our errors, which knows whose it is."""
        try:
            yield
        except ProviderError as error:
            self._sign(error)
            raise
        except PyWrapAIError:
            raise
        except Exception as error:
            mapped = self.map_error(error)
            if mapped is None:
                raise
            self._sign(mapped)
            _blank(error, self._key())  # a traceback shows it, too
            raise mapped from error

    def _sign(self, error: ProviderError) -> None:
        """Say whose error it is, and blank the key that the server may have echoed."""
        error.args = (redacted(error.message, self._key()),)
        error.about(provider=self.name, model=self.model)

    def _json(self, reply: Reply) -> Any:
        try:
            return received.parsed(reply.content)
        except ValueError:
            raise self._not_the_api(reply, "JSON") from None

    def _not_a_stream(self, reply: Reply) -> ProviderError:
        try:
            body = received.parsed(reply.content)
        except ValueError:
            return self._not_the_api(reply, "an event stream")
        return from_status(200, body, reply.headers)

    def _not_the_api(self, reply: Reply, expected: str) -> ProviderError:
        error = ServerError(
            f"the server at {self.base_url or 'the default base_url'} answered with "
            f"{_content_type(reply) or 'no content type'} where {expected} was expected: "
            f"{reply.content[:80]!r}. Is base_url the address of an API?",
            request_id=_request_id(reply),
        )
        error.retryable = False
        return error

    def chat(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        """One answer, without the retries, cost and tracking that `LLM` adds."""
        return run(self.chat_flow(self._request(messages, tools, tool_choice, settings)))

    async def achat(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        """`chat`, awaited."""
        return await arun(self.chat_flow(self._request(messages, tools, tool_choice, settings)))

    def stream(self, messages: Sequence[Message], **settings: Any) -> Iterator[str | StreamEnd]:
        """The answer's text in pieces, then a StreamEnd."""
        request, record = self._request(messages, None, None, settings), StreamRecord()
        for event in stream(self.stream_flow(request, record)):
            if isinstance(event, TextDelta):
                yield event.text
        yield _end(record)

    async def astream(
        self, messages: Sequence[Message], **settings: Any
    ) -> AsyncIterator[str | StreamEnd]:
        """`stream`, awaited."""
        request, record = self._request(messages, None, None, settings), StreamRecord()
        async for event in astream(self.stream_flow(request, record)):
            if isinstance(event, TextDelta):
                yield event.text
        yield _end(record)

    def _request(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]] | None,
        tool_choice: str | None,
        settings: dict[str, Any],
    ) -> Request:
        return Request(self.model, tuple(messages), tools, tool_choice, settings)


def _blank(error: Exception, key: str | None) -> None:
    error.args = tuple(
        redacted(part, key) if isinstance(part, str) else part for part in error.args
    )


def _events(reply: Reply, decoder: Decoder, record: StreamRecord) -> StreamFlow[StreamEvent, None]:
    read, _ = reading(reply.iter_bytes, reply.aiter_bytes)
    while (chunk := (yield from _next_chunk(read, decoder))) is not None:
        for event in decoder.feed(chunk):
            yield record.emit(event)
    for event in decoder.finish():
        yield record.emit(event)


def _next_chunk(read: Step, decoder: Decoder) -> Flow[bytes | None]:
    try:
        chunk: bytes | None = yield read
    except Exception:
        if decoder.ended:  # some servers hang up right after the end mark, or never do
            return None
        raise
    return chunk


_WRONG_SHAPE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


@contextmanager
def _decoding() -> Iterator[None]:
    """A reply that has another shape than the API promises is the server's fault, not a crash."""
    try:
        yield
    except _WRONG_SHAPE as error:
        raise ServerError(f"the reply is not what the API promises: {error!r:.200}") from error


_SENDABLE = re.compile(r"[!-~]*")
"""What a header can hold of a key."""


def encoded(body: Any) -> bytes:
    """The body of a request. ValueError or TypeError for what JSON does not have."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return well_formed(text).encode()


def _end(record: StreamRecord) -> StreamEnd:
    response = record.response
    assert response is not None  # the stream's flow has ended
    return StreamEnd(
        response.usage, response.finish_reason or "stop", response.model, response.request_id
    )


def _content_type(reply: Reply) -> str:
    return str(reply.headers.get("content-type", "")).lower()


def _request_id(reply: Reply) -> str | None:
    found: str | None = reply.headers.get("x-request-id") or reply.headers.get("request-id")
    return found
