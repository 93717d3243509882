from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from pywrapai.testing.server import StubServer
from tests.engine.openai_client import QUESTION, post, sync_client

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": ""}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False, "required": ["a"]}


@pytest.fixture
def client(server: StubServer) -> Iterator[OpenAI]:
    with sync_client(server) as client:
        yield client


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **function}}


@pytest.mark.parametrize(
    "body",
    [
        {"max_completion_tokens": 5, "temperature": 0, "stop": ["x"], "seed": 1},
        {"messages": [*QUESTION, CALLING, RESULT, *QUESTION], "tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"response_format": schema_format(CLOSED)},
        {"response_format": {"type": "json_object"}, "messages": [user("answer in JSON")]},
        {"messages": [user([{"type": "text", "text": "Hi"}, image("data:image/png;base64,AA==")])]},
    ],
)
def test_what_openai_takes_is_taken(body):
    body = {"model": "gpt-4o", "messages": QUESTION, **body}
    TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body)

    with StubServer("Hi") as server:
        assert post(server, body)[0] == 200
        assert server.refusals == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": ["Hi"]}, "messages.0.role"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages.0.content"),
        (
            {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
            "messages.0.content.0.type",
        ),
        ({"messages": [{"role": "assistant", "content": None}]}, "messages.0.content"),
        ({"messages": [RESULT]}, "messages.0.tool_call_id"),
        ({"messages": [CALLING, RESULT, RESULT]}, "messages.2.tool_call_id"),
        ({"messages": [CALLING, *QUESTION]}, "messages.1"),
        ({"messages": [*QUESTION, CALLING]}, "messages.2"),
        ({"messages": [{**CALLING, "tool_calls": []}]}, "messages.0.tool_calls"),
        ({"messages": [{**CALLING, "tool_calls": [CALL, CALL]}]}, "messages.0.tool_calls"),
        (
            {"messages": [{**CALLING, "tool_calls": [{**CALL, "id": ""}]}]},
            "messages.0.tool_calls.0",
        ),
        ({"tools": []}, "tools"),
        ({"tools": [{"name": "f"}]}, "tools.0"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [tool(name="a b")]}, "tools.0.function.name"),
        ({"tools": [tool(parameters={"type": "array"})]}, "tools.0.function.parameters"),
        (
            {"tools": [tool(parameters={**OPEN, "properties": {"l": {"type": "array"}}})]},
            "tools.0.function.parameters.l",
        ),
        ({"tools": [tool(parameters=OPEN, strict=True)]}, "tools.0.function.parameters"),
        ({"tools": [TOOL], "tool_choice": "f"}, "tool_choice"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"parallel_tool_calls": True}, "parallel_tool_calls"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
        ({"model": "gpt-5-mini", "max_tokens": 5}, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"messages": [user([image("cat.png")])]}, "messages.0.content.0.image_url.url"),
        ({"messages": [{**RESULT, "role": "user", "tool_calls": []}]}, "messages.0.tool_calls"),
        (
            {"response_format": schema_format({**CLOSED, "$defs": {"d": {"anyOf": [OPEN]}}})},
            "response_format.json_schema.schema.d.anyOf.0",
        ),
        ({"response_format": schema_format(OPEN)}, "response_format.json_schema.schema"),
    ],
)
def test_what_openai_would_refuse_is_a_400_that_names_the_place(server, body, param):
    server.reply("still queued")

    code, refused = post(server, {"model": "gpt-4o", "messages": QUESTION, **body})

    assert (code, refused["error"]["param"]) == (400, param)
    assert server.refusals == [refused["error"]["message"]]
    assert post(server, {"model": "m", "messages": QUESTION})[0] == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"Hi"', b'{"model": NaN}'])
def test_a_body_that_is_no_json_object_is_refused(server, body):
    assert post(server, body)[0] == 400


def test_a_request_without_a_key_is_a_401_unless_told_otherwise(server):
    body = {"model": "m", "messages": QUESTION}

    assert post(server, body, key=None)[0] == 401
    with StubServer("Hi", require_key=False) as keyless:
        assert post(keyless, body, key=None)[0] == 200


def test_checks_can_be_switched_off():
    with StubServer("Hi", check=False) as server:
        assert post(server, {"messages": [{"role": "robot"}]}, key=None)[0] == 200


@pytest.mark.parametrize("given", ["", [], ["a", ""], None])
def test_empty_texts_to_embed_are_refused(server, client, given):
    with pytest.raises(openai.BadRequestError, match="'input"):
        client.embeddings.create(model="e", input=given)


def test_an_unknown_path_is_a_404_that_names_it(server):
    with (
        OpenAI(base_url=server.url() + "/v2/chat/completions", api_key="k", max_retries=0) as lost,
        pytest.raises(openai.NotFoundError, match=r"no wire \(.*\) has POST /v2/chat.*/embed"),
    ):
        lost.post("/embed", cast_to=object, body={})
    with pytest.raises(ValueError, match=r"no wire 'smtp'; there are: .*openai"):
        server.url("smtp")


@pytest.mark.parametrize(
    "head",
    [
        b"Hello\r\n\r\n",
        b"x" * 70_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
def test_what_it_cannot_read_as_http_is_answered_with_a_400(server, head):
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(head)
        assert client.recv(100).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert server.requests == []
