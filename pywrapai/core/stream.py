"""What a stream hands to its reader, and what it leaves behind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from time import perf_counter
from typing import Any, Generic, Self, TypeVar

from pywrapai.core.base import LLMResponse, StreamEvent, TextDelta
from pywrapai.core.flow import Emit

E = TypeVar("E")


class StreamRecord:
    """What a stream has produced so far: filled by its flow, read by its reader and the monitor."""

    __slots__ = ("_started", "first_chunk_at", "response")

    def __init__(self) -> None:
        self._started = perf_counter()
        self.first_chunk_at: float | None = None
        self.response: LLMResponse | None = None
        """Set when the stream has ended; after a break or an early close, what is known."""

    def emit(self, event: StreamEvent) -> Emit[StreamEvent]:
        """The event on its way to the reader; notes when the first one left."""
        if self.first_chunk_at is None:
            self.first_chunk_at = perf_counter()
        return Emit(event)

    @property
    def begun(self) -> bool:
        """Whether anything has been given out: from then on there is no second attempt."""
        return self.first_chunk_at is not None

    @property
    def ttft_ms(self) -> float | None:
        """Milliseconds from the start of the call to the first chunk."""
        if self.first_chunk_at is None:
            return None
        return (self.first_chunk_at - self._started) * 1000.0

    @property
    def duration_ms(self) -> float:
        """Milliseconds since the start of the call."""
        return (perf_counter() - self._started) * 1000.0


class SyncReader(Generic[E]):
    """What every stream has for its reader."""

    def __init__(self, events: Generator[E, None, Any]) -> None:
        self._events = events

    def close(self) -> None:
        """Hang up. What was used until now is still recorded."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsyncReader(Generic[E]):
    """The async twin of SyncReader."""

    def __init__(self, events: AsyncGenerator[E, None]) -> None:
        self._events = events

    async def aclose(self) -> None:
        """Hang up. What was used until now is still recorded."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class _Answer:
    """What a stream of one answer leaves behind."""

    _record: StreamRecord

    @property
    def response(self) -> LLMResponse | None:
        """The whole response, once the stream has ended; what is known when it broke."""
        return self._record.response


class _SyncAnswer(SyncReader[StreamEvent], _Answer):
    def __init__(self, events: Generator[StreamEvent, None, Any], record: StreamRecord) -> None:
        super().__init__(events)
        self._record = record


class _AsyncAnswer(AsyncReader[StreamEvent], _Answer):
    def __init__(self, events: AsyncGenerator[StreamEvent, None], record: StreamRecord) -> None:
        super().__init__(events)
        self._record = record


class TextStream(_SyncAnswer, Iterator[str]):
    """The text of an answer, piece by piece. Close it, or read it to its end.

    Raises StreamInterruptedError if the stream breaks after its first chunk.
    """

    def __next__(self) -> str:
        for event in self._events:
            if type(event) is TextDelta:
                return event.text
        raise StopIteration


class AsyncTextStream(_AsyncAnswer, AsyncIterator[str]):
    """The async twin of TextStream."""

    async def __anext__(self) -> str:
        async for event in self._events:
            if type(event) is TextDelta:
                return event.text
        raise StopAsyncIteration


class EventStream(_SyncAnswer, Iterator[StreamEvent]):
    """Everything in an answer as it comes; the LLMResponse is the last event."""

    def __next__(self) -> StreamEvent:
        return next(self._events)


class AsyncEventStream(_AsyncAnswer, AsyncIterator[StreamEvent]):
    """The async twin of EventStream."""

    async def __anext__(self) -> StreamEvent:
        return await anext(self._events)
