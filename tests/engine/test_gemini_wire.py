from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pywrapai import (
    LLM,
    ContentFilterError,
    Image,
    InvalidRequestError,
    Message,
    ProviderConnectionError,
    Role,
    ServerError,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.base import LLMResponse, Request
from pywrapai.providers.gemini import from_wire, to_wire
from tests.engine.gemini_turns import MODEL, contents_of, decode, reply, result, user, wire_of

CASES = sorted((Path(__file__).parents[1] / "wire" / "gemini").glob("*.json"))
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_wire_is_what_the_vendor_documents(case: Path):
    pair = json.loads(case.read_text(encoding="utf-8"))
    messages = LLM("gemini", MODEL, api_key="k").request(pair["messages"]).messages
    request = Request(
        MODEL,
        messages,
        pair.get("tools"),
        pair.get("tool_choice"),
        pair.get("settings", {}),
        schema=pair.get("schema"),
    )

    assert to_wire(request) == pair["request"]

    response = from_wire(pair["response"])
    expected = pair["expected"]
    assert response.content == expected["content"]
    assert [[c.name, c.arguments] for c in response.tool_calls or ()] == expected["tool_calls"]
    assert response.usage == TokenUsage(**expected["usage"])
    assert response.finish_reason == expected["finish_reason"]
    assert response.raw == pair["response"]


def test_requests_and_replies_fit_the_sdks_own_types():
    from google.genai import types

    for case in CASES:
        pair = json.loads(case.read_text(encoding="utf-8"))
        body = pair["request"]
        for content in body["contents"]:
            types.Content.model_validate(content)
        for tool in body.get("tools", ()):
            types.Tool.model_validate(tool)
        types.ToolConfig.model_validate(body.get("toolConfig", {}))
        types.GenerationConfig.model_validate(body.get("generationConfig", {}))
        types.GenerateContentResponse.model_validate(pair["response"])


# Messages


def test_only_leading_system_messages_are_the_instruction():
    body = wire_of(
        Message(Role.SYSTEM, "a"),
        Message(Role.SYSTEM, "b"),
        user("hi"),
        Message(Role.ASSISTANT, "yes"),
        Message(Role.SYSTEM, "c"),
        user("go on"),
    )

    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert [(c["role"], c["parts"][0]["text"]) for c in body["contents"]] == [
        ("user", "hi"),
        ("model", "yes"),
        ("user", "c"),
        ("user", "go on"),
    ]


def test_a_system_message_alone_is_what_there_is_to_answer():
    body = wire_of(Message(Role.SYSTEM, "Say hello."))

    assert body == {"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}


def test_what_says_nothing_is_left_out():
    contents = contents_of(
        user("hi"), Message(Role.ASSISTANT, ""), user(["", "there", Image.from_bytes(PNG)])
    )

    assert [len(content["parts"]) for content in contents] == [1, 2]
    with pytest.raises(InvalidRequestError, match="no text"):
        wire_of(user(""))


def test_images_are_sent_inline_or_as_https_links():
    images = [
        Image.from_bytes(PNG),
        Image.from_url("https://h/a.jpg?size=2"),
        Image.from_url("https://h/a"),
    ]
    (content,) = contents_of(user(["What is it?", *images]))

    assert content["parts"] == [
        {"text": "What is it?"},
        {"inlineData": {"mimeType": "image/png", "data": images[0].base64}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://h/a.jpg?size=2"}},
        {"fileData": {"fileUri": "https://h/a"}},
    ]
    with pytest.raises(InvalidRequestError, match="from_bytes"):
        wire_of(user([Image.from_url("http://h/a.png")]))


def test_results_of_parallel_calls_are_one_turn_named_after_their_calls():
    calls = [ToolCall("1", "f", {}), ToolCall("2", "g", {})]
    contents = contents_of(
        user("go"),
        Message(Role.ASSISTANT, "", calls),
        result("1", "[]"),
        result("2", "1", is_error=True),
        user("and?"),
    )

    assert [content["role"] for content in contents] == ["user", "model", "user", "user"]
    assert [part["functionResponse"] for part in contents[2]["parts"]] == [
        {"id": "1", "name": "f", "response": {"result": []}},
        {"id": "2", "name": "g", "response": {"error": "1"}},
    ]


def test_ids_that_repeat_are_paired_by_position():
    twice = [ToolCall("x", "f", {}), ToolCall("x", "g", {})]
    contents = contents_of(
        user("go"),
        Message(Role.ASSISTANT, "", twice),
        result("x", "1"),
        result("x", "2"),
        Message(Role.ASSISTANT, "", [ToolCall("x", "h", {})]),
        result("x", "3"),
    )

    answers = [p["functionResponse"]["name"] for i in (2, 4) for p in contents[i]["parts"]]
    assert answers == ["f", "g", "h"]


def test_a_result_that_answers_no_call_is_refused_unless_it_has_a_name():
    with pytest.raises(InvalidRequestError, match="'9' answers no call"):
        wire_of(user("go"), result("9", "x"))

    assert contents_of(user("go"), result("9", "x", "f"))[1]["parts"][0]["functionResponse"]


@pytest.mark.parametrize(
    ("content", "response"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"result": [1]}),
        ("1", {"result": "1"}),
        ("", {"result": ""}),
        ("[NaN]", {"result": "[NaN]"}),
        ("名 😀", {"result": "名 😀"}),
    ],
)
def test_what_a_function_returned_is_always_an_object(content: str, response: Any):
    contents = contents_of(user("go"), result("1", content, "f"))

    assert contents[1]["parts"][0]["functionResponse"]["response"] == response


def test_broken_arguments_are_sent_in_a_legal_form():
    call = ToolCall("1", "f", {}, raw_arguments='{"a":')

    (_, content) = contents_of(user("go"), Message(Role.ASSISTANT, "", [call]))

    assert content["parts"][0]["functionCall"]["args"] == {"INVALID_JSON": '{"a":'}


# Thought signatures


def rebuilt(response: LLMResponse) -> Message:
    """The turn after a trip through a database."""
    return Message.from_dict(json.loads(json.dumps(response.message.to_dict())))


def test_only_the_call_that_was_signed_goes_back_signed():
    parts = [
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "QQ=="},
        {"functionCall": {"name": "f"}},
    ]
    response = from_wire(reply(*parts))
    calls = response.tool_calls or []

    _, content = contents_of(user("go"), Message(Role.ASSISTANT, "", calls))

    assert len({call.id for call in calls}) == 2
    assert [part.get("thoughtSignature") for part in content["parts"]] == ["QQ==", None]
    assert contents_of(user("go"), rebuilt(response))[1] == content


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "Hello", "thoughtSignature": "QQ=="}],
        [{"text": "Hello"}, {"text": "", "thoughtSignature": "QQ=="}],
        [{"text": "Hel", "thoughtSignature": "QQ=="}, {"text": "lo", "thoughtSignature": "Qg=="}],
        [{"text": "Hel", "thoughtSignature": "QQ=="}, {"text": "lo"}],
        [
            {"text": "hm", "thought": True, "thoughtSignature": "QQ=="},
            {"text": "Hello"},
            {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "Qg=="},
        ],
    ],
)
def test_a_signed_part_goes_back_as_it_came(parts: list[dict[str, Any]]):
    whole, (_, streamed) = from_wire(reply(*parts)), decode(*[reply(p) for p in parts])

    for response in (whole, streamed):
        assert response.content == "Hello"
        assert contents_of(user("hi"), rebuilt(response))[1]["parts"] == parts
        assert contents_of(user("hi"), rebuilt(response), rebuilt(response))[2]["parts"] == parts


