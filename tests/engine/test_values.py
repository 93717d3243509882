"""Messages, images and schemas: the values that travel between the layers."""

from __future__ import annotations

import base64
import copy
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai import (
    LLM,
    Image,
    InvalidRequestError,
    LLMResponse,
    Message,
    Role,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.core.messages import to_messages
from pywrapai.core.schema import changed, inlined, parameters_of, with_items
from pywrapai.testing import StubProvider
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import Call, text, tool_calls

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8
JPEG = b"\xff\xd8\xff\xe0" + b"\x00" * 8
GIF = b"GIF89a" + b"\x00" * 8
WEBP = b"RIFF\x00\x00\x00\x00WEBP"

# JSON round trips

JSON = st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text()))
CALLS = st.builds(ToolCall, st.text(), st.text(), JSON, st.none() | st.text(), st.none() | JSON)
PARTS = (
    st.text() | st.builds(Image.from_bytes, st.just(PNG)) | st.just(Image.from_url("https://a/b"))
)
MESSAGES = st.builds(
    Message,
    st.sampled_from([Role.SYSTEM, Role.USER, Role.ASSISTANT]),
    st.text() | st.lists(PARTS, min_size=1),
    st.none() | st.lists(CALLS, min_size=1),
    st.none() | st.builds(ToolResult, st.text(), st.text(), st.text(), st.booleans()),
    st.none() | JSON,
)


@given(MESSAGES)
def test_a_message_survives_a_trip_through_json(message):
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message


def test_what_a_provider_wants_back_survives_the_dict_form_as_input():
    call = ToolCall("1", "f", {"x": 1}, provider_data={"gemini": {"thoughtSignature": "abc"}})
    message = Message(Role.ASSISTANT, "", [call], provider_data={"anthropic": {"thinking": []}})
    result = Message(Role.TOOL, "r", tool_result=ToolResult("1", "f", "r", is_error=True))

    assert to_messages([message.to_dict(), result.to_dict()]) == (message, result)


def test_a_response_becomes_the_message_that_goes_into_the_history():
    call = ToolCall("1", "f", {})
    response = LLMResponse("hi", [call], provider_data={"anthropic": {}})

    assert response.message == Message(
        Role.ASSISTANT, "hi", [call], provider_data={"anthropic": {}}
    )


def test_usages_add_up():
    both = TokenUsage(1, 2, 3, 4, 5) + TokenUsage(10, 20, 30, 40, 50)

    assert both == TokenUsage(11, 22, 33, 44, 55)
    assert both.total_tokens == 33


# Images


@pytest.mark.parametrize(
    ("data", "media_type"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_an_images_type_is_found(data, media_type, tmp_path):
    path = tmp_path / "picture"
    path.write_bytes(data)

    assert Image.from_bytes(data).media_type == media_type
    assert Image.from_path(path) == Image.from_bytes(data)
    assert Image.from_url(Image.from_bytes(data).as_url) == Image.from_bytes(data)


def test_a_type_may_be_given():
    assert Image.from_bytes(b"svg", "image/svg+xml").as_url.startswith("data:image/svg+xml;base64,")


@pytest.mark.parametrize("data", [b"", b"text", b"x" * (20 * 1024 * 1024 + 1)])
def test_what_is_no_image_or_too_large_is_refused(data, tmp_path):
    path = tmp_path / "picture"
    path.write_bytes(data)

    with pytest.raises(ValueError, match=r"image|PNG"):
        Image.from_bytes(data)
    with pytest.raises(ValueError, match=r"image|PNG"):
        Image.from_path(path)


@pytest.mark.parametrize(
    "url", ["ftp://a/b.png", "b.png", "data:image/png,abc", "data:image/png;base64,!!"]
)
def test_a_url_that_no_provider_could_fetch_is_refused(url):
    with pytest.raises(ValueError, match=r"image URL|URL of an image"):
        Image.from_url(url)


def test_an_image_shows_its_fingerprint_and_never_its_bytes():
    image = Image.from_bytes(PNG)

    assert "PNG" not in repr(image)
    assert image.fingerprint.startswith("sha256:")
    assert image.fingerprint.endswith("(16 bytes)")
    assert Image.from_url("https://a/b.png").fingerprint == "https://a/b.png"
    with pytest.raises(ValueError, match="from_bytes"):
        _ = Image.from_url("https://a/b.png").base64


def test_text_and_images_go_out_in_order(server: StubServer, llm: LLM):
    server.reply("a cat")
    parts = [
        "What is this? ",
        Image.from_bytes(PNG),
        " And this? ",
        Image.from_url("https://a/b.png"),
    ]

    llm.chat([Message(Role.USER, parts)])

    content = server.requests[0].json["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text", "image_url"]
    assert base64.b64decode(content[1]["image_url"]["url"].partition(",")[2]) == PNG
    assert content[3]["image_url"]["url"] == "https://a/b.png"


def test_openai_style_image_parts_are_understood():
    parts = [
        {"type": "text", "text": "?"},
        {"type": "image_url", "image_url": {"url": "https://a/b"}},
    ]

    (message,) = to_messages([{"role": "user", "content": parts}])

    assert message.content == ["?", Image.from_url("https://a/b")]
    assert message.text == "?"
    assert message.images == [Image.from_url("https://a/b")]


def test_a_model_that_takes_no_images_says_so_before_the_call():
    with pytest.raises(InvalidRequestError, match="no images"):
        LLM("local").chat([Message(Role.USER, [Image.from_bytes(PNG)])])


# Schemas


def test_a_tool_without_parameters_takes_none():
    for nothing in (
        {},
        {"parameters": None},
        {"parameters": {}},
        {"parameters": {"type": "object"}},
    ):
        assert parameters_of({"name": "f", **nothing}) == {"type": "object", "properties": {}}


def test_arrays_get_items_wherever_they_stand_and_the_caller_keeps_his_schema():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array"},
            "b": {"anyOf": [{"type": "array"}, {"type": "null"}]},
            "c": {"type": "object", "additionalProperties": {"type": "array"}},
        },
        "$defs": {"D": {"type": "array"}},
    }
    before = copy.deepcopy(schema)

    out = parameters_of({"name": "f", "parameters": schema})

    assert json.dumps(out).count('"items"') == 4
    assert schema == before


