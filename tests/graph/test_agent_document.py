from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from pywrapai import (
    LLM,
    Message,
    Role,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.testing import StubProvider, StubServer
from pywrapai.testing.wires import Call, text, tool_calls
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
from tests.graph.document_example import parameters, point_providers_at, sent, weather_and_search

LONDON = Call("get_weather", {"city": "London"}, id="call_abc")


@pytest.fixture(autouse=True)
def _environment(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_providers_at(server, monkeypatch)


@pytest.fixture(autouse=True)
def _nothing_is_refused(server: StubServer) -> Iterator[None]:
    yield
    assert server.refusals == []


@pytest.fixture
def llm() -> LLM:
    return LLM(provider="openai", model="gpt-4o-mini")


@pytest.fixture
def graph(llm: LLM) -> GraphLLM:
    return GraphLLM(llm=llm)


@pytest.fixture
def registry() -> ToolRegistry:
    return weather_and_search()


# The full tool-calling flow


def test_the_full_tool_calling_flow(server: StubServer, registry: ToolRegistry):
    llm = LLM(provider="anthropic", model="claude-haiku-4-5-20251001")
    graph = GraphLLM(llm=llm)
    server.reply(tool_calls(LONDON), "The weather in London is 16°C and cloudy.")

    response = graph.chat(
        "What's the weather in London?", tools=registry.to_schema(), tool_choice="auto"
    )
    assert response.tool_calls
    tc = response.tool_calls[0]
    result = registry.execute(tc)
    messages = [
        Message(Role.USER, "What's the weather in London?"),
        Message(Role.ASSISTANT, "", tool_calls=response.tool_calls),
        Message(Role.TOOL, result.content, tool_result=ToolResult(tc.id, tc.name, result.content)),
    ]
    final = graph.chat(messages)

    assert result.content == "16°C, cloudy in London"
    assert final.content == "The weather in London is 16°C and cloudy."
    used, answered = server.requests[1].json["messages"][1:]
    assert used["content"][0]["type"] == "tool_use"
    assert answered["content"][0]["content"] == "16°C, cloudy in London"


def test_one_schema_is_every_providers(server: StubServer, registry: ToolRegistry):
    schema = registry.to_schema()
    bodies: dict[str, Any] = {}
    for provider in ("openai", "anthropic", "gemini", "ollama"):
        server.reply("16°C.")
        GraphLLM(llm=LLM(provider=provider)).chat("What's the weather?", tools=schema)
        bodies[provider] = server.requests[-1].json["tools"]

    for provider in ("openai", "ollama"):
        assert [t["type"] for t in bodies[provider]] == ["function"] * 2
        assert [t["function"]["name"] for t in bodies[provider]] == registry.names
    assert [t["input_schema"]["required"] for t in bodies["anthropic"]] == [["city"], ["query"]]
    [declared] = bodies["gemini"]
    assert [t["name"] for t in declared["functionDeclarations"]] == registry.names
    assert schema == registry.to_schema()


def test_ollama_is_told_no_tool_choice_and_says_so(server: StubServer, registry: ToolRegistry):
    server.reply("16°C.")

    with pytest.warns(UserWarning, match="tool_choice"):
        GraphLLM(llm=LLM(provider="ollama")).chat(
            "What's the weather?", tools=registry.to_schema(), tool_choice="required"
        )

    assert "tool_choice" not in server.requests[0].json


# The agent's values


def test_agent_config_defaults():
    config = AgentConfig()

    assert config == AgentConfig(max_turns=10, tool_error_policy="return_to_model", on_step=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_turns", True),
        ("tool_error_policy", None),
        ("on_step", "print"),
        ("tool_timeout", "5"),
        ("tool_timeout", float("inf")),
        ("tool_timeout", float("nan")),
        ("approve", True),
    ],
)
def test_a_config_value_of_another_kind_is_refused_at_once(name: str, value: Any):
    with pytest.raises(ValueError, match=name):
        AgentConfig(**{name: value})


@pytest.fixture
def failing(registry: ToolRegistry) -> ToolRegistry:
    @tool
    def get_weather(city: str) -> str:
        """Get the current weather for a city."""
        raise ValueError("city not found")

    registry.register(get_weather, replace=True)
    return registry


def test_a_failed_tool_is_returned_to_the_model(
    server: StubServer, graph: GraphLLM, failing: ToolRegistry
):
    server.reply(tool_calls(LONDON), "I cannot say.")

    result = Agent(graph, failing, AgentConfig(tool_error_policy="return_to_model")).run("Weather?")

    assert result.content == "I cannot say."
    assert result.steps[0].tool_results[0].content == "Error: city not found"
    assert sent(server)[-1] == ("tool", "Error: city not found")


def test_a_failed_tool_is_raised(server: StubServer, graph: GraphLLM, failing: ToolRegistry):
    server.reply(tool_calls(LONDON))

    with pytest.raises(ValueError, match="city not found"):
        Agent(graph, failing, AgentConfig(tool_error_policy="raise")).run("Weather?")


def test_a_failed_tool_is_skipped(server: StubServer, graph: GraphLLM, failing: ToolRegistry):
    server.reply(tool_calls(LONDON, Call("search_docs", {"query": "rain"})), "I cannot say.")

    result = Agent(graph, failing, AgentConfig(tool_error_policy="skip")).run("Weather?")

    assert [r.name for r in result.steps[0].tool_results] == ["search_docs"]
    assert [content for role, content in sent(server) if role == "tool"] == [
        "Found 5 results for: rain"
    ]


@pytest.mark.parametrize("policy", ["return_to_model", "raise", "skip"])
def test_an_unregistered_name_is_a_key_error_whatever_the_policy(
    server: StubServer, graph: GraphLLM, registry: ToolRegistry, policy: Any
):
    server.reply(tool_calls(Call("get_time", {})))

    with pytest.raises(KeyError, match="get_time"):
        Agent(graph, registry, AgentConfig(tool_error_policy=policy)).run("Time?")


def test_on_step_logs_a_step_before_it_is_kept(
    server: StubServer,
    graph: GraphLLM,
    registry: ToolRegistry,
    capsys: pytest.CaptureFixture[str],
):
    def log_step(step: AgentStep) -> None:
        print(f"Turn {step.turn_num}: {len(step.tool_calls)} call(s), cost=${step.cost_usd:.6f}")

    config = AgentConfig(on_step=log_step)
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    server.reply(tool_calls(LONDON, usage=usage), "Cloudy.")

    Agent(graph, registry, config).run("Weather?")

    assert capsys.readouterr().out == "Turn 1: 1 call(s), cost=$0.000150\n"


def test_what_on_step_raises_comes_out_of_run(
    server: StubServer, graph: GraphLLM, registry: ToolRegistry
):
    def stop(step: AgentStep) -> None:
        raise RuntimeError(f"stopped at {step.turn_num}")

    server.reply(tool_calls(LONDON))

    with pytest.raises(RuntimeError, match="stopped at 1"):
        Agent(graph, registry, AgentConfig(on_step=stop)).run("Weather?")


def test_agent_step_and_agent_result(server: StubServer, graph: GraphLLM, registry: ToolRegistry):
    server.reply(
        tool_calls(LONDON, usage={"prompt_tokens": 100, "completion_tokens": 10}),
        text("Cloudy.", usage={"prompt_tokens": 200, "completion_tokens": 20}),
    )

    result = Agent(graph, registry).run("What's the weather in London?")
    [step] = result.steps

    assert step.turn_num == 1
    assert step.tool_calls == [ToolCall("call_abc", "get_weather", {"city": "London"})]
    assert step.tool_results == [ToolResult("call_abc", "get_weather", "16°C, cloudy in London")]
    assert step.usage == TokenUsage(100, 10)
    assert step.cost_usd > 0
    assert result.content == "Cloudy."
    assert result.total_turns == 2
    assert result.total_usage == TokenUsage(300, 30)
    final_turn_cost = result.response.cost_usd if result.response else 0
    assert result.total_cost_usd == sum(s.cost_usd for s in result.steps) + final_turn_cost


def test_agent_max_turns_error(
    server: StubServer,
    graph: GraphLLM,
    registry: ToolRegistry,
    capsys: pytest.CaptureFixture[str],
):
    agent = Agent(graph, registry, AgentConfig(max_turns=2))
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    server.reply(*[tool_calls(LONDON, usage=usage)] * 2)

    try:
        agent.run("What's the weather in London?")
    except AgentMaxTurnsError as exc:
        print(f"Loop ran {exc.turns} turns without finishing.")
        partial = exc.partial
        print(f"{partial.total_cost_usd:.6f}")

    assert capsys.readouterr().out == "Loop ran 2 turns without finishing.\n0.000300\n"
    assert isinstance(partial, AgentResult)
    assert [step.turn_num for step in partial.steps] == [1, 2]


# The agent


def test_an_agents_constructor_and_run_take_these():
    assert list(parameters(Agent.__init__)) == ["graph", "registry", "config"]
    for way in (Agent.run, Agent.arun):
        assert parameters(way) == {"input": inspect.Parameter.empty, "history": None}


def test_every_turn_sends_history_schema_and_all_that_was_said(
    server: StubServer, registry: ToolRegistry
):
    llm = LLM(provider="openai", model="gpt-4o-mini")
    graph = GraphLLM(llm=llm).with_system_prompt("You are a helpful assistant.")
    config = AgentConfig(max_turns=8, tool_error_policy="return_to_model")
    agent = Agent(graph=graph, registry=registry, config=config)
    history = [Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi")]
    server.reply(tool_calls(LONDON), tool_calls(LONDON), "Cloudy.")

    agent.run([Message(Role.USER, "Weather?")], history=history)

    first = ["system", "user", "assistant", "user"]
    turn = ["assistant", "tool"]
    for number in range(3):
        assert [role for role, _ in sent(server, number)] == first + turn * number
        assert len(server.requests[number].json["tools"]) == 2


async def test_arun_answers_all_calls_of_a_turn_in_their_order(
    server: StubServer,
    graph: GraphLLM,
    registry: ToolRegistry,
    capsys: pytest.CaptureFixture[str],
):
    agent = Agent(graph, registry)
    paris = Call("get_weather", {"city": "Paris"})
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    server.reply(tool_calls(LONDON, paris, usage=usage), text("Cloudy in both.", usage=usage))

    result = await agent.arun("What is the weather in London and Paris?")
    print(result.content)
    print(f"Total cost: ${result.total_cost_usd:.6f}")

    assert capsys.readouterr().out == "Cloudy in both.\nTotal cost: $0.000300\n"
    assert [r.content for r in result.steps[0].tool_results] == [
        "16°C, cloudy in London",
        "16°C, cloudy in Paris",
    ]


@pytest.mark.parametrize("finishes", [True, False])
def test_the_full_agent_example(
    server: StubServer, capsys: pytest.CaptureFixture[str], finishes: bool
):
    @tool
    def search_docs(query: str) -> str:
        """Search internal documentation for a query."""
        return f"Found 3 results for '{query}': ..."

    @tool
    def get_weather(city: str) -> str:
        """Get the current weather for a city."""
        return f"16°C, cloudy in {city}"

    registry = ToolRegistry()
    registry.register(search_docs)
    registry.register(get_weather)

    llm = LLM(provider="openai", model="gpt-4o-mini")
    graph = GraphLLM(llm=llm).with_system_prompt(
        "You are a helpful assistant. Always call a tool to look up real data."
    )

    def log_step(step: AgentStep) -> None:
        for tc in step.tool_calls:
            print(f"  [{step.turn_num}] called {tc.name}({tc.arguments})")

    config = AgentConfig(max_turns=2, on_step=log_step)
    agent = Agent(graph=graph, registry=registry, config=config)
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    called = tool_calls(LONDON, usage=usage)
    server.reply(called, text("It is cloudy.", usage=usage) if finishes else called)

    try:
        result: AgentResult = agent.run("What's the weather in London?")
        print(result.content)
        print(f"Turns: {result.total_turns}  Cost: ${result.total_cost_usd:.6f}")
    except AgentMaxTurnsError as exc:
        print(f"Hit limit after {exc.turns} turns.")
        print(f"Partial cost: ${exc.partial.total_cost_usd:.6f}")

    steps = [f"  [{n}] called get_weather({{'city': 'London'}})" for n in (1, 2)]
    assert capsys.readouterr().out.splitlines() == (
        [steps[0], "It is cloudy.", "Turns: 2  Cost: $0.000300"]
        if finishes
        else [*steps, "Hit limit after 2 turns.", "Partial cost: $0.000300"]
    )


def test_a_tool_that_raises_a_key_error_of_its_own_is_a_failed_tool():
    @tool
    def look_up(key: str) -> str:
        """Look a key up."""
        return {"a": "b"}[key]

    registry = ToolRegistry()
    registry.register(look_up)
    script = StubProvider([[ToolCall("1", "look_up", {"key": "x"})], "No such key."])

    result = Agent(GraphLLM(llm=LLM(script)), registry).run("x?")

    assert result.steps[0].tool_results == [ToolResult("1", "look_up", "Error: 'x'", is_error=True)]
