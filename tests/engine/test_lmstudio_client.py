"""The typed client of LM Studio over HTTP, and its twin for any other LLM."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from pydantic import ValidationError

from pywrapai import (
    LLM,
    AuthError,
    ContentFilterError,
    InvalidRequestError,
    ModelNotFoundError,
    ProviderTimeoutError,
    RateLimitError,
    ServerError,
)
from pywrapai.lmstudio import (
    ChatRequest,
    ChatResult,
    LLMClient,
    LMStudioClient,
    LMStudioUnreachable,
    TokenUsage,
)
from pywrapai.testing import StubProvider
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import hang_up, html, raw, status, text
from pywrapai.testing.wires.openai import completion
from pywrapai.tokens import pricing

TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
HELLO = ChatRequest(messages=TURNS)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def client(server: StubServer) -> LMStudioClient:
    return LMStudioClient(server.url(), max_retries=0, healthcheck_on_init=False, model="qwen3-4b")


@pytest.fixture
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries as they are, without the time between them."""
    monkeypatch.setattr("pywrapai.core.flow.sleep", lambda seconds: iter(()))


# The request


def test_a_request_has_the_defaults_of_the_document():
    assert HELLO.model_dump() == {
        "messages": TURNS,
        "temperature": 0.0,
        "max_tokens": 512,
        "stop": None,
        "seed": None,
        "response_format": "text",
        "json_schema": None,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"temperature": float("nan")},
        {"max_tokens": 0},
        {"max_tokens": 4097},
        {"response_format": "json"},
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": "x", "name": "bob"}]},
        {"messages": [{"role": "user", "content": None}]},
        {"json_schema": SCHEMA},
        {"max_token": 5},
    ],
)
def test_a_request_that_is_none_is_refused(wrong):
    with pytest.raises(ValidationError):
        ChatRequest(**{"messages": TURNS, **wrong})


@pytest.mark.parametrize("right", [{"temperature": 2}, {"max_tokens": 4096}, {"max_tokens": 1}])
def test_the_bounds_belong_to_it(right):
    assert ChatRequest(messages=TURNS, **right)


def test_requests_and_results_are_frozen_and_their_own():
    turns = [dict(turn) for turn in TURNS]
    request = ChatRequest(messages=turns)
    turns[0]["content"] = "Be rude."

    assert request.messages == TURNS
    with pytest.raises(ValidationError, match="frozen"):
        request.temperature = 1.0
    with pytest.raises(ValidationError, match="frozen"):
        result().content = "other"


def result(**known: Any) -> ChatResult:
    usual = {"content": "Hi", "finish_reason": "stop", "usage": TokenUsage(3, 2), "model_id": "m"}
    return ChatResult(**{**usual, "latency_ms": 5, "request_id": "r", **known})


def test_usage_may_be_given_by_openais_names():
    known = {"content": "x", "finish_reason": "stop", "model_id": "m", "latency_ms": 1}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    result = ChatResult(**known, request_id="r", usage=usage)

    assert result.usage == TokenUsage(3, 2)
    assert ChatResult.model_validate_json(result.model_dump_json()) == result
    with pytest.raises(ValidationError):
        ChatResult(**known, request_id="r", usage={"prompt_tokens": "many"})


def test_a_result_says_all_that_the_document_says():
    assert (result().usage.prompt_tokens, result().usage.completion_tokens) == (3, 2)
    assert result().usage.total_tokens == 5
    assert ChatResult.model_validate_json(result().model_dump_json()) == result()
    for missing in ("content", "finish_reason", "usage", "model_id", "latency_ms", "request_id"):
        known = {k: v for k, v in result().model_dump().items() if k != missing}
        with pytest.raises(ValidationError):
            ChatResult(**known)
    for wrong in ({"finish_reason": "tool_calls"}, {"latency_ms": -1}):
        with pytest.raises(ValidationError):
            result(**wrong)


# Over the wire


def test_a_call_goes_out_as_it_was_asked_and_comes_back_typed(server, client):
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    server.reply(raw(completion({"content": "Hi."}, usage=usage)).delayed(0.05))
    asked = ChatRequest(messages=TURNS, temperature=0.5, max_tokens=9, stop=["\n"], seed=42)

    answer = client.chat(asked)

    assert server.requests[0].json == {
        "model": "qwen3-4b",
        "messages": TURNS,
        "temperature": 0.5,
        "max_tokens": 9,
        "stop": ["\n"],
        "seed": 42,
    }
    assert (answer.content, answer.finish_reason) == ("Hi.", "stop")
    assert answer.usage == TokenUsage(9, 4)
    assert 50 <= answer.latency_ms < 5000
    assert answer.request_id
    assert answer.cost_usd == 0.0


