from __future__ import annotations

import pickle
from typing import Any

import pytest

from pywrapai import (
    LLM,
    InvalidRequestError,
    LMStudioUnreachable,
    ProviderConnectionError,
    ServerError,
    TextDelta,
    ThinkingDelta,
)
from pywrapai.providers.lmstudio import DEFAULT_URL, LMStudioProvider, healthcheck
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import Request, events, html, raw, status, text
from pywrapai.testing.wires.openai import chunk, completion
from tests.contracts.provider import WEATHER, ProviderContract

MARK = "__LM_STUDIO_INTERNAL_LSEP_SYNTHETIC_REASONING_END_f4e9a8d2c6b14d0c9e5f3a7b8c1d2e6a__"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PARIS = f'Paris is the capital.\n{MARK}{{"city":"Paris"}}'


class TestLMStudio(ProviderContract):
    provider = "lmstudio"

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}

    def make(self, server: StubServer, **settings: Any) -> LLM:
        settings = {"max_retries": 0, "api_key": "sk-test-0123456789", **settings}
        return LLM("lmstudio", "qwen3-4b", base_url=server.url("openai"), **settings)


@pytest.fixture
def llm(server: StubServer) -> LLM:
    return LLM("lmstudio", "qwen3-4b", base_url=server.url(), max_retries=0)


def says(content: str, **more: Any) -> Any:
    return raw(completion({"content": content, **more}, usage={}))


def streams(*pieces: str) -> Any:
    return events(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))


def test_it_is_looked_for_on_this_machine_and_needs_no_key(server: StubServer, llm: LLM):
    server.reply("ok")

    assert LMStudioProvider().base_url == DEFAULT_URL == "http://localhost:1234/v1"
    assert llm.chat("Hello").content == "ok"
    assert server.requests[0].path == "/v1/chat/completions"


def test_its_calls_cost_nothing(server: StubServer, llm: LLM):
    server.reply("ok")

    response = llm.chat("Hello")

    assert (response.cost_usd, response.priced) == (0.0, True)


def test_without_a_model_the_request_names_none_and_the_reply_says_who_answered():
    with StubServer(text("ok", model="qwen3-4b"), check=False) as server:
        response = LLM("lmstudio", base_url=server.url()).chat("Hello")

    assert "model" not in server.requests[0].json
    assert response.model == "qwen3-4b"


def as_lm_studio(request: Request) -> Any:
    """The two things of OpenAI's that it refuses."""
    body = request.json
    if (body.get("response_format") or {}).get("type") not in (None, "text", "json_schema"):
        return status(400, "'response_format.type' must be 'json_schema' or 'text'")
    if not isinstance(body.get("tool_choice", ""), str):
        return status(400, "Invalid tool_choice type: 'object'. Supported string values: ...")
    return '{"city": "Paris"}'


async def test_structured_answers_are_asked_for_by_schema():
    with StubServer(as_lm_studio) as server:
        llm = LLM("lmstudio", "m", base_url=server.url(), max_retries=0)

        assert llm.chat_structured("Where in json?", CITY) == {"city": "Paris"}
        assert await llm.achat_structured("Where in json?", CITY) == {"city": "Paris"}
        with pytest.raises(InvalidRequestError, match="must be 'json_schema'"):
            llm.chat("Where in json?", response_format={"type": "json_object"})

    assert server.requests[0].json["response_format"]["json_schema"]["schema"] == CITY