def test_what_other_providers_keep_is_left_alone():
    data = {"anthropic": {"signature": "x"}}
    call = ToolCall("1", "f", {}, provider_data=data)

    _, content = contents_of(user("go"), Message(Role.ASSISTANT, "ok", [call], provider_data=data))

    assert content["parts"] == [
        {"text": "ok"},
        {"functionCall": {"id": "1", "name": "f", "args": {}}},
    ]


@pytest.mark.parametrize(
    ("model", "signed"),
    [
        ("gemini-2.5-pro", False),
        ("gemini-3-pro-preview", True),
        ("models/gemini-3.8-flash", True),
        ("gemini-flash-latest", True),
    ],
)
def test_a_call_of_another_model_is_marked_for_models_that_want_signatures(model, signed):
    calls = [ToolCall("1", "f", {}), ToolCall("2", "f", {})]

    _, content = contents_of(user("go"), Message(Role.ASSISTANT, "", calls), model=model)

    marks = ["skip_thought_signature_validator", None] if signed else [None, None]
    assert [part.get("thoughtSignature") for part in content["parts"]] == marks


# Replies


def test_thoughts_and_texts_are_joined_each_with_its_kind():
    parts = [
        {"text": "A", "thought": True},
        {"text": "B", "thought": True},
        {"text": ""},
        {"text": "c"},
        {"text": "d"},
    ]
    response, (seen, streamed) = from_wire(reply(*parts)), decode(reply(*parts))

    assert (response.thinking, response.content) == ("AB", "cd")
    assert (streamed.thinking, streamed.content) == ("AB", "cd")
    assert seen == [ThinkingDelta("A"), ThinkingDelta("B"), TextDelta("c"), TextDelta("d")]


