"""Conversation: where a user's history comes from, and where what is said is kept.

What MonitoredGraph and MonitoredAgent share: a call that begins, ends once in whatever way, and is
then kept.
"""

from __future__ import annotations

import gc
import inspect
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from pywrapai.core.base import LLMResponse, Message, Request, StreamEvent
from pywrapai.core.flow import Flow, Step, StreamClosed, StreamFlow, blocking
from pywrapai.core.stream import StreamRecord
from pywrapai.tokens.pricing import is_free
from pywrapai_graph.assembly import Assembly
from pywrapai_graph.graph import GraphLLM
from pywrapai_monitor.call_ids import new_call_id
from pywrapai_monitor.db.base import BaseStore, Entry
from pywrapai_monitor.embedding_costs import embedding_entries
from pywrapai_monitor.privacy import Privacy
from pywrapai_monitor.turn import Labels, Outcome, Turn, dialogue, entry, status_of, with_text

if TYPE_CHECKING:
    from pywrapai_monitor.recorder import Recorder
    from pywrapai_monitor.tracing import Tracing

T = TypeVar("T")
Y = TypeVar("Y")
Z = TypeVar("Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session of one user. May be shared by threads and by tasks."""

    store: BaseStore
    recorder: Recorder
    user_id: str
    session_id: str
    max_turns: int | None = 20
    """How many past turns are sent; None is all, 0 none."""
    prompt_name: str | None = None
    prompt_version: str | None = None
    privacy: Privacy = field(default_factory=Privacy)
    tracing: Tracing | None = None
    clock: Callable[[], int] = time.time_ns
    """Nanoseconds since 1970."""

    def history(self) -> Flow[list[Message]]:
        """The newest turns, also those that are still on their way into the store."""
        if self.max_turns == 0:
            return []
        return (yield from blocking(self._load))

    def labels(self, tags: Iterable[str], metadata: Mapping[str, Any] | None) -> Labels:
        """What comes with a call that is made here and now."""
        return Labels.of(tags, metadata, self.tracing and self.tracing.here())

    def turn(self, graph: GraphLLM, assembly: Assembly, labels: Labels) -> Turn:
        """A question to a model."""
        return Turn(
            user_id=self.user_id,
            session_id=self.session_id,
            model=graph.model,
            provider=graph.provider,
            assembly=assembly,
            labels=labels,
            prompt_name=self.prompt_name,
            prompt_version=self.prompt_version,
        )

    def keep(self, *entries: Entry, after: BaseException | None = None) -> Flow[None]:
        """Record entries: at once in sync code, in the background in async code.

        `after` is the exception on whose way out this happens. There is no I/O where that says
        that nobody drives the flow any more, nor where a garbage collection has ended it: whoever
        was interrupted by that may hold the database's locks.
        """
        if not _may_do_io(after):
            self.queue(*entries)
        elif entries:
            yield Step(partial(self._write, entries), partial(self._put, entries))

    def keep_embeddings(
        self, retrievers: Iterable[Any], after: BaseException | None = None
    ) -> Flow[None]:
        """Record what the retrievers' embedders have cost since they were last asked."""
        found = [each for one in retrievers for each in getattr(one, "embedders", ())]
        if found and _may_do_io(after):
            yield from self.keep(*self._embeddings(found))

    def queue(self, *entries: Entry) -> None:
        """Record entries in the background."""
        for each in entries:
            self.recorder.enqueue(self.privacy.entry(each))

    def watch(self, opened: object, events: Any, pieces: Any, turn: Turn) -> None:
        """Leave nothing open, and nothing unrecorded, of a stream whose reader lets go of it."""
        weakref.finalize(opened, _let_go, events, pieces, self, turn)

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.clock() // 1000

    def _load(self) -> list[Message]:
        self.recorder.settle(self.user_id, self.session_id)
        return with_text(self.store.load_history(self.user_id, self.session_id, self.max_turns))

    def _embeddings(self, embedders: Iterable[Any]) -> list[Entry]:
        return embedding_entries(
            embedders, user_id=self.user_id, session_id=self.session_id, at=self.now()
        )

    def _write(self, entries: tuple[Entry, ...]) -> None:
        for each in entries:
            self.recorder.write(self.privacy.entry(each))

    async def _put(self, entries: tuple[Entry, ...]) -> None:
        if self.privacy.mask is None and not self.recorder.uses_disk:
            self.queue(*entries)
            return
        import asyncio

        # A mask and a disk may take their time. Whoever is cancelled here leaves the thread to its
        # work.
        await asyncio.to_thread(self.queue, *entries)


class Call:
    """One model call from its beginning to its end, whatever that is."""

    def __init__(
        self, conversation: Conversation, turn: Turn, request: Request, streams: bool = False
    ) -> None:
        self.id = new_call_id()
        self.turn = turn
        self._conversation = conversation
        tracing = conversation.tracing
        self._span = tracing.begin(self.id, turn, request, streams=streams) if tracing else None
        self._started = perf_counter()

    def answered(self, asking: Flow[LLMResponse]) -> Flow[Outcome]:
        """The answer, which is the caller's to keep; a failure is kept here, and raised."""
        try:
            response = yield from self._traced(asking)
        except BaseException as error:
            outcome = self._ended(_response_of(error), error)
            kept = *self._failed_before(error), entry(self.turn, outcome)
            yield from self._conversation.keep(*kept, after=error)
            raise
        self._conversation.queue(*self._failed_before(response))  # no I/O before the answer is kept
        return self._ended(response)

    def streamed(
        self, events: StreamFlow[StreamEvent, None], record: StreamRecord
    ) -> StreamFlow[StreamEvent, Outcome]:
        """The events, and the answer, which is the caller's to keep once it has come to its end.

        A stream that ends before is kept here: as shown where its reader has left.
        """
        try:
            yield from self._traced(events)
        except BaseException as error:
            outcome = self._ended(record.response, error, record)
            record.response = outcome.response
            rows = dialogue(self.turn, outcome)
            kept = *self._failed_before(error), entry(self.turn, outcome, rows)
            yield from self._conversation.keep(*kept, after=error)
            raise
        self._conversation.queue(*self._failed_before(record.response))
        outcome = self._ended(record.response, None, record)
        record.response = outcome.response
        return outcome

    def _failed_before(self, told: object) -> Iterator[Entry]:
        """The calls of models that gave no answer of use, so that a fallback was asked."""
        for error in getattr(told, "earlier", ()):
            outcome = Outcome(
                call_id=new_call_id(),
                at=self._conversation.now(),
                response=_response_of(error),
                status="error",
                error=error,
                duration_ms=getattr(error, "duration_ms", 0.0),  # a user's provider may name any
            )
            yield entry(self.turn, outcome)

    def _traced(self, asking: Generator[Y, Any, T]) -> Generator[Y, Any, T]:
        return closable(asking if self._span is None else seen(asking, self._span.seen))

    def _ended(
        self,
        response: LLMResponse | None,
        error: BaseException | None = None,
        record: StreamRecord | None = None,
    ) -> Outcome:
        elapsed = (perf_counter() - self._started) * 1000.0
        taken = elapsed if error or response is None or response.cached else response.duration_ms
        if record and record.begun and _has_left(error):
            error = StreamClosed()
        outcome = Outcome(
            call_id=self.id,
            at=self._conversation.now(),
            response=response and self._own(response, error, record),
            status=status_of(error),
            error=error,
            duration_ms=taken,
            ttft_ms=record.ttft_ms if record else None,
        )
        if self._span is not None:
            self._span.end(outcome, self._conversation.privacy)
        return outcome

    def _own(
        self, response: LLMResponse, error: BaseException | None, record: StreamRecord | None
    ) -> LLMResponse:
        """The response with the id of this call, and unpriced where nobody knows what it cost:
        some providers say only at the end of a stream how many tokens it took.
        """
        told = response.finish_reason is not None and response.usage.total_tokens > 0
        known = error is None or record is None or told or is_free(response.provider)
        return replace(response, call_id=self.id, priced=response.priced and known)


def seen(
    asking: Generator[Y, Any, T], see: Callable[[Y], Generator[Z, Any, Y]]
) -> Generator[Y | Z, Any, T]:
    """`yield from asking`, where each item passes through `see` first."""
    move, given = asking.send, None
    while True:
        try:
            item = move(given)
        except StopIteration as done:
            result: T = done.value
            return result
        item = yield from see(item)
        try:
            move, given = asking.send, (yield item)
        except BaseException as error:
            move, given = asking.throw, error


_collecting: int | None = None
"""The thread that is collecting garbage now."""


def _note_collection(phase: str, info: dict[str, int]) -> None:
    global _collecting
    _collecting = get_ident() if phase == "start" else None


gc.callbacks.append(_note_collection)


def _may_do_io(after: BaseException | None) -> bool:
    return not isinstance(after, GeneratorExit) and _collecting != get_ident()


def closable(asking: Generator[Y, Any, T]) -> Generator[Y, Any, T]:
    """The flow, which may be closed though it asks for I/O once more on its way out: as its driver
    does no more, that is not done, and no error either.
    """
    try:
        return (yield from asking)
    except RuntimeError as error:
        if str(error) != "generator ignored GeneratorExit":
            raise
        raise GeneratorExit from None


def _has_left(error: BaseException | None) -> bool:
    """Whether a stream ended because nobody reads it any more: a web server cancels the task of a
    client that has hung up.
    """
    import asyncio

    return isinstance(error, (GeneratorExit, asyncio.CancelledError))


def _response_of(error: BaseException) -> LLMResponse | None:
    """What was answered, and paid for, where the failure came after that."""
    response = getattr(error, "response", None)
    return response if isinstance(response, LLMResponse) else None


def _let_go(events: Any, pieces: Any, conversation: Conversation, turn: Turn) -> None:
    """A stream is gone, or the program ends. One that nobody has begun to read has asked nothing,
    and is recorded all the same; one that is still open is closed while there is a database.
    """
    if inspect.getgeneratorstate(events) == inspect.GEN_CREATED:
        outcome = Outcome(
            call_id=new_call_id(), at=conversation.now(), status="interrupted", error=StreamClosed()
        )
        conversation.queue(entry(turn, outcome))
    elif inspect.isgenerator(pieces) and not pieces.gi_running:
        pieces.close()
