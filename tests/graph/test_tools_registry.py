"""Registering tools, showing them to providers, running what models call."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from functools import wraps
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from pywrapai import LLM, ToolCall, ToolResult
from pywrapai.core.flow import Step
from pywrapai.testing import StubServer
from pywrapai_graph import Tool, ToolRegistry, tool


class Filter(BaseModel):
    """What to leave out."""

    words: list[str]
    parts: list[Filter] = []


@tool
def get_weather(city: str, units: str = "celsius") -> str:
    """Get the current weather for a city."""
    if city == "Atlantis":
        raise ValueError("city not found")
    return f"16°C, cloudy in {city}"


@tool
async def search_docs(
    query: str, filter: Filter | None = None, sort: Literal["new", "old"] = "new"
) -> list[str]:
    """Search internal documentation.

    Args:
        query: what to look for
    """
    await asyncio.sleep(0)
    return [query, sort]


@pytest.fixture
def registry() -> ToolRegistry:
    made = ToolRegistry()
    made.register(get_weather)
    made.register(search_docs)
    return made


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c1", name, arguments)


# Registering


def test_tools_are_kept_in_the_order_of_registration(registry):
    registry.register(Tool("now", "", {"type": "object"}, fn=lambda: "12:00"))

    assert registry.names == ["get_weather", "search_docs", "now"]
    assert len(registry) == 3
    assert [tool.name for tool in registry] == registry.names
    assert "now" in registry
    assert "later" not in registry
    assert repr(registry) == "ToolRegistry(tools=['get_weather', 'search_docs', 'now'])"
    assert registry.get("get_weather") is get_weather._pywrapai_tool


@pytest.mark.parametrize("item", [print, lambda x: x, "get_weather", None, {"name": "f"}])
def test_what_is_no_tool_is_refused_and_told_how_to_become_one(registry, item):
    with pytest.raises(TypeError, match=r"is no tool: write @tool above its def"):
        registry.register(item)


def test_a_second_tool_of_one_name_is_refused_unless_it_is_to_replace(registry):
    other = Tool("get_weather", "other", {}, fn=lambda: "sun")

    with pytest.raises(ValueError, match="there is a tool 'get_weather' already"):
        registry.register(other)
    assert registry.get("get_weather").description != "other"

    registry.register(other, replace=True)
    assert registry.get("get_weather") is other
    assert registry.names == ["get_weather", "search_docs"]


def test_of_many_threads_one_registers_a_name():
    registry, start, refused = ToolRegistry(), threading.Barrier(8), []

    def register() -> None:
        start.wait()
        try:
            registry.register(Tool("f", "", {}, fn=print))
        except ValueError as error:
            refused.append(error)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(registry), len(refused)) == (1, 7)


def test_a_method_is_registered_bound():
    class Service:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool
        def who(self, loud: bool = False) -> str:
            return self.name.upper() if loud else self.name

    registry = ToolRegistry()
    registry.register(Service("ann").who)

    assert registry.execute(call("who", loud="true")).content == "ANN"
    with pytest.raises(TypeError, match=r"register it bound, as in registry.register\(thing.who\)"):
        ToolRegistry().register(Service.who)


def test_what_is_wrapped_around_a_decorated_function_is_what_runs():
    @wraps(get_weather)
    def loud(*args: Any, **kwargs: Any) -> str:
        return get_weather(*args, **kwargs).upper()

    registry = ToolRegistry()
    registry.register(loud)

    assert registry.execute(call("get_weather", city="Oslo")).content == "16°C, CLOUDY IN OSLO"


def test_parameters_that_are_no_schema_are_told_at_registration():
    with pytest.raises(TypeError, match="the parameters of f are no JSON Schema"):
        ToolRegistry().register(Tool("f", "", None, fn=print))


def test_an_unknown_name_is_a_key_error_that_lists_the_known(registry):
    with pytest.raises(KeyError, match="no tool 'nope'; there are: get_weather, search_docs"):
        registry.get("nope")
    with pytest.raises(KeyError, match="there are: none"):
        ToolRegistry().execute(call("nope"))


# Running


async def run(registry: ToolRegistry, tool_call: ToolCall, way: str) -> ToolResult:
    return registry.execute(tool_call) if way == "sync" else await registry.aexecute(tool_call)


both_ways = pytest.mark.parametrize("way", ["sync", "async"])


@both_ways
async def test_a_call_becomes_its_result(registry, way):
    weather = await run(registry, call("get_weather", city="London"), way)
    found = await run(registry, call("search_docs", query="ä"), way)

    assert weather == ToolResult("c1", "get_weather", "16°C, cloudy in London")
    assert found == ToolResult("c1", "search_docs", '["ä", "new"]')


@both_ways
async def test_a_tools_own_failure_is_a_result(registry, way):
    result = await run(registry, call("get_weather", city="Atlantis"), way)

    assert result == ToolResult("c1", "get_weather", "Error: city not found", is_error=True)


@both_ways
async def test_arguments_that_do_not_fit_are_a_result(registry, way):
    result = await run(registry, call("search_docs", filter={"words": 1}), way)

    assert result.is_error
    assert result.content.startswith("Error: query is missing; ")
    assert "filter.words: Input should be a valid list" in result.content


@both_ways
@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"city": "Par', "no JSON (Unterminated string"),
        ("[]", "JSON of the kind list"),
        ("null", "JSON of the kind NoneType"),
        ("x" * 100_000, "no JSON (Expecting value"),
        ("[" * 100_000, "no JSON ("),
    ],
    ids=lambda value: value[:12],
)
async def test_broken_arguments_run_nothing_and_are_shown_to_the_model(way, raw, fault):
    registry, ran = ToolRegistry(), []
    registry.register(Tool("f", "", {}, fn=lambda **arguments: ran.append(arguments)))

    result = await run(registry, ToolCall("c1", "f", {}, raw_arguments=raw), way)

    assert ran == []
    assert result.is_error
    assert result.content.startswith(f"Error: the arguments of f were {fault}")
    assert raw[:400] in result.content
    assert len(result.content) < 1000


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_is_no_failure_of_the_tool_goes_through(error):
    def stop() -> None:
        raise error

    registry = ToolRegistry()
    registry.register(Tool("stop", "", {}, fn=stop))
    with pytest.raises(error):
        registry.execute(call("stop"))


async def test_a_cancelled_call_is_cancelled_and_no_result():
    registry, started = ToolRegistry(), asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    registry.register(wait)
    task = asyncio.create_task(registry.aexecute(call("wait")))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_awaited_calls_run_at_once():
    registry, met = ToolRegistry(), asyncio.Barrier(2)

    @tool
    async def meet(n: int) -> int:
        async with met:
            return n

    registry.register(meet)
    results = await asyncio.gather(*(registry.aexecute(call("meet", n=n)) for n in (1, 2)))

    assert [result.content for result in results] == ["1", "2"]


def test_the_step_of_a_call_gives_the_functions_own_value(registry):
    assert registry.step(call("search_docs", query="x")).block() == ["x", "new"]
    with pytest.raises(KeyError):
        registry.step(call("nope"))


# Showing


def test_the_neutral_schema_is_the_documents():
    registry = ToolRegistry()
    registry.register(get_weather)

    assert registry.to_schema() == [
        {
            "name": "get_weather",
            "description": "Get the current weather for a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "units": {"type": "string"}},
                "required": ["city"],
            },
        }
    ]


def test_what_is_handed_out_may_be_changed(registry):
    before = copy.deepcopy(registry.to_schema())
    for given in (registry.to_schema, registry.to_openai_schema, registry.to_gemini_schema):
        for schema in given():
            _spoil(schema)
    registry.names.clear()

    assert registry.to_schema() == before
    assert registry.names == ["get_weather", "search_docs"]


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _spoil(item)
        value.clear()
    elif isinstance(value, list):
        value.clear()


def test_each_vendors_form_may_be_looked_at(registry):
    neutral = registry.to_schema()

    assert registry.to_openai_schema() == [{"type": "function", "function": t} for t in neutral]
    assert [t["input_schema"] for t in registry.to_anthropic_schema()] == [
        t["parameters"] for t in neutral
    ]
    gemini = registry.to_gemini_schema()
    assert gemini[0] == neutral[0]
    assert "$ref" not in json.dumps(gemini[1])
    assert "$ref" in json.dumps(neutral[1])


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama"])
def test_every_provider_takes_the_tools_and_leaves_them_as_they_are(registry, wire):
    tools = registry.to_schema()
    before = copy.deepcopy(tools)

    with StubServer("fine") as server:
        llm = LLM(wire, "m", api_key="sk-test", base_url=server.url(wire), max_retries=0)
        assert llm.chat("hi", tools=tools).content == "fine"
        assert server.refusals == []

    assert tools == before == registry.to_schema()


def test_the_vendor_forms_are_what_goes_over_the_wire(registry):
    with StubServer("fine") as server:
        for wire in ("openai", "anthropic"):
            llm = LLM(wire, "m", api_key="sk-test", base_url=server.url(wire), max_retries=0)
            llm.chat("hi", tools=registry.to_schema())
        openai, anthropic = (request.json["tools"] for request in server.requests)

    assert openai == registry.to_openai_schema()
    assert anthropic == registry.to_anthropic_schema()


# Closing


async def test_closing_closes_each_thing_once_the_last_opened_first():
    for way in ("sync", "async"):
        registry, closed = ToolRegistry(), []
        for number in range(3):
            registry._closing.append(_closing(closed, number))
        if way == "sync":
            with registry:
                pass
            registry.close()
        else:
            async with registry:
                pass
            await registry.aclose()

        assert closed == [2, 1, 0]


def test_what_cannot_be_closed_does_not_keep_the_rest_open():
    registry, closed = ToolRegistry(), []
    registry._closing += [_closing(closed, 1), Step(lambda: 1 / 0, None), _closing(closed, 2)]

    with pytest.raises(ExceptionGroup) as raised:
        registry.close()

    assert closed == [2, 1]
    assert [type(error) for error in raised.value.exceptions] == [ZeroDivisionError]


def _closing(closed: list[int], number: int) -> Step:
    async def wait() -> None:
        closed.append(number)

    return Step(lambda: closed.append(number), wait)
