from __future__ import annotations

import json
from typing import Any

import pytest

from pywrapai import (
    LLM,
    InvalidRequestError,
    Message,
    Role,
    ToolCall,
    ToolResult,
)
from pywrapai.core.image import Image
from pywrapai.providers.anthropic import from_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires.anthropic import message
from tests.contracts.provider import KEY, WEATHER
from tests.engine.anthropic_wire import assistant, result, use, wire

THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
SECRET = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}
PNG = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
USER = Message(Role.USER, "Hello")


@pytest.fixture
def claude(server: StubServer) -> LLM:
    """Claude on the stub server, without retries."""
    return LLM("anthropic", api_key=KEY, base_url=server.url("anthropic"), max_retries=0)


def answer(call_id: str, said: str = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": said}


# Turns


def test_only_leading_system_messages_are_the_system_prompt():
    system = Message(Role.SYSTEM, "Be brief.")
    body = wire(
        system,
        Message(Role.SYSTEM, "Be kind."),
        USER,
        assistant(said="Hi"),
        Message(Role.SYSTEM, "Now speak French."),
        Message(Role.USER, "Bye"),
    )

    assert body["system"] == "Be brief.\n\nBe kind."
    assert body["messages"][:2] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
    ]
    later = body["messages"][2]["content"]
    assert [block["text"] for block in later] == [
        "<system>\nNow speak French.\n</system>",
        "Bye",
    ]


def test_nothing_but_a_system_prompt_is_refused_before_the_call(server: StubServer, claude: LLM):
    with pytest.raises(InvalidRequestError, match="USER"):
        claude.chat([Message(Role.SYSTEM, "Be brief.")])
    assert server.connections == 0


@pytest.mark.parametrize("nothing", ["", " \n", []])
def test_empty_text_is_left_out_and_so_is_a_message_without_anything_in_it(nothing):
    body = wire(
        Message(Role.SYSTEM, ""),
        Message(Role.USER, nothing),
        assistant(said=nothing if isinstance(nothing, str) else ""),
        Message(Role.USER, ["one", "", PNG, "two"]),
        assistant(ToolCall("t1", "f", {}), said="\n"),
        result("t1"),
    )

    assert "system" not in body
    first, second, third = body["messages"]
    assert [block["type"] for block in first["content"]] == ["text", "image", "text"]
    assert second["content"] == [use("t1")]
    assert third["content"] == [answer("t1")]


def test_neighbours_of_one_role_become_one_turn():
    body = wire(USER, Message(Role.USER, "again"), assistant(said="Hi"), assistant(said="there"))

    assert [(m["role"], len(m["content"])) for m in body["messages"]] == [
        ("user", 2),
        ("assistant", 2),
    ]


def test_an_answer_to_go_on_with_does_not_end_in_white_space():
    body = wire(USER, assistant(said="The answer is: "))

    assert body["messages"][-1] == {"role": "assistant", "content": "The answer is:"}


def test_results_of_one_turn_go_in_one_message_before_all_text():
    calls = [ToolCall(f"t{number}", "f", {}) for number in range(3)]
    body = wire(
        USER,
        assistant(*calls),
        Message(Role.SYSTEM, "Mind the gap."),
        result("t0", "zero"),
        Message(Role.USER, "By the way"),
        result("t1", "one"),
        result("t2", "", is_error=True),
    )

    content = body["messages"][-1]["content"]
    assert content[:2] == [answer("t0", "zero"), answer("t1", "one")]
    assert content[2] == {**answer("t2", "(empty)"), "is_error": True}
    assert [block["type"] for block in content[3:]] == ["text", "text"]
    assert len(body["messages"]) == 3


def test_an_image_in_a_tool_message_goes_out_with_its_result():
    shot = Message(Role.TOOL, ["done", PNG], tool_result=ToolResult("t1", "f", "done"))

    content = wire(USER, assistant(ToolCall("t1", "f", {})), shot)["messages"][-1]["content"]

    assert [part["type"] for part in content[0]["content"]] == ["text", "image"]


