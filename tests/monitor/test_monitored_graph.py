from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

import pytest
from pydantic import BaseModel, field_validator

from pywrapai import (
    LLM,
    BaseLLM,
    Image,
    LLMResponse,
    ServerError,
    StreamEnd,
    StreamInterruptedError,
    StructuredOutputError,
    TextDelta,
    TokenUsage,
    ToolCall,
    UnpricedModelWarning,
)
from pywrapai.testing import StubEmbedder, StubProvider, StubServer, text
from pywrapai_graph import Chunk, GraphLLM, InMemoryVectorStore, ScoredChunk, VectorRetriever
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_monitor import MonitoredGraph, SQLiteStore, StoreError
from pywrapai_monitor.conversation import Conversation
from pywrapai_monitor.recorder import Recorder
from tests.monitor.notebook import Notebook, tracked_of

TOOL = {"name": "f", "description": "", "parameters": {"type": "object"}}
ANN = '{"name": "Ann"}'
WAYS = ("chat", "stream", "stream_events", "chat_structured")


class Person(BaseModel):
    name: str


async def go(tracked: MonitoredGraph, way: str, question="hi", **more):
    """Call it in this way and read all of it; what came."""
    schema = (Person,) if "structured" in way else ()
    found = getattr(tracked, way)(question, *schema, **more)
    if inspect.isawaitable(found):
        return await found
    if hasattr(found, "__anext__"):
        return [piece async for piece in found]
    return list(found) if hasattr(found, "__next__") else found


BOTH = [*WAYS, *(f"a{way}" for way in WAYS)]
EACH = pytest.mark.parametrize("way", BOTH)


# What every call leaves