def test_properties_named_like_keywords_stay():
    names = ("title", "default", "type", "properties", "required", "items", "$ref", "anyOf")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}

    def without_titles(one):
        return {key: value for key, value in one.items() if key != "title"}

    assert changed(schema, without_titles) == schema
    assert changed(schema, with_items) == schema


def test_references_are_inlined():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "beside"}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "integer"},
        },
    }

    assert inlined(schema) == {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "properties": {"b": {"type": "integer"}},
                "description": "beside",
            }
        },
    }


def test_a_recursive_schema_ends():
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    }

    flat = inlined({"$ref": "#/$defs/Node", "$defs": {"Node": node}}, max_depth=3)

    assert "$ref" not in json.dumps(flat)
    assert json.dumps(flat).count("children") == 3


def test_a_reference_bomb_is_refused_at_once():
    defs = {
        f"D{i}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/D{i + 1}"}] * 2}
        for i in range(30)
    }
    defs["D30"] = {"type": "string"}
    started = time.monotonic()

    with pytest.raises(ValueError, match="inlined"):
        inlined({"$ref": "#/$defs/D0", "$defs": defs})
    assert time.monotonic() - started < 2


def test_a_reference_to_nowhere_is_named():
    with pytest.raises(ValueError, match="#/\\$defs/X"):
        inlined({"$ref": "#/$defs/X"})


# Event streams

TOOL = {"name": "f", "description": "", "parameters": {"type": "object"}}


async def test_events_are_deltas_calls_and_the_response_last(server: StubServer, llm: LLM):
    reply = tool_calls(Call("f", {"x": 1}), Call("f", {"x": 2}), text="Let me see.")
    server.reply(reply, reply)

    events = list(llm.stream_events("hi", tools=[TOOL], tool_choice="auto"))
    aevents = [event async for event in llm.astream_events("hi", tools=[TOOL])]

    for seen in (events, aevents):
        kinds = [type(event) for event in seen]
        assert kinds[-3:] == [ToolCall, ToolCall, LLMResponse]
        assert set(kinds[:-3]) == {TextDelta}
        response = seen[-1]
        assert response.tool_calls == seen[-3:-1]
        assert response.content == "".join(e.text for e in seen[:-3]) == "Let me see."
        assert response.finish_reason == "tool_calls"
        assert response.provider == "openai"
    assert llm.tokens.total_calls == 2


def test_the_text_of_the_events_is_the_stream(server: StubServer, llm: LLM):
    server.reply(text("one two three"), text("one two three"))

    events = llm.stream_events("hi")
    texts = [event.text for event in events if isinstance(event, TextDelta)]

    assert texts == list(llm.stream("hi"))
    assert events.response is not None


def test_thinking_is_an_event_of_its_own():
    from pywrapai.providers.openai import StreamDecoder

    decoder = StreamDecoder()
    delta = {"choices": [{"delta": {"reasoning_content": "hmm", "content": "hi"}}]}

    seen = list(decoder.feed(b"data: %b\n\n" % json.dumps(delta).encode()))

    assert ThinkingDelta("hmm") in seen
    assert TextDelta("hi") in seen


def test_bad_input_is_refused_at_the_call():
    with pytest.raises(ValueError, match="tools"):
        LLM(StubProvider()).stream_events("hi", tool_choice="auto")
    with pytest.raises(ValueError, match="empty"):
        LLM(StubProvider()).astream_events("")
