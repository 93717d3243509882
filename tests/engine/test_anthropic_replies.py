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
from pywrapai.core.base import ThinkingDelta
from pywrapai.providers.anthropic import StreamDecoder, from_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import events, raw, text
from pywrapai.testing.wires.anthropic import message, message_events
from tests.contracts.provider import KEY
from tests.engine.anthropic_wire import MODEL, use

THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
SECRET = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}


@pytest.fixture
def claude(server: StubServer) -> LLM:
    """Claude on the stub server, without retries."""
    return LLM("anthropic", api_key=KEY, base_url=server.url("anthropic"), max_retries=0)


def decode(*payloads: Any, done: bool = True):
    decoder = StreamDecoder()
    sent = (*payloads, {"type": "message_stop"}) if done else payloads
    wire = b"".join(p if isinstance(p, bytes) else b"data: %b\n\n" % dumped(p) for p in sent)
    seen = list(decoder.feed(wire))
    seen += decoder.finish()
    return seen, decoder.response()


def dumped(payload: Any) -> bytes:
    return json.dumps(payload).encode()


def block_start(block: Any, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ending(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


# Replies


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
        (None, "stop"),
    ],
)
def test_stop_reasons_are_told_in_our_words(reason, finish):
    response = from_wire(message({"type": "text", "text": "hi"}, stop_reason=reason))

    assert response.finish_reason == finish


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", None])
def test_an_answer_with_calls_says_so(reason):
    assert from_wire(message(use("t1"), stop_reason=reason)).finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"input_tokens": None, "output_tokens": None, "cache_read_input_tokens": None},
        {"cache_creation": None, "output_tokens_details": None, "server_tool_use": None},
    ],
)
def test_usage_may_be_missing_or_null(usage):
    assert from_wire(message({"type": "text", "text": "hi"}, usage=usage)).usage == TokenUsage()


def test_texts_and_unknown_blocks_are_read_in_order():
    blocks = [{"type": "text", "text": "a"}, {"type": "novelty", "text": "?"}]
    response = from_wire(message(*blocks, {"type": "text", "text": "b"}))

    assert response.content == "ab"


@pytest.mark.parametrize("ids", [["t1", "t1"], ["", ""], [None, None]])
def test_calls_always_have_an_id_each(ids):
    calls = from_wire(message(*[use(call_id) for call_id in ids])).tool_calls

    assert calls is not None
    assert len({call.id for call in calls}) == 2
    assert all(call.id for call in calls)


def test_a_refusal_is_an_error_that_was_paid_for(server: StubServer, claude: LLM):
    details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
    facts = {"usage": {"input_tokens": 5, "output_tokens": 2}, "model": "m-refuses"}
    server.reply(raw(message(stop_reason="refusal", stop_details=details, **facts)))

    with (
        pytest.warns(UserWarning, match="m-refuses"),
        pytest.raises(ContentFilterError, match="It could do harm") as caught,
    ):
        claude.chat("Hello")

    assert caught.value.response is not None
    assert caught.value.response.usage == TokenUsage(5, 2)
    assert claude.tokens.total_tokens == 7


def test_what_was_said_before_a_refusal_is_an_answer():
    response = from_wire(message({"type": "text", "text": "Well,"}, stop_reason="refusal"))

    assert (response.content, response.finish_reason) == ("Well,", "content_filter")


# Streams


STREAMED = [
    [{"type": "text", "text": "one two “three” 👩‍👩‍👧"}],
    [THOUGHT, {"type": "text", "text": "It is 4."}],
    [THOUGHT, SECRET, {"type": "text", "text": "I look."}, use("t1"), use("t2", "g", {"ä": "ö"})],
    [{"type": "text", "text": "a"}, use("t1"), THOUGHT, use("t2", given={"n": 1.5})],
    [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}],
    [],
]


@pytest.mark.parametrize("blocks", STREAMED)
def test_a_stream_adds_up_to_the_same_response_as_a_message(blocks):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7}
    facts: dict[str, Any] = {"id": "msg_1", "model": MODEL}
    start = {**usage, "output_tokens": 1}

    seen, response = decode(*message_events(*blocks, start=start, end=usage, **facts))

    assert response == from_wire(message(*blocks, usage=usage, **facts))
    assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == response.content
    thought = "".join(e.text for e in seen if isinstance(e, ThinkingDelta))
    assert thought == (response.thinking or "")
    assert [e for e in seen if isinstance(e, ToolCall)] == (response.tool_calls or [])


def test_a_call_without_arguments_has_none_when_streamed():
    seen, _ = decode(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        block_start(use("t1", "now")),
        block_delta(type="input_json_delta", partial_json=""),
        {"type": "content_block_stop", "index": 0},
        ending("tool_use"),
    )

    assert seen == [ToolCall("t1", "now", {})]


