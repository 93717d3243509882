from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    InvalidRequestError,
    Message,
    ModelNotFoundError,
    ProviderConnectionError,
    Role,
    ServerError,
    StreamInterruptedError,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.core.base import Request
from pywrapai.core.image import Image
from pywrapai.core.messages import to_messages
from pywrapai.providers.ollama import PromptCutWarning
from pywrapai.providers.ollama_wire import StreamDecoder, from_wire, to_wire
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import events, raw, status, text
from pywrapai.testing.wires.ollama import last_line, line
from tests.contracts.provider import KEY, WEATHER, ProviderContract

CASES = sorted((Path(__file__).parents[1] / "wire" / "ollama").glob("*.json"))
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def llm(server: StubServer) -> LLM:
    return LLM("ollama", base_url=server.url("ollama"), max_retries=0)


@pytest.mark.filterwarnings("ignore:Ollama has no tool_choice:UserWarning")
class TestOllama(ProviderContract):
    provider = "ollama"
    names_requests = False

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {"prompt_eval_count": given, "eval_count": made}


def wire(*messages: Message, **more: Any) -> dict[str, Any]:
    request = Request("m", messages or (Message(Role.USER, "hi"),), **more)
    return to_wire(request, stream=False)


def decode(*lines: Any, done: bool = True):
    decoder = StreamDecoder()
    sent = [*lines, *([last_line()] if done else [])]
    seen = list(decoder.feed(b"".join(json.dumps(part).encode() + b"\n" for part in sent)))
    seen += decoder.finish()
    return seen, decoder.response()


# The wire


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_wire_is_what_the_vendor_documents(case: Path):
    pair = json.loads(case.read_text(encoding="utf-8"))
    request = Request(
        "llama3.2",
        to_messages(pair["messages"]),
        pair.get("tools"),
        settings=pair.get("settings", {}),
        schema=pair.get("schema"),
    )

    assert to_wire(request, stream=False) == pair["request"]

    response, expected = from_wire(pair["response"]), pair["expected"]
    assert response.content == expected["content"]
    assert [[c.name, c.arguments] for c in response.tool_calls or ()] == expected["tool_calls"]
    assert response.usage == TokenUsage(**expected["usage"])
    assert response.finish_reason == expected["finish_reason"]
    assert response.thinking == expected["thinking"]


def test_model_settings_are_options_and_the_rest_stands_beside_them():
    settings = {"temperature": 0.5, "num_ctx": 8192, "stop": "END", "keep_alive": 0, "think": "low"}

    body = wire(settings={**settings, "max_tokens": 5, "options": {"top_k": 3}})

    assert body["options"] == {
        "temperature": 0.5,
        "num_ctx": 8192,
        "stop": ["END"],
        "num_predict": 5,
        "top_k": 3,
    }
    assert (body["keep_alive"], body["think"]) == (0, "low")
    assert body.keys() == {"model", "messages", "stream", "options", "keep_alive", "think"}


@pytest.mark.parametrize("explicit", [{"num_predict": 7}, {"options": {"num_predict": 7}}])
def test_an_explicit_num_predict_wins_over_max_tokens(explicit):
    assert wire(settings={"max_tokens": 5, **explicit})["options"] == {"num_predict": 7}


def test_the_callers_settings_are_left_alone():
    settings: dict[str, Any] = {"options": {"top_k": 3}, "max_tokens": 5, "stop": "END"}

    wire(settings=settings)

    assert settings == {"options": {"top_k": 3}, "max_tokens": 5, "stop": "END"}


def test_tools_stand_at_the_top_in_a_stream_too(server: StubServer, llm: LLM):
    server.reply("ok")

    list(llm.stream_events("Hello", tools=[WEATHER]))

    body = server.requests[0].json
    assert [tool["function"]["name"] for tool in body["tools"]] == ["weather"]
    assert body["stream"] is True
    assert "options" not in body