@EACH
async def test_each_way_leaves_one_record_with_its_id_labels_and_rows(way):
    tracked, notebook, _ = tracked_of(ANN, prompt_name="p", prompt_version="v1")

    await go(tracked, way, tags=["a", "b"], metadata={"order": 7})

    (entry,) = notebook.entries
    token = entry.token
    assert (token.status, token.finish_reason) == ("ok", "stop")
    assert (token.tags, token.metadata) == (("a", "b"), {"order": 7})
    assert (token.prompt_name, token.prompt_version) == ("p", "v1")
    assert [(m.role, m.content) for m in entry.messages] == [("user", "hi"), ("assistant", ANN)]
    assert token.call_id
    assert {m.call_id for m in entry.messages} == {token.call_id}
    assert abs(entry.at - time.time_ns() // 1000) < 60_000_000
    assert notebook.ways == ["enqueue" if way.startswith("a") else "write"]


@pytest.mark.parametrize("way", WAYS)
def test_twins_take_the_same_arguments(way):
    twins = [inspect.signature(getattr(MonitoredGraph, name)) for name in (way, f"a{way}")]

    assert list(twins[0].parameters.values()) == list(twins[1].parameters.values())


@pytest.mark.parametrize("way", WAYS[:3])
def test_it_is_called_as_a_graph_is_but_for_the_history(way):
    ours, graphs = (
        list(inspect.signature(getattr(cls, way)).parameters) for cls in (MonitoredGraph, GraphLLM)
    )

    assert [name for name in ours if name not in ("metadata", "tags")] == [
        name for name in graphs if name != "history"
    ]


async def test_a_response_says_under_which_id_it_is_kept():
    tracked, notebook, _ = tracked_of(*["x"] * 6)

    responses = [tracked.chat("a"), await tracked.achat("b")]
    pieces = tracked.stream("c")
    list(pieces)
    apieces = tracked.astream("d")
    [piece async for piece in apieces]
    last = list(tracked.stream_events("e"))[-1]
    alast = [event async for event in tracked.astream_events("f")][-1]

    ids = [r.call_id for r in (*responses, pieces.response, apieces.response, last, alast)]
    assert ids == [token.call_id for token in notebook.tokens]
    assert len(set(ids)) == 6


async def test_the_history_is_loaded_once_settled_and_off_the_loop():
    tracked, notebook, provider = tracked_of("one", "two", "three")

    await tracked.achat("a")
    tracked.chat("b")
    await go(tracked, "astream", "c")

    assert [len(request.messages) for request in provider.requests] == [1, 3, 5]
    here = threading.get_ident()
    assert [ident == here for *_, ident in notebook.settled] == [False, True, False]
    assert {(user, session) for user, session, _ in notebook.settled} == {("u", "s")}


def test_without_turns_nothing_is_loaded():
    tracked, notebook, _ = tracked_of("one", max_turns=0)

    tracked.chat("a")

    assert notebook.settled == []


@EACH
async def test_what_is_wrong_is_said_before_any_io(way):
    tracked, notebook, provider = tracked_of(ANN)

    for wrong in ({"question": " "}, {"timeout": -1}, {"metadata": [1]}, {"tags": "ab"}):
        with pytest.raises((ValueError, TypeError)):
            await go(tracked, way, **wrong)
    with pytest.raises(TypeError, match="loads the history itself"):
        await go(tracked, way, history=[])

    assert (provider.requests, notebook.settled, notebook.entries) == ([], [], [])


@pytest.mark.parametrize("way", ["stream", "astream", "stream_events", "astream_events"])
def test_a_stream_says_what_is_wrong_at_the_call(way):
    tracked, _, _ = tracked_of("never")

    with pytest.raises(ValueError, match="empty"):
        getattr(tracked, way)(" ")
    with pytest.raises(ValueError, match="tool"):
        getattr(tracked, way)("hi", tools=[TOOL], tool_choice="nope")


def test_the_labels_of_a_record_are_its_own():
    tracked, notebook, _ = tracked_of("x")
    given = {"cart": [1, 2], "when": time.gmtime, "nan": float("nan")}

    tracked.chat("hi", metadata=given)
    given["cart"].append(3)

    assert notebook.tokens[0].metadata["cart"] == [1, 2]
    assert notebook.tokens[0].metadata["nan"] == "NaN"


def test_what_an_object_among_the_labels_can_do_is_not_done():
    class Body:
        async def json(self) -> dict[str, str]:
            raise AssertionError("it was read")

        def __repr__(self) -> str:
            return "a body"

    tracked, notebook, _ = tracked_of("x")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracked.chat("hi", metadata={"request": Body()})

    assert notebook.tokens[0].metadata == {"request": "a body"}


def test_what_a_user_of_the_graph_looks_at_is_there():
    tracked, _, _ = tracked_of("x", llm=LLM(StubProvider(["x"]), cache=True), prompt_name="p")
    graph = tracked.graph

    assert (tracked.llm, tracked.tokens, tracked.cache) == (graph.llm, graph.tokens, graph.cache)
    assert (tracked.model, tracked.provider) == ("stub-model", "stub")
    assert (tracked.retriever, tracked.system_prompt) == (None, None)
    assert (tracked.user_id, tracked.session_id) == ("u", "s")
    kind = tracked.with_system_prompt("Be kind.")
    assert (kind.system_prompt, tracked.system_prompt) == ("Be kind.", None)
    assert kind.conversation.prompt_name is None


async def test_what_a_call_would_send_can_be_looked_at():
    tracked, notebook, _ = tracked_of("one")
    tracked.chat("a")

    assembly = tracked.assemble("b")

    assert [m.text for m in assembly.messages] == ["a", "one", "b"]
    assert await tracked.aassemble("b") == assembly
    assert len(notebook.entries) == 1


def test_an_image_is_kept_as_its_hash_and_size_and_the_next_turn_has_no_empty_question():
    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 100)
    tracked, notebook, provider = tracked_of("a square", "blue")

    tracked.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": image.as_url}}]}])  # fmt: skip
    tracked.chat("And its colour?")

    assert notebook.entries[0].messages[0].content == f"[image {image.fingerprint}]"
    assert "108 bytes" in provider.requests[1].messages[0].text


