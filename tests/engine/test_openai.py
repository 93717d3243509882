from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    ContentFilterError,
    InvalidRequestError,
    Message,
    ProviderConnectionError,
    RateLimitError,
    Role,
    ServerError,
    StreamInterruptedError,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
    get_cost,
    register_provider,
)
from pywrapai.core.base import Request
from pywrapai.core.image import Image
from pywrapai.core.thinking import ThinkTags
from pywrapai.providers import PROVIDERS, Compatible, provider_class
from pywrapai.providers.openai import StreamDecoder, api_root, from_wire, to_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import events, raw, status, text
from pywrapai.testing.wires.openai import completion
from tests.contracts.provider import KEY, WEATHER, ProviderContract

CASES = sorted((Path(__file__).parents[1] / "wire" / "openai").glob("*.json"))


class TestOpenAI(ProviderContract):
    provider = "openai"

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice], **more}


def decode(*payloads: Any, done: bool = True):
    decoder = StreamDecoder()
    wire = b"".join(b"data: %b\n\n" % json.dumps(p).encode() for p in payloads)
    seen = list(decoder.feed(wire + (b"data: [DONE]\n\n" if done else b"")))
    seen += decoder.finish()
    return seen, decoder.response()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_wire_is_what_the_vendor_documents(case: Path):
    pair = json.loads(case.read_text(encoding="utf-8"))
    messages = LLM("openai", "gpt-4o-mini", api_key="k").request(pair["messages"]).messages
    request = Request("gpt-4o-mini", messages, pair.get("tools"), pair.get("tool_choice"))

    assert to_wire(request, stream=False) == pair["request"]

    response = from_wire(pair["response"])
    expected = pair["expected"]
    assert response.content == expected["content"]
    assert [[c.name, c.arguments] for c in response.tool_calls or ()] == expected["tool_calls"]
    assert response.usage == TokenUsage(**expected["usage"])
    assert response.finish_reason == expected["finish_reason"]


def test_requests_fit_the_sdks_own_types():
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    checked = TypeAdapter(CompletionCreateParamsNonStreaming)
    for case in CASES:
        checked.validate_python(json.loads(case.read_text(encoding="utf-8"))["request"])


@pytest.mark.parametrize(
    ("given", "root"),
    [
        (None, None),
        ("http://h", "http://h/v1"),
        ("http://h/", "http://h/v1"),
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("http://h/openai/v9/", "http://h/openai/v9"),
    ],
)
def test_a_bare_host_gets_v1_and_a_path_is_respected(given, root):
    assert api_root(given) == root


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_every_spelling_of_the_base_url_reaches_the_same_path(server: StubServer, tail: str):
    server.reply("ok")
    LLM("openai", api_key=KEY, base_url=server.url() + tail).chat("Hello")

    assert server.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("model", "official", "name"),
    [
        ("gpt-4o-mini", True, "max_completion_tokens"),
        ("gpt-4o-mini", False, "max_tokens"),
        ("gpt-5-mini", False, "max_completion_tokens"),
        ("o3", False, "max_completion_tokens"),
        ("openai/gpt-5", False, "max_completion_tokens"),
        ("mistral-large", False, "max_tokens"),
    ],
)
def test_max_tokens_goes_by_the_name_that_the_server_knows(model, official, name):
    request = Request(model, (Message(Role.USER, "hi"),), settings={"max_tokens": 10})

    body = to_wire(request, stream=False, official=official)

    assert {key for key in body if "tokens" in key} == {name}
    assert request.settings == {"max_tokens": 10}


def test_a_missing_key_names_the_variable_before_any_network(server: StubServer):
    llm = LLM("openai", base_url=server.url(), max_retries=0)

    with pytest.raises(AuthError, match="OPENAI_API_KEY"):
        llm.chat("Hello")
    assert server.connections == 0


def test_the_key_may_come_from_the_environment(server: StubServer, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-env")
    server.reply("ok")

    LLM("openai", base_url=server.url()).chat("Hello")

    assert server.requests[0].headers["authorization"] == "Bearer sk-from-env"


def test_options_and_overrides_go_into_the_body_as_they_are(server: StubServer):
    llm = LLM("openai", api_key=KEY, base_url=server.url(), options={"seed": 1, "top_p": 0.5})
    server.reply("ok")

    llm.chat("Hello", seed=2)

    assert server.requests[0].json["seed"] == 2
    assert server.requests[0].json["top_p"] == 0.5


def test_cached_and_reasoning_tokens_are_part_of_the_sums():
    usage = {
        "prompt_tokens": 1999,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 1792},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}

    read = from_wire(body).usage

    assert read == TokenUsage(1999, 30, cache_read_tokens=1792, reasoning_tokens=20)
    assert read.total_tokens == 2029


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None},
        {"prompt_tokens_details": {"cached_tokens": None}},
    ],
)
def test_usage_may_be_missing_or_null(usage):
    body = {"choices": [{"message": {"content": "hi"}}], "usage": usage}

    assert from_wire(body).usage == TokenUsage()


