from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai import Message, Role, ToolCall, ToolResult
from pywrapai.core.messages import system_text, to_messages
from pywrapai.core.tools import parse_arguments


def test_a_string_is_one_user_message():
    assert to_messages("Hello") == (Message(Role.USER, "Hello"),)


def test_openai_style_dicts_become_messages():
    given = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Weather "}, {"type": "text", "text": "now?"}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    before = copy.deepcopy(given)

    assert to_messages(given) == (
        Message(Role.SYSTEM, "Be brief."),
        Message(Role.USER, "Weather now?"),
        Message(Role.ASSISTANT, "", [ToolCall("c1", "weather", {"city": "Oslo"})]),
        Message(Role.TOOL, "rain", tool_result=ToolResult("c1", "", "rain")),
    )
    assert given == before


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ([], "empty"),
        ([{"role": "robot", "content": "hi"}], "unknown role 'robot'"),
        ([{"content": "hi"}], "unknown role None"),
        ([{"role": ["user"], "content": "hi"}], "unknown role"),
        ([Message(Role.TOOL, "16")], "tool_result"),
        ([{"role": "tool", "content": "16"}], "tool_call_id"),
        ([{"role": "user", "content": [{"type": "audio", "data": "x"}]}], "content part"),
    ],
)
def test_what_no_provider_could_take_is_a_value_error_that_says_why(messages, said):
    with pytest.raises(ValueError, match=said):
        to_messages(messages)


@pytest.mark.parametrize(
    "messages",
    [
        None,
        7,
        {"role": "user", "content": "hi"},
        [7],
        [("user", "hi")],
        [{"role": "assistant", "tool_calls": [7]}],
        [{"role": "assistant", "tool_calls": [{"type": "function", "function": "f"}]}],
        [{"role": "assistant", "tool_calls": [{"id": "c1"}]}],
    ],
)
def test_what_is_no_message_is_a_type_error(messages):
    with pytest.raises(TypeError, match="message"):
        to_messages(messages)


@pytest.mark.parametrize("content", [7, {"text": "hi"}])
def test_content_that_is_no_text_is_a_type_error(content):
    with pytest.raises(TypeError, match="content"):
        to_messages([{"role": "user", "content": content}])
    with pytest.raises(TypeError, match="content"):
        to_messages([Message(Role.USER, content)])


def test_an_unknown_role_on_a_message_is_a_value_error():
    with pytest.raises(ValueError, match="unknown role"):
        to_messages([Message("robot", "hi")])


def test_the_system_text_is_found_wherever_it_stands():
    assert system_text(to_messages([Message(Role.USER, "a"), Message(Role.SYSTEM, "b")])) == "b"
    assert system_text(to_messages("a")) is None


@pytest.mark.parametrize("raw", ["[]", '"x"', "123", "null", "true", '{"city": "Par', "not json"])
def test_arguments_that_are_no_json_object_are_kept_as_they_came(raw):
    assert parse_arguments(raw) == ({}, raw)


@pytest.mark.parametrize("nothing", [None, "", {}, "{}"])
def test_no_arguments_are_an_empty_object(nothing):
    assert parse_arguments(nothing) == ({}, None)


def test_a_raw_newline_inside_an_argument_is_read():
    assert parse_arguments('{"a": "one\ntwo"}') == ({"a": "one\ntwo"}, None)


@given(st.text())
def test_any_argument_text_is_either_parsed_or_kept(text):
    arguments, raw = parse_arguments(text)

    assert isinstance(arguments, dict)
    assert raw in (None, text)