# Structured answers


def priced(content: str, cost: float) -> LLMResponse:
    return LLMResponse(content, usage=TokenUsage(10, 5), cost_usd=cost, model="m")


async def structured(tracked: MonitoredGraph, way: str, schema=Person, **more):
    found = getattr(tracked, way)("Who?", schema, **more)
    return await found if inspect.isawaitable(found) else found


STRUCTURED = pytest.mark.parametrize("way", ["chat_structured", "achat_structured"])


@STRUCTURED
async def test_each_attempt_is_a_record_and_the_turn_is_kept_once(way):
    tracked, notebook, _ = tracked_of(priced("no", 0.25), priced(ANN, 0.5))

    assert await structured(tracked, way) == Person(name="Ann")

    assert notebook.statuses == ["ok", "ok"]
    assert [token.cost_usd for token in notebook.tokens] == [0.25, 0.5]
    assert notebook.said() == [("user", "Who?", "ok"), ("assistant", ANN, "ok")]
    assert sum(token.cost_usd for token in notebook.tokens) == tracked.tokens.total_cost
    assert len({token.call_id for token in notebook.tokens}) == 2


@STRUCTURED
async def test_when_no_attempt_fits_the_last_is_the_error(way):
    tracked, notebook, _ = tracked_of(priced("no", 0.25), priced("nor this", 0.5))

    with pytest.raises(StructuredOutputError):
        await structured(tracked, way)

    assert notebook.statuses == ["ok", "error"]
    last = notebook.tokens[-1]
    assert (last.error_type, last.partial, last.cost_usd) == (
        "StructuredOutputError",
        "nor this",
        0.5,
    )
    assert notebook.said() == []


@STRUCTURED
async def test_a_first_attempt_is_recorded_when_the_second_fails(way):
    tracked, notebook, _ = tracked_of(priced("no", 0.25), ServerError("down"))

    with pytest.raises(ServerError) as caught:
        await structured(tracked, way)

    assert notebook.statuses == ["ok", "error"]
    assert [token.cost_usd for token in notebook.tokens] == [0.25, 0.0]
    assert [r.cost_usd for r in caught.value.responses] == [0.25]


@STRUCTURED
async def test_an_answer_on_which_the_users_own_check_fails_was_still_paid_for(way):
    class Odd(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, value: str) -> str:
            raise RuntimeError("a bug in the check")

    tracked, notebook, _ = tracked_of(priced(ANN, 0.25))

    with pytest.raises(RuntimeError, match="a bug") as caught:
        await structured(tracked, way, Odd)

    assert [(t.status, t.error_type, t.cost_usd) for t in notebook.tokens] == [
        ("error", "RuntimeError", 0.25)
    ]
    assert len(caught.value.responses) == 1


@STRUCTURED
async def test_a_structured_answer_out_of_the_cache_is_free(way):
    llm = LLM(StubProvider([priced(ANN, 0.25)]), cache=True)
    tracked, notebook, _ = tracked_of(llm=llm, max_turns=0)

    await structured(tracked, way)
    await structured(tracked, way)

    assert [(t.cached, t.cost_usd) for t in notebook.tokens] == [(False, 0.25), (True, 0.0)]


# How calls end


async def test_a_cache_hit_is_marked_free_and_as_fast_as_it_was():
    class Slow(StubProvider):
        def chat(self, *args, **kwargs):
            time.sleep(0.2)
            return super().chat(*args, **kwargs)

    llm = LLM(Slow([priced("x", 0.5)]), cache=True)
    tracked, notebook, _ = tracked_of(llm=llm, max_turns=0)

    first, again = tracked.chat("hi"), await tracked.achat("hi")

    assert (first.cached, again.cached) == (False, True)
    assert [(t.cached, t.cost_usd, t.status) for t in notebook.tokens] == [
        (False, 0.5, "ok"),
        (True, 0.0, "ok"),
    ]
    assert notebook.tokens[0].duration_ms >= 200 > notebook.tokens[1].duration_ms
    assert first.call_id != again.call_id