def test_all_input_and_all_output_is_counted():
    usage = {
        "promptTokenCount": 3,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 7,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 1,
        "totalTokenCount": 17,
    }

    read = from_wire(reply({"text": "hi"}, usageMetadata=usage)).usage

    assert read == TokenUsage(8, 9, cache_read_tokens=1, reasoning_tokens=7)


@pytest.mark.parametrize("usage", [None, {}, {"promptTokenCount": None, "trafficType": None}])
def test_usage_may_be_missing_or_null(usage):
    assert from_wire(reply({"text": "hi"}, usageMetadata=usage)).usage == TokenUsage()


def test_usage_that_grows_along_a_stream_counts_once():
    _, response = decode(
        reply({"text": "a"}, finish=None, usageMetadata={"promptTokenCount": 3}),
        reply({"text": "b"}, usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 2}),
        {"usageMetadata": {"thoughtsTokenCount": 4, "candidatesTokenCount": None}},
    )

    assert response.usage == TokenUsage(3, 6, reasoning_tokens=4)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        (None, "stop"),
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("OTHER", "error"),
        ("SOMETHING_NEW", "error"),
    ],
)
def test_every_reason_to_stop_is_one_of_ours(reason, finish):
    assert from_wire(reply({"text": "hi"}, finish=reason)).finish_reason == finish


def test_a_cut_answer_without_text_is_no_error():
    usage = {"promptTokenCount": 3, "thoughtsTokenCount": 10}
    body = {"candidates": [{"finishReason": "MAX_TOKENS"}], "usageMetadata": usage}

    for response in (from_wire(body), decode(body)[1]):
        assert (response.content, response.finish_reason) == ("", "length")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"candidates": [{"finishReason": "SAFETY", "index": 0}]}, "SAFETY"),
        (
            {"candidates": [{"finishReason": "SPII", "finishMessage": "a phone number"}]},
            "a phone number",
        ),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
    ],
)
def test_what_was_blocked_is_an_error_with_its_reason_and_usage(body, said):
    body = body | {"usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}}

    for read in (from_wire, decode):
        with pytest.raises(ContentFilterError, match=said) as caught:
            read(body)
        assert caught.value.response is not None
        assert caught.value.response.usage == TokenUsage(3, 0)
        assert caught.value.response.finish_reason == "content_filter"


@pytest.mark.parametrize(
    "candidate",
    [
        {"finishReason": "MALFORMED_FUNCTION_CALL", "content": {}},
        {
            "finishReason": "MALFORMED_FUNCTION_CALL",
            "content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]},
        },
        {"finishReason": "UNEXPECTED_TOOL_CALL"},
        {"finishReason": "OTHER"},
    ],
)
def test_an_answer_that_came_to_nothing_may_be_tried_again_and_calls_nothing(candidate):
    for read in (from_wire, decode):
        with pytest.raises(ServerError, match=candidate["finishReason"]) as caught:
            read({"candidates": [candidate]})
        assert caught.value.retryable
        assert caught.value.response is not None
        assert caught.value.response.tool_calls is None


def test_calls_without_id_and_arguments_are_told_apart():
    parts = [{"functionCall": {"name": "f"}}, {"functionCall": {"name": "f", "args": None}}]

    for response in (from_wire(reply(*parts)), decode(reply(*parts))[1]):
        calls = response.tool_calls or []
        assert [(call.name, call.arguments) for call in calls] == [("f", {}), ("f", {})]
        assert len({call.id for call in calls} | {""}) == 3
        assert response.finish_reason == "tool_calls"


def test_a_reply_without_candidates_is_the_servers_fault():
    with pytest.raises(ServerError, match="no candidates"):
        from_wire({"usageMetadata": {"promptTokenCount": 3}})


def test_a_finish_reason_is_the_end_mark_of_a_stream():
    assert decode(reply({"text": "hi"}))[1].finish_reason == "stop"
    with pytest.raises(ProviderConnectionError, match="finish reason"):
        decode(reply({"text": "hi"}, finish=None))