def test_a_named_tool_is_required_by_being_the_only_one():
    other = {**WEATHER, "name": "other"}
    tools = [other, WEATHER]
    with StubServer(as_lm_studio) as server:
        llm = LLM("lmstudio", "m", base_url=server.url(), max_retries=0)
        llm.chat("Weather?", tools=tools, tool_choice="weather")
        llm.chat("Weather?", tools=tools, tool_choice="required")

    named, any_of_them = (request.json for request in server.requests)
    assert named["tool_choice"] == any_of_them["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in named["tools"]] == ["weather"]
    assert len(any_of_them["tools"]) == 2
    assert tools == [other, WEATHER]


# Reasoning in the text


async def test_reasoning_before_its_separator_is_kept_apart(server: StubServer, llm: LLM):
    server.reply(says(PARIS), says(PARIS), says(PARIS))

    response = llm.chat("Where?")

    assert response.content == '{"city":"Paris"}'
    assert response.thinking == "Paris is the capital."
    assert llm.chat_structured("Where?", CITY) == {"city": "Paris"}
    assert await llm.achat_structured("Where?", CITY) == {"city": "Paris"}


@pytest.mark.parametrize("size", [1, 3, 20, 1000])
async def test_a_stream_whose_form_is_asked_for_is_split_wherever_it_was_cut(
    server: StubServer, llm: LLM, size: int
):
    pieces = [PARIS[at : at + size] for at in range(0, len(PARIS), size)]
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": CITY}}
    server.reply(streams(*pieces), streams(*pieces))

    stream = llm.stream("Where?", response_format=form)
    assert "".join(stream) == '{"city":"Paris"}'
    assert stream.response is not None
    assert stream.response.thinking == "Paris is the capital."
    got = [piece async for piece in llm.astream("Where?", response_format=form)]
    assert "".join(got) == '{"city":"Paris"}'


def test_a_formed_stream_without_reasoning_loses_nothing(server: StubServer, llm: LLM):
    server.reply(streams('{"city":', '"Paris"}'))

    pieces = list(llm.stream("Where?", response_format={"type": "text"}))

    assert "".join(pieces) == '{"city":"Paris"}'


def test_other_streams_come_word_by_word(server: StubServer, llm: LLM):
    server.reply(streams("<think>", "why", "</think>", "be", "cause"))

    seen = list(llm.stream_events("Why?"))[:-1]

    assert seen == [ThinkingDelta("why"), TextDelta("be"), TextDelta("cause")]


def test_a_formed_answer_that_was_filed_under_reasoning_is_found(server: StubServer, llm: LLM):
    server.reply(says("", reasoning_content='{"city": "Paris"}'))

    assert llm.chat_structured("Where?", CITY) == {"city": "Paris"}


def test_reasoning_that_is_no_answer_stays_reasoning(server: StubServer, llm: LLM):
    server.reply(says("", reasoning_content="Paris?"), says("", reasoning_content='{"a": 1}'))

    assert llm.chat("Where?").content == ""
    assert llm.chat("Where?").thinking == '{"a": 1}'


# Health


async def test_a_server_that_runs_lists_its_models(server: StubServer):
    assert healthcheck(server.url()) == ["stub"]
    assert await LLM("lmstudio", base_url=server.url()).amodels() == ["stub"]
    assert server.requests[0].path == "/v1/models"


async def test_a_server_that_does_not_run_is_unreachable():
    with refusing_port() as port:
        address = f"http://127.0.0.1:{port}"
        with pytest.raises(LMStudioUnreachable, match=f"{port}.*lms server start") as caught:
            healthcheck(address)
        with pytest.raises(LMStudioUnreachable):
            await LLM("lmstudio", base_url=address).amodels()
        with pytest.raises(LMStudioUnreachable):
            LLM("lmstudio", "m", base_url=address, max_retries=0).chat("Hello")

    assert isinstance(caught.value, ProviderConnectionError)
    assert caught.value.provider == "lmstudio"
    assert caught.value.retryable
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_server_that_says_nothing_is_unreachable(server: StubServer):
    server.reply(raw({"data": []}).delayed(30))

    with pytest.raises(LMStudioUnreachable, match="timeout"):
        healthcheck(server.url(), timeout=0.2)


@pytest.mark.parametrize("reply", [html("<html>"), raw([]), raw({"data": None}), status(500)])
def test_a_server_that_is_something_else_is_said_to_be(server: StubServer, reply: Any):
    server.reply(reply)

    with pytest.raises(ServerError):
        healthcheck(server.url())
