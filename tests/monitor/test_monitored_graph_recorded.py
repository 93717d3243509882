"""A monitored graph with a real Recorder behind it."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import MonitoredGraph, SQLiteStore
from pywrapai_monitor.conversation import Conversation
from pywrapai_monitor.recorder import Recorder
from tests.monitor.ways import go


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