def test_a_model_without_a_price_is_marked_so():
    class Elsewhere(StubProvider):
        name = "elsewhere"

    tracked, notebook, _ = tracked_of(llm=LLM(Elsewhere(["x"], model="priced-by-nobody-here")))

    with pytest.warns(UnpricedModelWarning):
        tracked.chat("hi")

    assert (notebook.tokens[0].priced, notebook.tokens[0].cost_usd) == (False, 0.0)


class Interrupted(BaseLLM):
    """Ctrl-C while it thinks."""

    name = "stub"
    default_model = "stub-model"

    def chat(self, *args, **kwargs):
        raise KeyboardInterrupt

    def stream(self, *args, **kwargs):
        yield "one "
        raise KeyboardInterrupt

    async def achat(self, *args, **kwargs):
        raise asyncio.CancelledError

    async def astream(self, *args, **kwargs):
        yield "one "
        raise asyncio.CancelledError


@pytest.mark.parametrize("way", ["chat", "stream", "chat_structured"])
async def test_ctrl_c_is_recorded_and_passes_on(way):
    tracked, notebook, _ = tracked_of(llm=LLM(Interrupted()))

    with pytest.raises(KeyboardInterrupt):
        await go(tracked, way)

    assert notebook.statuses == ["cancelled"]
    assert notebook.tokens[0].error_type == "KeyboardInterrupt"
    assert notebook.tokens[0].partial == ("one " if way == "stream" else None)
    assert notebook.said() == []


