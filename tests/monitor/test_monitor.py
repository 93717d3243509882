from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pywrapai import (
    LLM,
    ConfigurationError,
    ContentFilterError,
    InvalidRequestError,
    LLMResponse,
    Message,
    ProviderTimeoutError,
    Role,
    ServerError,
    StreamInterruptedError,
    TokenUsage,
    ToolCall,
)
from pywrapai.testing import StubProvider
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import raw, text
from pywrapai_graph import BM25Retriever, GraphLLM
from pywrapai_monitor import Monitor, SQLiteStore, StoreError

TOOL = {"name": "f", "description": "", "parameters": {"type": "object"}}


@pytest.fixture
def monitor(tmp_path: Path):
    with Monitor(db_path=tmp_path / "monitor.db") as opened:
        yield opened


def graph_of(*replies, prompt: str | None = None) -> tuple[GraphLLM, StubProvider]:
    provider = StubProvider(list(replies))
    graph = GraphLLM(LLM(provider, max_retries=0))
    return (graph.with_system_prompt(prompt) if prompt else graph), provider


def said(rows) -> list[tuple[str, str]]:
    return [(row["role"], row["content"]) for row in rows]


def test_a_conversation_is_remembered_and_recorded(monitor):
    graph, provider = graph_of("Hello Alice!", "Alice.", prompt="Be kind.")
    tracked = monitor.wrap(graph, user_id="alice", session_id="s1")

    tracked.chat("My name is Alice.")
    answer = tracked.chat("What is my name?")

    assert answer.content == "Alice."
    assert provider.requests[1].messages == (
        Message(Role.SYSTEM, "Be kind."),
        Message(Role.USER, "My name is Alice."),
        Message(Role.ASSISTANT, "Hello Alice!"),
        Message(Role.USER, "What is my name?"),
    )
    rows = monitor.store.get_conversation("alice", "s1")
    assert said(rows) == [
        ("user", "My name is Alice."),
        ("assistant", "Hello Alice!"),
        ("user", "What is my name?"),
        ("assistant", "Alice."),
    ]
    assert [row["history_count"] for row in rows if row["role"] == "user"] == [0, 1]
    assert {row["system_prompt"] for row in rows if row["role"] == "user"} == {"Be kind."}


def test_a_token_record_has_what_the_response_has(monitor):
    reply = LLMResponse(
        "hi", usage=TokenUsage(10, 5, 4, 3, 2), model="stub-model", request_id="req-1"
    )
    graph, _ = graph_of(reply)

    response = monitor.wrap(graph, user_id="alice", session_id="s1").chat("hello")

    (row,) = monitor.store.get_session_token_records("alice", "s1")
    assert (row["input_tokens"], row["output_tokens"]) == (10, 5)
    assert (row["cache_read_tokens"], row["cache_write_tokens"]) == (4, 3)
    assert row["reasoning_tokens"] == 2
    assert (row["model"], row["provider"]) == ("stub-model", "stub")
    assert (row["status"], row["error_type"], row["request_id"]) == ("ok", None, "req-1")
    assert row["cost_usd"] == response.cost_usd
    assert row["duration_ms"] == pytest.approx(response.duration_ms)


async def test_all_four_ways_remember_and_record_the_same(monitor):
    graph, provider = graph_of("one", "two", "three", "four")
    tracked = monitor.wrap(graph, user_id="alice", session_id="s1")

    assert tracked.chat("a").content == "one"
    assert (await tracked.achat("b")).content == "two"
    assert "".join(tracked.stream("c")) == "three"
    assert "".join([piece async for piece in tracked.astream("d")]) == "four"

    assert [len(request.messages) for request in provider.requests] == [1, 3, 5, 7]
    assert tracked.conversation.recorder.flush(60)
    rows = monitor.store.get_session_token_records("alice", "s1")
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert [row["ttft_ms"] is not None for row in rows] == [False, False, True, True]
    assert len(monitor.store.get_conversation("alice", "s1")) == 8


def test_only_the_newest_turns_are_sent(monitor):
    graph, provider = graph_of(*"abcdef")
    for _ in range(3):
        monitor.wrap(graph, user_id="u", session_id="s").chat("x")

    monitor.wrap(graph, user_id="u", session_id="s", max_turns=1).chat("y")
    monitor.wrap(graph, user_id="u", session_id="s", max_turns=0).chat("y")
    monitor.wrap(graph, user_id="u", session_id="s", max_turns=None).chat("y")

    assert [len(request.messages) for request in provider.requests] == [1, 3, 5, 3, 1, 11]


