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

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import (
    Call,
    Reply,
    Request,
    events,
    raw,
    text,
    tool_calls,
)
from pywrapai.testing.wires.openai import chunk, completion
from tests.engine.openai_client import (
    QUESTION,
    ask,
    async_client,
    bytes_of_stream,
    post,
    sync_client,
)

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


@pytest.fixture
def client(server: StubServer) -> Iterator[OpenAI]:
    with sync_client(server) as client:
        yield client


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
