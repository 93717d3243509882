from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    Message,
    ModelNotFoundError,
    ProviderTimeoutError,
    RateLimitError,
    Role,
    ServerError,
    StreamInterruptedError,
    ToolCall,
)
from pywrapai.core.flow import arun, run
from pywrapai.providers.gemini import GeminiProvider
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import Call, events, raw, status, text, tool_calls
from tests.contracts.provider import KEY, WEATHER, ProviderContract
from tests.engine.gemini_turns import MODEL, reply, result, user, wire_of


@pytest.fixture(autouse=True)
def _no_google_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


class TestGemini(ProviderContract):
    provider = "gemini"

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {
            "promptTokenCount": given,
            "candidatesTokenCount": made,
            "totalTokenCount": given + made,
        }


@pytest.fixture
def gemini(server: StubServer) -> LLM:
    return LLM("gemini", MODEL, api_key=KEY, base_url=server.url("gemini"), max_retries=0)


def test_the_request_is_the_one_that_the_sdk_would_send(server: StubServer, gemini: LLM):
    from google import genai

    server.reply("ok", "ok")
    theirs = genai.Client(api_key=KEY, vertexai=False, http_options={"base_url": server.url()})
    theirs.models.generate_content(model=MODEL, contents="Hello")
    gemini.chat("Hello")

    sdk, ours = server.requests
    assert ours.path == sdk.path
    assert ours.json == sdk.json
    names = ("x-goog-api-key", "x-goog-api-client", "user-agent", "content-type")
    assert [ours.headers[n] for n in names] == [sdk.headers[n] for n in names]
    theirs.close()


@pytest.mark.parametrize(
    ("tail", "path"),
    [
        ("", "/v1/models/"),
        ("/", "/v1/models/"),
        ("/v1beta", "/v1beta/models/"),
        ("/v1beta/", "/v1beta/models/"),
        ("/gateway/gemini", "/gateway/gemini/v1/models/"),
    ],
)
def test_a_bare_host_gets_the_version_and_a_path_is_respected(
    server: StubServer, tail: str, path: str
):
    server.reply("ok")
    LLM("gemini", MODEL, api_key=KEY, base_url=server.url() + tail).chat("Hello")

    assert server.requests[0].path == f"{path}{MODEL}:generateContent"


def test_a_missing_key_names_the_variables_before_any_network(server: StubServer):
    with pytest.raises(AuthError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        LLM("gemini", base_url=server.url(), max_retries=0).chat("Hello")
    assert server.connections == 0


@pytest.mark.parametrize("name", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_the_key_may_come_from_the_environment(server: StubServer, monkeypatch, name: str):
    monkeypatch.setenv(name, "from-env")
    server.reply("ok")

    LLM("gemini", base_url=server.url()).chat("Hello")

    assert server.requests[0].headers["x-goog-api-key"] == "from-env"


def test_the_default_model_has_a_price(server: StubServer):
    server.reply("ok")

    response = LLM("gemini", api_key=KEY, base_url=server.url()).chat("Hello")

    assert response.priced


def test_a_configuration_of_calls_is_never_sent_without_functions(server: StubServer, gemini: LLM):
    assert "toolConfig" not in wire_of(user("go"), tools=None, tool_choice="auto")
    for choice, mode in (("auto", "AUTO"), ("required", "ANY"), ("none", "NONE")):
        body = wire_of(user("go"), tools=[WEATHER], tool_choice=choice)
        assert body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}

    server.reply("ok")
    gemini.chat("go", tools=[WEATHER], tool_choice="weather")
    assert server.refusals == []


def test_text_is_sent_as_utf_8_and_half_a_character_does_no_harm(server: StubServer, gemini: LLM):
    server.reply("ok", "ok")

    gemini.chat("日本語 😀")
    gemini.chat("broken \ud83d text")

    assert "日本語 😀" in server.requests[0].body.decode()
    assert "broken" in server.requests[1].json["contents"][0]["parts"][0]["text"]


def test_options_find_their_place_by_either_spelling(server: StubServer):
    options = {"top_k": 4, "seed": 1, "generation_config": {"logprobs": 2}, "labels": {"a": "b"}}
    llm = LLM("gemini", MODEL, api_key=KEY, base_url=server.url(), options=options)
    server.reply("ok")

    llm.chat("Hello", seed=2, max_output_tokens=9)

    body = server.requests[0].json
    assert body["generationConfig"] == {
        "topK": 4,
        "seed": 2,
        "logprobs": 2,
        "maxOutputTokens": 9,
    }
    assert body["labels"] == {"a": "b"}


async def test_a_model_that_wants_signatures_gets_them_back_in_a_loop(server: StubServer):
    llm = LLM("gemini", "gemini-3.8-flash", api_key=KEY, base_url=server.url(), max_retries=0)
    both = tool_calls(Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}))
    server.reply(both, "Rain.", both, "Rain.")
    asked = user("Weather?")

    for ask in (llm.chat, None):
        if ask is None:
            stream = llm.astream_events([asked], tools=[WEATHER])
            calls = [event async for event in stream if isinstance(event, ToolCall)]
        else:
            calls = ask([asked], tools=[WEATHER]).tool_calls or []
        results = [result(call.id, "rain", call.name) for call in calls]
        llm.chat([asked, Message(Role.ASSISTANT, "", calls), *results], tools=[WEATHER])

    assert server.refusals == []
    signed = [p.get("thoughtSignature") for p in server.requests[-1].json["contents"][1]["parts"]]
    assert signed[0] not in (None, "skip_thought_signature_validator")
    assert signed[1] is None