@pytest.mark.parametrize(
    ("message", "finish", "content", "reason"),
    [
        ({"content": "hi"}, None, "hi", "stop"),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            "stop",
            "ab",
            "stop",
        ),
        ({"content": None}, "stop", "", "stop"),
        ({"content": "hi"}, "eos", "hi", "stop"),
        ({"content": "hal"}, "length", "hal", "length"),
        ({"content": "hal"}, "content_filter", "hal", "content_filter"),
    ],
)
def test_what_compatible_servers_send_is_read_as_they_mean_it(message, finish, content, reason):
    response = from_wire({"choices": [{"message": message, "finish_reason": finish}]})

    assert response.content == content
    assert response.finish_reason == reason


@pytest.mark.parametrize(
    ("message", "finish"),
    [({"content": None, "refusal": "I can't"}, "stop"), ({"content": None}, "content_filter")],
)
def test_a_refusal_is_an_error_and_never_an_empty_answer(message, finish):
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    body = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}

    with pytest.raises(ContentFilterError) as caught:
        from_wire(body)

    assert caught.value.response is not None
    assert caught.value.response.usage == TokenUsage(5, 2)


def test_a_refusal_that_was_paid_for_is_counted(server: StubServer, llm: LLM):
    message = {"content": None, "refusal": "no"}
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    server.reply(raw({"choices": [{"message": message}], "model": "m-1", "usage": usage}))

    with pytest.warns(UserWarning, match="m-1"), pytest.raises(ContentFilterError, match="no"):
        llm.chat("Hello")

    assert llm.tokens.total_tokens == 7


@pytest.mark.parametrize("ids", [["call_1", "call_1"], ["", ""], [None, None]])
def test_calls_always_have_an_id_each(ids):
    calls = [{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ids]

    read = from_wire({"choices": [{"message": {"content": None, "tool_calls": calls}}]}).tool_calls

    assert read is not None
    assert len({call.id for call in read}) == 2
    assert all(call.id for call in read)


def test_arguments_that_are_no_object_are_kept_raw():
    calls = [{"id": "1", "function": {"name": "f", "arguments": '{"city": "Par'}}]

    read = from_wire({"choices": [{"message": {"tool_calls": calls}}]}).tool_calls

    assert read == [ToolCall("1", "f", {}, raw_arguments='{"city": "Par')]


def test_non_ascii_text_is_sent_as_it_is(server: StubServer, llm: LLM):
    server.reply("ok")
    call = ToolCall("1", "f", {"名": "日本語😀"})

    llm.chat(
        [
            Message(Role.USER, "héllo"),
            Message(Role.ASSISTANT, "", [call]),
            *LLM("openai", api_key="k")
            .request([{"role": "tool", "tool_call_id": "1", "content": "結果"}])
            .messages,
        ]
    )

    body = server.requests[0].body.decode()
    assert (
        "日本語😀"
        in server.requests[0].json["messages"][1]["tool_calls"][0]["function"]["arguments"]
    )
    assert "結果" in body


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_role_of_system_messages_can_be_chosen(server: StubServer, role: str):
    llm = LLM(
        "openai",
        api_key=KEY,
        base_url=server.url(),
        system_prompt="Be brief.",
        options={"system_role": role},
    )
    server.reply("ok")

    llm.chat("Hello")

    body = server.requests[0].json
    assert body["messages"][0] == {"role": role, "content": "Be brief."}
    assert "system_role" not in body


def test_an_answer_that_was_thinking_alone_is_not_sent_back(server: StubServer, llm: LLM):
    server.reply("ok")
    silent = [Message(Role.ASSISTANT, ""), Message(Role.ASSISTANT, [""])]

    llm.chat([Message(Role.USER, "a"), *silent, Message(Role.USER, "b")])

    assert [message["content"] for message in server.requests[0].json["messages"]] == ["a", "b"]


def test_parallel_tool_calls_is_left_out_where_there_are_no_tools(server: StubServer):
    options = {"parallel_tool_calls": False}
    llm = LLM("openai", api_key=KEY, base_url=server.url(), options=options)
    server.reply("ok", "ok")

    llm.chat("Hello")
    llm.chat("Hello", tools=[WEATHER])

    without, with_tools = (request.json for request in server.requests)
    assert "parallel_tool_calls" not in without
    assert with_tools["parallel_tool_calls"] is False
    assert options == {"parallel_tool_calls": False}


def test_half_a_character_does_no_harm(server: StubServer, llm: LLM):
    server.reply("ok")
    call = ToolCall("1", "f", {"half": "\ud83d"})
    result = ToolResult("1", "f", "half \ud83d")

    llm.chat(
        [
            Message(Role.USER, "half \ud83d, whole \ud83d\ude00"),
            Message(Role.ASSISTANT, "", [call]),
            Message(Role.TOOL, "?", tool_result=result),
        ]
    )

    user, assistant, tool = server.requests[0].json["messages"]
    assert user["content"] == "half �, whole 😀"
    assert assistant["tool_calls"][0]["function"]["arguments"] == '{"half": "�"}'
    assert tool["content"] == "half �"


def test_an_empty_tool_output_is_an_empty_text(server: StubServer, llm: LLM):
    server.reply("ok")
    history = [Message(Role.USER, "a"), Message(Role.ASSISTANT, "", [ToolCall("1", "f", {})])]

    llm.chat([*history, Message(Role.TOOL, "?", tool_result=ToolResult("1", "f", ""))])

    assert server.requests[0].json["messages"][2]["content"] == ""


def test_images_are_sent_as_parts_in_their_place(server: StubServer, llm: LLM):
    server.reply("a pig")
    png = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
    page = Image.from_url("https://example.com/a.png")

    llm.chat([Message(Role.USER, ["What is ", png, "", "and ", page])])

    assert server.requests[0].json["messages"][0]["content"] == [
        {"type": "text", "text": "What is "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "text", "text": "and "},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]


# Thinking, which compatible servers put in several places


@pytest.mark.parametrize(
    "message",
    [
        {"content": "because", "reasoning_content": "why"},
        {"content": "because", "reasoning": "why"},
        {"content": "because", "reasoning": "why", "reasoning_content": "why"},
        {"content": "<think>\nwhy</think>\n\nbecause"},
        {"content": "\n<think>why</think>because", "reasoning_content": None},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
                {"type": "text", "text": "because"},
            ]
        },
    ],
)
def test_thinking_is_found_wherever_it_stands(server: StubServer, llm: LLM, message):
    server.reply(raw(completion(message)), events(chunk(message, "stop")))

    whole, seen = llm.chat("Why?"), list(llm.stream_events("Why?"))

    assert (whole.thinking, whole.content) == ("why", "because")
    assert seen[:-1] == [ThinkingDelta("why"), TextDelta("because")]
    assert (seen[-1].thinking, seen[-1].content) == ("why", "because")


