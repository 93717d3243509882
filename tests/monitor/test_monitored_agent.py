from __future__ import annotations

import asyncio
import inspect
import json
import signal
import subprocess
import sys

import pytest

from pywrapai import LLM, LLMResponse, ServerError, TextDelta, TokenUsage, ToolCall
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
from pywrapai_monitor import SQLiteStore, StoreError
from pywrapai_monitor.agent import MonitoredAgent
from tests.monitor.notebook import Notebook

WAYS = ("run", "arun", "stream", "astream")
EACH = pytest.mark.parametrize("way", WAYS)
BOTH = pytest.mark.parametrize("way", WAYS[:2])


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(why: str) -> str:
    """Always fails."""
    raise ValueError(why)


AT_WORK: list[asyncio.Event] = []


@tool
async def wait(text: str) -> str:
    """Never ends."""
    AT_WORK[-1].set()
    await asyncio.Event().wait()
    return text


@tool(requires_approval=True)
def delete(name: str) -> str:
    """Delete something."""
    return f"deleted {name}"


def call(name: str, call_id: str = "c1", /, **arguments) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def agent_of(*replies, notebook: Notebook | None = None, max_turns: int = 20, **config):
    notebook = notebook or Notebook()
    provider = StubProvider(replies[0] if callable(replies[0]) else list(replies))
    registry = ToolRegistry()
    for item in (add, fail, wait, delete):
        registry.register(item)
    graph = GraphLLM(LLM(provider, max_retries=0)).with_system_prompt("Use tools.")
    conversation = notebook.conversation(max_turns=max_turns)
    agent = MonitoredAgent(graph, registry, conversation, AgentConfig(**config))
    return agent, notebook, provider


async def go(agent: MonitoredAgent, way: str, question="Go.", **more) -> AgentResult:
    found = getattr(agent, way)(question, **more)
    if inspect.isawaitable(found):
        return await found
    if isinstance(found, AgentResult):
        return found
    if hasattr(found, "__anext__"):
        return [event async for event in found][-1]
    return list(found)[-1]


def roles(notebook: Notebook) -> list[list[str]]:
    return [[m.role for m in entry.messages] for entry in notebook.entries]


STEPS = ([call("add", "c1", a=1, b=2), call("add", "c2", a=3, b=4)], [call("add", a=3, b=7)], "10.")