def test_ids_that_repeat_or_have_odd_letters_are_made_good_with_their_results():
    odd = "functions.f:0"
    body = wire(
        USER,
        assistant(ToolCall(odd, "f", {"n": 1}), ToolCall(odd, "f", {"n": 2})),
        result(odd, "first"),
        result(odd, "second"),
        assistant(ToolCall(odd, "f", {"n": 3})),
        result(odd, "third"),
        assistant(ToolCall("", "f", {"n": 4})),
        result("", "fourth"),
    )

    blocks = [block for turn in body["messages"][1:] for block in turn["content"]]
    ids = {block["id"]: block["input"]["n"] for block in blocks if block["type"] == "tool_use"}
    said = {b["content"]: ids[b["tool_use_id"]] for b in blocks if b["type"] == "tool_result"}
    assert said == {"first": 1, "second": 2, "third": 3, "fourth": 4}


def test_broken_arguments_go_back_inside_of_an_object():
    broken = ToolCall("t1", "f", {}, raw_arguments='{"city": "Par')

    turn = wire(USER, assistant(broken), result("t1"))["messages"][1]

    assert turn["content"] == [use("t1", given={"INVALID_JSON": '{"city": "Par'})]


def test_halves_of_a_character_do_not_break_the_request(server: StubServer, claude: LLM):
    server.reply("ok")
    call = ToolCall("t1", "f", {"name": "\ud83d", "other": "日本語"})

    claude.chat(
        [
            Message(Role.SYSTEM, "\ud83d"),
            Message(Role.USER, "hi \ud83d\ude00 \udc80"),
            assistant(call, said="\udc80"),
            result("t1", "\udc80"),
        ]
    )

    body = server.requests[0].json
    assert body["messages"][0]["content"] == "hi 😀 \ufffd"
    assert body["messages"][1]["content"][1]["input"]["other"] == "日本語"


# Images


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (Message(Role.USER, [Image.from_bytes(b"x", "image/tiff")]), "convert it to PNG"),
        (Message(Role.SYSTEM, [PNG]), "USER message"),
        (Message(Role.ASSISTANT, [PNG]), "USER message"),
    ],
)
def test_an_image_that_claude_cannot_take_is_refused_before_the_call(
    server: StubServer, claude: LLM, message: Message, advice: str
):
    with pytest.raises(InvalidRequestError, match=advice):
        claude.chat([message, USER])
    assert server.connections == 0


# Tools


@pytest.mark.parametrize(
    ("choice", "parallel", "wanted"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("weather", None, {"type": "tool", "name": "weather"}),
        ("weather", False, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}),
    ],
)
def test_the_tool_choice_is_told_in_the_apis_words(choice, parallel, wanted):
    settings = {} if parallel is None else {"parallel_tool_calls": parallel}

    body = wire(USER, tools=[WEATHER], tool_choice=choice, settings=settings)

    assert body.get("tool_choice") == wanted
    assert "parallel_tool_calls" not in body


def test_without_tools_nothing_is_said_about_them():
    body = wire(USER, settings={"parallel_tool_calls": False})

    assert body.keys() == {"model", "messages", "max_tokens"}


def test_a_history_with_tools_stays_legal_when_none_are_given():
    body = wire(USER, assistant(ToolCall("t1", "f", {}), ToolCall("t2", "g", {})), *RESULTS)

    assert [tool["name"] for tool in body["tools"]] == ["f", "g"]
    assert body["tool_choice"] == {"type": "none"}


RESULTS = (result("t1"), result("t2"))


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}])
def test_a_tool_without_parameters_takes_an_empty_object(parameters):
    tool = {"name": "now", "description": None, "parameters": parameters}

    [sent] = wire(USER, tools=[tool])["tools"]

    assert sent == {"name": "now", "input_schema": {"type": "object", "properties": {}}}