def test_users_with_the_same_session_id_never_see_each_other(monitor):
    graph, provider = graph_of("one", "two")

    monitor.wrap(graph, user_id="alice", session_id="1").chat("a secret")
    monitor.wrap(graph, user_id="ALICE", session_id="1").chat("hello")

    assert len(provider.requests[1].messages) == 1


def test_a_failed_call_leaves_a_token_record_and_no_history(monitor):
    graph, provider = graph_of(ServerError("down", request_id="r9"), "fine")
    tracked = monitor.wrap(graph, user_id="alice", session_id="s1")

    with pytest.raises(ServerError):
        tracked.chat("hello")
    tracked.chat("again")

    failed, fine = monitor.store.get_session_token_records("alice", "s1")
    assert (failed["status"], failed["error_type"]) == ("error", "ServerError")
    assert (failed["model"], failed["request_id"]) == ("stub-model", "r9")
    assert fine["status"] == "ok"
    assert len(provider.requests[1].messages) == 1
    assert said(monitor.store.get_conversation("alice", "s1")) == [
        ("user", "again"),
        ("assistant", "fine"),
    ]


def test_a_refusal_is_recorded_with_what_it_cost(monitor):
    error = ContentFilterError("declined", response=LLMResponse("", usage=TokenUsage(5, 2)))
    graph, _ = graph_of(error)

    with pytest.raises(ContentFilterError):
        monitor.wrap(graph, user_id="u", session_id="s").chat("hello")

    (row,) = monitor.store.get_session_token_records("u", "s")
    assert (row["status"], row["input_tokens"], row["output_tokens"]) == ("error", 5, 2)


async def test_a_stream_that_its_reader_leaves_is_kept_as_shown(monitor):
    graph, provider = graph_of("one two three", "one two three", "fine")
    tracked = monitor.wrap(graph, user_id="u", session_id="s")

    with tracked.stream("a") as pieces:
        next(pieces)
    async with tracked.astream("b") as apieces:
        await anext(apieces)
    tracked.chat("c")

    rows = monitor.store.get_conversation("u", "s")
    assert [(row["content"], row["status"]) for row in rows if row["role"] == "assistant"] == [
        ("one", "interrupted"),
        ("one", "interrupted"),
        ("fine", "ok"),
    ]
    assert len(provider.requests[2].messages) == 5
    records = monitor.store.get_session_token_records("u", "s")
    assert [row["status"] for row in records] == ["interrupted", "interrupted", "ok"]


@pytest.mark.parametrize("ends", ["left", "cut", "whole"])
def test_what_a_stream_cost_is_known_only_at_its_end(monitor, ends):
    with StubServer() as server:
        answer = text("one two three")
        server.reply(answer.cut_after(2) if ends == "cut" else answer)
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        stream = monitor.wrap(GraphLLM(llm), user_id="u", session_id="s").stream("count")
        next(stream)
        if ends == "left":
            stream.close()
        with suppress(StreamInterruptedError):
            list(stream)

    (row,) = monitor.store.get_session_token_records("u", "s")
    assert row["priced"] is (ends == "whole")
    assert monitor.store.get_overview()["unpriced_calls"] == (ends != "whole")


def test_a_stream_that_the_server_breaks_is_an_error_with_its_partial_text(monitor):
    with StubServer() as server:
        server.reply(text("one two three").cut_after(2))
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        tracked = monitor.wrap(GraphLLM(llm), user_id="u", session_id="s")
        with pytest.raises(StreamInterruptedError):
            list(tracked.stream("count"))

    (row,) = monitor.store.get_session_token_records("u", "s")
    assert (row["status"], row["error_type"]) == ("error", "StreamInterruptedError")
    assert row["partial"].startswith("one")
    assert monitor.store.get_conversation("u", "s") == []