def test_tags_in_the_text_may_be_cut_in_a_stream(server: StubServer, llm: LLM):
    pieces = ["\n<th", "ink>wh", "y</thi", "nk>\n", "be", "cause <thi"]
    server.reply(events(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")))

    stream = llm.stream("Why?")

    assert list(stream) == ["be", "cause <thi"]
    assert stream.response is not None
    assert stream.response.thinking == "why"


def test_a_tag_that_was_not_completed_is_text(server: StubServer, llm: LLM):
    server.reply(events(chunk({"content": "<thi"}), chunk({}, "stop")))

    assert "".join(llm.stream("Why?")) == "<thi"


def test_text_that_openai_itself_sends_is_left_as_it_is(monkeypatch):
    official, compatible = provider_class("openai")(), provider_class("openai")(base_url="http://h")

    assert official.splitter() is None
    assert isinstance(compatible.splitter(), ThinkTags)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1")
    assert isinstance(official.splitter(), ThinkTags)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_before_a_tool_call_goes_back_by_the_servers_own_key(
    server: StubServer, llm: LLM, field: str, streamed: bool
):
    asked, tool = Message(Role.USER, "f?"), {"name": "f"}
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    if streamed:
        parts = ({field: "Look "}, {field: "it up."}, {"tool_calls": [call]})
        server.reply(events(*map(chunk, parts), chunk({}, "tool_calls")))
        *_, answered = llm.stream_events([asked], tools=[tool])
    else:
        server.reply(raw(completion({field: "Look it up.", "tool_calls": [call]})))
        answered = llm.chat([asked], tools=[tool])
    saved = json.loads(json.dumps(Message(Role.ASSISTANT, "", answered.tool_calls).to_dict()))
    result = Message(Role.TOOL, "?", tool_result=ToolResult("1", "f", "x"))
    server.reply("done")

    llm.chat([asked, Message.from_dict(saved), result], tools=[tool])

    assert server.requests[1].json["messages"][1][field] == "Look it up."
    assert server.requests[1].body.count(b"Look it up.") == 1


@pytest.mark.parametrize("kept", [{"groq": {"reasoning": "x"}}, {"openai": {"role": "system"}}])
def test_what_is_not_this_servers_is_not_sent(kept):
    call = ToolCall("1", "f", {}, provider_data=kept)
    request = Request("m", (Message(Role.ASSISTANT, "", [call]),))

    (message,) = to_wire(request, stream=False)["messages"]

    assert message.keys() == {"role", "content", "tool_calls"}
    assert message["role"] == "assistant"


# Compatible servers by name


@pytest.mark.parametrize(
    ("name", "root", "key"),
    [
        ("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        ("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    ],
)
def test_a_row_is_a_provider(server: StubServer, monkeypatch, name: str, root: str, key: str):
    monkeypatch.delenv(key, raising=False)
    server.reply(text("ok", usage={"prompt_tokens": 1000, "completion_tokens": 1000}))

    assert provider_class(name)().base_url == root
    assert provider_class(name) is provider_class(name)
    with pytest.raises(AuthError, match=key):
        LLM(name, base_url=server.url(), max_retries=0).chat("Hello")
    monkeypatch.setenv(key, "sk-row")
    response = LLM(name, base_url=server.url(), max_tokens=5).chat("Hello")

    assert response.provider == name
    assert response.priced
    assert response.cost_usd == get_cost(response.model, 1000, 1000, provider=name) > 0
    assert server.requests[0].headers["authorization"] == "Bearer sk-row"
    assert server.requests[0].json["max_tokens"] == 5


def test_a_server_of_ones_own_is_a_row_too(monkeypatch):
    monkeypatch.setattr("pywrapai.providers.PROVIDERS", dict(PROVIDERS))
    with StubServer(text("ok", model="its-only"), check=False) as server:
        register_provider("vllm", Compatible(server.url("openai")))
        with pytest.warns(UserWarning, match="its-only"):
            response = LLM("vllm").chat("Hello")

    assert (response.provider, response.model) == ("vllm", "its-only")
    assert "model" not in server.requests[0].json


def test_what_is_no_provider_cannot_be_registered():
    with pytest.raises(TypeError, match="BaseLLM or a Compatible"):
        register_provider("x", "http://h")  # type: ignore[arg-type]  # what a user may try


# Streams, as compatible servers send them


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


# Retries


def test_failures_that_may_pass_are_tried_again(server: StubServer):
    llm = LLM("openai", api_key=KEY, base_url=server.url(), max_retries=2)
    server.reply(status(500), status(429, retry_after=0), "at last")

    assert llm.chat("Hello").content == "at last"
    assert len(server.requests) == 3
    assert llm.tokens.total_calls == 1


def test_no_retries_is_exactly_one_request(server: StubServer, llm: LLM):
    server.reply(status(500), "never")

    with pytest.raises(ServerError):
        llm.chat("Hello")
    assert len(server.requests) == 1


def test_a_refused_request_is_not_tried_again(server: StubServer):
    llm = LLM("openai", api_key=KEY, base_url=server.url(), max_retries=3)
    server.reply(status(400))

    with pytest.raises(InvalidRequestError):
        llm.chat("Hello")
    assert len(server.requests) == 1


def test_a_server_that_asks_for_an_hour_is_not_waited_for(server: StubServer):
    llm = LLM("openai", api_key=KEY, base_url=server.url(), max_retries=3)
    server.reply(status(429, retry_after=3600))

    with pytest.raises(RateLimitError) as caught:
        llm.chat("Hello")
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


# Sharing


def test_a_second_llm_shares_the_connection(server: StubServer):
    server.reply("one", "two")
    LLM("openai", api_key=KEY, base_url=server.url()).chat("Hello")
    before = server.connections

    LLM("openai", "gpt-4o", api_key=KEY, base_url=server.url()).chat("Hello")

    assert server.connections == before


def test_one_llm_serves_many_threads():
    with StubServer(lambda request: request.json["messages"][-1]["content"]) as server:
        llm = LLM("openai", api_key=KEY, base_url=server.url())
        answers: dict[int, list[str]] = {}

        def work(number: int) -> None:
            answers[number] = [llm.chat(f"{number}-{turn}").content for turn in range(20)]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert answers == {n: [f"{n}-{turn}" for turn in range(20)] for n in range(8)}
    assert llm.tokens.total_calls == 160


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(server: StubServer, llm: LLM):
    server.reply("parent", "child", "parent again")
    assert llm.chat("Hello").content == "parent"

    child = os.fork()
    if child == 0:
        os._exit(0 if llm.chat("Hello").content == "child" else 1)
    _, exit_status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(exit_status) == 0
    assert llm.chat("Hello").content == "parent again"
    first, second, third = (request.connection for request in server.requests)
    assert first == third != second


def test_a_byte_order_mark_before_a_reply_is_passed_over(server: StubServer, llm: LLM):
    reply = json.dumps({"choices": [{"message": {"content": "hi"}}], "model": "gpt-4o-mini"})
    server.reply(raw(b"\xef\xbb\xbf" + reply.encode()))

    assert llm.chat("Hello").content == "hi"
