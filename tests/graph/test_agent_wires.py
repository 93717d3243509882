"""The agent on every provider's own wire, with the real SDKs, against a server on loopback."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pywrapai import (
    LLM,
    Message,
    RateLimitError,
    Role,
    StreamInterruptedError,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Call, Reply, events, raw, status, text, tool_calls
from pywrapai.testing.wires import openai as openai_wire
from pywrapai.testing.wires.anthropic import message, message_events
from pywrapai.testing.wires.gemini import SIGNATURE
from pywrapai.testing.wires.gemini import reply as gemini_reply
from pywrapai.testing.wires.ollama import last_line, line
from pywrapai_graph import (
    Agent,
    AgentConfig,
    AgentEvent,
    AgentMaxTurnsError,
    AgentResult,
    AgentStep,
    GraphLLM,
    ToolRegistry,
    tool,
)

MODELS = {
    "openai": "gpt-4o-mini",
    "anthropic": "claude-haiku-4-5-20251001",
    "gemini": "gemini-3-flash-preview",  # refuses calls that come back without their signature
    "ollama": "llama3.2",
    "lmstudio": "qwen3-4b",
}
SKY = {"Oslo": "rain", "Rome": "sun"}
OSLO, ROME = (Call("weather", {"city": city}, id=f"call_{city}") for city in SKY)


@tool
def weather(city: str, days: int = 1) -> dict[str, Any]:
    """The weather in a city."""
    if city not in SKY:
        raise LookupError(f"no city {city}")
    return {"sky": SKY[city], "days": days}


@tool
def tides(harbour: str) -> str:
    """When the water comes."""
    return f"noon at {harbour}"


def agent_on(provider: str, server: StubServer, **config: Any) -> Agent:
    url = server.url("openai" if provider == "lmstudio" else provider)
    llm = LLM(provider, MODELS[provider], api_key="sk-t3st", base_url=url, max_retries=0)
    registry = ToolRegistry()
    registry.register(weather)
    registry.register(tides)
    graph = GraphLLM(llm).with_system_prompt("Look it up.")
    return Agent(graph, registry, AgentConfig(**config))


@pytest.fixture(params=MODELS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["run", "arun", "stream", "astream"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def go(agent: Agent, way: str, *args: Any) -> AgentResult:
    match way:
        case "run":
            return agent.run(*args)
        case "arun":
            return await agent.arun(*args)
        case _:
            seen = await everything(agent, way, *args)
            assert isinstance(seen[-1], AgentResult)
            return seen[-1]


async def everything(agent: Agent, way: str, *args: Any) -> list[AgentEvent]:
    if way == "stream":
        return list(agent.stream(*args))
    return [event async for event in agent.astream(*args)]


def contents(result: AgentResult) -> list[list[str]]:
    return [[answer.content for answer in step.tool_results] for step in result.steps]


# What goes over the wire


RAIN, SUN = '{"sky": "rain", "days": 1}', '{"sky": "sun", "days": 1}'
SENT_RESULTS = {
    "openai": [
        {"role": "tool", "tool_call_id": "call_Oslo", "content": RAIN},
        {"role": "tool", "tool_call_id": "call_Rome", "content": SUN},
    ],
    "anthropic": {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_Oslo", "content": RAIN},
            {"type": "tool_result", "tool_use_id": "call_Rome", "content": SUN},
        ],
    },
    "gemini": {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": f"call_{city}",
                    "name": "weather",
                    "response": {"sky": sky, "days": 1},
                }
            }
            for city, sky in SKY.items()
        ],
    },
    "ollama": [
        {"role": "tool", "tool_name": "weather", "content": RAIN},
        {"role": "tool", "tool_name": "weather", "content": SUN},
    ],
}
SENT_RESULTS["lmstudio"] = SENT_RESULTS["openai"]


def sent_turns(provider: str, server: StubServer) -> Any:
    return server.requests[-1].json["contents" if provider == "gemini" else "messages"]


def sent_results(provider: str, server: StubServer) -> Any:
    turns = sent_turns(provider, server)
    return turns[-1] if provider in ("anthropic", "gemini") else turns[-2:]


async def test_two_calls_of_a_turn_are_answered_in_order_and_in_the_wires_form(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server)
    server.reply(tool_calls(OSLO, ROME), "Rain, then sun.")

    result = await go(agent, way, "Weather in Oslo and Rome?")

    assert result.content == "Rain, then sun."
    assert result.total_turns == 2
    assert contents(result) == [[RAIN, SUN]]
    assert [c.arguments for c in result.steps[0].tool_calls] == [{"city": city} for city in SKY]
    assert sent_results(provider, server) == SENT_RESULTS[provider]
    assert server.refusals == []
    assert result.total_usage.total_tokens == agent.graph.tokens.total_tokens > 0


async def test_the_model_repairs_arguments_that_do_not_fit(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server)
    server.reply(
        tool_calls(Call("weather", {"city": "Oslo", "days": "many"})),
        tool_calls(Call("weather", {"town": "Oslo"})),
        tool_calls(Call("weather", {"city": "Oslo", "days": "3"})),
        "Rain.",
    )

    result = await go(agent, way, "Weather in Oslo?")

    [[days], [town], [served]] = contents(result)
    assert days.startswith("Error: days: ")
    assert "city is missing" in town
    assert "'town'" in town
    assert served == '{"sky": "rain", "days": 3}'
    assert [step.tool_results[0].is_error for step in result.steps] == [True, True, False]
    assert server.refusals == []


@pytest.mark.parametrize("provider", ["openai", "lmstudio", "anthropic"])
async def test_arguments_that_are_no_json_run_nothing_and_can_be_sent_back(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server)
    broken = tool_calls(Call("weather", '{"city": "Os'))
    server.reply(broken, tool_calls(OSLO), "Rain.")

    result = await go(agent, way, "Weather in Oslo?")

    assert '{"city": "Os' in contents(result)[0][0]
    assert contents(result)[1] == [RAIN]
    assert server.refusals == []


async def test_an_unknown_tool_ends_the_run_before_any_tool_has_run(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server)
    server.reply(tool_calls(OSLO, Call("traffic", {})))

    with pytest.raises(KeyError, match="traffic"):
        await go(agent, way, "Weather in Oslo?")
    assert len(server.requests) == 1


async def test_an_unknown_tool_is_told_where_the_policy_says_so(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server, unknown_tool_policy="return_to_model")
    server.reply(tool_calls(OSLO, Call("traffic", {"x": 1}, id="call_x")), "Rain.")

    result = await go(agent, way, "Weather in Oslo?")

    known, unknown = result.steps[0].tool_results
    assert (known.content, known.is_error) == (RAIN, False)
    assert unknown.is_error
    assert "weather, tides" in unknown.content
    assert server.refusals == []


async def test_a_tool_that_takes_too_long_has_failed_and_its_sibling_has_not(
    server: StubServer, provider: str, way: str
):
    ended: list[str] = []

    @tool
    async def forecast(city: str) -> None:
        """Never ends."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(city)

    agent = agent_on(provider, server, tool_timeout=0.05)
    agent.registry.register(forecast)
    server.reply(tool_calls(Call("forecast", {"city": "Oslo"}, id="late"), ROME), "Sun.")

    result = await go(agent, way, "Weather?")

    late, sun = result.steps[0].tool_results
    assert late.is_error
    assert "longer than 0.05 seconds" in late.content
    assert ended == ["Oslo"]
    assert sun.content == SUN
    assert server.refusals == []


