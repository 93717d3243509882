"""How the calls of a monitored graph end: cached, unpriced, cancelled, or with their loop."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time

import pytest

from pywrapai import LLM, BaseLLM, UnpricedModelWarning
from pywrapai.testing import StubProvider, StubServer, text
from pywrapai_monitor import SQLiteStore
from tests.monitor.notebook import priced, tracked_of
from tests.monitor.ways import ANN, go


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
