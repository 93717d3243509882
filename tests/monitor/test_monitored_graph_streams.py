"""Streams of a monitored graph: read, left early, broken, or never begun."""

from __future__ import annotations

import asyncio
import gc
import itertools
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from pywrapai import (
    LLM,
    BaseLLM,
    LLMResponse,
    StreamEnd,
    StreamInterruptedError,
    TextDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.testing import StubProvider, StubServer, text
from pywrapai_monitor import SQLiteStore
from tests.monitor.notebook import tracked_of
from tests.monitor.ways import TOOL, go


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
