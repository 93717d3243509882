"""MonitoredAgent: an Agent that remembers one conversation and records its work as it happens."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, Message, ToolCall, ToolResult
from pywrapai.core.flow import Emit, Flow, StreamFlow
from pywrapai.core.messages import MessageInput
from pywrapai.core.stream import StreamRecord
from pywrapai.llm import LLM
from pywrapai_graph.agent import Agent
from pywrapai_graph.agent_stream import AgentStream, AsyncAgentStream
from pywrapai_graph.agent_values import AgentConfig, AgentEvent, AgentResult, AgentStep
from pywrapai_graph.graph import GraphLLM
from pywrapai_graph.tools.registry import ToolRegistry
from pywrapai_graph.tools.results import reason
from pywrapai_monitor.conversation import Call, Conversation, seen
from pywrapai_monitor.db.base import Entry, ToolStep
from pywrapai_monitor.turn import Labels, Outcome, Turn, dialogue, entry, own_calls, tool_rows

S = TypeVar("S", AgentStream, AsyncAgentStream)


class MonitoredAgent:
    """Made by `Monitor.wrap_agent`; called like an Agent, without `history`.

    A run loads the newest turns of the conversation. Each model call is recorded when it is known
    what came of it: with its tool calls and their results when the step is finished, with the user
    message when it is the answer. So a run that is cut short leaves the steps that it has done, and
    the history as it was. Runs also take `metadata` and `tags`, for all their records.

    Raises StoreError, before the model is called, when the history cannot be loaded.
    """

    def __init__(
        self,
        graph: GraphLLM,
        registry: ToolRegistry,
        conversation: Conversation,
        config: AgentConfig | None = None,
    ) -> None:
        self.agent = Agent(graph, registry, config)
        self.conversation = conversation

    @property
    def graph(self) -> GraphLLM:
        """The agent's graph."""
        return self.agent.graph

    @property
    def registry(self) -> ToolRegistry:
        """The agent's tools."""
        return self.agent.registry

    @property
    def config(self) -> AgentConfig:
        """The agent's configuration."""
        return self.agent.config

    @property
    def user_id(self) -> str:
        """Who is talking."""
        return self.conversation.user_id

    @property
    def session_id(self) -> str:
        """Which of the user's conversations it is."""
        return self.conversation.session_id

    def run(
        self,
        input: MessageInput,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> AgentResult:
        """Load the history, run to the final answer, record. Raises what Agent.run raises."""
        return flow.run(self._run(input, self.conversation.labels(tags, metadata), aloud=False))

    async def arun(
        self,
        input: MessageInput,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> AgentResult:
        """`run`, awaited; the tools of a turn run at once, and cancelling it cancels them."""
        labels = self.conversation.labels(tags, metadata)
        return await flow.arun(self._run(input, labels, aloud=False))

    def stream(
        self,
        input: MessageInput,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> AgentStream:
        """The same run as it happens, as `Agent.stream` tells it."""
        return self._opened(AgentStream, flow.stream, input, tags, metadata)

    def astream(
        self,
        input: MessageInput,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> AsyncAgentStream:
        """`stream`, for `async for`."""
        return self._opened(AsyncAgentStream, flow.astream, input, tags, metadata)

    def __repr__(self) -> str:
        return f"MonitoredAgent({self.graph!r}, {self.user_id!r}, {self.session_id!r})"

    def _opened(
        self,
        kind: Callable[[Any], S],
        drive: Callable[[StreamFlow[AgentEvent, AgentResult]], Any],
        input: MessageInput,
        tags: Iterable[str],
        metadata: Mapping[str, Any] | None,
    ) -> S:
        """A run that was checked and has not begun. One that nobody ever reads leaves a record."""
        labels = self.conversation.labels(tags, metadata)
        turn = self.conversation.turn(
            self.graph, self.graph.assemble(input, None, rag=False), labels
        )
        events = self._run(input, labels, aloud=True)
        pieces = drive(events)
        opened = kind(pieces)
        self.conversation.watch(opened, events, pieces, turn)
        return opened

    def _run(
        self, input: MessageInput, labels: Labels, aloud: bool
    ) -> StreamFlow[AgentEvent, AgentResult]:
        self.graph.assemble(input, None, rag=False)  # bad input is refused before any I/O
        history = yield from self.conversation.history()
        assembly = self.graph.assemble(input, history, rag=False)
        turn = self.conversation.turn(self.graph, assembly, labels)
        run = _Run(self.conversation, turn, self.graph.llm)
        asking = self.agent.run_flow(input, history, run.ask_aloud if aloud else run.ask)
        try:
            result = yield from seen(asking, run.seen)
        except BaseException as error:
            yield from run.broke(error)
            yield from self.conversation.keep_embeddings(self._retrievers(), after=error)
            raise
        yield from self.conversation.keep_embeddings(self._retrievers())
        return result

    def _retrievers(self) -> list[Any]:
        """Those whose costs come up in a run: of the tools that `retrieval_tool` made."""
        return [getattr(tool.fn, "retriever", None) for tool in self.registry]


class _Run:
    """What of a run is not recorded yet: the call whose tools are at work, and their results."""

    def __init__(self, conversation: Conversation, turn: Turn, llm: LLM) -> None:
        self._conversation = conversation
        self._turn = turn
        self._llm = llm
        self._turns = 0
        self._asked: Outcome | None = None
        self._results: list[ToolResult] = []

    def ask(
        self, messages: list[Message], schema: list[dict[str, Any]] | None
    ) -> Flow[LLMResponse]:
        """How the agent asks."""
        request = self._llm.request(messages, schema)
        call = Call(self._conversation, self._turn, request)
        outcome = yield from call.answered(self._llm.chat_flow(request))
        return (yield from self._answered(outcome))

    def ask_aloud(
        self, messages: list[Message], schema: list[dict[str, Any]] | None
    ) -> StreamFlow[Any, LLMResponse]:
        """The same, streamed."""
        request, record = self._llm.request(messages, schema), StreamRecord()
        call = Call(self._conversation, self._turn, request, streams=True)
        outcome = yield from call.streamed(self._llm.stream_flow(request, record), record)
        return (yield from self._answered(outcome))

    def seen(self, item: Any) -> Generator[Any, Any, Any]:
        """Keeps a finished step before anybody hears of it."""
        if type(item) is Emit:
            match item.chunk:
                case ToolResult() as result:
                    self._results.append(result)
                case AgentStep() as step:
                    yield from self._finished(step)
        return item

    def broke(self, error: BaseException) -> Flow[None]:
        """The run has ended before its answer: keep what is not kept yet of its last step."""
        if self._asked is None or self._asked.response is None:
            return
        calls = self._asked.response.tool_calls or []
        done = {result.tool_call_id for result in self._results}
        why = f"no result: the run ended with {type(error).__name__}: {reason(error)}"
        results = [
            *self._results,
            *(ToolResult(c.id, c.name, why, is_error=True) for c in calls if c.id not in done),
        ]
        yield from self._conversation.keep(self._step(calls, results), after=error)

    def _answered(self, outcome: Outcome) -> Flow[LLMResponse]:
        response = outcome.response
        assert response is not None  # it was answered
        self._turns += 1
        if response.tool_calls:
            self._asked, self._results = outcome, []
        else:
            rows = dialogue(self._turn, outcome)
            yield from self._conversation.keep(entry(self._turn, outcome, rows))
        return response

    def _finished(self, step: AgentStep) -> Flow[None]:
        kept = self._step(step.tool_calls, step.tool_results, step.durations_ms)
        yield from self._conversation.keep(kept)

    def _step(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolResult],
        durations_ms: Sequence[float] = (),
    ) -> Entry:
        outcome, self._asked = self._asked, None
        assert outcome is not None  # tools run only for a call that asked for them
        step = ToolStep(
            user_id=self._turn.user_id,
            session_id=self._turn.session_id,
            turn_num=self._turns,
            calls=own_calls(calls),
            results=tuple(results),
            durations_ms=tuple(durations_ms),
        )
        rows = tool_rows(self._turn, outcome, calls, results)
        return entry(self._turn, outcome, rows, step)