def test_a_malformed_call_is_asked_for_again(server: StubServer):
    llm = LLM("gemini", MODEL, api_key=KEY, base_url=server.url(), max_retries=1)
    broken = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "content": {}}]}
    server.reply(raw(broken), tool_calls(Call("weather", {"city": "Oslo"})))

    calls = llm.chat("go", tools=[WEATHER]).tool_calls or []

    assert [call.arguments for call in calls] == [{"city": "Oslo"}]
    assert len(server.requests) == 2


def test_an_answer_is_held_to_a_pydantic_model(server: StubServer, gemini: LLM):
    from pydantic import BaseModel, ConfigDict, Field

    class City(BaseModel):
        model_config = ConfigDict(extra="forbid")
        title: str
        people: int = Field(gt=0)

    class Answer(BaseModel):
        model_config = ConfigDict(extra="forbid")
        city: City
        neighbours: list[City] = []

    server.reply('{"city": {"title": "Oslo", "people": 700000}}')

    answer = gemini.chat_structured("Which?", Answer)

    assert answer.city.title == "Oslo"
    assert server.refusals == []
    config = server.requests[0].json["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    city = config["responseJsonSchema"]["properties"]["city"]
    assert city["properties"]["people"] == {"type": "integer", "minimum": 1}


# Streams


def test_an_error_event_after_text_interrupts_and_is_never_tried_again(server: StubServer):
    llm = LLM("gemini", MODEL, api_key=KEY, base_url=server.url(), max_retries=3)
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    server.reply(events(reply({"text": "par"}, finish=None), error))

    with pytest.raises(StreamInterruptedError, match="overloaded") as caught:
        list(llm.stream("Hello"))

    assert caught.value.partial == "par"
    assert isinstance(caught.value.__cause__, ServerError)
    assert caught.value.__cause__.status_code == 503
    assert len(server.requests) == 1


def test_an_error_event_before_the_text_is_tried_again(server: StubServer):
    llm = LLM("gemini", MODEL, api_key=KEY, base_url=server.url(), max_retries=1)
    server.reply(events({"error": {"code": 503, "message": "overloaded"}}), text("hi"))

    assert "".join(llm.stream("Hello")) == "hi"


def test_a_prompt_that_is_blocked_in_a_stream_is_an_error(server: StubServer, gemini: LLM):
    server.reply(events({"promptFeedback": {"blockReason": "SAFETY"}}))

    with pytest.raises(ContentFilterError, match="SAFETY"):
        list(gemini.stream("Hello"))


@pytest.mark.parametrize("shape", ["without_spaces", "with_comments", "in_one_packet"])
def test_event_streams_of_every_dialect_are_read(server: StubServer, gemini: LLM, shape: str):
    server.reply(getattr(text("one two three"), shape)())

    assert "".join(gemini.stream("Count")) == "one two three"


# Errors


def google_error(code: int, message: str, **detail: Any) -> Any:
    error = {"code": code, "message": message, "status": "INVALID_ARGUMENT", "details": [detail]}
    return raw({"error": error}, status=code)


def test_a_wrong_key_is_an_authentication_error_though_google_says_400(
    server: StubServer, gemini: LLM
):
    from google.genai.errors import ClientError

    server.reply(google_error(400, "Please pass a valid one.", reason="API_KEY_INVALID"))

    with pytest.raises(AuthError, match="API_KEY_INVALID") as caught:
        gemini.chat("Hello")
    assert caught.value.status_code == 400
    assert not caught.value.retryable
    assert isinstance(caught.value.__cause__, ClientError)


def test_the_wait_in_a_body_is_the_wait_that_is_asked_for(server: StubServer, gemini: LLM):
    server.reply(google_error(429, "quota", retryDelay="7s"))

    with pytest.raises(RateLimitError) as caught:
        gemini.chat("Hello")
    assert caught.value.retry_after == 7.0


def test_too_many_tokens_are_told_from_other_refusals(server: StubServer, gemini: LLM):
    words = "The input token count (2) exceeds the maximum number of tokens allowed (1)."
    server.reply(google_error(400, words), google_error(400, "Bad value"))

    with pytest.raises(ContextLengthError):
        gemini.chat("Hello")
    with pytest.raises(InvalidRequestError, match="Bad value"):
        gemini.chat("Hello")


def test_refusals_of_every_shape_are_read(server: StubServer, gemini: LLM):
    server.reply(raw([{"error": {"code": 404, "message": "no such model"}}], status=404))
    server.reply(raw("Bad Gateway", status=502))

    with pytest.raises(ModelNotFoundError, match="no such model"):
        list(gemini.stream("Hello"))
    with pytest.raises(ServerError, match="Bad Gateway"):
        gemini.chat("Hello")


def test_a_timeout_is_in_seconds(server: StubServer, gemini: LLM):
    server.reply(text("late").delayed(0.3), text("late").delayed(30))

    assert gemini.chat("Hello", timeout=30).content == "late"
    with pytest.raises(ProviderTimeoutError):
        gemini.chat("Hello", timeout=0.2)


def test_the_sdk_never_tries_again_by_itself(server: StubServer, gemini: LLM):
    server.reply(status(503), "never")

    with pytest.raises(ServerError):
        gemini.chat("Hello")
    assert len(server.requests) == 1


# Connections


def test_the_pool_outlives_one_of_two_llms(server: StubServer):
    server.reply("one", "two", "three")
    first = LLM("gemini", MODEL, api_key=KEY, base_url=server.url())
    second = LLM("gemini", MODEL, api_key=KEY, base_url=server.url())
    first.chat("Hello")
    second.chat("Hello")

    del first
    gc.collect()

    assert second.chat("Hello").content == "three"
    assert server.connections == 1


def test_aiohttp_is_never_used(server: StubServer, gemini: LLM, monkeypatch: pytest.MonkeyPatch):
    aiohttp = pytest.importorskip("aiohttp")  # without it nobody can use it

    def refused(*given: object, **settings: object) -> None:
        raise AssertionError("the SDK's own HTTP is used, which retries by itself")

    monkeypatch.setattr(aiohttp.ClientSession, "__init__", refused)
    server.reply("one")

    assert asyncio.run(gemini.achat("Hello")).content == "one"
    assert server.requests[0].headers["user-agent"].startswith("google-genai-sdk")


# Embeddings


def embedder(server: StubServer, model: str = "gemini-embedding-001") -> GeminiProvider:
    return GeminiProvider(model, api_key=KEY, base_url=server.url())


def test_texts_become_vectors_in_their_order(server: StubServer):
    provider = embedder(server)
    texts = ["red apple", "blue sky", "red apple"]

    reply = run(provider.embed_flow(texts, dimensions=16, timeout=5))
    areply = asyncio.run(arun(provider.embed_flow(texts, dimensions=None, timeout=5)))

    assert [len(vector) for vector in reply.vectors] == [16, 16, 16]
    assert list(reply.vectors[0]) == list(reply.vectors[2]) != list(reply.vectors[1])
    assert len(areply.vectors) == 3
    assert reply.input_tokens is None
    assert server.requests[0].path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    assert server.requests[0].json["requests"][1] == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "blue sky"}]},
        "outputDimensionality": 16,
    }
    assert "outputDimensionality" not in server.requests[1].json["requests"][0]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(429, retry_after=3), RateLimitError),
        (raw({"embeddings": [{}]}), ServerError),
        (raw({"embeddings": [None]}), ServerError),
        (raw({}), ServerError),
        (raw("<html>"), ServerError),
    ],
)
def test_failed_embeddings_are_our_errors(server: StubServer, answer: Any, kind: type[Exception]):
    server.reply(answer)

    with pytest.raises(kind) as caught:
        run(embedder(server).embed_flow(["a"], dimensions=None, timeout=5))
    assert caught.value.provider == "gemini"