@pytest.mark.parametrize("way", ["achat", "astream", "astream_events", "achat_structured"])
async def test_a_cancelled_call_is_recorded_as_such_whenever_it_comes(way):
    with StubServer() as server:
        server.reply(text(ANN).delayed(30))
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        tracked, notebook, _ = tracked_of(llm=llm)
        task = asyncio.create_task(go(tracked, way))
        assert await asyncio.to_thread(server.wait_until, lambda: server.in_flight == 1, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert notebook.statuses == ["cancelled"]
    assert notebook.said() == []


async def test_a_call_that_takes_too_long_is_cancelled_and_recorded():
    class Slow(StubProvider):
        async def achat(self, *args, **kwargs):
            await asyncio.sleep(30)

    tracked, notebook, _ = tracked_of(llm=LLM(Slow(["x"])), max_turns=0)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(tracked.achat("hi"), 0.01)

    assert notebook.statuses == ["cancelled"]


class Waiting(StubProvider):
    """Begins to answer, and never ends."""

    async def achat(self, *args, **kwargs):
        await asyncio.Event().wait()

    async def astream(self, *args, **kwargs):
        yield "one "
        await asyncio.Event().wait()


@pytest.mark.parametrize(("way", "status"), [("achat", "cancelled"), ("astream", "interrupted")])
def test_a_call_whose_loop_is_gone_is_recorded_all_the_same(way, status):
    tracked, notebook, _ = tracked_of(llm=LLM(Waiting()))
    loop = asyncio.new_event_loop()
    waits = asyncio.Event()

    async def ask() -> None:
        if way == "astream":
            async for _ in tracked.astream("hi"):
                waits.set()
        else:
            loop.call_later(0.01, waits.set)
            await tracked.achat("hi")

    task = loop.create_task(ask())
    loop.run_until_complete(waits.wait())
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    task.get_coro().close()

    assert notebook.statuses == [status]
    assert notebook.ways == ["enqueue"]
    assert notebook.tokens[0].error_type == ("GeneratorExit" if status == "cancelled" else None)
    assert len(notebook.said()) == (2 if status == "interrupted" else 0)


# Streams that are left early


class Streaming(StubProvider):
    """Notes that its streams are closed."""

    closed = 0

    def stream(self, messages, **settings):
        try:
            yield from super().stream(messages, **settings)
        finally:
            self.closed += 1

    async def astream(self, messages, **settings):
        try:
            for piece in super().stream(messages, **settings):
                yield piece
        finally:
            self.closed += 1


def leave(stream, how: str) -> None:
    """Read two pieces and leave."""
    match how:
        case "break":
            for _, _ in zip(range(2), stream, strict=False):
                pass
        case "close":
            next(stream), next(stream)
            stream.close()
        case "del":
            next(stream), next(stream)
        case "islice":
            assert len(list(itertools.islice(stream, 2))) == 2
        case "raise":
            with suppress(ZeroDivisionError), stream:
                next(stream), next(stream)
                raise ZeroDivisionError
        case "cycle":
            next(stream), next(stream)
            stream.itself = stream


@pytest.mark.parametrize("way", ["stream", "stream_events"])
@pytest.mark.parametrize("how", ["break", "close", "del", "islice", "raise", "cycle"])
def test_a_stream_that_is_left_is_kept_once_as_shown(way, how):
    provider = Streaming(["one two three four"])
    tracked, notebook, _ = tracked_of(llm=LLM(provider))

    leave(getattr(tracked, way)("hi"), how)
    gc.collect()

    assert notebook.statuses == ["interrupted"]
    assert notebook.said() == [("user", "hi", "ok"), ("assistant", "one two", "interrupted")]
    (token,) = notebook.tokens
    assert (token.error_type, token.error_message, token.partial) == (None, None, None)
    assert token.ttft_ms is not None
    assert (token.finish_reason, provider.closed) == (None, 1)
    assert notebook.ways == ["enqueue" if how == "cycle" else "write"]


async def aleave(stream, how: str) -> None:
    match how:
        case "break":
            async for _ in stream:
                break
            await anext(stream)
        case "aclose":
            await anext(stream), await anext(stream)
            await stream.aclose()
        case "raise":
            with suppress(ZeroDivisionError):
                async with stream:
                    await anext(stream), await anext(stream)
                    raise ZeroDivisionError
        case "cycle":
            await anext(stream), await anext(stream)
            stream.itself = stream
        case "end of the loop":
            await anext(stream), await anext(stream)
            OPEN.append(stream)


OPEN: list = []


@pytest.mark.parametrize("way", ["astream", "astream_events"])
@pytest.mark.parametrize("how", ["break", "aclose", "raise", "cycle", "end of the loop"])
def test_an_async_stream_that_is_left_is_kept_once_as_shown(way, how):
    provider = Streaming(["one two three four"])
    tracked, notebook, _ = tracked_of(llm=LLM(provider))

    async def main() -> None:
        await aleave(getattr(tracked, way)("hi"), how)
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(main())
    OPEN.clear()

    assert notebook.statuses == ["interrupted"]
    assert notebook.said() == [("user", "hi", "ok"), ("assistant", "one two", "interrupted")]
    assert (notebook.ways, provider.closed) == (["enqueue"], 1)


@pytest.mark.parametrize("way", ["stream", "astream", "stream_events", "astream_events"])
@pytest.mark.parametrize("closed", [False, True])
async def test_a_stream_that_nobody_reads_asks_nothing_and_is_recorded(way, closed):
    tracked, notebook, provider = tracked_of("never")

    stream = getattr(tracked, way)("hi", tags=["t"])
    if closed:
        await stream.aclose() if way.startswith("a") else stream.close()
    assert notebook.entries == []
    del stream

    assert provider.requests == []
    (token,) = notebook.tokens
    assert (token.status, token.input_tokens, token.ttft_ms) == ("interrupted", 0, None)
    assert (token.model, token.tags) == ("stub-model", ("t",))
    assert notebook.said() == []


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_stream_that_is_read_to_its_end_and_kept_is_recorded_once(way):
    tracked, notebook, _ = tracked_of("one two")
    kept = [getattr(tracked, way)("hi")]

    async def read() -> None:
        _ = [piece async for piece in kept[0]]

    asyncio.run(read()) if way == "astream" else list(kept[0])
    kept.clear()
    gc.collect()

    assert notebook.statuses == ["ok"]


@pytest.mark.parametrize("way", ["stream", "astream", "stream_events", "astream_events"])
async def test_a_stream_that_the_server_breaks_is_an_error_and_no_turn(way):
    with StubServer() as server:
        server.reply(text("one two three").cut_after(2))
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        tracked, notebook, _ = tracked_of(llm=llm)
        with pytest.raises(StreamInterruptedError):
            await go(tracked, way)

    (token,) = notebook.tokens
    assert (token.status, token.error_type) == ("error", "StreamInterruptedError")
    assert token.partial.startswith("one")
    assert notebook.said() == []


def test_a_stream_left_before_any_text_is_no_turn():
    class Thinking(StubProvider):
        def stream_flow(self, request, record):
            from pywrapai import ThinkingDelta

            record.response = LLMResponse("", model="m", thinking="hm")
            yield record.emit(ThinkingDelta("hm"))
            yield record.emit(TextDelta("x"))
            return record.response

    tracked, notebook, _ = tracked_of(llm=LLM(Thinking()))

    with tracked.stream_events("hi") as events:
        next(events)

    assert notebook.statuses == ["interrupted"]
    assert notebook.said() == []


def test_the_clock_of_a_stream_starts_when_its_reading_starts():
    class Late(BaseLLM):
        name, default_model = "stub", "stub-model"
        chat = achat = astream = None

        def stream(self, *args, **kwargs):
            time.sleep(0.05)
            yield "one "
            time.sleep(0.1)
            yield "two"
            yield StreamEnd(TokenUsage(1, 2))

    tracked, notebook, _ = tracked_of(llm=LLM(Late()))

    stream = tracked.stream("hi")
    time.sleep(0.5)
    assert list(stream) == ["one ", "two"]

    (token,) = notebook.tokens
    assert 50 <= token.ttft_ms < 500
    assert token.duration_ms >= token.ttft_ms + 100
    assert stream.response.duration_ms == pytest.approx(token.duration_ms)


def test_a_stream_of_events_that_ends_in_tool_calls_is_no_turn_yet():
    tracked, notebook, _ = tracked_of([ToolCall("1", "f", {})])

    *_, response = tracked.stream_events("do it", tools=[TOOL])

    assert response.tool_calls
    assert notebook.tokens[0].finish_reason == "tool_calls"
    assert notebook.said() == []


LEFT_OPEN = """
import sys
from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor

monitor = Monitor(db_path=sys.argv[1])
graph = GraphLLM(LLM(StubProvider(["one two three", "never"])))
begun = monitor.wrap(graph, user_id="u", session_id="s").stream("hi")
next(begun)
unread = monitor.wrap(graph, user_id="u", session_id="s").stream("hi")
"""


def test_streams_that_are_open_when_the_program_ends_are_recorded(tmp_path):
    path = tmp_path / "m.db"

    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, str(path)], capture_output=True, text=True
    )

    assert (ended.stderr, ended.returncode) == ("", 0)
    store = SQLiteStore(path)
    rows = store.get_session_token_records("u", "s")
    assert [row["status"] for row in rows] == ["interrupted", "interrupted"]
    said = [row["content"] for row in store.get_conversation("u", "s")]
    assert said == ["hi", "one"]
    store.close()