def test_what_was_not_given_is_not_sent(server, client):
    server.reply("ok")
    client.chat(HELLO)

    assert server.requests[0].json.keys() == {"model", "messages", "temperature", "max_tokens"}


@pytest.mark.parametrize(
    ("asked", "sent"), [({}, {"type": "object"}), ({"json_schema": SCHEMA}, SCHEMA)]
)
def test_a_json_object_is_asked_for_by_a_schema_which_lm_studio_takes(server, client, asked, sent):
    server.reply('{"a": 1}')

    client.chat(ChatRequest(messages=TURNS, response_format="json_object", **asked))

    form = server.requests[0].json["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == sent


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "stop"), ("eos", "stop")],
)
def test_every_end_has_one_of_three_names(server, client, reason, ours):
    server.reply(raw(completion({"content": "so"}, usage={}, finish_reason=reason)))

    assert client.chat(HELLO).finish_reason == ours


def test_a_refusal_is_an_answer(server, client):
    server.reply(raw(completion({"content": ""}, usage={}, finish_reason="content_filter")))
    server.reply(raw(completion({"content": "I cannot help with that."}, usage={})))

    silent, polite = client.chat(HELLO), client.chat(HELLO)

    assert (silent.content, silent.finish_reason) == ("", "stop")
    assert (polite.content, polite.finish_reason) == ("I cannot help with that.", "stop")


def test_a_request_that_is_refused_for_its_content_is_an_error(client):
    stub = LLMClient(LLM(StubProvider([ContentFilterError("not that")])))
    with pytest.raises(ContentFilterError):
        stub.chat(HELLO)


def test_half_a_character_in_an_answer_is_replaced(server, client):
    body = completion({"content": "x"}, usage={})
    body["choices"][0]["message"]["content"] = "\ud83d!"
    server.reply(raw(json.dumps(body)))

    assert client.chat(HELLO).content == "\N{REPLACEMENT CHARACTER}!"


def test_without_a_model_the_one_that_is_loaded_answers():
    with StubServer(text("ok", model="qwen3-4b"), check=False) as server:
        client = LMStudioClient(server.url(), healthcheck_on_init=False)
        answer = client.chat(HELLO)

    assert "model" not in server.requests[0].json
    assert answer.model_id == "qwen3-4b"


async def test_awaited_it_is_the_same(server, client):
    server.reply("one", "two")

    async with client:
        waited = await client.achat(HELLO)
    blocked = client.chat(HELLO)

    assert (waited.content, blocked.content) == ("one", "two")
    first, second = (request.json for request in server.requests)
    assert first == second


def test_it_closes_with_its_block_and_may_be_used_again(server):
    with LMStudioClient(server.url(), model="qwen3-4b") as client:
        server.reply("one", "two")
        client.chat(HELLO)

    assert client.chat(HELLO).content == "two"


# Failures


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (status(400, "bad"), InvalidRequestError),
        (status(401, "who"), AuthError),
        (status(404, "no such model"), ModelNotFoundError),
        (status(422, "odd"), InvalidRequestError),
    ],
)
def test_a_callers_error_is_raised_at_once(server, failure, error):
    client = LMStudioClient(server.url(), healthcheck_on_init=False, model="m")
    server.reply(failure)

    with pytest.raises(error):
        client.chat(HELLO)
    assert len(server.requests) == 1


@pytest.mark.usefixtures("_no_waiting")
@pytest.mark.parametrize(
    "failure", [status(500, "x"), status(503, "x"), status(429, "x"), hang_up()]
)
def test_what_may_pass_is_tried_twice_more_and_then_raised(server, failure):
    client = LMStudioClient(server.url(), healthcheck_on_init=False, model="m")
    server.reply(failure, failure, "ok")
    assert client.chat(HELLO).content == "ok"

    server.reply(failure, failure, failure, "never asked for")
    with pytest.raises((ServerError, RateLimitError, LMStudioUnreachable)):
        client.chat(HELLO)
    assert len(server.requests) == 6


def test_retry_after_is_waited_for(server):
    client = LMStudioClient(server.url(), healthcheck_on_init=False, model="m")
    server.reply(status(429, "slow down", headers={"retry-after": "1"}), "ok")
    started = time.monotonic()

    assert client.chat(HELLO).latency_ms >= 1000
    assert time.monotonic() - started >= 1.0


def test_without_retries_there_is_one_request(server, client):
    server.reply(status(503, "x"))

    with pytest.raises(ServerError):
        client.chat(HELLO)
    assert len(server.requests) == 1