async def test_a_failed_call_is_skipped_and_the_wire_stays_legal(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server, tool_error_policy="skip")
    nowhere = Call("weather", {"city": "Atlantis"}, id="call_a")
    server.reply(tool_calls(nowhere, OSLO), tool_calls(nowhere, text="Hm. "), "Rain.")

    result = await go(agent, way, "Weather?")

    assert contents(result) == [[RAIN], []]
    assert [len(step.tool_calls) for step in result.steps] == [2, 1]
    assert "call_a" not in server.requests[-1].body.decode()
    assert sent_turns(provider, server)[-1]["role"] in ("tool", "user")
    assert server.refusals == []


async def test_max_turns_is_the_number_of_requests(server: StubServer, provider: str, way: str):
    agent = agent_on(provider, server, max_turns=3)
    server.reply(*[tool_calls(OSLO)] * 4)

    with pytest.raises(AgentMaxTurnsError) as caught:
        await go(agent, way, "Weather in Oslo?")

    assert len(server.requests) == 3
    assert caught.value.turns == 3
    assert contents(caught.value.partial) == [[RAIN]] * 3
    assert caught.value.partial.total_usage.total_tokens == agent.graph.tokens.total_tokens > 0
    assert server.refusals == []


async def test_a_server_that_fails_in_the_middle_ends_the_run(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server)
    server.reply(tool_calls(OSLO), status(429))

    with pytest.raises(RateLimitError):
        await go(agent, way, "Weather in Oslo?")
    assert len(server.requests) == 2


