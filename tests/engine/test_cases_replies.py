"""What servers answer beside what they promise, on every wire and over HTTP."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    Message,
    ProviderConnectionError,
    ProviderError,
    Role,
    ServerError,
    TextDelta,
    ToolCall,
    ToolResult,
)
from pywrapai.core.sse import Lines
from pywrapai.core.tools import parse_arguments
from pywrapai.testing import StubServer
from pywrapai.testing.wires import (
    Answer,
    Reply,
    Response,
    events,
    html,
    json_bytes,
    raw,
    status,
    text,
)
from pywrapai.testing.wires.openai import chunk, completion

WIRES = ["openai", "anthropic", "gemini", "ollama"]
KEY = "sk-test-0123456789"
STREAMS = {"ollama": "application/x-ndjson"}

pytestmark = pytest.mark.filterwarnings("ignore:no price is known")


def make(server: StubServer, wire: str, **settings: Any) -> LLM:
    settings = {"api_key": KEY, "max_retries": 0, "timeout": 5.0, **settings}
    return LLM(wire, base_url=server.url(wire), **settings)


def both_ways(llm: LLM) -> Iterator[ProviderError]:
    """The error of a chat, and the one of a stream."""
    for call in (lambda: llm.chat("Hello"), lambda: list(llm.stream("Hello"))):
        with pytest.raises(ProviderError) as caught:
            call()
        yield caught.value


@pytest.mark.parametrize("wire", WIRES)
def test_a_web_page_in_place_of_an_api_is_named_with_its_address(server: StubServer, wire: str):
    server.reply(*[html("<html>login</html>")] * 2)

    for error in both_ways(make(server, wire)):
        assert str(server.port) in str(error)
        assert "text/html" in str(error)
        assert not error.retryable


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "reply",
    [
        status(400, f"bad key {KEY}"),
        status(503, f"bad key {KEY}"),
        html(f"<b>{KEY}</b>"),
        raw({"error": {"message": f"bad key {KEY}", "type": "x"}}),
        raw({"error": f"bad key {KEY}"}),
        events({"error": {"message": f"bad key {KEY}", "type": "x"}}, done=False),
        events(f'{{"{KEY}": '),
    ],
)
def test_a_key_is_blanked_in_whatever_the_server_says(
    server: StubServer, monkeypatch: pytest.MonkeyPatch, wire: str, reply: Reply
):
    server.reply(*[reply] * 2)
    name = {
        "openai": "OPENAI_API_KEY",
        "anthropic": "ANTHROPIC_API_KEY",
        "gemini": "GEMINI_API_KEY",
    }
    if wire in name:
        monkeypatch.setenv(name[wire], KEY)

    for error in both_ways(make(server, wire, api_key=None if wire in name else KEY)):
        assert KEY not in str(error)
        assert "[key]" in str(error) or "bad key" not in str(error)


@pytest.mark.parametrize("wire", WIRES)
def test_white_space_around_a_key_does_no_harm(server: StubServer, wire: str):
    server.reply("ok")

    assert make(server, wire, api_key=f"{KEY}\r\n").chat("Hello").content == "ok"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("key", ["sk-ключ-0123456789", "sk-0123\n456789", "sk-0123\x00456789"])
def test_a_key_that_no_header_can_hold_is_told_before_any_network(
    server: StubServer, wire: str, key: str
):
    for error in both_ways(make(server, wire, api_key=key)):
        assert type(error) is AuthError
        assert key not in str(error)
    assert server.requests == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "reply",
    [
        raw(b"[" * 100_000),
        raw(b"[" * 100_000, status=500),
        raw(b"\xff\xfe{"),
        raw(b"no gzip", headers={"content-encoding": "gzip"}),
        Reply(Response(204, {"content-length": "0"})),
        Reply(Response(304, {"content-length": "0"})),
        Reply(Response(None, steps=(b"this is not HTTP" * 9,), complete=False)),
        raw(b"", status=307, headers={"location": "http://[bad"}),
        raw(b"?", status=302),
        raw(b"?", status=418),
        raw(b"?", status=999),
    ],
)
def test_no_reply_whatsoever_raises_anything_but_our_errors(
    server: StubServer, wire: str, reply: Reply
):
    server.reply(*[reply] * 2)

    assert len(list(both_ways(make(server, wire)))) == 2


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("payload", ["[" * 100_000, "{", "null", "7", '"x"', "[]", "{}"])
def test_no_event_whatsoever_raises_anything_but_our_errors(
    server: StubServer, wire: str, payload: str
):
    server.reply(events(payload, done=False))

    with pytest.raises((ServerError, ProviderConnectionError)):
        list(make(server, wire).stream("Hello"))


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_in_its_bytes_is_our_error(server: StubServer, wire: str):
    kind = STREAMS.get(wire, "text/event-stream")
    server.reply(raw(b"no gzip", content_type=kind, headers={"content-encoding": "gzip"}))

    with pytest.raises(ProviderConnectionError):
        list(make(server, wire).stream("Hello"))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("broken", ["cut_after", "stall_after"])
async def test_after_the_end_mark_it_does_not_matter_how_the_connection_ends(
    server: StubServer, wire: str, broken: str
):
    server.reply(*[getattr(text("one two three"), broken)(1000)] * 2)
    llm = make(server, wire, timeout=0.2)
    pieces = llm.astream("Count")

    assert "".join(llm.stream("Count")) == "one two three"
    assert "".join([piece async for piece in pieces]) == "one two three"
    assert pieces.response is not None
    assert pieces.response.finish_reason == "stop"


def test_the_type_of_a_stream_may_be_written_in_any_case(server: StubServer):
    sent = b"".join(b"data: %b\n\n" % json_bytes(c) for c in [chunk({"content": "hi"}, "stop")])
    server.reply(raw(sent, content_type="Text/Event-Stream; Charset=UTF-8"))

    assert list(make(server, "openai").stream("Hello")) == ["hi"]


def test_vendors_own_fields_do_no_harm(server: StubServer):
    vendors = {"created": None, "service_tier": "on_demand", "usage": None, "x_groq": {"id": 7}}
    server.reply(raw(completion({"content": "hi"}, None, **vendors)))
    llm = make(server, "openai")

    response = llm.chat("Hello")

    assert (response.content, response.finish_reason) == ("hi", "stop")
    assert (llm.tokens.total_calls, llm.tokens.total_tokens) == (1, 0)


def test_counts_that_are_none_lose_no_answer(server: StubServer):
    odd = {"prompt_tokens": "7", "completion_tokens": {}, "prompt_tokens_details": [1]}
    server.reply(raw(completion({"content": "hi"}, usage=odd)))

    response = make(server, "openai").chat("Hello")

    assert response.content == "hi"
    assert (response.usage.input_tokens, response.usage.output_tokens) == (7, 0)


def test_of_several_choices_the_first_is_the_answer_streamed_or_not(server: StubServer):
    choices = [{"index": i, "delta": {"content": f"answer {i} "}} for i in (0, 1, 0, 1)]
    server.reply(events(*[{"choices": [c]} for c in choices], chunk({}, "stop")))

    assert "".join(make(server, "openai").stream("Hello", n=2)) == "answer 0 answer 0 "


def test_of_several_candidates_the_first_is_the_answer_streamed_or_not(server: StubServer):
    parts = [{"parts": [{"text": f"answer {i} "}]} for i in (0, 1)]
    first, second = (
        {"content": p, "index": i, "finishReason": "STOP"} for i, p in enumerate(parts)
    )
    server.reply(events({"candidates": [first]}, {"candidates": [second]}))
    llm = make(server, "gemini")

    assert "".join(llm.stream("Hello", candidate_count=2)) == "answer 0 "


def test_a_message_start_without_a_message_does_no_harm(server: StubServer):
    delta = {"type": "content_block_delta", "index": 0}
    server.reply(
        events(
            {"type": "message_start", "message": None},
            {**delta, "delta": {"type": "text_delta", "text": "hi"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        )
    )

    assert list(make(server, "anthropic").stream("Hello")) == ["hi"]


@pytest.mark.parametrize(
    ("arguments", "raw_arguments"),
    [
        ('{"x": NaN}', '{"x": NaN}'),
        ('{"x": -Infinity}', '{"x": -Infinity}'),
        ('{"x": 1e999}', '{"x": 1e999}'),
        ({"x": math.inf}, '{"x": Infinity}'),
        ("[" * 100_000, "[" * 100_000),
        *((broken, broken) for broken in ["[]", '"x"', "123", "null", "true", '{"city": "Par']),
    ],
)
def test_arguments_that_json_cannot_hold_are_broken(arguments: Any, raw_arguments: str):
    assert parse_arguments(arguments) == ({}, raw_arguments)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_was_broken_can_be_sent_back(server: StubServer, wire: str):
    """Whatever a model sends as arguments must not wedge the conversation."""
    parsed, kept = parse_arguments('{"x": NaN, "half": "\\ud83d"}')
    call = ToolCall("call_1", "f", parsed, kept)
    server.reply("ok")

    answer = make(server, wire).chat(
        [
            Message(Role.USER, "Go"),
            Message(Role.ASSISTANT, "", [call]),
            Message(Role.TOOL, "no", tool_result=ToolResult("call_1", "f", "no", is_error=True)),
        ],
        tools=[{"name": "f"}],
    )

    assert answer.content == "ok"
    assert server.refusals == []


@pytest.mark.parametrize("wire", WIRES)
def test_half_a_character_does_no_harm_wherever_it_stands(server: StubServer, wire: str):
    half = "a\ud83d"
    schema = {"type": "object", "properties": {half: {"type": "string", "description": half}}}
    stop = {"stop" if wire in ("openai", "ollama") else "stop_sequences": [half]}
    server.reply("ok")

    make(server, wire, system_prompt=half, options=stop).chat(
        [
            Message(Role.USER, half),
            Message(Role.ASSISTANT, half, [ToolCall("c", "f", {half: half})]),
            Message(Role.TOOL, half, tool_result=ToolResult("c", "f", half)),
        ],
        tools=[{"name": "f", "description": half, "parameters": schema}],
    )

    assert "a\ufffd" in server.requests[-1].body.decode()


@pytest.mark.parametrize("wire", WIRES)
def test_a_line_in_a_thousand_pieces_takes_no_longer_than_in_one(server: StubServer, wire: str):
    size = 32_000_000
    server.reply(text("x" * size).in_packets_of(65_536))
    started = time.process_time()

    assert sum(map(len, make(server, wire).stream("Hello"))) == size
    assert time.process_time() - started < 5.0  # 20 and more where each piece copies all before


def test_lines_are_cut_at_line_ends_alone():
    lines = Lines()

    assert lines.feed("a\u2028b".encode()) == []
    assert lines.feed(b"c\nd\n\ne") == ["a\u2028bc".encode(), b"d", b""]
    assert lines.feed(b"\n") == [b"e"]


def test_arguments_and_reasoning_in_many_pieces_are_joined_in_order(server: StubServer):
    def part(arguments: str, **more: Any) -> dict[str, Any]:
        call = {"index": 0, "function": {"arguments": arguments, **more}}
        return chunk({"tool_calls": [call]})

    digits = [str(i % 10) for i in range(5_000)]
    server.reply(
        events(
            *[chunk({"reasoning_content": digit}) for digit in digits],
            part('{"x": "', name="f"),
            *map(part, digits),
            part('"}'),
            chunk({}, "tool_calls"),
        ).in_one_packet()
    )

    response = list(make(server, "openai").stream_events("Go", tools=[{"name": "f"}]))[-1]

    assert response.tool_calls[0].arguments == {"x": "".join(digits)}
    assert response.thinking == "".join(digits)
    assert response.tool_calls[0].provider_data == {
        "openai": {"reasoning_content": "".join(digits)}
    }


def test_arguments_that_come_as_an_object_in_a_stream_are_read(server: StubServer):
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": {"a": 1}}}
    server.reply(events(chunk({"tool_calls": [call]}, "tool_calls")))

    seen = list(make(server, "openai").stream_events("Go", tools=[{"name": "f"}]))

    assert seen[0] == ToolCall("c", "f", {"a": 1})


@pytest.mark.parametrize("wire", WIRES)
def test_ten_thousand_messages_are_sent_in_a_moment(server: StubServer, wire: str):
    messages = [Message(Role.USER, "Go")]
    for number in range(5_000):  # with one id for all, as llama.cpp gives it
        call = ToolCall("call_1", "f", {"n": number})
        result = ToolResult("call_1", "f", str(number))
        messages += [Message(Role.ASSISTANT, "", [call])]
        messages += [Message(Role.TOOL, result.content, tool_result=result)]
    server.reply("ok")
    started = time.process_time()

    make(server, wire).chat(messages, tools=[{"name": "f"}])

    assert time.process_time() - started < 2.0
    assert server.refusals == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_of_many_small_pieces_is_read_in_linear_time(server: StubServer, wire: str):
    words = "word " * 10_000
    server.reply(Reply(Answer(text=words)).in_one_packet())

    seen = list(make(server, wire).stream_events("Count"))

    assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == words
    assert json.loads(server.requests[0].body)


@pytest.mark.parametrize(
    "tool",
    [
        None,
        "f",
        {},
        {"name": ""},
        {"name": 7},
        {"type": "function", "function": {"name": "f"}},
        {"name": "f", "parameters": "x"},
        {"name": "f", "parameters": [1]},
    ],
)
def test_what_is_no_tool_is_refused_at_the_call(server: StubServer, tool: Any):
    with pytest.raises(ValueError, match="a tool is"):
        make(server, "openai").chat("Hello", tools=[tool])
    assert server.requests == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_schema_that_holds_itself_is_refused_before_the_call(server: StubServer, wire: str):
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["again"] = schema

    with pytest.raises((ValueError, ProviderError), match=r"holds itself|Circular"):
        make(server, wire).chat("Hello", tools=[{"name": "f", "parameters": schema}])
    assert server.requests == []