def test_history_keeps_calls_and_results_in_their_native_form():
    calls = [ToolCall("1", "f", {"a": "日本"}), ToolCall("2", "g", {}, raw_arguments='{"a":')]
    body = wire(
        Message(Role.ASSISTANT, "", calls),
        Message(Role.TOOL, "?", tool_result=ToolResult("1", "f", "one")),
        Message(Role.TOOL, "?", tool_result=ToolResult("2", "", "two")),
    )

    assert body["messages"] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"name": "f", "arguments": {"a": "日本"}}},
                {"function": {"name": "g", "arguments": {"INVALID_JSON": '{"a":'}}},
            ],
        },
        {"role": "tool", "tool_name": "f", "content": "one"},
        {"role": "tool", "tool_name": "g", "content": "two"},
    ]


def test_an_answer_that_was_thinking_alone_is_not_sent_back():
    body = wire(Message(Role.USER, "a"), Message(Role.ASSISTANT, ""), Message(Role.USER, "b"))

    assert [message["content"] for message in body["messages"]] == ["a", "b"]


def test_images_go_out_as_base64(server: StubServer, llm: LLM):
    server.reply("a pig")

    llm.chat([Message(Role.USER, ["What is ", Image.from_bytes(PNG), "this?"])])

    message = server.requests[0].json["messages"][0]
    assert message["content"] == "What is this?"
    assert message["images"] == ["iVBORw0KGgo="]


def test_an_image_that_is_only_a_url_is_refused_before_the_call(server: StubServer, llm: LLM):
    with pytest.raises(InvalidRequestError, match=r"from_bytes or Image\.from_path"):
        llm.chat([Message(Role.USER, [Image.from_url("https://example.com/a.png")])])
    assert server.connections == 0


def test_half_a_character_does_no_harm(server: StubServer, llm: LLM):
    server.reply("ok")

    llm.chat("half \ud83d, whole \ud83d\ude00")

    assert server.requests[0].json["messages"][0]["content"] == "half �, whole 😀"


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
def test_arguments_may_be_an_object_or_text_and_calls_get_ids(arguments):
    calls = [{"function": {"name": "f", "arguments": arguments}}] * 2
    body = line({"tool_calls": calls}, done=True, done_reason="stop")

    read = from_wire(body).tool_calls or []

    assert [(call.name, call.arguments) for call in read] == [("f", {"a": 1})] * 2
    assert len({call.id for call in read} - {""}) == 2


def test_arguments_that_are_no_object_are_kept_raw():
    calls = [{"function": {"name": "f", "arguments": '{"a": '}}]

    (call,) = from_wire(line({"tool_calls": calls}, done=True)).tool_calls or ()

    assert (call.arguments, call.raw_arguments) == ({}, '{"a": ')


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"prompt_eval_count": 26, "eval_count": 5}, TokenUsage(26, 5)),
        ({"eval_count": 5}, TokenUsage(0, 5)),
        ({"prompt_eval_count": None, "eval_count": None}, TokenUsage()),
        ({}, TokenUsage()),
    ],
)
def test_counts_may_be_missing_as_for_a_cached_prompt(counts, usage):
    assert from_wire(line({"content": "hi"}, done=True, **counts)).usage == usage
    assert decode(line({"content": "hi"}), last_line(**counts), done=False)[1].usage == usage


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("stop", "stop"), ("length", "length"), ("load", "stop"), ("unload", "stop"), (None, "stop")],
)
def test_reasons_to_end_are_mapped(reason, finish):
    assert from_wire(line({}, done=True, done_reason=reason)).finish_reason == finish


# Thinking


@pytest.mark.parametrize(
    "message",
    [
        {"thinking": "why", "content": "because"},
        {"content": "<think>\nwhy</think>\n\nbecause"},
    ],
)
def test_thinking_is_kept_apart_from_the_text(message):
    whole = from_wire(line(message, done=True))
    seen, streamed = decode(line(message))

    assert (whole.thinking, whole.content) == ("why", "because")
    assert (streamed.thinking, streamed.content) == ("why", "because")
    assert seen == [ThinkingDelta("why"), TextDelta("because")]


