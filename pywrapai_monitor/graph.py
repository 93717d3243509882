"""MonitoredGraph: a GraphLLM that remembers one conversation and records every call of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pywrapai.cache import BaseCache
from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, Request, StreamEvent
from pywrapai.core.flow import Emit, Flow, StreamFlow
from pywrapai.core.stream import (
    AsyncEventStream,
    AsyncTextStream,
    EventStream,
    StreamRecord,
    TextStream,
)
from pywrapai.llm import LLM, refuse_tools
from pywrapai.tokens import TokenTracker
from pywrapai_graph.assembly import Assembly, GraphInput
from pywrapai_graph.graph import GraphLLM
from pywrapai_monitor.conversation import Call, Conversation, closable
from pywrapai_monitor.turn import Labels, Outcome, Turn, dialogue, entry

if TYPE_CHECKING:
    from pywrapai_graph.rag.retriever import BaseRetriever

S = TypeVar("S", TextStream, AsyncTextStream, EventStream, AsyncEventStream)


class MonitoredGraph:
    """Made by `Monitor.wrap`; called like the GraphLLM that it wraps, without `history`.

    Each call loads the newest turns of the conversation, asks, and saves the user message, the
    answer and the token record together. May be shared by threads and by tasks. Every call also
    takes `metadata`, a dict of JSON values, and `tags`, a list of str, for its record. The
    `call_id` of a response is what feedback is given to.

    Raises StoreError, before the model is called, when the history cannot be loaded. When the
    record of an answer cannot be saved, the answer is returned all the same.
    """

    def __init__(self, graph: GraphLLM, conversation: Conversation) -> None:
        self.graph = graph
        self.conversation = conversation

    @property
    def user_id(self) -> str:
        """Who is talking."""
        return self.conversation.user_id

    @property
    def session_id(self) -> str:
        """Which of the user's conversations it is."""
        return self.conversation.session_id

    @property
    def llm(self) -> LLM:
        """The graph's LLM."""
        return self.graph.llm

    @property
    def retriever(self) -> BaseRetriever | None:
        """The graph's retriever, if it has one."""
        return self.graph.retriever

    @property
    def system_prompt(self) -> str | None:
        """The graph's system prompt, if it has one."""
        return self.graph.system_prompt

    @property
    def tokens(self) -> TokenTracker:
        """The LLM's tracker: of all its calls, not of this conversation alone."""
        return self.graph.tokens

    @property
    def cache(self) -> BaseCache | None:
        """The LLM's cache, if it has one."""
        return self.graph.cache

    @property
    def model(self) -> str:
        """The LLM's model."""
        return self.graph.model

    @property
    def provider(self) -> str:
        """The LLM's provider."""
        return self.graph.provider

    def with_system_prompt(self, text: str) -> Self:
        """The same conversation with another system prompt, which is none of the registry's."""
        twin = copy.copy(self)
        twin.graph = self.graph.with_system_prompt(text)
        twin.conversation = replace(self.conversation, prompt_name=None, prompt_version=None)
        return twin

    def assemble(self, input: GraphInput, rag: bool = True) -> Assembly:
        """What a call would send, history included."""
        self._checked(input, {})
        return flow.run(self._assembly(input, rag))

    async def aassemble(self, input: GraphInput, rag: bool = True) -> Assembly:
        """`assemble`, awaited."""
        self._checked(input, {})
        return await flow.arun(self._assembly(input, rag))

    def chat(
        self,
        input: GraphInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> LLMResponse:
        """Load the history, ask, save. Raises what GraphLLM.chat raises, and StoreError."""
        overrides.update(tools=tools, tool_choice=tool_choice)
        labels = self.conversation.labels(tags, metadata)
        return flow.run(self._chat(input, rag, labels, overrides))

    async def achat(
        self,
        input: GraphInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> LLMResponse:
        """`chat`, awaited; the database is read in a thread, and written in the background."""
        overrides.update(tools=tools, tool_choice=tool_choice)
        labels = self.conversation.labels(tags, metadata)
        return await flow.arun(self._chat(input, rag, labels, overrides))

    def stream(
        self,
        input: GraphInput,
        rag: bool = True,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> TextStream:
        """Load the history, stream the answer's text, save when it ends or its reader leaves."""
        refuse_tools(overrides)
        labels = self.conversation.labels(tags, metadata)
        return self._opened(TextStream, flow.stream, input, rag, labels, overrides)

    def astream(
        self,
        input: GraphInput,
        rag: bool = True,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> AsyncTextStream:
        """`stream`, for `async for`."""
        refuse_tools(overrides)
        labels = self.conversation.labels(tags, metadata)
        return self._opened(AsyncTextStream, flow.astream, input, rag, labels, overrides)

    def stream_events(
        self,
        input: GraphInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> EventStream:
        """`stream` with everything in the answer, as `LLM.stream_events` does."""
        overrides.update(tools=tools, tool_choice=tool_choice)
        labels = self.conversation.labels(tags, metadata)
        return self._opened(EventStream, flow.stream, input, rag, labels, overrides)

    def astream_events(
        self,
        input: GraphInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> AsyncEventStream:
        """`stream_events`, for `async for`."""
        overrides.update(tools=tools, tool_choice=tool_choice)
        labels = self.conversation.labels(tags, metadata)
        return self._opened(AsyncEventStream, flow.astream, input, rag, labels, overrides)

    def chat_structured(
        self,
        input: GraphInput,
        schema: Any,
        rag: bool = True,
        *,
        max_attempts: int = 2,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> Any:
        """Load the history, ask for an answer that fits a schema, save; each attempt is a call."""
        labels = self.conversation.labels(tags, metadata)
        return flow.run(self._structured(input, schema, rag, labels, max_attempts, overrides))

    async def achat_structured(
        self,
        input: GraphInput,
        schema: Any,
        rag: bool = True,
        *,
        max_attempts: int = 2,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        **overrides: Any,
    ) -> Any:
        """`chat_structured`, awaited."""
        labels = self.conversation.labels(tags, metadata)
        asking = self._structured(input, schema, rag, labels, max_attempts, overrides)
        return await flow.arun(asking)

    def __repr__(self) -> str:
        return f"MonitoredGraph({self.graph!r}, {self.user_id!r}, {self.session_id!r})"

    def _checked(self, input: GraphInput, overrides: dict[str, Any]) -> Assembly:
        """What is wrong with a call is said before any I/O."""
        if "history" in overrides:
            raise TypeError("a MonitoredGraph loads the history itself: leave history= out")
        plain = self.graph.assemble(input, None, rag=False)
        self.llm.request(plain.messages, **overrides)
        return plain

    def _assembly(self, input: GraphInput, rag: bool) -> Flow[Assembly]:
        """What is sent; what that cost in embeddings is recorded at once."""
        if isinstance(input, Assembly):
            return input
        history = yield from self.conversation.history()
        try:
            assembly = yield from closable(self.graph.assembly_flow(input, history, rag))
        except BaseException as error:
            yield from self.conversation.keep_embeddings([self.retriever], after=error)
            raise
        yield from self.conversation.keep_embeddings([self.retriever])
        return assembly

    def _turn(self, input: GraphInput, rag: bool, labels: Labels) -> Flow[Turn]:
        assembly = yield from self._assembly(input, rag)
        return self.conversation.turn(self.graph, assembly, labels)

    def _chat(
        self, input: GraphInput, rag: bool, labels: Labels, overrides: dict[str, Any]
    ) -> Flow[LLMResponse]:
        self._checked(input, overrides)
        turn = yield from self._turn(input, rag, labels)
        request = self.llm.request(turn.assembly.messages, **overrides)
        call = Call(self.conversation, turn, request)
        outcome = yield from call.answered(self.llm.chat_flow(request))
        yield from self.conversation.keep(entry(turn, outcome, dialogue(turn, outcome)))
        assert outcome.response is not None  # it was answered
        return outcome.response

    def _opened(
        self,
        kind: Callable[[Any, StreamRecord], S],
        drive: Callable[[StreamFlow[StreamEvent, None]], Any],
        input: GraphInput,
        rag: bool,
        labels: Labels,
        overrides: dict[str, Any],
    ) -> S:
        """A stream that was checked and has not begun. One that nobody ever reads leaves a record,
        too.
        """
        plain, record = self._checked(input, overrides), StreamRecord()
        events = self._stream(input, rag, labels, overrides, record)
        pieces = drive(events)
        opened = kind(pieces, record)
        self.conversation.watch(
            opened, events, pieces, self.conversation.turn(self.graph, plain, labels)
        )
        return opened

    def _stream(
        self,
        input: GraphInput,
        rag: bool,
        labels: Labels,
        overrides: dict[str, Any],
        record: StreamRecord,
    ) -> StreamFlow[StreamEvent, None]:
        turn = yield from self._turn(input, rag, labels)
        request = self.llm.request(turn.assembly.messages, **overrides)
        call = Call(self.conversation, turn, request, streams=True)
        of_call = StreamRecord()  # its clock starts now, and not when the stream was asked for
        try:
            outcome = yield from call.streamed(self.llm.stream_flow(request, of_call), of_call)
        finally:
            record.response = of_call.response
        yield from self.conversation.keep(entry(turn, outcome, dialogue(turn, outcome)))
        if outcome.response is not None:
            yield Emit(outcome.response)

    def _structured(
        self,
        input: GraphInput,
        schema: Any,
        rag: bool,
        labels: Labels,
        max_attempts: int,
        overrides: dict[str, Any],
    ) -> Flow[Any]:
        plain = self._checked(input, overrides)
        _, shape = self.llm.structured_request(plain.messages, schema, overrides)
        turn = yield from self._turn(input, rag, labels)
        request = self.llm.request(turn.assembly.messages, **overrides)
        attempts = _Attempts(self.conversation, turn, self.llm)
        try:
            asking = self.llm.structured_flow(request, shape, max_attempts, attempts.ask)
            value, _ = yield from asking
        except BaseException as error:
            yield from attempts.failed(error)
            raise
        yield from attempts.fits()
        return value


class _Attempts:
    """The calls of one structured answer. Each is kept when it is known what became of it."""

    def __init__(self, conversation: Conversation, turn: Turn, llm: LLM) -> None:
        self._conversation = conversation
        self._turn = turn
        self._llm = llm
        self._last: Outcome | None = None

    def ask(self, request: Request, keep: Callable[[LLMResponse], bool]) -> Flow[LLMResponse]:
        """Once more; the attempt before did not fit, and is no turn of the conversation."""
        if (misfit := self._taken()) is not None:
            yield from self._conversation.keep(entry(self._turn, misfit))
        call = Call(self._conversation, self._turn, request)
        self._last = yield from call.answered(self._llm.chat_flow(request, keep))
        assert self._last.response is not None  # it was answered
        return self._last.response

    def fits(self) -> Flow[None]:
        """The last one is the answer."""
        if (outcome := self._taken()) is not None:
            rows = dialogue(self._turn, outcome)
            yield from self._conversation.keep(entry(self._turn, outcome, rows))

    def failed(self, error: BaseException) -> Flow[None]:
        """There is no answer; the last attempt is kept already if it is the call that failed."""
        if (outcome := self._taken()) is not None:
            failed = entry(self._turn, outcome.failed(error))
            yield from self._conversation.keep(failed, after=error)

    def _taken(self) -> Outcome | None:
        outcome, self._last = self._last, None
        return outcome