async def test_a_cancelled_call_is_recorded_as_cancelled(monitor):
    with StubServer() as server:
        server.reply(text("late").delayed(30))
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        tracked = monitor.wrap(GraphLLM(llm), user_id="u", session_id="s")
        task = asyncio.create_task(tracked.achat("hello"))
        assert await asyncio.to_thread(server.wait_until, lambda: server.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert tracked.conversation.recorder.flush(60)
    (row,) = monitor.store.get_session_token_records("u", "s")
    assert (row["status"], row["priced"]) == ("cancelled", False)
    assert monitor.store.get_conversation("u", "s") == []


@pytest.mark.parametrize(
    ("provider", "priced"), [("openai", False), ("lmstudio", True)], ids=["paid", "free"]
)
def test_what_an_answer_cost_that_nobody_waited_for_is_not_known(monitor, provider, priced):
    with StubServer() as server:
        server.reply(text("late").delayed(30))
        llm = LLM(
            provider, "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0, timeout=0.1
        )
        with pytest.raises(ProviderTimeoutError):
            monitor.wrap(GraphLLM(llm), user_id="u", session_id="s").chat("hello")

    (row,) = monitor.store.get_session_token_records("u", "s")
    assert (row["status"], row["priced"], row["cost_usd"]) == ("error", priced, 0)


def test_a_refused_call_costs_nothing(monitor):
    with StubServer() as server:
        server.reply(raw({"error": {"message": "no"}}, status=400))
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url())
        with pytest.raises(InvalidRequestError):
            monitor.wrap(GraphLLM(llm), user_id="u", session_id="s").chat("hello")

    (row,) = monitor.store.get_session_token_records("u", "s")
    assert (row["status"], row["priced"], row["cost_usd"]) == ("error", True, 0)


def test_a_turn_is_kept_when_its_text_has_come_and_not_while_tools_are_asked_for(monitor):
    call = ToolCall("1", "f", {})
    graph, _ = graph_of([call], "done")
    tracked = monitor.wrap(graph, user_id="u", session_id="s")

    response = tracked.chat("do it", tools=[TOOL])
    assert monitor.store.get_conversation("u", "s") == []
    result = {"role": "tool", "tool_call_id": "1", "content": "ok"}
    asked = {"role": "user", "content": "do it"}
    tracked.chat([asked, response.message, result], tools=[TOOL])

    rows = monitor.store.get_conversation("u", "s")
    assert said(rows) == [("user", "do it"), ("assistant", "done")]
    assert len(monitor.store.get_session_token_records("u", "s")) == 2


class Failing(SQLiteStore):
    """A database that goes away."""

    reads = writes = True

    def load_history(self, *args, **kwargs):
        if not self.reads:
            raise StoreError("gone")
        return super().load_history(*args, **kwargs)

    def write(self, entries, *, replayed=False):
        if not self.writes:
            raise StoreError("gone")
        super().write(entries, replayed=replayed)


def test_when_the_history_cannot_be_loaded_the_model_is_not_called(tmp_path):
    store = Failing(str(tmp_path / "m.db"))
    graph, provider = graph_of("never")
    store.reads = False

    with pytest.raises(StoreError):
        Monitor(store=store).wrap(graph, user_id="u", session_id="s").chat("hello")
    assert provider.requests == []
    store.close()


def test_when_the_record_cannot_be_written_the_answer_is_returned_all_the_same(tmp_path, caplog):
    store = Failing(str(tmp_path / "m.db"))
    graph, _ = graph_of("paid for")
    store.writes = False

    answer = Monitor(store=store).wrap(graph, user_id="u", session_id="s").chat("hello")

    assert answer.content == "paid for"
    assert "was not recorded" in caplog.text
    assert store.get_conversation("u", "s") == []
    store.close()


@pytest.mark.parametrize("way", ["chat", "stream", "astream"])
def test_bad_input_is_refused_at_the_call(monitor, way):
    graph, provider = graph_of("never")
    tracked = monitor.wrap(graph, user_id="u", session_id="s")

    with pytest.raises(ValueError, match="empty"):
        getattr(tracked, way)(" ")
    assert provider.requests == []
    assert monitor.store.get_session_token_records("u", "s") == []


def test_streams_refuse_tools_at_the_call(monitor):
    tracked = monitor.wrap(graph_of()[0], user_id="u", session_id="s")

    with pytest.raises(ValueError, match="chat"):
        tracked.stream("hi", tools=[TOOL])