def test_thinking_before_a_tool_call_goes_back_with_it(server: StubServer, llm: LLM):
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    server.reply(raw(line({"thinking": "Look it up.", "tool_calls": [call]}, done=True)), "Rain.")
    asked = Message(Role.USER, "Weather?")
    calls = llm.chat([asked], tools=[WEATHER]).tool_calls or []

    saved = json.loads(json.dumps(Message(Role.ASSISTANT, "", calls).to_dict()))
    result = Message(Role.TOOL, "?", tool_result=ToolResult(calls[0].id, "weather", "rain"))
    llm.chat([asked, Message.from_dict(saved), result], tools=[WEATHER])

    assert server.requests[1].json["messages"][1]["thinking"] == "Look it up."
    assert server.requests[1].body.count(b"Look it up.") == 1


def test_what_another_provider_left_is_not_sent():
    call = ToolCall("1", "f", {}, provider_data={"gemini": {"thinking": "theirs"}})

    assert "theirs" not in json.dumps(wire(Message(Role.ASSISTANT, "", [call])))


# Streams


def test_lines_are_split_at_newlines_alone():
    odd = "a\x85b\u2028c\x0bd"
    seen, response = decode(line({"content": odd}))

    assert seen == [TextDelta(odd)]
    assert response.content == odd


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_stream_may_be_cut_anywhere(server: StubServer, llm: LLM, size: int):
    server.reply(text("héllo “wörld” 👋\x85 again").in_packets_of(size))

    assert "".join(llm.stream("Hello")) == "héllo “wörld” 👋\x85 again"


def test_a_last_line_without_its_newline_is_read():
    decoder = StreamDecoder()
    seen = list(decoder.feed(json.dumps(last_line()).encode()))
    seen += decoder.finish()

    assert decoder.response().finish_reason == "stop"


def test_tool_calls_of_several_lines_come_whole_at_the_end():
    def call(name: str) -> dict[str, Any]:
        return {"function": {"index": 0, "name": name, "arguments": {"x": 1}}}

    seen, response = decode(
        line({"content": "Let me see. "}),
        line({"tool_calls": [call("f")]}),
        line({"tool_calls": [call("g")]}),
    )

    assert seen[0] == TextDelta("Let me see. ")
    assert seen[1:] == response.tool_calls
    assert [call.name for call in response.tool_calls or ()] == ["f", "g"]
    assert response.finish_reason == "tool_calls"


def test_only_done_ends_a_stream():
    with pytest.raises(ProviderConnectionError, match="end mark"):
        decode(line({"content": "hi"}), done=False)


def test_an_error_line_before_the_text_is_tried_again(server: StubServer):
    llm = LLM("ollama", base_url=server.url(), max_retries=1)
    server.reply(events({"error": "out of memory"}, done=False), "hi")

    assert "".join(llm.stream("Hello")) == "hi"
    assert len(server.requests) == 2


def test_an_error_line_after_text_interrupts(server: StubServer):
    llm = LLM("ollama", base_url=server.url(), max_retries=3)
    server.reply(events(line({"content": "par"}), {"error": "runner died"}, done=False))

    with pytest.raises(StreamInterruptedError, match="runner died") as caught:
        list(llm.stream("Hello"))

    assert caught.value.partial == "par"
    assert isinstance(caught.value.__cause__, ServerError)
    assert len(server.requests) == 1


def test_a_stream_that_breaks_inside_a_line_is_no_success(server: StubServer, llm: LLM):
    server.reply(events(line({"content": "par"}), b'{"model": "m", "mess', done=False))

    with pytest.raises(StreamInterruptedError):
        list(llm.stream("Hello"))


# Errors, and what Ollama cannot do


def test_a_missing_model_says_how_to_get_it(server: StubServer, llm: LLM):
    server.reply(status(404, "model 'llama3.2' not found"))

    with pytest.raises(ModelNotFoundError, match=r"not found.*ollama pull llama3\.2"):
        llm.chat("Hello")


def test_a_404_that_is_not_ollamas_points_at_the_address(server: StubServer, llm: LLM):
    server.reply(raw("404 page not found", status=404, content_type="text/plain"))

    with pytest.raises(ServerError, match="Is base_url the address of an API"):
        llm.chat("Hello")