def test_it_waits_no_longer_than_its_time_out(server):
    client = LMStudioClient(
        server.url(), timeout_s=0.2, max_retries=0, healthcheck_on_init=False, model="m"
    )
    server.reply(text("late").delayed(2))
    started = time.monotonic()

    with pytest.raises(ProviderTimeoutError):
        client.chat(HELLO)
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"timeout_s": -1}, {"max_retries": -1}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        LMStudioClient(healthcheck_on_init=False, **wrong)


# The health check


def test_it_asks_for_the_models_once_when_it_is_made(server):
    LMStudioClient(server.url())

    assert [(r.method, r.path) for r in server.requests] == [("GET", "/v1/models")]


def test_without_the_check_nobody_is_asked(server):
    LMStudioClient(server.url(), healthcheck_on_init=False)

    assert server.requests == []


def test_where_nobody_answers_it_cannot_be_made():
    with refusing_port() as port:
        started = time.monotonic()
        with pytest.raises(LMStudioUnreachable, match="lms server start"):
            LMStudioClient(f"http://127.0.0.1:{port}/v1")
        assert time.monotonic() - started < 0.5  # once, whatever max_retries says
        LMStudioClient(f"http://127.0.0.1:{port}/v1", healthcheck_on_init=False)


def test_a_server_that_is_silent_is_unreachable(server):
    server.reply(raw({"data": []}).delayed(30))

    with pytest.raises(LMStudioUnreachable, match="timeout"):
        LMStudioClient(server.url(), timeout_s=0.2)


@pytest.mark.parametrize("reply", [html("<h1>Welcome</h1>"), raw([]), status(500)])
def test_a_server_that_is_something_else_is_an_error(server, reply):
    server.reply(reply)

    with pytest.raises(ServerError):
        LMStudioClient(server.url())


# Any LLM


def test_any_llm_serves_with_its_own_tracker_and_cache():
    llm = LLM(StubProvider(["one"]), cache=True)
    client = LLMClient(llm)

    first, second = client.chat(HELLO), client.chat(HELLO)

    assert first.content == second.content == "one"
    assert (first.model_id, llm.tokens.total_calls) == ("stub-model", 1)
    assert first.request_id.startswith("local-")


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai", {"stop": ["x"], "seed": 1}),
        ("anthropic", {"stop_sequences": ["x"]}),
        ("gemini", {"stopSequences": ["x"], "seed": 1}),
        ("ollama", {"stop": ["x"], "seed": 1}),
    ],
)
def test_settings_go_out_by_the_providers_names(server, provider, expected):
    llm = LLM(provider, api_key="sk-test", base_url=server.url(provider), max_retries=0)
    server.reply("ok")

    LLMClient(llm).chat(ChatRequest(messages=TURNS, stop=["x"], seed=1))

    body = server.requests[-1].json
    sent = {**body, **body.get("generationConfig", {}), **body.get("options", {})}
    names = ("stop", "seed", "stop_sequences", "stopSequences")
    assert {name: sent[name] for name in names if name in sent} == expected


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
def test_every_provider_is_asked_for_json_in_its_own_way(server, provider):
    llm = LLM(provider, api_key="sk-test", base_url=server.url(provider), max_retries=0)
    server.reply('{"a": 1}')
    asked = ChatRequest(messages=TURNS, response_format="json_object", json_schema=SCHEMA)

    assert LLMClient(llm).chat(asked).content == '{"a": 1}'
    assert "integer" in repr(server.requests[-1].json)


def test_what_a_model_refuses_can_be_left_out(server):
    llm = LLM("openai", "gpt-5-mini", api_key="sk-test", base_url=server.url(), max_retries=0)
    server.reply("ok")

    LLMClient(llm, omit={"temperature", "seed"}).chat(ChatRequest(messages=TURNS, seed=1))

    assert not {"temperature", "seed"} & server.requests[0].json.keys()


def test_a_client_of_something_else_is_refused():
    with pytest.raises(TypeError, match="takes an LLM"):
        LLMClient(StubProvider(["x"]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="omit holds top_p"):
        LLMClient(LLM(StubProvider(["x"])), omit=["top_p"])


def test_an_unknown_price_is_not_passed_off_as_free(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pricing, "_warned", {})  # of which only so many are told

    class Foreign(StubProvider):
        name = "foreign"

    with pytest.warns(UserWarning, match="no price"):
        answer = LLMClient(LLM(Foreign(["x"], model="of-no-price"))).chat(HELLO)

    assert answer.cost_usd is None


def test_without_pydantic_it_is_told_as_the_line_that_installs_it():
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import pywrapai\n"
        "for name in ('pywrapai.lmstudio', 'pywrapai_graph.workflows'):\n"
        "    try:\n        __import__(name)\n"
        "    except pywrapai.MissingDependencyError as error:\n        print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ended.stderr == ""
    assert ended.stdout.count('pip install "pywrapai[structured]"') == 2