def test_ctrl_c_in_a_real_call_is_recorded_and_ends_the_program(tmp_path):
    code = """
import sys
from pywrapai import LLM
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor

llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=sys.argv[2], max_retries=0)
Monitor(db_path=sys.argv[1]).wrap(GraphLLM(llm), user_id="u", session_id="s").chat("hi")
"""
    with StubServer() as server:
        server.reply(text("late").delayed(30))
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "m.db"), server.url()],
            stderr=subprocess.PIPE,
            text=True,
        )
        with child:
            assert server.wait_until(lambda: server.in_flight == 1, 60)
            child.send_signal(signal.SIGINT)
            assert "KeyboardInterrupt" in child.stderr.read()

    store = SQLiteStore(tmp_path / "m.db")
    (row,) = store.get_session_token_records("u", "s")
    assert (row["status"], row["error_type"]) == ("cancelled", "KeyboardInterrupt")
    store.close()


# Retrieval


class Shelf(BaseRetriever):
    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        return [ScoredChunk(Chunk("It is 330 m.", "d1", {"at": {1, 2}}, id="d1:0"), 0.75)]

    def add_documents(self, docs, chunker=None) -> int:
        raise NotImplementedError


@EACH
async def test_the_chunks_that_were_sent_are_kept_with_the_question(way):
    tracked, notebook, provider = tracked_of(ANN, retriever=Shelf())

    await go(tracked, way)

    assert "330 m" in provider.requests[0].messages[-1].text
    found = {"id": "d1:0", "doc_id": "d1", "text": "It is 330 m.", "score": 0.75}
    kept = notebook.entries[0].messages[0]
    assert kept.rag_context == [{**found, "metadata": {"at": [1, 2]}}]
    assert kept.content == "hi"