def test_no_server_asks_whether_ollama_runs():
    with (
        refusing_port() as port,
        pytest.raises(ProviderConnectionError, match="Is Ollama running"),
    ):
        LLM("ollama", base_url=f"127.0.0.1:{port}", max_retries=0).chat("Hello")


def test_a_key_is_sent_only_if_it_is_given(server: StubServer, llm: LLM):
    server.reply("ok", "ok")

    llm.chat("Hello")
    LLM("ollama", base_url=server.url(), api_key=KEY).chat("Hello")

    sent = [request.headers.get("authorization") for request in server.requests]
    assert sent == [None, f"Bearer {KEY}"]


async def test_a_refusal_is_mapped_in_both_ways(server: StubServer, llm: LLM):
    server.reply(status(401, "unauthorized"), status(401, "unauthorized"))

    with pytest.raises(AuthError):
        llm.chat("Hello")
    with pytest.raises(AuthError):
        await llm.achat("Hello")


def test_a_forced_tool_choice_is_ignored_with_one_warning(server: StubServer, llm: LLM):
    server.reply("ok", "ok")

    with pytest.warns(UserWarning, match="tool_choice: 'weather' is ignored"):
        llm.chat("Hello", tools=[WEATHER], tool_choice="weather")
    llm.chat("Hello", tools=[WEATHER], tool_choice="required")

    for request in server.requests:
        assert "tool_choice" not in request.json
        assert len(request.json["tools"]) == 1


@pytest.mark.parametrize(("choice", "tools"), [("auto", 1), ("none", 0)])
def test_what_ollama_can_do_of_tool_choice_warns_of_nothing(
    server: StubServer, llm: LLM, choice: str, tools: int
):
    server.reply("ok")

    llm.chat("Hello", tools=[WEATHER], tool_choice=choice)

    assert len(server.requests[0].json.get("tools", ())) == tools


def test_structured_answers_are_held_to_the_schema_and_still_validated(
    server: StubServer, llm: LLM
):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    server.reply('```json\n{"a": "one"}\n```', 'Sure: {"a": 1}')

    assert llm.chat_structured("Hello", schema) == {"a": 1}
    assert [request.json["format"] for request in server.requests] == [schema, schema]


# Long prompts


@pytest.mark.parametrize("options", [{"num_ctx": 4096}, {"options": {"num_ctx": 4096}}])
async def test_a_prompt_that_fills_the_window_is_warned_about(server: StubServer, options):
    llm = LLM("ollama", base_url=server.url(), options=options)
    full = text("ok", usage={"prompt_eval_count": 4096, "eval_count": 1})
    server.reply(full, full, full)

    with pytest.warns(PromptCutWarning, match=r"4096 tokens.*num_ctx"):
        llm.chat("Hello")
    with pytest.warns(PromptCutWarning):
        list(llm.stream("Hello"))
    with pytest.warns(PromptCutWarning):
        await llm.achat("Hello")


def test_a_long_prompt_of_few_tokens_was_cut_to_a_default_window(server: StubServer, llm: LLM):
    server.reply(text("ok", usage={"prompt_eval_count": 2050, "eval_count": 1}))

    with pytest.warns(PromptCutWarning, match="2050 tokens of a prompt of 40000 characters"):
        llm.chat("long " * 8000)


@pytest.mark.parametrize(
    ("prompt", "options", "count"),
    [
        ("Hello", {"num_ctx": 4096}, 4095),
        ("Hello", {}, 2050),
        ("long " * 8000, {}, 10000),
        ("long " * 8000, {}, 0),
        ("long " * 2000, {}, 20),
    ],
)
def test_a_prompt_that_fits_is_not(server: StubServer, prompt, options, count):
    llm = LLM("ollama", base_url=server.url(), options=options)
    server.reply(text("ok", usage={"prompt_eval_count": count, "eval_count": 1}))

    assert llm.chat(prompt).content == "ok"


def test_the_warning_never_loses_an_answer(server: StubServer):
    llm = LLM("ollama", base_url=server.url(), options={"num_ctx": 4096})
    server.reply(text("ok", usage={"prompt_eval_count": 4096, "eval_count": 1}))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert llm.chat("Hello").content == "ok"