def test_arguments_that_were_cut_off_are_kept_raw():
    seen, response = decode(
        block_start(use("t1")),
        block_delta(type="input_json_delta", partial_json='{"city": '),
        block_delta(type="input_json_delta", partial_json='"Par'),
        ending("max_tokens"),
    )

    assert seen == [ToolCall("t1", "f", {}, raw_arguments='{"city": "Par')]
    assert response.finish_reason == "length"


@pytest.mark.parametrize(
    "last",
    [
        {"output_tokens": 7},
        {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7},
        {"input_tokens": 0, "cache_read_input_tokens": None, "output_tokens": 7},
    ],
)
def test_usage_that_comes_twice_counts_once(last):
    first = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}
    _, response = decode({"type": "message_start", "message": {"usage": first}}, ending(**last))

    assert response.usage == TokenUsage(15, 7, cache_read_tokens=5)


def test_what_says_nothing_is_passed_over():
    seen, response = decode(
        {"type": "message_start", "message": None},
        b": comment\n\n",
        {"type": "ping"},
        {"type": "novelty", "delta": None},
        block_delta(type="text_delta", text="hi"),  # without its start
        block_delta(type="text_delta", text=""),
        block_delta(type="citations_delta", citation={}),
        block_delta(type="novelty_delta"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
        {"type": "message_stop"},
        b"data: [DONE]\n\n",
    )

    assert seen == [TextDelta("hi")]
    assert (response.content, response.finish_reason) == ("hi", "stop")


def test_a_block_may_begin_with_some_of_its_text():
    seen, response = decode(
        block_start({"type": "thinking", "thinking": "Hm", "signature": ""}),
        block_delta(type="thinking_delta", thinking="m."),
        block_start({"type": "text", "text": "Well"}, 1),
        block_delta(1, type="text_delta", text=", yes."),
        ending(),
    )

    assert [event.text for event in seen] == ["Hm", "m.", "Well", ", yes."]
    assert (response.thinking, response.content) == ("Hmm.", "Well, yes.")
    assert response.provider_data is None


def test_a_stream_without_its_end_mark_is_cut_off():
    with pytest.raises(ProviderConnectionError, match="end mark"):
        decode(block_delta(type="text_delta", text="hi"), ending(), done=False)


def test_of_a_broken_stream_nothing_is_kept_that_could_not_go_back():
    decoder = StreamDecoder()
    sent = [
        {"type": "message_start", "message": {"model": MODEL, "usage": {"input_tokens": 3}}},
        block_start({"type": "thinking", "thinking": "", "signature": ""}),
        block_delta(type="thinking_delta", thinking="Let me"),
        block_delta(type="signature_delta", signature="c2lnbmVk"),
        block_start({**use("s1"), "type": "server_tool_use"}, 1),
        block_delta(1, type="input_json_delta", partial_json='{"a'),
        block_start(use("t1"), 2),
        block_delta(2, type="input_json_delta", partial_json='{"a'),
    ]
    list(decoder.feed(b"".join(b"data: %b\n\n" % dumped(payload) for payload in sent)))

    response = decoder.response()

    assert (response.thinking, response.model) == ("Let me", MODEL)
    assert response.usage == TokenUsage(3, 0)
    assert (response.tool_calls, response.finish_reason) == (None, None)
    assert response.provider_data is None


def test_a_refusal_in_a_stream_is_an_error():
    details = {"type": "refusal", "explanation": "No."}
    stop = {"stop_reason": "refusal", "stop_details": details}

    with pytest.raises(ContentFilterError, match=r"No\."):
        decode({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}})


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


async def test_an_error_event_before_the_text_is_tried_again(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), max_retries=1)
    server.reply(*[events(OVERLOADED), text("hi")] * 2)

    assert "".join(llm.stream("Hello")) == "hi"
    assert "".join([piece async for piece in llm.astream("Hello")]) == "hi"
    assert len(server.requests) == 4
    assert llm.tokens.total_calls == 2


def test_an_error_event_after_text_interrupts_and_is_never_tried_again(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), max_retries=3)
    server.reply(events(block_delta(type="text_delta", text="par"), OVERLOADED))

    with pytest.raises(StreamInterruptedError, match="Overloaded") as caught:
        list(llm.stream("Hello"))

    assert caught.value.partial == "par"
    assert isinstance(caught.value.__cause__, ServerError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("shape", ["with_crlf", "without_spaces", "with_comments", "in_one_packet"])
def test_event_streams_of_every_dialect_are_read(server: StubServer, claude: LLM, shape: str):
    server.reply(getattr(text("one two three"), shape)())

    assert "".join(claude.stream("Count")) == "one two three"


def test_a_stream_closed_early_counts_the_input(server: StubServer, claude: LLM):
    usage = {"input_tokens": 40, "output_tokens": 9}
    server.reply(text("one two three four", usage=usage))

    pieces = claude.stream("Count")
    next(pieces)
    pieces.close()

    assert claude.tokens.total_input_tokens == 40
