from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    ContextLengthError,
    InvalidRequestError,
    Message,
    ModelNotFoundError,
    ProviderTimeoutError,
    RateLimitError,
    Role,
    ServerError,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.base import Request
from pywrapai.core.image import Image
from pywrapai.providers.anthropic import api_root, from_wire, to_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import Call, events, raw, status, text, tool_calls
from pywrapai.testing.wires.anthropic import message
from tests.contracts.provider import KEY, WEATHER, ProviderContract
from tests.engine.anthropic_wire import MODEL, accepted, assistant, result, use, wire

CASES = sorted((Path(__file__).parents[1] / "wire" / "anthropic").glob("*.json"))
THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
PNG = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
USER = Message(Role.USER, "Hello")


class TestAnthropic(ProviderContract):
    provider = "anthropic"

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {"input_tokens": given, "output_tokens": made}


@pytest.fixture
def claude(server: StubServer) -> LLM:
    """Claude on the stub server, without retries."""
    return LLM("anthropic", api_key=KEY, base_url=server.url("anthropic"), max_retries=0)


# What the vendor documents


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_wire_is_what_the_vendor_documents(case: Path):
    pair = json.loads(case.read_text(encoding="utf-8"))
    messages = LLM("anthropic", MODEL, api_key="k").request(pair["messages"]).messages
    request = Request(
        MODEL,
        messages,
        pair.get("tools"),
        pair.get("tool_choice"),
        pair["settings"],
        schema=pair.get("schema"),
    )

    body = to_wire(request, stream=False)
    assert body == pair["request"]
    accepted(body)

    response = from_wire(pair["response"])
    expected = pair["expected"]
    assert response.content == expected["content"]
    assert [[c.name, c.arguments] for c in response.tool_calls or ()] == expected["tool_calls"]
    assert response.usage == TokenUsage(**expected["usage"])
    assert response.finish_reason == expected["finish_reason"]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_requests_fit_the_sdks_own_types(case: Path):
    from anthropic.types import message_create_params
    from pydantic import TypeAdapter

    body = json.loads(case.read_text(encoding="utf-8"))["request"]
    body.pop("temperature", None)  # the SDK has dropped it; the API has not
    checked = TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)

    exhaust(checked.validate_python(body))


def exhaust(value: Any) -> None:
    """Read through pydantic's lazy iterators, which check an item when it is read."""
    if isinstance(value, dict):
        value = value.values()
    if hasattr(value, "__iter__") and not isinstance(value, str):
        for item in value:
            exhaust(item)


def test_the_types_check_is_not_blind():
    from anthropic.types import message_create_params
    from pydantic import TypeAdapter, ValidationError

    checked = TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)
    block = {"type": "tool_result", "content": "no id"}
    wrong = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [block]}]}

    with pytest.raises(ValidationError):
        exhaust(checked.validate_python(wrong))


# Where it goes, and with what


@pytest.mark.parametrize(
    ("given", "root"),
    [
        (None, None),
        ("http://h", "http://h"),
        ("http://h/", "http://h"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h/v1/", "http://h"),
        ("http://h/anthropic/", "http://h/anthropic"),
    ],
)
def test_the_base_url_is_the_sdks_and_a_v1_too_many_does_no_harm(given, root):
    assert api_root(given) == root


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_every_spelling_of_the_base_url_reaches_the_same_path(server: StubServer, tail: str):
    server.reply("ok")
    LLM("anthropic", api_key=KEY, base_url=server.url() + tail).chat("Hello")

    assert server.requests[0].path == "/v1/messages"


def test_the_key_goes_where_the_sdk_puts_it(server: StubServer, claude: LLM):
    import anthropic

    server.reply("ok", "ok")
    claude.chat("Hello")
    with anthropic.Anthropic(api_key=KEY, base_url=server.url()) as client:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])

    ours, theirs = (request.headers for request in server.requests)
    for name in ("authorization", "x-api-key", "anthropic-version"):
        assert ours.get(name) == theirs.get(name)