@EACH
async def test_when_retrieval_fails_nothing_is_asked(way):
    class Broken(Shelf):
        def retrieve(self, query, k=4):
            raise StoreError("away")

    tracked, notebook, provider = tracked_of("never", retriever=Broken())

    with pytest.raises(StoreError, match="away"):
        await go(tracked, way)
    assert (provider.requests, notebook.entries) == ([], [])


@EACH
async def test_what_a_question_cost_in_embeddings_is_recorded_with_the_call(way):
    store, embedder = InMemoryVectorStore(), StubEmbedder()
    retriever = VectorRetriever(embedder, store)
    tracked, notebook, _ = tracked_of(ANN, retriever=retriever)

    await go(tracked, way, "three words here")

    embedding, chat = notebook.tokens
    assert (embedding.kind, embedding.model, embedding.input_tokens) == (
        "embedding",
        "stub-embedding",
        3,
    )
    assert (embedding.user_id, embedding.session_id) == ("u", "s")
    assert chat.kind == "chat"


# When something else is wrong


@EACH
async def test_a_history_that_cannot_be_loaded_is_an_error_before_the_model_is_called(way):
    notebook = Notebook()
    tracked, _, provider = tracked_of("never", notebook=notebook)
    notebook.store.load_history = lambda *args: _raise(StoreError("gone"))

    with pytest.raises(StoreError, match="gone"):
        await go(tracked, way)
    assert (provider.requests, notebook.entries) == ([], [])


def _raise(error: BaseException):
    raise error


def test_a_question_that_was_not_kept_is_left_out_of_the_history_with_its_answer():
    from pywrapai_monitor.privacy import Privacy

    silent, notebook, provider = tracked_of(
        "one", "two", "three", privacy=Privacy(store_content=False)
    )
    open_ = MonitoredGraph(silent.graph, notebook.conversation())

    silent.chat("a")
    open_.chat("b")
    open_.chat("c")

    assert [[m.text for m in r.messages] for r in provider.requests] == [
        ["a"],
        ["b"],
        ["b", "two", "c"],
    ]


def test_a_stream_that_garbage_collection_ends_waits_for_no_lock():
    """It may have interrupted whoever holds the database's."""

    class Locked(Notebook):
        lock = threading.Lock()

        def write(self, entry) -> None:
            assert self.lock.acquire(timeout=5)
            try:
                gc.collect()
                super().write(entry)
            finally:
                self.lock.release()

    tracked, notebook, _ = tracked_of("one two three", "fine", notebook=Locked())
    stream = tracked.stream("a")
    next(stream)
    stream.itself = stream
    gc.disable()
    try:
        del stream
        tracked.chat("b")
    finally:
        gc.enable()

    assert notebook.ways == ["enqueue", "write"]
    assert notebook.statuses == ["interrupted", "ok"]


