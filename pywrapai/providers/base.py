"""The contract of a provider, and how a provider behind HTTP keeps it.

A provider module has two halves: pure functions between our values and the vendor's REST JSON,
and a class that makes one request. `WireProvider` puts them together as flows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from pywrapai.core.base import LLMResponse, Message, Request, StreamEnd, StreamEvent, TextDelta
from pywrapai.core.flow import Flow, Step, StreamFlow, io
from pywrapai.core.stream import StreamRecord
from pywrapai.core.structured import with_instruction


class BaseLLM(ABC):
    """A model that `LLM` can call: write these four methods for one of your own.

    Pass an instance as `LLM(provider=...)`, or `register_provider(name, cls)` and give the name;
    the class is then called as `cls(model=..., api_key=..., base_url=..., timeout=...)`.
    `settings` holds `temperature` and `max_tokens` where the caller set them, and any other
    option of the call. Errors from `pywrapai.exceptions` are retried by the usual policy.
    """

    name: str = "custom"
    """What responses and records call this provider."""
    model: str = ""
    default_model: ClassVar[str] = ""
    api_key: str | None = None
    base_url: str | None = None
    timeout: float = 60.0

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.model = model or self.default_model
        self.api_key = api_key
        self.base_url = base_url
        self.timeout = timeout

    @abstractmethod
    def chat(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        """One answer."""

    @abstractmethod
    def stream(self, messages: list[Message], **settings: Any) -> Iterable[str | StreamEnd]:
        """The answer's text in pieces, and a StreamEnd at last where more is known of it."""

    @abstractmethod
    async def achat(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        """`chat`, awaited."""

    @abstractmethod
    def astream(self, messages: list[Message], **settings: Any) -> AsyncIterator[str | StreamEnd]:
        """`stream`, awaited."""

    def chat_structured(
        self, messages: list[Message], schema: dict[str, Any], **settings: Any
    ) -> LLMResponse | None:
        """One answer held to a JSON Schema by the model's own means; None if it has none.

        LLM then tells the schema in words. The answer is validated in either case.
        """
        return None

    async def achat_structured(
        self, messages: list[Message], schema: dict[str, Any], **settings: Any
    ) -> LLMResponse | None:
        """`chat_structured`, awaited; by default in a thread."""
        import asyncio

        return await asyncio.to_thread(self.chat_structured, messages, schema, **settings)

    def close(self) -> None:  # noqa: B027  # nothing to do is a good default
        """Give back what the provider holds open. May be called twice."""

    async def aclose(self) -> None:
        """`close`, awaited."""
        self.close()

    def chat_flow(self, request: Request) -> Flow[LLMResponse]:
        """How LLM asks; by default through `chat` and `achat`."""
        return io(
            self.chat,
            self.achat,
            list(request.messages),
            request.tools,
            request.tool_choice,
            **request.settings,
        )

    def structured_flow(self, request: Request) -> Flow[LLMResponse]:
        """How LLM asks for an answer that fits `request.schema`."""
        schema, messages = request.schema or {}, list(request.messages)
        held = yield from io(
            self.chat_structured, self.achat_structured, messages, schema, **request.settings
        )
        if held is not None:
            return held
        told = tuple(with_instruction(messages, schema))
        return (yield from self.chat_flow(replace(request, messages=told)))

    def models_flow(self) -> Flow[list[str]]:
        """The names of the models that there are; by default this one alone."""
        yield from ()  # no I/O
        return [self.model]

    def stream_flow(
        self, request: Request, record: StreamRecord
    ) -> StreamFlow[StreamEvent, LLMResponse]:
        """How LLM streams; by default through `stream` and `astream`.

        Those give text alone, so with tools the answer is asked for whole.
        """
        if request.tools:
            return (yield from self._whole(request, record))
        pieces: list[str] = []
        end: StreamEnd | None = None
        read, close = reading(
            lambda: iter(self.stream(list(request.messages), **request.settings)),
            lambda: aiter(self.astream(list(request.messages), **request.settings)),
        )
        try:
            while (item := (yield read)) is not None:
                if isinstance(item, StreamEnd):
                    end = item
                elif item:
                    pieces.append(item)
                    yield record.emit(TextDelta(item))
            end = end or StreamEnd()
        finally:
            record.response = response = _streamed("".join(pieces), end)
            yield close
        return response

    def _whole(
        self, request: Request, record: StreamRecord
    ) -> StreamFlow[StreamEvent, LLMResponse]:
        record.response = response = yield from self.chat_flow(request)
        if response.content:
            yield record.emit(TextDelta(response.content))
        for call in response.tool_calls or ():
            yield record.emit(call)
        return response


def reading(
    block: Callable[[], Iterator[Any]], wait: Callable[[], AsyncIterator[Any]]
) -> tuple[Step, Step]:
    """The step that reads the next item (None at the end alone), and the one that lets go."""
    source: Any = None

    def read() -> Any:
        nonlocal source
        if source is None:
            source = block()
        return _next(source)

    async def aread() -> Any:
        nonlocal source
        if source is None:
            source = wait()
        return await _anext(source)

    def close() -> None:
        if hasattr(source, "close"):
            source.close()

    async def aclose() -> None:
        if hasattr(source, "aclose"):
            await source.aclose()

    return Step(read, aread), Step(close, aclose)


def _next(source: Iterator[Any]) -> Any:
    for item in source:
        if item is not None:
            return item
    return None


async def _anext(source: AsyncIterator[Any]) -> Any:
    async for item in source:
        if item is not None:
            return item
    return None


def _streamed(text: str, end: StreamEnd | None) -> LLMResponse:
    if end is None:
        return LLMResponse(text, finish_reason=None)
    return LLMResponse(
        text,
        usage=end.usage,
        model=end.model,
        finish_reason=end.finish_reason,
        request_id=end.request_id,
        cost_usd=end.cost_usd,
    )