@pytest.mark.parametrize(
    "who", [{"user_id": "", "session_id": "s"}, {"user_id": "u", "session_id": " "}]
)
def test_user_and_session_must_be_given(monitor, who):
    with pytest.raises(ValueError, match="_id must be"):
        monitor.wrap(graph_of()[0], **who)


@pytest.mark.parametrize("turns", [-1, 1.5, True, "3"])
def test_max_turns_is_a_number_of_turns(monitor, turns):
    with pytest.raises(ValueError, match="max_turns"):
        monitor.wrap(graph_of()[0], user_id="u", session_id="s", max_turns=turns)


@pytest.mark.parametrize("given", [{}, {"db_path": "x.db", "store": object()}])
def test_exactly_one_of_path_and_store_is_needed(given):
    with pytest.raises(ValueError, match="exactly one"):
        Monitor(**given)


def test_what_embeds_nothing_has_no_build_to_record(monitor):
    with pytest.raises(TypeError, match="takes an Embedder"):
        monitor.record_embedding_build(BM25Retriever())


@pytest.mark.parametrize("store", ["m.db", SQLiteStore])
def test_what_is_no_store_is_refused(store):
    with pytest.raises(TypeError, match="store= takes a store"):
        Monitor(store=store)


def test_the_environment_may_name_the_database(tmp_path, monkeypatch):
    monkeypatch.setenv("PYWRAPAI_DB_URL", f"sqlite:///{tmp_path / 'env.db'}")
    with Monitor.from_env():
        assert (tmp_path / "env.db").exists()
    monkeypatch.setenv("PYWRAPAI_DB_URL", "oracle://x")
    with pytest.raises(ConfigurationError, match="oracle"):
        Monitor.from_env()
    monkeypatch.setenv("PYWRAPAI_DB_URL", " ")
    with pytest.raises(ConfigurationError, match="PYWRAPAI_DB_URL is not set"):
        Monitor.from_env()
    monkeypatch.delenv("PYWRAPAI_DB_URL")
    with pytest.raises(ConfigurationError, match="PYWRAPAI_DB_URL"):
        Monitor.from_env()