def test_one_graph_serves_many_threads_and_tasks():
    tracked, notebook, _ = tracked_of(lambda messages, tools: messages[-1].text, max_turns=1)

    async def ask(number: int) -> None:
        assert (await tracked.achat(f"a{number}")).content == f"a{number}"

    async def many() -> None:
        await asyncio.gather(*(ask(number) for number in range(40)))

    def work(number: int) -> None:
        assert tracked.chat(f"t{number}").content == f"t{number}"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    asyncio.run(many())
    for thread in threads:
        thread.join()

    said = [[m.content for m in entry.messages] for entry in notebook.entries]
    assert len(said) == 80
    assert all(asked == answered for asked, answered in said)
    assert len({token.call_id for token in notebook.tokens}) == 80


def test_a_fork_child_may_go_on_calling(tmp_path):
    tracked, notebook, _ = tracked_of(
        lambda messages, tools: "x", notebook=Notebook(SQLiteStore(tmp_path / "m.db"))
    )
    tracked.chat("parent")

    pid = os.fork()
    if pid == 0:
        try:
            tracked.chat("child")
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

    rows = notebook.store.get_session_token_records("u", "s")
    assert len({row["id"] for row in rows}) == 2
    notebook.store.close()


# With a Recorder behind it


@pytest.fixture
def store(tmp_path):
    opened = SQLiteStore(tmp_path / "m.db")
    yield opened
    opened.close()


@pytest.fixture
def recorder(store, tmp_path):
    opened = Recorder(store, tmp_path / "m.db.spool")
    yield opened
    opened.close()


def recorded(recorder: Recorder, store: SQLiteStore, provider: StubProvider, session: str):
    conversation = Conversation(
        store=store, recorder=recorder, user_id="u", session_id=session, max_turns=None
    )
    return MonitoredGraph(GraphLLM(LLM(provider)), conversation)


async def test_every_call_has_those_before_it_in_its_history_however_they_were_made(
    recorder, store
):
    provider = StubProvider(lambda messages, tools: messages[-1].text)
    tracked = recorded(recorder, store, provider, "s")

    for number in range(24):
        await go(tracked, ("chat", "achat", "astream")[number % 3], str(number))

    assert [len(request.messages) for request in provider.requests] == list(range(1, 49, 2))


async def test_many_sessions_at_once_each_keep_their_order(recorder, store):
    provider = StubProvider(lambda messages, tools: messages[-1].text)

    async def talk(session: str) -> None:
        tracked = recorded(recorder, store, provider, session)
        for number in range(10):
            await tracked.achat(f"{session}-{number}")

    await asyncio.gather(*(talk(f"s{number}") for number in range(10)))

    assert recorder.flush(60)
    for number in range(10):
        rows = store.get_conversation("u", f"s{number}")
        assert [row["content"] for row in rows[::2]] == [f"s{number}-{n}" for n in range(10)]


def test_streams_that_garbage_collection_ends_anywhere_hold_nothing_up(recorder, store):
    provider = StubProvider(lambda messages, tools: "one two three")
    tracked = recorded(recorder, store, provider, "s")
    done = threading.Event()

    def work() -> None:
        for number in range(20):
            stream = tracked.stream(f"{number}")
            next(stream)
            stream.itself = stream
            del stream
            tracked.chat("hi")
            asyncio.run(tracked.achat("ho"))
        done.set()

    before = gc.get_threshold()
    gc.set_threshold(5, 1, 1)
    try:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(120)
    finally:
        gc.set_threshold(*before)
    gc.collect()

    assert done.is_set()
    assert recorder.flush(60)
    rows = store.get_session_token_records("u", "s")
    assert sorted(row["status"] for row in rows) == ["interrupted"] * 20 + ["ok"] * 40
