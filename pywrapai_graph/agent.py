"""Agent: let the model call tools until it has an answer."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from pywrapai.core import flow, portal
from pywrapai.core.base import LLMResponse, Message, Role, TokenUsage, ToolCall, ToolResult
from pywrapai.core.flow import Emit, Flow, Step, StreamFlow
from pywrapai.core.messages import MessageInput, to_messages
from pywrapai.core.stream import StreamRecord
from pywrapai_graph.agent_stream import AgentStream, AsyncAgentStream
from pywrapai_graph.agent_values import (
    AgentConfig,
    AgentEvent,
    AgentMaxTurnsError,
    AgentResult,
    AgentStep,
    ToolTimeoutError,
)
from pywrapai_graph.graph import GraphLLM
from pywrapai_graph.tools import Tool, ToolArgumentsError, ToolRegistry
from pywrapai_graph.tools.results import failed, succeeded
from pywrapai_graph.tools.signature import is_async


class Agent:
    """A graph, its tools, and the loop between them. May be shared by threads and by tasks.

    Args:
        graph: the model and its system prompt. Retrieval is left to a tool.
        registry: the tools that the model may call.
        config: turns, policies, callbacks.
    """

    def __init__(
        self, graph: GraphLLM, registry: ToolRegistry, config: AgentConfig | None = None
    ) -> None:
        self.graph = graph
        self.registry = registry
        self.config = config or AgentConfig()

    def run(self, input: MessageInput, history: Sequence[Message] | None = None) -> AgentResult:
        """Run to the final answer; the tools of a turn run one after another.

        Args:
            input: the question, or a list of messages that ends with it.
            history: the turns before; `history + result.messages` is the next one.

        Raises:
            AgentMaxTurnsError: no answer within `max_turns`; its `partial` has what was done.
            KeyError: the model asked for an unknown tool, where the policy is to raise.
        """
        return flow.run(self.run_flow(input, history, self._ask))

    async def arun(
        self, input: MessageInput, history: Sequence[Message] | None = None
    ) -> AgentResult:
        """`run`, awaited; the tools of a turn run at once, and cancelling it cancels them."""
        return await flow.arun(self.run_flow(input, history, self._ask))

    def stream(self, input: MessageInput, history: Sequence[Message] | None = None) -> AgentStream:
        """The same run as it happens: text, calls, results, steps, and the AgentResult last."""
        self.graph.assemble(input, history, rag=False)
        return AgentStream(flow.stream(self.run_flow(input, history, self._ask_aloud)))

    def astream(
        self, input: MessageInput, history: Sequence[Message] | None = None
    ) -> AsyncAgentStream:
        """`stream`, for `async for`."""
        self.graph.assemble(input, history, rag=False)
        return AsyncAgentStream(flow.astream(self.run_flow(input, history, self._ask_aloud)))

    def run_flow(
        self, input: MessageInput, history: Sequence[Message] | None, ask: _Ask
    ) -> StreamFlow[AgentEvent, AgentResult]:
        """The loop itself, for a layer above that adds to it."""
        base = self.graph.assemble(input, history, rag=False).messages
        progress = _Progress(added=[m for m in to_messages(input) if m.role != Role.SYSTEM])
        asked = len(progress.added)
        schema = self.registry.to_schema() or None
        for turn in range(1, self.config.max_turns + 1):
            response = yield from ask([*base, *progress.added[asked:]], schema)
            if not response.tool_calls:
                progress.added.append(response.message)
                result = progress.result(response)
                yield Emit(result)
                return result
            yield from self._turn(turn, response, progress)
        raise AgentMaxTurnsError(
            f"no final answer within {self.config.max_turns} turns: raise max_turns, or see what "
            "error.partial says of the turns there were",
            turns=self.config.max_turns,
            partial=progress.result(),
        )

    def _ask(
        self, messages: list[Message], schema: list[dict[str, Any]] | None
    ) -> Flow[LLMResponse]:
        llm = self.graph.llm
        return llm.chat_flow(llm.request(messages, schema))

    def _ask_aloud(
        self, messages: list[Message], schema: list[dict[str, Any]] | None
    ) -> StreamFlow[Any, LLMResponse]:
        llm, record = self.graph.llm, StreamRecord()
        events = llm.stream_flow(llm.request(messages, schema), record)
        yield from events
        response = record.response
        assert response is not None  # the stream has ended
        return response

    def _turn(
        self, turn: int, response: LLMResponse, progress: _Progress
    ) -> StreamFlow[AgentEvent, None]:
        calls = response.tool_calls or []
        self._refuse_unknown(calls)
        outcomes = yield from flow.together([self._outcome(call) for call in calls])
        for outcome in outcomes:
            if outcome.result is not None:
                yield Emit(outcome.result)
        step = AgentStep(
            turn_num=turn,
            tool_calls=list(calls),
            tool_results=[o.result for o in outcomes if o.result is not None],
            usage=response.usage,
            cost_usd=response.cost_usd,
            durations_ms=[outcome.duration_ms for outcome in outcomes],
            response=response,
        )
        if self.config.on_step is not None:
            yield _either(self.config.on_step, step)
        progress.add(step)
        yield Emit(step)

    def _refuse_unknown(self, calls: Sequence[ToolCall]) -> None:
        """Before any of the turn's tools has run: the program is wrong, not the run."""
        if self.config.unknown_tool_policy == "raise":
            for call in calls:
                self.registry.get(call.name)

    def _outcome(self, call: ToolCall) -> Flow[_Outcome]:
        started = perf_counter()
        try:
            result: ToolResult | None = succeeded(call, (yield from self._called(call)))
        except (_Refused, ToolArgumentsError) as refused:
            result = failed(call, refused)
        except Exception as error:
            if self.config.tool_error_policy == "raise":
                raise
            result = None if self.config.tool_error_policy == "skip" else failed(call, error)
        return _Outcome(result, (perf_counter() - started) * 1000.0)

    def _called(self, call: ToolCall) -> Flow[Any]:
        """The tool's own return value, once everything speaks for calling it."""
        if call.name not in self.registry:
            known = ", ".join(self.registry.names) or "none"
            raise _Refused(f"there is no tool {call.name!r:.80}; there are: {known}")
        tool = self.registry.get(call.name)
        if tool.requires_approval:
            yield from self._approved(call)
        return (yield _within(self.config.tool_timeout, self.registry.step(call), tool))

    def _approved(self, call: ToolCall) -> Flow[None]:
        approve = self.config.approve
        if approve is None:
            raise _Refused(f"{call.name} needs approval, and nobody is there to give it")
        if (yield _either(approve, call)) is not True:
            raise _Refused(f"{call.name} was not approved")


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: ToolResult | None
    """None for a failed call that is skipped."""
    duration_ms: float