@pytest.mark.parametrize("session", [None, "s1"])
def test_what_waits_outside_of_the_database_is_deleted_with_the_rest(
    monitor, monkeypatch, tmp_path, session
):
    monkeypatch.setattr("pywrapai_monitor.db.sqlite._BUSY_TIMEOUT_S", 0.01)
    tracked = monitor.wrap(graph_of("a", "b")[0], "alice", "s1", max_turns=0)
    tracked.chat("first")
    with closing(sqlite3.connect(tmp_path / "monitor.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        tracked.chat("second")
        assert monitor.recorder.counts()["spooled"] == 1
        other.execute("ROLLBACK")

    gone = monitor.delete_session("alice", session) if session else monitor.delete_user("alice")

    report = monitor.flush()
    assert (gone, bool(report), report.written) == (6, True, 2)
    assert monitor.store.get_conversation("alice", "s1") == []
    assert monitor.store.get_overview()["calls"] == 0


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc")
def test_a_closed_monitor_has_no_file_open(tmp_path):
    def opened() -> list[str]:
        links = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return [link for link in links if link.startswith(str(tmp_path.resolve()))]

    graph, _ = graph_of(*["x"] * 18)
    monitor = Monitor(db_path=tmp_path / "monitor.db")
    tracked = monitor.wrap(graph, user_id="u", session_id="s")
    threads = [threading.Thread(target=tracked.chat, args=("hi",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(tracked.achat("hi"))
    monitor.purge_before(1)
    assert opened()
    monitor.close()

    assert opened() == []


@pytest.mark.parametrize("path", ["/proc/nowhere/m.db", "/proc/version", "."])
def test_a_path_that_cannot_hold_a_database_is_named(path):
    with pytest.raises(StoreError, match=path):
        Monitor(db_path=path)


async def test_feedback_can_be_awaited(monitor):
    graph, _ = graph_of("fine")
    answer = await monitor.wrap(graph, user_id="u", session_id="s").achat("hi")
    assert await monitor.aflush(60)

    await monitor.afeedback(answer.call_id, 1, "good")

    (row,) = monitor.get_feedback("u")
    assert (row["call_id"], row["comment"]) == (answer.call_id, "good")
    with pytest.raises(ValueError, match="call_id"):
        await monitor.afeedback("", 1)


def test_a_prompt_of_the_registry_is_the_system_prompt(monitor):
    monitor.save_prompt("agent", "v1", "Be brief.", is_active=True)
    monitor.save_prompt("agent", "v2", "Be long.")
    monitor.set_user_prompt("bob", "agent", "v2")
    graph, provider = graph_of("a", "b")

    monitor.wrap(graph, user_id="alice", session_id="s", prompt_name="agent").chat("hi")
    monitor.wrap(graph, user_id="bob", session_id="s", prompt_name="agent").chat("hi")

    sent = [request.messages[0].content for request in provider.requests]
    assert sent == ["Be brief.", "Be long."]
    (row,) = monitor.store.get_session_token_records("bob", "s")
    assert (row["prompt_name"], row["prompt_version"]) == ("agent", "v2")
    (row,) = monitor.store.get_session_token_records("alice", "s")
    assert row["prompt_version"] == "v1"
    with pytest.raises(KeyError):
        monitor.wrap(graph, user_id="u", session_id="s", prompt_name="nope")


def test_one_monitor_serves_many_threads_and_loses_nothing(monitor):
    provider = StubProvider(lambda messages, tools: messages[-1].content)
    graph = GraphLLM(LLM(provider))

    def work(number: int) -> None:
        tracked = monitor.wrap(graph, user_id=f"u{number}", session_id="s")
        for turn in range(25):
            tracked.chat(f"{number}-{turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    overview = monitor.store.get_overview()
    assert (overview["calls"], overview["users"], overview["errors"]) == (200, 8, 0)
    for number in range(8):
        rows = monitor.store.get_conversation(f"u{number}", "s")
        assert [row["content"] for row in rows[::2]] == [f"{number}-{turn}" for turn in range(25)]
        assert rows[-2]["history_count"] == 20


KILLED = """
import sys
from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor, SQLiteStore

class Slow(SQLiteStore):
    turns = 0
    def write(self, entries, *, replayed=False):
        with self.transaction():
            super().write(entries, replayed=replayed)
            self.turns += 1
            if self.turns == 3:
                print("between", flush=True)
                sys.stdin.read()

provider = StubProvider(lambda messages, tools: "answer")
graph = GraphLLM(LLM(provider))
tracked = Monitor(store=Slow(sys.argv[1])).wrap(graph, user_id="u", session_id="s")
while True:
    tracked.chat("hello")
"""


def test_a_process_killed_between_answer_and_commit_leaves_whole_turns_only(tmp_path):
    path = tmp_path / "killed.db"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "between\n"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL

    with Monitor(db_path=path) as monitor:
        turn = [("user", "hello"), ("assistant", "answer")]
        assert said(monitor.store.get_conversation("u", "s")) == turn * 2
        assert len(monitor.store.get_session_token_records("u", "s")) == 2


def test_a_process_killed_at_any_time_leaves_whole_turns_only(tmp_path):
    path = tmp_path / "killed.db"
    code = KILLED.replace("self.turns == 3", "False").replace(
        'tracked.chat("hello")', 'tracked.chat("hello"); print("turn", flush=True)'
    )
    acknowledged = 0
    for kill in range(10):
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
        )
        with child:
            assert child.stdout is not None
            for _ in range(kill + 1):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
            acknowledged += kill + 1 + child.stdout.read().count("turn\n")

    with sqlite3.connect(path) as raw:
        counts = [
            raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("conversations", "token_records")
        ]
    raw.close()
    assert counts[0] == 2 * counts[1]
    assert acknowledged <= counts[1] <= acknowledged + 10


def test_a_store_of_ones_own_may_raise_anything_and_the_answer_is_returned(tmp_path, caplog):
    class Odd(SQLiteStore):
        def write(self, entries, *, replayed=False):
            raise RuntimeError("custom driver failed")

    store = Odd(str(tmp_path / "m.db"))
    graph, _ = graph_of("paid for")

    answer = Monitor(store=store).wrap(graph, user_id="u", session_id="s").chat("hello")

    assert answer.content == "paid for"
    assert "custom driver failed" in caplog.text
    store.close()


def test_only_a_graph_can_be_wrapped(monitor):
    with pytest.raises(TypeError, match="GraphLLM"):
        monitor.wrap(LLM(StubProvider()), user_id="u", session_id="s")