# Cancellation


async def test_cancelling_a_run_closes_its_connection(server: StubServer, provider: str):
    agent = agent_on(provider, server)
    server.reply(tool_calls(OSLO), text("never").delayed(60))
    task = asyncio.create_task(agent.arun("Weather in Oslo?"))
    assert await asyncio.to_thread(server.wait_until, lambda: len(server.requests) == 2)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.requests[1].client_left.wait, 5)
    assert len(asyncio.all_tasks()) == 1


async def test_leaving_a_streamed_run_closes_its_connection(server: StubServer, provider: str):
    agent = agent_on(provider, server)
    words = text("word " * 50).paced(0.05)
    server.reply(*[tool_calls(OSLO), words] * 2)

    with_text = agent.stream("Weather in Oslo?")
    assert any(isinstance(event, TextDelta) for event in with_text)
    with_text.close()
    async with agent.astream("Weather in Oslo?") as awaited:
        async for event in awaited:
            if isinstance(event, TextDelta):
                break

    for number in (1, 3):
        assert await asyncio.to_thread(server.requests[number].client_left.wait, 5)
    assert len(server.requests) == 4


async def test_a_stream_cut_in_the_middle_of_a_run_is_no_answer(server: StubServer, provider: str):
    agent = agent_on(provider, server)
    server.reply(*[tool_calls(OSLO), text("one two three four five").cut_after(4)] * 2)

    for streamed in ("stream", "astream"):
        with pytest.raises(StreamInterruptedError) as caught:
            await everything(agent, streamed, "Weather in Oslo?")
        assert caught.value.partial.startswith("one")


# Streams


@pytest.mark.parametrize("streamed", ["stream", "astream"])
async def test_a_streamed_run_tells_what_the_wire_brings(
    server: StubServer, provider: str, streamed: str
):
    agent = agent_on(provider, server)
    server.reply(tool_calls(OSLO, ROME, text="Let me see."), "Rain, then sun.")

    seen = await everything(agent, streamed, "Weather?")

    *rest, result = seen
    calls = [event for event in rest if isinstance(event, ToolCall)]
    results = [event for event in rest if isinstance(event, ToolResult)]
    [step] = [event for event in rest if isinstance(event, AgentStep)]
    at = seen.index(step)
    before = "".join(event.text for event in seen[:at] if isinstance(event, TextDelta))
    after = [event.text for event in seen[at:] if isinstance(event, TextDelta)]
    assert isinstance(result, AgentResult)
    assert (before, "".join(after)) == ("Let me see.", result.content)
    assert len(after) > 1
    assert [call.arguments["city"] for call in calls] == ["Oslo", "Rome"]
    assert [found.tool_call_id for found in results] == [call.id for call in calls]
    assert (step.tool_calls, step.tool_results) == (calls, results)
    assert result.steps == [step]
    assert seen.index(calls[-1]) < seen.index(results[0]) < at


async def test_a_streamed_run_comes_to_what_the_whole_run_comes_to(
    server: StubServer, provider: str
):
    agent = agent_on(provider, server)
    server.reply(*[tool_calls(OSLO, ROME, text="Let me see."), "Rain, then sun."] * 2)

    whole = agent.run("Weather?")
    streamed = await go(agent, "astream", "Weather?")

    assert streamed.messages[-1].content == whole.messages[-1].content
    assert contents(streamed) == contents(whole)
    assert streamed.total_usage == whole.total_usage
    assert streamed.total_cost_usd == whole.total_cost_usd


# Thinking


THOUGHT = {"type": "thinking", "thinking": "Look it up.", "signature": "c2lnbmVk"}
USED = {"type": "tool_use", "id": "call_Oslo", "name": "weather", "input": {"city": "Oslo"}}
CALLED = {"name": "weather", "args": {"city": "Oslo"}, "id": "call_Oslo"}
OLLAMA_CALL = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
OPENAI_CALL = {
    "id": "call_Oslo",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}