class _Refused(Exception):
    """Why a call was not made. Told to the model, as wrong arguments are, whatever the policy for
    tools that fail: no tool has failed, and only the model can mend it.
    """


_Ask = Callable[[list[Message], "list[dict[str, Any]] | None"], StreamFlow[AgentEvent, LLMResponse]]


@dataclass(slots=True)
class _Progress:
    """What one run has done so far."""

    added: list[Message]
    steps: list[AgentStep] = field(default_factory=list)

    def add(self, step: AgentStep) -> None:
        """Keep a step, and the messages that tell the model of it.

        A call without a result would be refused by every provider, so it is left out with it; and
        so is a turn that has no call left, as not all providers take a turn of the model's last.
        """
        self.steps.append(step)
        answered = {result.tool_call_id for result in step.tool_results}
        calls = [call for call in step.tool_calls if call.id in answered]
        assert step.response is not None  # every step of a run has one
        if calls:
            self.added.append(replace(step.response.message, tool_calls=calls))
        for result in step.tool_results:
            self.added.append(Message(Role.TOOL, result.content, tool_result=result))

    def result(self, final: LLMResponse | None = None) -> AgentResult:
        """What the run came to, or what there is of it without a final answer."""
        last = final or self.steps[-1].response
        usages = [step.usage for step in self.steps] + ([final.usage] if final else [])
        return AgentResult(
            content=last.content if last else "",
            steps=list(self.steps),
            total_turns=len(usages),
            total_usage=sum(usages, TokenUsage()),
            # Added up as whoever checks it would: sum() rounds better than + does, from 3.12 on.
            total_cost_usd=sum(step.cost_usd for step in self.steps)
            + (final.cost_usd if final else 0.0),
            messages=list(self.added),
            response=last,
        )


def _either(function: Callable[[Any], Any], argument: Any) -> Step:
    """Call what may be sync or async."""

    def block() -> Any:
        found = function(argument)
        return portal.run(_awaited(found)) if inspect.isawaitable(found) else found

    async def wait() -> Any:
        found = function(argument)
        return await found if inspect.isawaitable(found) else found

    return Step(block, wait)


async def _awaited(found: Any) -> Any:
    return await found


def _within(seconds: float | None, step: Step, tool: Tool) -> Step:
    """The step, failed if it takes longer. A sync tool cannot be stopped: it is left behind."""
    if seconds is None:
        return step

    late = ToolTimeoutError(f"{tool.name} took longer than {seconds:g} seconds")

    def block() -> Any:
        if is_async(tool.fn):
            return portal.run(wait())
        found = _in_a_thread(step.block, f"tool {tool.name}")
        try:
            return found.result(seconds)
        except TimeoutError:
            if found.done():  # the tool's own, or it has ended this very moment
                return found.result()
            raise late from None

    async def wait() -> Any:
        import asyncio

        try:
            async with asyncio.timeout(seconds) as limit:
                return await step.wait()
        except TimeoutError:
            if limit.expired():
                raise late from None
            raise

    return Step(block, wait)


def _in_a_thread(function: Callable[[], Any], name: str) -> Future[Any]:
    """Its result to come. The thread sees the caller's context variables."""
    found: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            found.set_result(context.run(function))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return found
