"""The stub server against the real openai SDK, and against bare sockets where the SDK hides it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import (
    Call,
    Reply,
    Request,
    events,
    hang_up,
    html,
    raw,
    status,
    text,
    tool_calls,
)
from pywrapai.testing.wires.openai import chunk, completion

QUESTION: list[Any] = [{"role": "user", "content": "How are you?"}]
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


@pytest.fixture
def client(server: StubServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.url("openai"), api_key="sk-1", max_retries=0, timeout=5) as client:
        yield client


def async_client(server: StubServer) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.url("openai"), api_key="sk-1", max_retries=0, timeout=10)


def ask(client: OpenAI, **settings: Any) -> Any:
    body = {"model": "gpt-4o-mini", "messages": QUESTION, **settings}
    return client.chat.completions.create(**body)


def streamed_text(client: OpenAI) -> str:
    return "".join(part.choices[0].delta.content or "" for part in ask(client, stream=True))


def post(server: StubServer, body: Any, key: str | None = "sk-1") -> tuple[int, Any]:
    """What a client without an SDK gets for a chat: the status and the JSON."""
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("POST", "/v1/chat/completions", content, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def bytes_of_stream(server: StubServer) -> bytes:
    """Everything that the server sends for one streamed chat, until it closes."""
    body = json.dumps({"model": "m", "messages": QUESTION, "stream": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: stub\r\nAuthorization: Bearer sk-1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(head.encode() + body)
        return b"".join(iter(lambda: client.recv(65536), b""))


# What it says


def test_a_queued_text_is_a_whole_reply_whose_usage_counts_words(server, client):
    server.reply("I am fine")

    reply = ask(client)

    assert reply.choices[0].message.content == "I am fine"
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.model, reply.id, reply._request_id) == ("gpt-4o-mini", "chatcmpl-1", "req_1")
    assert reply.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
    }


def test_the_same_text_is_a_stream_of_words_where_the_client_asks_for_one(server, client):
    server.reply("I am  fine\n")

    parts = list(ask(client, stream=True))

    assert [part.choices[0].delta.content for part in parts] == ["I ", "am  ", "fine\n", None]
    assert parts[0].choices[0].delta.role == "assistant"
    assert parts[-1].choices[0].finish_reason == "stop"
    assert all(part.usage is None for part in parts)


def test_a_stream_reports_usage_last_and_without_choices_if_asked(server, client):
    server.reply(text("Hi", usage=USAGE))

    parts = list(ask(client, stream=True, stream_options={"include_usage": True}))

    assert [part.usage is not None for part in parts] == [False, False, True]
    assert parts[-1].choices == []
    assert parts[-1].usage.total_tokens == 7


def test_usage_can_be_left_out(server, client):
    server.reply(text("Hi", usage={}))

    assert ask(client).usage is None


def test_tool_calls_arrive_whole_and_in_pieces(server, client):
    reply = tool_calls(Call("weather", {"city": "Paris"}), Call("now", "{}", id="x"), text="Wait")
    server.reply(reply, reply)

    message = ask(client).choices[0].message
    with client.chat.completions.stream(model="m", messages=QUESTION) as stream:
        assembled = stream.get_final_completion().choices[0]

    assert [c.function.arguments for c in message.tool_calls] == ['{"city": "Paris"}', "{}"]
    assert [c.id for c in message.tool_calls] == ["call_1_0", "x"]
    assert [c.function.arguments for c in assembled.message.tool_calls] == [
        '{"city": "Paris"}',
        "{}",
    ]
    assert (assembled.message.content, assembled.finish_reason) == ("Wait", "tool_calls")


def test_broken_arguments_are_sent_as_they_are(server, client):
    server.reply(tool_calls(Call("weather", '{"city": "Par')))

    assert ask(client).choices[0].message.tool_calls[0].function.arguments == '{"city": "Par'


def test_replies_and_chunks_fit_the_sdks_own_types_strictly():
    ChatCompletion.model_validate_json(json.dumps(completion({"content": "Hi"})), strict=True)
    ChatCompletionChunk.model_validate_json(json.dumps(chunk({"content": "Hi"})), strict=True)


def test_raw_replies_may_have_any_shape(server, client):
    server.reply(raw(completion({"content": [{"type": "text", "text": "Hi"}]}, usage=None)))

    assert ask(client).choices[0].message.content == [{"type": "text", "text": "Hi"}]


def test_events_are_sent_one_by_one_as_they_are(server):
    server.reply(events({"choices": None}, "{broken", b": ping\n\n"))

    body = bytes_of_stream(server).partition(b"\r\n\r\n")[2]

    sent = re.findall(rb"([0-9a-f]+)\r\n((?s:.*?)\n\n)\r\n", body)
    assert [payload for _, payload in sent] == [
        b'data: {"choices": null}\n\n',
        b"data: {broken\n\n",
        b": ping\n\n",
        b"data: [DONE]\n\n",
    ]
    assert all(int(size, 16) == len(payload) for size, payload in sent)
    assert body.endswith(b"\r\n0\r\n\r\n")


def test_embeddings_need_no_script_and_are_close_where_words_are_shared(server, client):
    texts = ["the red house", "the red car", "quantum physics"]

    whole = client.embeddings.create(model="e", input=texts)
    again = client.embeddings.create(model="e", input=texts, encoding_format="float", dimensions=64)

    def dot(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    house, car, physics = (item.embedding for item in whole.data)
    assert dot(house, house) == pytest.approx(1.0)
    assert dot(house, car) > dot(house, physics)
    assert again.data[0].embedding == pytest.approx(house)
    assert whole.usage.prompt_tokens == 8


def test_models_need_no_script(server, client):
    assert [model.id for model in client.models.list()] == ["stub"]


# The script


def test_replies_are_given_in_the_order_of_the_queue(server, client):
    server.reply("one", "two")
    server.reply("three")

    assert [ask(client).choices[0].message.content for _ in range(3)] == ["one", "two", "three"]


def test_an_empty_queue_is_an_error_that_says_so_and_asks_for_no_retry(server, client):
    with pytest.raises(
        openai.InternalServerError, match=r"nothing is queued.*server\.reply"
    ) as info:
        ask(client.with_options(max_retries=2))

    assert info.value.code == "nothing_queued"
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", ["Fine", text("Fine"), lambda request: "Fine"])
def test_a_standing_answer_serves_when_nothing_is_queued(answer):
    with StubServer(answer) as server:
        server.reply("queued first")

        contents = [post(server, {"model": "m", "messages": QUESTION}) for _ in range(3)]

    said = [body["choices"][0]["message"]["content"] for _, body in contents]
    assert said == ["queued first", "Fine", "Fine"]


def test_an_answer_function_that_fails_is_named_in_the_error():
    def answer(request: Request) -> str:
        raise KeyError("no such fixture")

    with StubServer(answer) as server:
        code, body = post(server, {"model": "m", "messages": QUESTION})

    assert (code, body["error"]["message"]) == (
        500,
        "the stub server could not answer: KeyError('no such fixture')",
    )


def test_what_is_no_reply_is_refused_when_it_is_queued(server):
    with pytest.raises(TypeError, match="a reply is a str or what text"):
        server.reply({"content": "Hi"})


def test_a_chat_reply_that_meets_an_embedding_request_says_so(server, client):
    server.reply("Hi")

    with pytest.raises(openai.InternalServerError, match="a chat reply is queued, but POST"):
        client.embeddings.create(model="e", input="x")


# What it records


def test_requests_are_recorded_as_they_came(server, client):
    server.reply("Hi")

    ask(client, temperature=0.5)

    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.json == {"model": "gpt-4o-mini", "messages": QUESTION, "temperature": 0.5}


def test_connections_are_kept_alive_and_counted(server, client):
    server.reply("one", "two", "three")

    for _ in range(3):
        ask(client)

    assert (server.connections, server.open_connections) == (1, 1)
    assert [request.connection for request in server.requests] == [1, 1, 1]
    client.close()
    assert server.wait_until(lambda: server.open_connections == 0)


def test_a_stream_ends_so_that_its_connection_serves_another_request(server):
    server.reply("one", "two")
    body = json.dumps({"model": "m", "messages": QUESTION, "stream": True})
    headers = {"content-type": "application/json", "authorization": "Bearer sk-1"}

    with closing(HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
        for _ in range(2):
            connection.request("POST", "/v1/chat/completions", body, headers)
            assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")

    assert (len(server.requests), server.connections) == (2, 1)


async def test_fifty_streams_at_once_each_have_their_own_usage():
    def answer(request: Request) -> Reply:
        number = int(request.json["messages"][-1]["content"])
        usage = {"prompt_tokens": number, "completion_tokens": 1}
        return text("a b c d", usage=usage).paced(0.01)

    async def total(client: AsyncOpenAI, number: int) -> tuple[str, int]:
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": str(number)}],
            stream=True,
            stream_options={"include_usage": True},
        )
        parts = [part async for part in stream]
        words = [part.choices[0].delta.content or "" for part in parts if part.choices]
        return "".join(words), parts[-1].usage.prompt_tokens

    with StubServer(answer) as server:
        async with async_client(server) as client:
            totals = await asyncio.gather(*(total(client, number) for number in range(50)))

    assert totals == [("a b c d", number) for number in range(50)]


def test_a_hundred_requests_are_in_flight_at_once_and_each_gets_its_own_answer():
    def answer(request: Request) -> Reply:
        said = request.json["messages"][0]["content"]
        return text(said).held_until(lambda: server.peak_in_flight == 100)

    def client(number: int) -> str:
        question = [{"role": "user", "content": str(number)}]
        _, body = post(server, {"model": "m", "messages": question})
        return str(body["choices"][0]["message"]["content"])

    with StubServer(answer) as server, ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(client, range(100)))

        assert server.wait_until(lambda: server.in_flight == 0)
    assert answers == [str(number) for number in range(100)]
    assert server.peak_in_flight == 100


# How it misbehaves: before the answer


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
def test_a_status_is_the_sdks_error_with_what_the_test_put_into_it(server, client, code, error):
    server.reply(status(code, "too long", code="context_length_exceeded"))

    with pytest.raises(error, match="too long") as info:
        ask(client)

    assert (info.value.status_code, info.value.code) == (code, "context_length_exceeded")


@pytest.mark.parametrize("hint", [1, 0.5, "Wed, 21 Oct 2015 07:28:00 GMT", "abc", "-5"])
def test_retry_after_goes_out_as_it_is(server, client, hint):
    server.reply(status(429, retry_after=hint, headers={"retry-after-ms": "20"}))

    with pytest.raises(openai.RateLimitError) as info:
        ask(client)

    assert info.value.response.headers["retry-after"] == str(hint)
    assert info.value.response.headers["retry-after-ms"] == "20"


def test_a_web_page_with_status_200_reaches_the_sdk_as_text(server, client):
    server.reply(html("<html>login</html>"))

    assert ask(client) == "<html>login</html>"


@pytest.mark.parametrize("body", ["", '{"choices": ['])
def test_a_body_that_is_no_json_breaks_the_sdk(server, client, body):
    server.reply(raw(body))

    with pytest.raises(json.JSONDecodeError):
        ask(client)


def test_hanging_up_is_a_connection_error(server, client):
    server.reply(hang_up(), hang_up(), "Hi")

    with pytest.raises(openai.APIConnectionError):
        ask(client)

    assert bytes_of_stream(server) == b""
    assert ask(client).choices[0].message.content == "Hi"
    assert server.connections == 3


def test_a_refusing_port_and_a_closed_server_refuse_connections(server):
    server.close()
    with refusing_port() as port:
        for number in (port, server.port):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", number), timeout=5)


def test_a_delay_holds_back_the_first_byte(server, client):
    server.reply(text("late").delayed(60))

    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.2), stream=True)

    assert server.requests[0].client_left.wait(5)


# How it misbehaves: in the middle of a body


@pytest.mark.parametrize("packets", [0, 2])
def test_a_cut_stream_gives_what_came_before_and_then_breaks(server, client, packets):
    server.reply(text("one two three").cut_after(packets))
    got = []

    with pytest.raises(openai.APIConnectionError) as info:
        got.extend(part.choices[0].delta.content for part in ask(client, stream=True))

    assert got == ["one ", "two "][:packets]
    assert "peer closed connection" in str(info.value.__cause__)


def test_a_whole_body_can_be_cut_in_its_middle(server, client):
    server.reply(text("one two three").in_packets_of(20).cut_after(2))

    with pytest.raises(openai.APIConnectionError) as info:
        ask(client)

    assert "received 40 bytes" in str(info.value.__cause__)


def test_a_stream_can_end_without_its_end_marks(server, client):
    server.reply(events(chunk({"content": "Hi"}), done=False))

    parts = list(ask(client, stream=True))

    assert [part.choices[0].finish_reason for part in parts] == [None]
    server.reply(events(chunk({"content": "Hi"}), done=False))
    assert b"[DONE]" not in bytes_of_stream(server)


@pytest.mark.parametrize("packets", [0, 1])
def test_a_stall_sends_the_headers_and_some_packets_and_then_nothing(server, client, packets):
    server.reply(text("one two").stall_after(packets))

    stream = ask(client.with_options(timeout=0.6), stream=True)
    got = []
    with pytest.raises(openai.APITimeoutError):
        got.extend(part.choices[0].delta.content for part in stream)

    assert got == ["one "][:packets]
    assert server.requests[0].client_left.wait(5)


def test_an_error_can_come_inside_a_stream(server, client):
    server.reply(events(chunk({"content": "par"}), {"error": {"message": "died", "code": 502}}))

    stream = ask(client, stream=True)
    assert next(stream).choices[0].delta.content == "par"
    with pytest.raises(openai.APIError, match="died"):
        next(stream)


@pytest.mark.parametrize(
    ("reply", "on_the_wire"),
    [
        (text("a é 😀 z").in_packets_of(1), rb"1\r\n\xf0\r\n1\r\n\x9f\r\n"),
        (
            text("a é 😀 z").in_one_packet(),
            rb'"a "(?s:.*?)\n\ndata: (?s:.*)\[DONE\]\n\n\r\n0\r\n\r\n$',
        ),
        (text("a é 😀 z").with_crlf(), rb"\}\r\n\r\n\r\n[0-9a-f]+\r\ndata: \{"),
        (text("a é 😀 z").without_spaces(), rb"\ndata:\{"),
        (text("a é 😀 z").with_comments("ping"), rb"\n: ping\n\n\r\n"),
        (text("a é 😀 z").paced(0.001).with_crlf().in_packets_of(3), rb"\n3\r\n"),
    ],
)
def test_the_framing_of_a_stream_may_be_odd_and_its_text_the_same(
    server, client, reply, on_the_wire
):
    server.reply(reply, reply)

    assert streamed_text(client) == "a é 😀 z"
    assert re.search(on_the_wire, bytes_of_stream(server))


# Who leaves


def test_closing_a_stream_early_is_seen(server, client):
    server.reply(text("one two").stall_after(1), "next")

    with ask(client, stream=True) as stream:
        assert next(stream).choices[0].delta.content == "one "
        assert not server.requests[0].client_left.is_set()

    assert server.requests[0].client_left.wait(5)
    assert server.wait_until(lambda: (server.in_flight, server.open_connections) == (0, 0))


def test_a_client_that_heard_all_has_not_left(server, client):
    server.reply("one two")

    list(ask(client, stream=True))
    client.close()

    assert server.wait_until(lambda: server.open_connections == 0)
    assert not server.requests[0].client_left.is_set()


async def test_a_cancelled_task_is_seen_to_leave(server):
    server.reply(text("one two").stall_after(1))
    first_word = asyncio.Event()

    async def read() -> None:
        stream = await client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        async with stream:
            async for _ in stream:
                first_word.set()

    async with async_client(server) as client:
        task = asyncio.create_task(read())
        await first_word.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)


# What it refuses

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": ""}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False, "required": ["a"]}


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


# Its life


def test_closing_leaves_no_thread_and_no_socket_even_in_mid_stream():
    before = threading.active_count()
    with StubServer(text("one two").stall_after(1)) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        assert server.wait_until(lambda: server.open_connections == 20)

    assert threading.active_count() == before
    assert all(client.recv(1) == b"" for client in clients)
    for client in clients:
        client.close()
    server.close()
    gc.collect()  # an unclosed socket would warn here, and warnings are errors
    assert server.requests == []


def test_a_server_that_closes_is_not_a_client_that_leaves(client, server):
    server.reply(text("one two").stall_after(1))
    stream = ask(client, stream=True)
    next(stream)

    server.close()

    assert not server.requests[0].client_left.is_set()
    with pytest.raises(openai.APIConnectionError):
        next(stream)


def test_a_server_that_is_not_running_says_so():
    with pytest.raises(RuntimeError, match="is not running"):
        StubServer().url("openai")
    with StubServer() as server, pytest.raises(RuntimeError, match="starts only once"):
        server.start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_can_call_it_and_its_close_leaves_the_parents_server_alone(server):
    server.reply("to the child", "to the parent")
    body = {"model": "m", "messages": QUESTION}

    child = os.fork()
    if child == 0:
        answered = post(server, body)[0] == 200
        server.close()
        os._exit(0 if answered else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert post(server, body)[1]["choices"][0]["message"]["content"] == "to the parent"


def test_the_server_needs_the_standard_library_alone():
    code = (
        "import sys; before = set(sys.modules); import pywrapai.testing.server; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['pywrapai']"
