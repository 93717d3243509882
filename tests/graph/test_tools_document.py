"""What the reference document shows of tools, on the wires of Anthropic and of OpenAI."""

from __future__ import annotations

import importlib
from typing import Any, Optional

import pytest

import pywrapai_graph
from pywrapai import LLM, Message, Role, ToolCall, ToolResult
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Call, tool_calls
from pywrapai_graph import GraphLLM, Tool, ToolRegistry, tool

MODELS = {"anthropic": "claude-haiku-4-5-20251001", "openai": "gpt-4o-mini"}
ANSWER = "The weather in London is 16°C and cloudy."
WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather for a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "units": {"type": "string"}},
        "required": ["city"],
    },
}


@tool
def get_weather(city: str, units: str = "celsius") -> str:
    """Get the current weather for a city."""
    if city == "Nowhere":
        raise ValueError("city not found")
    return f"16°C, cloudy in {city}"


@tool
def search_docs(query: str, limit: int = 5) -> str:
    """Search internal documentation."""
    return f"Found {limit} results for: {query}"


@pytest.fixture
def registry() -> ToolRegistry:
    made = ToolRegistry()
    made.register(get_weather)
    made.register(search_docs)
    return made


@pytest.fixture(params=MODELS)
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def graph(server: StubServer, wire: str) -> GraphLLM:
    url = server.url(wire)
    return GraphLLM(llm=LLM(provider=wire, model=MODELS[wire], api_key="sk-t3st", base_url=url))


def test_both_import_paths_give_the_same():
    submodule = importlib.import_module("pywrapai_graph.tools")

    for name in ("Tool", "ToolRegistry", "tool"):
        assert getattr(submodule, name) is getattr(pywrapai_graph, name)


def test_the_decorated_function_still_works_and_carries_its_tool():
    assert get_weather(city="London") == "16°C, cloudy in London"

    made = get_weather._pywrapai_tool
    assert isinstance(made, Tool)
    assert {
        "name": made.name,
        "description": made.description,
        "parameters": made.parameters,
    } == WEATHER


def test_both_spellings_of_optional_are_not_required():
    @tool
    def search(query: str, limit: Optional[int] = None) -> list:  # noqa: UP045
        """Search the knowledge base."""
        return [query, limit]

    @tool
    def search_too(query: str, limit: int | None = None) -> list:
        """Search the knowledge base."""
        return [query, limit]

    older, newer = search._pywrapai_tool, search_too._pywrapai_tool
    assert older.parameters == newer.parameters
    assert older.parameters["required"] == ["query"]
    assert older.parameters["properties"]["limit"]["type"] == "integer"


def test_a_tool_made_by_hand_is_called_through_to_its_function():
    t = Tool(**WEATHER, fn=get_weather)

    assert t("London") == "16°C, cloudy in London"
    assert (t.name, t.description, t.parameters) == tuple(WEATHER.values())

    registry = ToolRegistry()
    registry.register(t)
    assert registry.get("get_weather") is t
    assert registry.to_schema() == [WEATHER]
    result = registry.execute(ToolCall("call_abc", "get_weather", {"city": "London"}))
    assert result.content == "16°C, cloudy in London"


def test_a_plain_function_and_an_unknown_name_are_refused(registry):
    def plain(city: str) -> str:
        return city

    with pytest.raises(TypeError):
        registry.register(plain)
    with pytest.raises(KeyError):
        registry.get("plain")


def test_execute_gives_the_result_or_tells_of_the_error(registry):
    good = ToolCall(id="call_abc", name="get_weather", arguments={"city": "London"})
    bad = ToolCall(id="call_def", name="get_weather", arguments={"city": "Nowhere"})

    assert registry.execute(good) == ToolResult(
        tool_call_id="call_abc", name="get_weather", content="16°C, cloudy in London"
    )
    assert registry.execute(bad) == ToolResult(
        tool_call_id="call_def", name="get_weather", content="Error: city not found", is_error=True
    )


def test_the_registry_lists_counts_and_shows_its_tools(registry):
    assert registry.names == ["get_weather", "search_docs"]
    assert len(registry) == 2
    assert repr(registry) == "ToolRegistry(tools=['get_weather', 'search_docs'])"


def test_the_schemas_are_the_documents(registry):
    assert registry.to_schema()[0] == WEATHER
    assert registry.to_openai_schema()[0] == {"type": "function", "function": WEATHER}
    assert registry.to_anthropic_schema()[0] == {
        **{key: WEATHER[key] for key in ("name", "description")},
        "input_schema": WEATHER["parameters"],
    }
    assert registry.to_gemini_schema()[0] == WEATHER


def test_the_whole_flow_from_the_question_to_the_answer(graph, server, registry, wire):
    server.reply(tool_calls(Call("get_weather", {"city": "London"})), ANSWER)

    response = graph.chat(
        "What's the weather in London?", tools=registry.to_schema(), tool_choice="auto"
    )
    assert response.content == ""
    [tc] = response.tool_calls
    result = registry.execute(tc)
    final = graph.chat(
        [
            Message(Role.USER, "What's the weather in London?"),
            Message(Role.ASSISTANT, "", tool_calls=response.tool_calls),
            Message(
                Role.TOOL, result.content, tool_result=ToolResult(tc.id, tc.name, result.content)
            ),
        ]
    )

    assert result.content == "16°C, cloudy in London"
    assert final.content == ANSWER
    assert server.refusals == []
    asked, told = (request.json for request in server.requests)
    assert asked["tools"] == getattr(registry, f"to_{wire}_schema")()
    assert result.content in _texts(told["messages"])


async def test_the_whole_flow_awaited(graph, server, registry):
    server.reply(tool_calls(Call("search_docs", {"query": "refunds", "limit": "2"})), "Read this.")

    question = Message(Role.USER, "How do refunds work?")
    response = await graph.achat([question], tools=registry.to_schema(), tool_choice="required")
    [tc] = response.tool_calls
    result = await registry.aexecute(tc)
    told = Message(Role.TOOL, result.content, tool_result=result)
    final = await graph.achat([question, response.message, told], tools=registry.to_schema())

    assert result.content == "Found 2 results for: refunds"
    assert final.content == "Read this."
    assert server.refusals == []


def test_any_provider_takes_an_error_result(graph, server, registry):
    server.reply(tool_calls(Call("get_weather", {"city": "Nowhere"})), "There is no such city.")

    question = Message(Role.USER, "What's the weather in Nowhere?")
    response = graph.chat([question], tools=registry.to_schema())
    results = [registry.execute(tc) for tc in response.tool_calls or ()]
    told = [Message(Role.TOOL, r.content, tool_result=r) for r in results]
    final = graph.chat([question, response.message, *told], tools=registry.to_schema())

    assert final.content == "There is no such city."
    assert "Error: city not found" in _texts(server.requests[1].json["messages"])


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)]