def test_tools_among_the_options_win():
    search = {"type": "web_search_20250305", "name": "web_search"}

    body = wire(USER, settings={"tools": [search], "tool_choice": {"type": "any"}})
    assert (body["tools"], body["tool_choice"]) == ([search], {"type": "any"})

    body = wire(USER, assistant(ToolCall("t1", "f", {})), RESULTS[0], settings={"tools": [search]})
    assert body["tools"] == [search]
    assert "tool_choice" not in body


def test_a_tool_that_anthropic_runs_is_sent_as_it_is():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}

    assert wire(USER, tools=[search, WEATHER])["tools"][0] == search


# What goes back


def test_thinking_goes_back_as_it_came_before_the_call_and_once():
    first = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    second = {"type": "tool_use", "id": "t2", "name": "g", "input": {"a": 1}}
    later = {**THOUGHT, "thinking": "And now?", "signature": "bW9yZQ"}
    blocks = [THOUGHT, SECRET, {"type": "text", "text": "I will look."}, first, later, second]

    response = from_wire(message(*blocks, stop_reason="tool_use"))
    assert response.thinking == "Let me see.And now?"
    assert response.provider_data is None

    stored = json.loads(json.dumps(response.message.to_dict()))
    for turn in (response.message, Message.from_dict(stored)):
        assert wire(USER, turn, *RESULTS)["messages"][1]["content"] == blocks
    rebuilt = assistant(*response.tool_calls or ())
    assert wire(USER, rebuilt, *RESULTS)["messages"][1]["content"] == [
        block for block in blocks if block["type"] != "text"
    ]


def test_thinking_goes_back_too_when_one_of_the_calls_is_dropped():
    blocks = [THOUGHT, use("t1"), use("t2")]
    calls = from_wire(message(*blocks, stop_reason="tool_use")).tool_calls or []

    turn = wire(USER, assistant(calls[1]), result("t2"))["messages"][1]

    assert turn["content"] == [THOUGHT, use("t2")]


def test_thinking_of_an_answer_in_words_rides_on_its_message():
    blocks = [THOUGHT, {"type": "text", "text": "It is 4."}]
    response = from_wire(message(*blocks))

    turn = Message.from_dict(json.loads(json.dumps(response.message.to_dict())))

    assert wire(USER, turn, USER)["messages"][1]["content"] == blocks


def test_a_paused_turn_goes_back_in_its_order():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    blocks = [{"type": "text", "text": "I look."}, search, found, {**search, "id": "s2"}]
    response = from_wire(message(*blocks, stop_reason="pause_turn"))

    assert response.finish_reason == "length"
    assert wire(USER, response.message)["messages"][1]["content"] == blocks


@pytest.mark.parametrize("signature", ["", None])
def test_a_thought_without_a_signature_does_not_go_back(signature):
    unsigned = {**THOUGHT, "signature": signature}
    response = from_wire(message(unsigned, {"type": "text", "text": "4"}))
    assert response.thinking == "Let me see."
    assert response.provider_data is None

    data = {"anthropic": {"blocks": [unsigned]}}
    turn = assistant(said="4", provider_data=data)
    assert wire(USER, turn, USER)["messages"][1] == {"role": "assistant", "content": "4"}


def test_a_turn_of_thoughts_alone_is_left_out():
    turn = from_wire(message(THOUGHT, SECRET, stop_reason="max_tokens")).message

    assert wire(USER, turn, USER)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}] * 2}
    ]


def test_what_another_provider_wants_back_is_none_of_ours():
    call = ToolCall("t1", "f", {}, provider_data={"gemini": {"thought_signature": "x"}})
    turn = assistant(call, provider_data={"gemini": {"parts": []}, "anthropic": None})

    assert wire(USER, turn, result("t1"))["messages"][1]["content"] == [use("t1")]