def thinking(provider: str, streamed: bool) -> Reply:
    """A turn that thinks "Look it up." and then asks for the weather in Oslo."""
    match provider:
        case "anthropic":
            ending, model = {"stop_reason": "tool_use"}, MODELS[provider]
            if streamed:
                start, end = {"input_tokens": 1}, {"output_tokens": 1}
                return events(
                    *message_events(THOUGHT, USED, start=start, end=end, model=model, **ending)
                )
            return raw(message(THOUGHT, USED, model=model, **ending))
        case "gemini":
            whole = gemini_reply(
                {"text": "Look it up.", "thought": True},
                {"functionCall": CALLED, "thoughtSignature": SIGNATURE},
                modelVersion=MODELS[provider],
            )
            return events(whole) if streamed else raw(whole)
        case "ollama":
            said = {"thinking": "Look it up.", "tool_calls": [OLLAMA_CALL]}
            return events(line(said), last_line()) if streamed else raw(line(said, done=True))
        case _:
            said = {"reasoning_content": "Look it up.", "tool_calls": [OPENAI_CALL]}
            if not streamed:
                return raw(openai_wire.completion(said, "tool_calls"))
            said["tool_calls"] = [{"index": 0, **OPENAI_CALL}]
            return events(openai_wire.chunk(said), openai_wire.chunk({}, "tool_calls"))


def thought_sent_back(provider: str, body: Any) -> Any:
    match provider:
        case "anthropic":
            first, second = body["messages"][1]["content"]
            assert second["type"] == "tool_use"
            return first
        case "gemini":
            [part] = body["contents"][1]["parts"]
            return part["thoughtSignature"]
        case "ollama":
            return body["messages"][2]["thinking"]
        case _:
            return body["messages"][2]["reasoning_content"]


THOUGHTS = {"anthropic": THOUGHT, "gemini": SIGNATURE}


async def test_what_a_model_thought_goes_back_with_its_call(
    server: StubServer, provider: str, way: str
):
    agent = agent_on(provider, server)
    streamed = way in ("stream", "astream")
    server.reply(thinking(provider, streamed), thinking(provider, streamed), "Rain.")

    result = await go(agent, way, "Weather in Oslo?")

    assert [step.response.thinking for step in result.steps if step.response] == ["Look it up."] * 2
    assert thought_sent_back(provider, server.requests[-1].json) == THOUGHTS.get(
        provider, "Look it up."
    )
    assert server.refusals == []


@pytest.mark.parametrize("streamed", ["stream", "astream"])
async def test_thinking_is_told_as_it_comes(server: StubServer, provider: str, streamed: str):
    agent = agent_on(provider, server)
    server.reply(thinking(provider, True), "Rain.")

    seen = await everything(agent, streamed, "Weather in Oslo?")

    thoughts = [event.text for event in seen if isinstance(event, ThinkingDelta)]
    assert "".join(thoughts) == "Look it up."


# From one provider to another


@pytest.mark.parametrize("other", MODELS)
async def test_a_run_goes_on_at_another_provider(server: StubServer, provider: str, other: str):
    server.reply(thinking(provider, False), tool_calls(OSLO, ROME), "Rain, then sun.")
    first = agent_on(provider, server).run("Weather?")
    kept = json.dumps([turn.to_dict() for turn in first.messages])

    history = [Message.from_dict(turn) for turn in json.loads(kept)]
    server.reply(tool_calls(ROME), "Still sun.")
    second = await agent_on(other, server).arun("And now?", history)

    assert second.content == "Still sun."
    assert [str(turn.role) for turn in history + second.messages] == [
        *["user", "assistant", "tool", "assistant", "tool", "tool", "assistant"],
        *["user", "assistant", "tool", "assistant"],
    ]
    sent = server.requests[-1].body.decode()
    said = ["Look it up.", "Weather?", "rain", "Rain, then sun.", "And now?"]
    assert [sent.index(phrase) for phrase in said] == sorted(sent.index(phrase) for phrase in said)
    assert server.refusals == []


async def test_calls_that_share_an_id_are_each_answered(server: StubServer, provider: str):
    agent = agent_on(provider, server)
    twice = [Call("weather", {"city": city}, id="call_1") for city in SKY]
    server.reply(tool_calls(*twice), tool_calls(twice[0]), "Rain, then sun.")

    result = await agent.arun("Weather?")

    assert contents(result) == [[RAIN, SUN], [RAIN]]
    assert result.messages[-1].role == Role.ASSISTANT
    assert server.refusals == []