def test_a_missing_key_names_the_variable_before_any_network(server: StubServer, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    llm = LLM("anthropic", base_url=server.url(), max_retries=0)

    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
        llm.chat("Hello")
    assert server.connections == 0


def test_the_key_may_come_from_the_environment(server: StubServer, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-from-env")
    server.reply("ok")

    LLM("anthropic", base_url=server.url()).chat("Hello")

    assert "sk-ant-from-env" in server.requests[0].headers["authorization"]


def test_the_default_model_has_a_price(server: StubServer, claude: LLM):
    server.reply(text("ok", usage={"input_tokens": 1_000_000, "output_tokens": 0}))

    response = claude.chat("Hello")

    assert response.priced
    assert response.cost_usd > 0


def test_cached_input_is_charged_at_its_own_price(server: StubServer, claude: LLM):
    usage = {"input_tokens": 0, "cache_read_input_tokens": 1_000_000, "output_tokens": 0}
    plain = {"input_tokens": 1_000_000, "output_tokens": 0}
    server.reply(text("ok", usage=usage), text("ok", usage=plain))

    cached, uncached = claude.chat("Hello"), claude.chat("Hello")

    assert cached.usage.input_tokens == uncached.usage.input_tokens == 1_000_000
    assert 0 < cached.cost_usd < uncached.cost_usd


# Settings


def test_max_tokens_is_always_sent_and_leaves_room_to_answer_after_thinking():
    thinking = {"type": "enabled", "budget_tokens": 10_000}

    assert wire(USER)["max_tokens"] == 4096
    assert wire(USER, settings={"max_tokens": None})["max_tokens"] == 4096
    assert wire(USER, settings={"thinking": thinking})["max_tokens"] == 14_096
    assert wire(USER, settings={"max_tokens": 7})["max_tokens"] == 7


async def test_very_large_max_tokens_need_no_stream(server: StubServer, claude: LLM):
    server.reply(*["ok"] * 3)

    assert claude.chat("Hello", max_tokens=64_000).content == "ok"
    assert (await claude.achat("Hello", max_tokens=64_000)).content == "ok"
    opus = LLM("anthropic", "claude-opus-4-0", api_key=KEY, base_url=server.url(), timeout=900)
    assert opus.chat("Hello", max_tokens=128_000).content == "ok"
    assert [r.json["max_tokens"] for r in server.requests] == [64_000, 64_000, 128_000]


def test_what_the_sdk_has_no_parameter_for_goes_into_the_body(server: StubServer, claude: LLM):
    server.reply("ok")

    claude.chat("Hello", temperature=0.25, top_k=5, stop_sequences=["END"])

    body = server.requests[0].json
    assert (body["temperature"], body["top_k"], body["stop_sequences"]) == (0.25, 5, ["END"])


def test_prompt_caching_is_asked_for_by_the_user(server: StubServer):
    options = {"cache_control": {"type": "ephemeral"}}
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), options=options)
    server.reply("ok")

    llm.chat("Hello", tools=[{**WEATHER, "cache_control": {"type": "ephemeral", "ttl": "1h"}}])

    body = server.requests[0].json
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_what_the_caller_gave_is_never_changed():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}
    broken = ToolCall("b 2", "g", {}, raw_arguments="{")
    call = ToolCall("a:1", "f", {"x": [1]}, provider_data={"anthropic": {"blocks": [THOUGHT]}})
    request = Request(
        MODEL,
        (
            Message(Role.SYSTEM, "s"),
            Message(Role.USER, ["look", PNG]),
            assistant(call, broken, said="t "),
            result("b 2"),
            result("a:1"),
            assistant(said="so far "),
        ),
        [WEATHER],
        "auto",
        {"output_config": {"effort": "low"}, "parallel_tool_calls": False},
        schema=schema,
    )
    before = copy.deepcopy(request)

    to_wire(request, stream=True)

    assert request == before


# Streams


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


# Errors


@pytest.mark.parametrize(
    ("reply", "kind", "retryable"),
    [
        (status(400, "prompt is too long: 200251 tokens > 200000 maximum"), ContextLengthError, 0),
        (
            status(400, "input length and `max_tokens` exceed context limit: 190000 + 20000"),
            ContextLengthError,
            0,
        ),
        (status(400, "Your credit balance is too low to access the API"), RateLimitError, 0),
        (status(400, "messages.0: something else"), InvalidRequestError, 0),
        (status(402, "no funds"), RateLimitError, 0),
        (status(403, "not for you"), AuthError, 0),
        (status(404, "model: claude-9"), ModelNotFoundError, 0),
        (status(413, "Request exceeds the maximum size"), ContextLengthError, 0),
        (status(504, "took too long"), ProviderTimeoutError, 1),
        (status(529, "Overloaded"), ServerError, 1),
        (raw(OVERLOADED), ServerError, 1),
    ],
)
def test_the_apis_errors_are_ours(server: StubServer, claude: LLM, reply, kind, retryable):
    server.reply(reply)

    with pytest.raises(kind) as caught:
        claude.chat("Hello")

    assert type(caught.value) is kind
    assert caught.value.retryable is bool(retryable)


def test_a_request_that_was_refused_inside_a_stream_is_not_tried_again(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), max_retries=3)
    error = {"type": "invalid_request_error", "message": "messages: wrong"}
    server.reply(events({"type": "error", "error": error, "request_id": "req_9"}))

    with pytest.raises(InvalidRequestError) as caught:
        list(llm.stream("Hello"))

    assert caught.value.request_id == "req_9"
    assert len(server.requests) == 1


def test_answers_and_errors_know_their_request(server: StubServer, claude: LLM):
    headers = {"request-id": "req_of_headers"}
    server.reply("ok", raw("busy", status=529, headers=headers), text("ok"))

    assert claude.chat("Hello").request_id == "req_1"
    with pytest.raises(ServerError) as caught:
        claude.chat("Hello")
    assert caught.value.request_id == "req_of_headers"
    pieces = claude.stream("Hello")
    list(pieces)
    assert pieces.response is not None
    assert pieces.response.request_id == "req_3"


# The whole loop


def test_a_tool_loop_with_thinking_is_accepted_from_end_to_end(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), options={"thinking": THINK})
    first = message(THOUGHT, use("t1", "weather", {"city": "Oslo"}), stop_reason="tool_use")
    server.reply(
        raw({**first, "model": llm.model}),
        tool_calls(Call("weather", {"city": "Rome"}), text="And Rome."),
        "Rain and sun.",
    )
    history: list[Message] = [Message(Role.USER, "Weather?")]

    for _ in range(2):
        response = llm.chat(history, tools=[WEATHER])
        history.append(response.message)
        history += [result(call.id, "rain") for call in response.tool_calls or ()]

    assert llm.chat(history).content == "Rain and sun."
    assert server.refusals == []
    assert server.requests[-1].json["messages"][1]["content"][0] == THOUGHT


THINK = {"type": "enabled", "budget_tokens": 2048}
