from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import (
    events,
    hang_up,
    html,
    raw,
    status,
    text,
)
from pywrapai.testing.wires.openai import chunk
from tests.engine.openai_client import QUESTION, ask, async_client, bytes_of_stream, sync_client


@pytest.fixture
def client(server: StubServer) -> Iterator[OpenAI]:
    with sync_client(server) as client:
        yield client


def streamed_text(client: OpenAI) -> str:
    return "".join(part.choices[0].delta.content or "" for part in ask(client, stream=True))


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
