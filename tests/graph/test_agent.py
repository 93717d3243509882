from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from dataclasses import replace

import pytest

from pywrapai import (
    LLM,
    LLMResponse,
    Message,
    Role,
    ServerError,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.testing import StubProvider
from pywrapai_graph import (
    Agent,
    AgentConfig,
    AgentMaxTurnsError,
    AgentResult,
    AgentStep,
    GraphLLM,
    ToolRegistry,
    tool,
)

USER = contextvars.ContextVar("user", default="nobody")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(why: str) -> str:
    """Always fails."""
    raise RuntimeError(why)


@tool
def who() -> str:
    """Who is asking."""
    return USER.get()


@tool
async def later(text: str) -> str:
    """An async tool."""
    await asyncio.sleep(0)
    return text.upper()


@tool(requires_approval=True)
def delete(name: str) -> str:
    """Delete something."""
    return f"deleted {name}"


def call(name: str, call_id: str = "c1", /, **arguments) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def agent_of(*replies, **config) -> tuple[Agent, StubProvider]:
    provider = StubProvider(list(replies))
    registry = ToolRegistry()
    for item in (add, fail, who, later, delete):
        registry.register(item)
    graph = GraphLLM(LLM(provider, max_retries=0)).with_system_prompt("Use tools.")
    return Agent(graph, registry, AgentConfig(**config)), provider


BOTH = pytest.mark.parametrize("way", ["run", "arun"])


async def go(agent: Agent, way: str, *args, **kwargs) -> AgentResult:
    found = getattr(agent, way)(*args, **kwargs)
    return found if isinstance(found, AgentResult) else await found


@BOTH
async def test_tools_are_called_until_there_is_an_answer(way):
    calls = [call("add", "c1", a=1, b=2), call("later", "c2", text="hi")]
    agent, provider = agent_of(calls, [call("add", "c3", a=3, b=4)], "It is 7.")

    result = await go(agent, way, "What is 3 + 4?")

    assert result.content == "It is 7."
    assert result.total_turns == 3
    assert [step.turn_num for step in result.steps] == [1, 2]
    assert [r.content for r in result.steps[0].tool_results] == ["3", "HI"]
    assert result.steps[1].tool_results == [ToolResult("c3", "add", "7")]
    sent = provider.requests[1].messages
    assert [str(m.role) for m in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert [m.tool_result.tool_call_id for m in sent[3:] if m.tool_result] == ["c1", "c2"]
    assert provider.requests[0].tools == agent.registry.to_schema()


@BOTH
async def test_the_sums_hold(way):
    def turn(number: int) -> LLMResponse:
        calls = [call("add", a=1, b=number)] if number < 3 else None
        usage = TokenUsage(10 * number, number, number, 0, number)
        return LLMResponse("done", calls, usage, "m", cost_usd=0.1 * number)

    agent, _ = agent_of(turn(1), turn(2), turn(3))

    result = await go(agent, way, "go")

    assert result.total_usage == TokenUsage(60, 6, 6, 0, 6)
    final = result.response.cost_usd
    assert result.total_cost_usd == sum(step.cost_usd for step in result.steps) + final
    assert result.total_cost_usd == agent.graph.tokens.total_cost


@BOTH
async def test_what_a_run_added_is_the_next_history(way):
    agent, provider = agent_of([call("add", a=1, b=2)], "3", "yes")
    history = [Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi")]

    first = await go(agent, way, "What is 1 + 2?", history=history)
    await go(agent, way, "Sure?", history=history + first.messages)

    assert [str(m.role) for m in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert [str(m.role) for m in provider.requests[2].messages] == [
        "system",
        *["user", "assistant"],
        *["user", "assistant", "tool", "assistant"],
        "user",
    ]
    assert history == [Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi")]


@BOTH
async def test_a_failed_tool_is_told_to_the_model_by_default(way):
    agent, provider = agent_of([call("fail", why="no luck")], "Sorry.")

    result = await go(agent, way, "go")

    expected = ToolResult("c1", "fail", "Error: no luck", is_error=True)
    assert result.steps[0].tool_results == [expected]
    assert provider.requests[1].messages[-1].tool_result == expected


@BOTH
async def test_a_failed_tool_may_end_the_run(way):
    agent, _ = agent_of([call("fail", why="no luck")], tool_error_policy="raise")

    with pytest.raises(RuntimeError, match="no luck"):
        await go(agent, way, "go")


@BOTH
async def test_a_failed_tool_may_be_skipped_and_the_wire_stays_legal(way):
    calls = [call("fail", "c1", why="x"), call("add", "c2", a=1, b=2)]
    agent, provider = agent_of(calls, [call("fail", "c3", why="y")], "3", tool_error_policy="skip")

    result = await go(agent, way, "go")

    assert [r.tool_call_id for r in result.steps[0].tool_results] == ["c2"]
    assert [c.id for c in result.steps[0].tool_calls] == ["c1", "c2"]
    for request in provider.requests:
        asked = [c.id for m in request.messages for c in m.tool_calls or ()]
        answered = [m.tool_result.tool_call_id for m in request.messages if m.tool_result]
        assert asked == answered
    assert result.content == "3"


@BOTH
async def test_arguments_that_do_not_fit_are_named_and_the_model_may_repair_them(way):
    agent, _ = agent_of([call("add", a="x", b=2)], [call("add", a="1", b=2)], "3")

    result = await go(agent, way, "go")

    assert result.steps[0].tool_results[0].is_error
    assert "a" in result.steps[0].tool_results[0].content
    assert result.steps[1].tool_results[0].content == "3"


@BOTH
async def test_broken_arguments_run_nothing_and_are_told(way):
    broken = ToolCall("c1", "add", {}, raw_arguments='{"a": 1, "b"')
    agent, _ = agent_of([broken], "Sorry.")

    (result,) = (await go(agent, way, "go")).steps[0].tool_results

    assert result.is_error
    assert '{"a": 1, "b"' in result.content


@BOTH
async def test_an_unknown_tool_is_the_programs_fault_by_default(way):
    ran: list[str] = []

    @tool
    def note() -> str:
        """Notes that it ran."""
        ran.append("x")
        return "ok"

    agent, _ = agent_of([call("note"), call("nope", "c2")])
    agent.registry.register(note)

    with pytest.raises(KeyError, match="nope"):
        await go(agent, way, "go")
    assert ran == []


@BOTH
async def test_an_unknown_tool_may_be_told_to_the_model(way):
    agent, _ = agent_of([call("nope")], "Sorry.", unknown_tool_policy="return_to_model")

    (result,) = (await go(agent, way, "go")).steps[0].tool_results

    assert result.is_error
    assert "'nope'" in result.content
    assert "add" in result.content


@BOTH
async def test_a_run_out_of_turns_keeps_what_it_did(way):
    agent, provider = agent_of(*[[call("add", a=1, b=n)] for n in range(3)], max_turns=2)

    with pytest.raises(AgentMaxTurnsError) as caught:
        await go(agent, way, "go")

    assert caught.value.turns == 2
    assert len(caught.value.partial.steps) == 2
    assert caught.value.partial.total_turns == 2
    assert [str(m.role) for m in caught.value.partial.messages] == [
        "user",
        *["assistant", "tool"] * 2,
    ]
    assert len(provider.requests) == 2


@BOTH
async def test_a_tool_that_takes_too_long_has_failed(way):
    @tool
    async def forever() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "never"

    released = threading.Event()

    @tool
    def stuck() -> str:
        """Blocks."""
        released.wait(10)
        return "never"

    agent, _ = agent_of(
        [call("forever"), call("stuck", "c2"), call("add", "c3", a=1, b=2)],
        "Sorry.",
        tool_timeout=0.05,
    )
    agent.registry.register(forever)
    agent.registry.register(stuck)

    results = (await go(agent, way, "go")).steps[0].tool_results
    released.set()

    assert [r.is_error for r in results] == [True, True, False]
    assert "0.05 seconds" in results[0].content
    assert "stuck" in results[1].content


async def test_tools_of_a_turn_wait_for_each_other_in_arun():
    barrier = asyncio.Barrier(2)
    threads = threading.Barrier(2, timeout=5)

    @tool
    async def meet(name: str) -> str:
        """Waits for the other."""
        await barrier.wait()
        return name

    @tool
    def meet_in_a_thread(name: str) -> str:
        """Waits for the other."""
        threads.wait()
        return name

    agent, _ = agent_of(
        [call("meet", "c1", name="a"), call("meet", "c2", name="b")],
        [call("meet_in_a_thread", "c3", name="a"), call("meet_in_a_thread", "c4", name="b")],
        "done",
    )
    agent.registry.register(meet)
    agent.registry.register(meet_in_a_thread)

    result = await asyncio.wait_for(agent.arun("go"), 10)

    assert [[r.content for r in step.tool_results] for step in result.steps] == [["a", "b"]] * 2


async def test_when_one_tool_ends_the_run_its_siblings_have_ended_too():
    ended: list[str] = []

    @tool
    async def slow() -> str:
        """Takes for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")
        return "never"

    agent, _ = agent_of([call("slow"), call("fail", "c2", why="x")], tool_error_policy="raise")
    agent.registry.register(slow)

    with pytest.raises(RuntimeError):
        await agent.arun("go")
    assert ended == ["slow"]
    assert len(asyncio.all_tasks()) == 1


async def test_cancelling_a_run_cancels_its_tools():
    started, ended = asyncio.Event(), []

    @tool
    async def slow() -> str:
        """Takes for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")
        return "never"

    agent, _ = agent_of([call("slow")])
    agent.registry.register(slow)
    task = asyncio.create_task(agent.arun("go"))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["slow"]


@BOTH
async def test_tools_see_the_callers_context(way):
    USER.set("alice")
    agent, _ = agent_of([call("who")], "You are alice.")

    result = await go(agent, way, "Who am I?")

    assert result.steps[0].tool_results[0].content == "alice"


# Callbacks


@BOTH
@pytest.mark.parametrize("is_async", [True, False])
async def test_each_step_is_told_when_it_is_complete(way, is_async):
    seen: list[AgentStep] = []

    async def note(step: AgentStep) -> None:
        await asyncio.sleep(0)
        seen.append(step)

    agent, _ = agent_of([call("add", a=1, b=2)], "3", on_step=note if is_async else seen.append)

    result = await go(agent, way, "go")

    assert seen == result.steps
    assert seen[0].tool_results[0].content == "3"
    assert len(seen[0].durations_ms) == 1


@BOTH
async def test_what_a_callback_raises_ends_the_run(way):
    def stop(step: AgentStep) -> None:
        raise LookupError("enough")

    agent, _ = agent_of([call("add", a=1, b=2)], "3", on_step=stop)

    with pytest.raises(LookupError, match="enough"):
        await go(agent, way, "go")


@BOTH
@pytest.mark.parametrize("is_async", [True, False])
async def test_approval_is_given_call_by_call(way, is_async):
    async def ask(asked: ToolCall) -> bool:
        await asyncio.sleep(0)
        return asked.id == "c2"

    calls = [call("delete", "c1", name="a"), call("delete", "c2", name="b")]
    agent, _ = agent_of(
        calls, "done", approve=ask if is_async else (lambda asked: asked.id == "c2")
    )

    refused, done = (await go(agent, way, "go")).steps[0].tool_results

    assert refused.is_error
    assert "not approved" in refused.content
    assert done == ToolResult("c2", "delete", "deleted b")


@BOTH
async def test_without_an_approver_nothing_is_approved(way):
    agent, _ = agent_of([call("delete", name="a")], "done", tool_error_policy="raise")

    (result,) = (await go(agent, way, "go")).steps[0].tool_results

    assert result.is_error
    assert "approval" in result.content


@pytest.mark.parametrize(
    "config",
    [
        {"max_turns": 0},
        {"max_turns": "3"},
        {"tool_timeout": 0},
        {"tool_error_policy": "ignore"},
        {"unknown_tool_policy": "skip"},
    ],
)
def test_a_wrong_configuration_is_refused_at_once(config):
    with pytest.raises(ValueError, match=next(iter(config))):
        AgentConfig(**config)


def test_an_agent_refuses_an_empty_question_before_any_call():
    agent, provider = agent_of("never")

    for way in (agent.run, agent.stream, agent.astream):
        with pytest.raises(ValueError, match="empty"):
            way(" ")
    assert provider.requests == []


def test_a_model_that_fails_ends_the_run():
    agent, _ = agent_of([call("add", a=1, b=2)], ServerError("down"))

    with pytest.raises(ServerError):
        agent.run("go")


def test_text_beside_a_call_is_no_answer_yet():
    preamble = LLMResponse("Let me see.", [call("add", a=1, b=2)])
    agent, provider = agent_of(preamble, "3")

    result = agent.run("go")

    assert result.content == "3"
    assert provider.requests[1].messages[2].content == "Let me see."


def test_an_empty_answer_is_an_answer():
    agent, provider = agent_of("")

    assert agent.run("go").content == ""
    assert len(provider.requests) == 1


def test_an_agent_without_tools_asks_without_them():
    provider = StubProvider(["hi"])
    agent = Agent(GraphLLM(LLM(provider)), ToolRegistry())

    assert agent.run("hello").content == "hi"
    assert provider.requests[0].tools is None


def test_one_agent_serves_many_threads():
    agent, _ = agent_of()
    provider = StubProvider(
        lambda messages, tools: (
            "done" if messages[-1].role == Role.TOOL else [call("add", a=1, b=2)]
        )
    )
    agent = Agent(GraphLLM(LLM(provider)), agent.registry)
    results: list[AgentResult] = []
    threads = [threading.Thread(target=lambda: results.append(agent.run("go"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [result.content for result in results] == ["done"] * 16
    assert {len(result.steps) for result in results} == {1}


# Streams


async def test_a_streamed_run_tells_everything_as_it_happens():
    calls = LLMResponse("Let me see.", [call("add", "c1", a=1, b=2), call("who", "c2")])
    agent, _ = agent_of(*[calls, "It is 3."] * 2)

    events = list(agent.stream("go"))
    aevents = [event async for event in agent.astream("go")]

    for seen in (events, aevents):
        kinds = [type(event).__name__ for event in seen]
        assert kinds[-1] == "AgentResult"
        middle = ["ToolCall", "ToolCall", "ToolResult", "ToolResult", "AgentStep"]
        assert [kind for kind in kinds if kind != "TextDelta"] == [*middle, "AgentResult"]
        texts = "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert texts == "Let me see.It is 3."
        assert seen[-1].content == "It is 3."
        assert seen[-1].steps == [event for event in seen if isinstance(event, AgentStep)]


def test_a_streamed_run_may_be_left():
    agent, provider = agent_of([call("add", a=1, b=2)], "never asked")
    events = agent.stream("go")

    for event in events:
        if isinstance(event, ToolResult):
            break
    events.close()

    assert len(provider.requests) == 1


async def test_a_streamed_run_is_ended_by_its_block_and_has_its_result():
    agent, provider = agent_of("3", "4", [call("add", a=1, b=2)], "never asked")

    with agent.stream("go") as events:
        assert events.result is None
        last = list(events)[-1]
    async with agent.astream("go") as aevents:
        alast = [event async for event in aevents][-1]
    with agent.stream("go") as left:
        next(left)

    assert (events.result, aevents.result) == (last, alast)
    assert (last.content, alast.content) == ("3", "4")
    assert left.result is None
    assert list(left) == []
    assert len(provider.requests) == 3


def test_a_streamed_run_out_of_turns_raises_at_its_end():
    agent, _ = agent_of([call("add", a=1, b=2)], max_turns=1)
    seen: list[object] = []

    with pytest.raises(AgentMaxTurnsError):
        seen.extend(agent.stream("go"))
    assert isinstance(seen[-1], AgentStep)


def test_messages_of_a_run_survive_a_trip_through_json():
    agent, _ = agent_of([call("add", a=1, b=2)], "3")
    result = agent.run("go")

    again = [Message.from_dict(json.loads(json.dumps(m.to_dict()))) for m in result.messages]

    assert again == [replace(message) for message in result.messages]