@EACH
async def test_each_step_is_kept_as_it_happens_and_the_turn_at_the_end(way):
    agent, notebook, _ = agent_of(*STEPS)

    result = await go(agent, way, "What is 3 + 7?", tags=["t"], metadata={"n": 1})

    assert result.content == "10."
    assert roles(notebook) == [["tool_call", "tool_result"]] * 2 + [["user", "assistant"]]
    first, _, last = notebook.entries
    assert json.loads(first.messages[0].content) == [
        {"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}},
        {"id": "c2", "name": "add", "arguments": {"a": 3, "b": 4}},
    ]
    assert [r["content"] for r in json.loads(first.messages[1].content)] == ["3", "7"]
    assert [m.content for m in last.messages] == ["What is 3 + 7?", "10."]
    assert last.messages[0].system_prompt == "Use tools."
    assert [entry.tools and entry.tools.turn_num for entry in notebook.entries] == [1, 2, None]
    step = first.tools
    assert [c.arguments for c in step.calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert [r.content for r in step.results] == ["3", "7"]
    assert len(step.durations_ms) == 2
    assert all(ms >= 0 for ms in step.durations_ms)
    assert {token.tags for token in notebook.tokens} == {("t",)}
    assert {str(token.metadata) for token in notebook.tokens} == {"{'n': 1}"}


@EACH
async def test_every_model_call_is_one_token_record_and_their_money_is_the_runs(way):
    def turn(number: int) -> LLMResponse:
        calls = [call("add", a=1, b=number)] if number < 3 else None
        return LLMResponse("done", calls, TokenUsage(10 * number, number), "m", cost_usd=number / 8)

    agent, notebook, _ = agent_of(turn(1), turn(2), turn(3))

    result = await go(agent, way)

    assert [token.cost_usd for token in notebook.tokens] == [0.125, 0.25, 0.375]
    assert sum(token.cost_usd for token in notebook.tokens) == result.total_cost_usd
    assert [token.input_tokens for token in notebook.tokens] == [10, 20, 30]
    assert {token.status for token in notebook.tokens} == {"ok"}
    ids = [step.response.call_id for step in result.steps] + [result.response.call_id]
    assert ids == [token.call_id for token in notebook.tokens]
    for entry in notebook.entries:
        assert {m.call_id for m in entry.messages} == {entry.token.call_id}


@pytest.mark.parametrize(
    ("value", "kept"), [(0, "0"), ("", '""'), ([], "[]"), (False, "false"), (None, "null")]
)
def test_a_result_that_is_next_to_nothing_is_kept_as_such(value, kept):
    @tool
    def give() -> object:
        """Give something."""
        return value

    agent, notebook, _ = agent_of([call("give")], "done")
    agent.registry.register(give)

    agent.run("Go.")

    (row,) = notebook.store.export_rows("tool_calls")
    assert (row["status"], row["result"], row["error"]) == ("ok", kept, None)


@EACH
async def test_what_the_agent_does_is_what_it_does_unwatched(way):
    def step_of(event):
        return event.turn_num, event.tool_calls, event.tool_results, event.usage

    watched, seen = [], []
    agent, _, provider = agent_of(*STEPS, on_step=lambda step: watched.append(step_of(step)))
    plain = Agent(
        GraphLLM(LLM(StubProvider(list(STEPS)))).with_system_prompt("Use tools."),
        agent.registry,
        AgentConfig(on_step=lambda step: seen.append(step_of(step))),
    )

    result, expected = await go(agent, way), await go(plain, way)

    assert watched == seen
    assert (result.content, result.total_turns) == (expected.content, expected.total_turns)
    assert result.messages == expected.messages
    assert [len(request.messages) for request in provider.requests] == [2, 5, 7]


async def test_a_streamed_run_tells_the_same_events():
    agent, _, _ = agent_of(*STEPS)
    plain = Agent(GraphLLM(LLM(StubProvider(list(STEPS)))), agent.registry)

    kinds = [type(event).__name__ for event in agent.stream("Go.")]

    assert kinds == [type(event).__name__ for event in plain.stream("Go.")]
    agent, _, _ = agent_of(*STEPS)
    assert [type(event).__name__ async for event in agent.astream("Go.")] == kinds


@EACH
async def test_the_next_run_has_the_dialogue_and_no_tool_rows(way):
    agent, notebook, provider = agent_of(*STEPS, "Yes.")

    await go(agent, way, "What is 3 + 7?")
    await go(agent, way, "Sure?")

    assert [m.text for m in provider.requests[-1].messages] == [
        "Use tools.",
        "What is 3 + 7?",
        "10.",
        "Sure?",
    ]
    assert notebook.entries[-1].messages[0].history_count == 1
    assert len(notebook.settled) == 2
    rows = notebook.store.get_conversation("u", "s")
    assert [row["role"] for row in rows][:4] == ["tool_call", "tool_result"] * 2
    assert [row["tool_name"] for row in notebook.store.get_tool_usage()] == ["add"]


@EACH
async def test_a_run_out_of_turns_leaves_its_steps_and_the_history_as_it_was(way):
    agent, notebook, _ = agent_of(lambda messages, tools: [call("add", a=1, b=1)], max_turns=20)
    agent.agent.config = AgentConfig(max_turns=3)

    with pytest.raises(AgentMaxTurnsError) as caught:
        await go(agent, way)

    assert len(caught.value.partial.steps) == 3
    assert roles(notebook) == [["tool_call", "tool_result"]] * 3
    assert [entry.tools.turn_num for entry in notebook.entries] == [1, 2, 3]
    assert notebook.store.load_history("u", "s") == []


@EACH
async def test_a_model_that_fails_leaves_the_steps_before_it(way):
    agent, notebook, _ = agent_of([call("add", a=1, b=1)], ServerError("down"))

    with pytest.raises(ServerError):
        await go(agent, way)

    assert notebook.statuses == ["ok", "error"]
    assert roles(notebook) == [["tool_call", "tool_result"], []]
    assert notebook.store.load_history("u", "s") == []


@EACH
async def test_a_tool_that_ends_the_run_leaves_its_call_and_why(way):
    agent, notebook, _ = agent_of(
        [call("add", a=1, b=1)], [call("fail", why="no disk")], tool_error_policy="raise"
    )

    with pytest.raises(ValueError, match="no disk"):
        await go(agent, way)

    assert notebook.statuses == ["ok", "ok"]
    step = notebook.entries[1].tools
    assert [c.name for c in step.calls] == ["fail"]
    assert [(r.is_error, r.content) for r in step.results] == [
        (True, "no result: the run ended with ValueError: no disk")
    ]
    assert roles(notebook)[1] == ["tool_call", "tool_result"]
    assert notebook.store.load_history("u", "s") == []
    (_, usage) = sorted(notebook.store.get_tool_usage(), key=lambda row: row["tool_name"])
    assert (usage["tool_name"], usage["errors"]) == ("fail", 1)


@EACH
async def test_a_tool_that_fails_and_is_told_to_the_model_is_an_error_of_the_tool_alone(way):
    agent, notebook, _ = agent_of([call("fail", why="no disk")], "Sorry.")

    await go(agent, way)

    assert notebook.statuses == ["ok", "ok"]
    (result,) = notebook.entries[0].tools.results
    assert (result.is_error, result.content) == (True, "Error: no disk")


@EACH
async def test_a_call_that_is_skipped_is_kept_without_a_result(way):
    calls = [call("fail", "c1", why="x"), call("add", "c2", a=1, b=1)]
    agent, notebook, _ = agent_of(calls, "ok", tool_error_policy="skip")

    await go(agent, way)

    step = notebook.entries[0].tools
    assert [c.id for c in step.calls] == ["c1", "c2"]
    assert [r.tool_call_id for r in step.results] == ["c2"]
    assert len(step.durations_ms) == 2


@EACH
async def test_an_unknown_tool_ends_the_run_and_leaves_what_was_asked_for(way):
    agent, notebook, _ = agent_of([call("nope")])

    with pytest.raises(KeyError):
        await go(agent, way)

    assert [c.name for c in notebook.entries[0].tools.calls] == ["nope"]
    assert "KeyError" in notebook.entries[0].tools.results[0].content


@EACH
async def test_what_a_callback_raises_ends_the_run_and_the_step_is_kept_with_its_results(way):
    def refuse(step: AgentStep) -> None:
        raise RuntimeError("stop")

    agent, notebook, _ = agent_of(STEPS[0], on_step=refuse)

    with pytest.raises(RuntimeError, match="stop"):
        await go(agent, way)

    (entry,) = notebook.entries
    assert [r.content for r in entry.tools.results] == ["3", "7"]
    assert not any(r.is_error for r in entry.tools.results)


@EACH
async def test_a_refusal_is_kept_as_the_result_it_was(way):
    agent, notebook, _ = agent_of([call("delete", name="x")], "ok", approve=lambda call: False)

    await go(agent, way)

    (result,) = notebook.entries[0].tools.results
    assert (result.is_error, "not approved" in result.content) == (True, True)


@EACH
async def test_broken_arguments_are_kept_as_the_model_sent_them(way):
    agent, notebook, _ = agent_of([ToolCall("c1", "add", {}, raw_arguments='{"a": 1,')], "ok")

    await go(agent, way)

    (kept,) = notebook.entries[0].tools.calls
    assert kept.raw_arguments == '{"a": 1,'
    assert json.loads(notebook.entries[0].messages[0].content)[0]["raw_arguments"] == '{"a": 1,'


def test_what_only_the_provider_can_read_is_not_kept():
    signed = ToolCall("c1", "add", {"a": 1, "b": 2}, provider_data={"signature": "s" * 10_000})
    agent, notebook, provider = agent_of([signed], "ok")

    agent.run("Go.")

    assert notebook.entries[0].tools.calls[0].provider_data is None
    assert len(notebook.entries[0].messages[0].content) < 200
    assert provider.requests[1].messages[-2].tool_calls[0].provider_data is not None


@pytest.mark.parametrize("way", ["arun", "astream"])
async def test_a_cancelled_run_leaves_its_steps_and_the_call_whose_tool_was_at_work(way):
    agent, notebook, _ = agent_of([call("add", a=1, b=1)], [call("wait", text="x")])
    AT_WORK.append(asyncio.Event())
    task = asyncio.create_task(go(agent, way))
    await AT_WORK[-1].wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert [entry.tools.turn_num for entry in notebook.entries] == [1, 2]
    assert "CancelledError" in notebook.entries[1].tools.results[0].content
    assert notebook.store.load_history("u", "s") == []


def test_a_streamed_run_that_is_left_keeps_what_it_did_and_showed():
    agent, notebook, _ = agent_of([call("add", a=1, b=1)], "one two three")

    events = agent.stream("Go.")
    for event in events:
        if isinstance(event, TextDelta):
            break
    events.close()

    assert notebook.statuses == ["ok", "interrupted"]
    assert [content for _, content, _ in notebook.said()[-2:]] == ["Go.", "one two three"]
    assert notebook.said()[-1][-1] == "interrupted"


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("closed", [False, True])
async def test_a_streamed_run_that_nobody_reads_asks_nothing_and_is_recorded(way, closed):
    agent, notebook, provider = agent_of("never")

    stream = getattr(agent, way)("Go.", tags=["t"])
    if closed:
        await stream.aclose() if way == "astream" else stream.close()
    assert notebook.entries == []
    del stream

    assert provider.requests == []
    assert (notebook.statuses, notebook.tokens[0].tags) == (["interrupted"], ("t",))
    assert notebook.said() == []


async def test_an_async_run_that_is_left_among_its_tools_keeps_them():
    agent, notebook, _ = agent_of(*STEPS)

    events = agent.astream("Go.")
    async for event in events:
        if type(event).__name__ == "ToolResult":
            break
    await events.aclose()

    (entry,) = notebook.entries
    assert [r.content[:9] for r in entry.tools.results] == ["3", "no result"]
    assert notebook.store.load_history("u", "s") == []


def test_ctrl_c_in_a_tool_leaves_the_call():
    def stop(step) -> None:
        raise KeyboardInterrupt

    agent, notebook, _ = agent_of(STEPS[1], on_step=stop)

    with pytest.raises(KeyboardInterrupt):
        agent.run("Go.")

    assert [r.content for r in notebook.entries[0].tools.results] == ["10"]


@EACH
async def test_what_is_wrong_is_said_before_any_io(way):
    agent, notebook, provider = agent_of("never")

    with pytest.raises(ValueError, match="empty"):
        await go(agent, way, " ")
    with pytest.raises(TypeError, match="tags"):
        await go(agent, way, tags="x")

    assert (provider.requests, notebook.settled) == ([], [])


@EACH
async def test_when_the_history_cannot_be_loaded_the_model_is_not_called(way):
    agent, notebook, provider = agent_of("never")

    def gone(*args):
        raise StoreError("gone")

    notebook.store.load_history = gone

    with pytest.raises(StoreError, match="gone"):
        await go(agent, way)
    assert (provider.requests, notebook.entries) == ([], [])


@BOTH
def test_twins_take_the_same_arguments(way):
    twin = f"a{way}" if way == "run" else "astream"
    way = "run" if way == "run" else "stream"
    sync, other = (
        inspect.signature(getattr(MonitoredAgent, name)).parameters for name in (way, twin)
    )

    assert list(sync.values()) == list(other.values())


def test_what_a_user_of_the_agent_looks_at_is_there():
    agent, _, _ = agent_of("x", max_turns=3)

    assert (agent.user_id, agent.session_id) == ("u", "s")
    assert agent.graph.system_prompt == "Use tools."
    assert "add" in agent.registry
    assert agent.config.max_turns == 10


async def test_one_agent_serves_many_tasks_at_once():
    def answer(messages, tools):
        if messages[-1].role == "user":
            return [call("add", a=1, b=int(messages[-1].text))]
        return f"{messages[-2].tool_calls[0].arguments['b']}: {messages[-1].text}"

    agent, notebook, _ = agent_of(answer, max_turns=0)

    results = await asyncio.gather(*(agent.arun(str(number)) for number in range(20)))

    assert [result.content for result in results] == [f"{n}: {n + 1}" for n in range(20)]
    assert len(notebook.entries) == 40
    for entry in notebook.entries:
        if entry.tools:
            (made,), (result,) = entry.tools.calls, entry.tools.results
            assert int(result.content) == made.arguments["b"] + 1


KILLED = """
import os, sys, signal
from pywrapai import LLM, ToolCall
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM, ToolRegistry, tool
from pywrapai_monitor import SQLiteStore
from pywrapai_monitor.agent import MonitoredAgent
from tests.monitor.notebook import Notebook

calls = 0

@tool
def work() -> str:
    "Work."
    global calls
    calls += 1
    if calls == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"

registry = ToolRegistry()
registry.register(work)
graph = GraphLLM(LLM(StubProvider(lambda messages, tools: [ToolCall("c", "work", {})])))
notebook = Notebook(SQLiteStore(sys.argv[1]))
MonitoredAgent(graph, registry, notebook.conversation()).run("Go.")
"""


def test_a_run_that_is_killed_at_its_third_step_leaves_two(tmp_path):
    path = tmp_path / "m.db"

    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)])

    assert ended.returncode == -signal.SIGKILL
    store = SQLiteStore(path)
    roles = [row["role"] for row in store.get_conversation("u", "s")]
    assert roles == ["tool_call", "tool_result"] * 2
    assert len(store.get_session_token_records("u", "s")) == 2
    assert [row["calls"] for row in store.get_tool_usage()] == [2]
    assert store.load_history("u", "s") == []
    store.close()
