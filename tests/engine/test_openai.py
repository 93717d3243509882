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
    RateLimitError,
    Role,
    ServerError,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.core.base import Request
from pywrapai.core.image import Image
from pywrapai.providers.openai import api_root, from_wire, to_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import raw, status
from tests.contracts.provider import KEY, WEATHER, ProviderContract

CASES = sorted((Path(__file__).parents[1] / "wire" / "openai").glob("*.json"))


class TestOpenAI(ProviderContract):
    provider = "openai"

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


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
