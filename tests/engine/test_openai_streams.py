from __future__ import annotations

import json
from typing import Any

import pytest

from pywrapai import (
    LLM,
    ContentFilterError,
    ProviderConnectionError,
    ServerError,
    StreamInterruptedError,
    TextDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.providers.openai import StreamDecoder
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import events, raw, text
from tests.contracts.provider import KEY


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice], **more}


def decode(*payloads: Any, done: bool = True):
    decoder = StreamDecoder()
    wire = b"".join(b"data: %b\n\n" % json.dumps(p).encode() for p in payloads)
    seen = list(decoder.feed(wire + (b"data: [DONE]\n\n" if done else b"")))
    seen += decoder.finish()
    return seen, decoder.response()


def test_a_chunk_without_choices_is_skipped():
    seen, _ = decode(
        {"choices": None}, chunk({"content": "hello "}), chunk({"content": "world"}, "stop")
    )

    assert seen == [TextDelta("hello "), TextDelta("world")]


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        {
            "choices": [{"index": 0, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        },
        {
            "choices": [{"index": 0, "delta": None}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        },
    ],
)
def test_usage_is_found_wherever_it_stands(last):
    _, response = decode(chunk({"content": "hi"}, "stop"), last)

    assert response.content == "hi"
    assert response.usage == TokenUsage(5, 2)


def test_usage_that_comes_twice_counts_once():
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    _, response = decode(
        chunk({"content": "hi"}, usage=usage), chunk({}, "stop"), {"choices": [], "usage": usage}
    )

    assert response.usage == TokenUsage(5, 2)


@pytest.mark.parametrize("indices", [[0, 1], [1, 2], [0, 2]])
def test_interleaved_calls_are_put_together_by_index(indices):
    first, second = indices
    deltas = [
        {"index": first, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": second, "id": "b", "function": {"name": "g", "arguments": ""}},
        {"index": second, "id": None, "function": {"arguments": '{"y":'}},
        {"index": first, "id": None, "function": {"arguments": '{"x": 1}'}},
        {"index": second, "function": {"arguments": " 2}"}},
    ]
    seen, response = decode(*[chunk({"tool_calls": [d]}) for d in deltas], chunk({}, "tool_calls"))

    assert seen == [ToolCall("a", "f", {"x": 1}), ToolCall("b", "g", {"y": 2})]
    assert response.tool_calls == seen
    assert response.finish_reason == "tool_calls"


def test_generated_ids_are_the_same_in_events_and_response():
    seen, response = decode(chunk({"tool_calls": [{"function": {"name": "f"}}]}, "tool_calls"))

    assert seen == response.tool_calls


def test_reasoning_is_kept_apart_from_the_text():
    _, response = decode(chunk({"reasoning_content": "hmm"}), chunk({"content": "hi"}, "stop"))

    assert response.content == "hi"
    assert response.thinking == "hmm"


def test_an_end_mark_may_be_done_or_a_finish_reason():
    assert decode(chunk({"content": "hi"}))[1].finish_reason == "stop"
    assert decode(chunk({"content": "hi"}, "stop"), done=False)[1].finish_reason == "stop"
    with pytest.raises(ProviderConnectionError, match="end mark"):
        decode(chunk({"content": "hi"}), done=False)


def test_a_refusal_in_a_stream_is_an_error():
    with pytest.raises(ContentFilterError, match="I can't"):
        decode(chunk({"refusal": "I "}), chunk({"refusal": "can't"}, "stop"))


def test_an_error_event_before_the_text_is_tried_again(server: StubServer):
    llm = LLM("openai", api_key=KEY, base_url=server.url(), max_retries=1)
    error = {"error": {"message": "busy", "type": "server_error", "code": 502}}
    server.reply(events(error), text("hi"))

    assert "".join(llm.stream("Hello")) == "hi"
    assert len(server.requests) == 2
    assert llm.tokens.total_calls == 1


def test_an_error_event_after_text_interrupts_and_is_never_tried_again(server: StubServer):
    llm = LLM("openai", api_key=KEY, base_url=server.url(), max_retries=3)
    error = {"error": {"message": "upstream died", "code": 502, "type": "server_error"}}
    server.reply(events(chunk({"content": "par"}), error))

    with pytest.raises(StreamInterruptedError, match="upstream died") as caught:
        list(llm.stream("Hello"))

    assert caught.value.partial == "par"
    assert isinstance(caught.value.__cause__, ServerError)
    assert len(server.requests) == 1


def test_an_empty_stream_with_its_end_mark_is_an_empty_answer(server: StubServer, llm: LLM):
    server.reply(events(chunk({}, "stop")))
    pieces = llm.stream("Hello")

    assert list(pieces) == []
    assert pieces.response is not None
    assert pieces.response.finish_reason == "stop"
    assert llm.tokens.total_calls == 1


@pytest.mark.parametrize("shape", ["with_crlf", "without_spaces", "with_comments", "in_one_packet"])
def test_event_streams_of_every_dialect_are_read(server: StubServer, llm: LLM, shape: str):
    server.reply(getattr(text("one two three"), shape)())

    assert "".join(llm.stream("Count")) == "one two three"


def test_a_json_error_where_a_stream_was_asked_for_is_mapped(server: StubServer, llm: LLM):
    server.reply(raw({"error": {"message": "busy", "type": "overloaded_error"}}))

    with pytest.raises(ServerError, match="busy"):
        list(llm.stream("Hello"))
