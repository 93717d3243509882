"""What every store on a database server does beside the contract of all stores.

Subclass ServerStoreContract and give it the fixtures

- `server`: has `execute(statement, url)` and `database(options)`, a block with the URL of a new one
- `shared`: a store that is not empty, for all tests
- `url`: of a new database

and the SQL that the two servers say differently.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Engine, event, inspect

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor
from pywrapai_monitor.db.base import BaseStore, StoreError
from pywrapai_monitor.db.server import ServerStore
from pywrapai_monitor.db.tables import SCHEMA_VERSION, metadata
from pywrapai_monitor.db.urls import store_from_url
from tests.contracts.sql_store import SQLStoreContract
from tests.contracts.store_conversations import ConversationContract
from tests.contracts.store_figures import FigureContract
from tests.contracts.store_rows import Clock, entry, message, save_turn, texts
from tests.monitor import server_processes
from tests.servers import PASSWORD, PrivateServer

ROOT = Path(__file__).parents[2]
TURNS = int(os.environ.get("PYWRAPAI_TEST_TURNS", "10"))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
TO_VERSION_4 = (
    "DROP TABLE feedback",
    "ALTER TABLE conversations DROP COLUMN call_id",
    "ALTER TABLE token_records DROP COLUMN call_id, DROP COLUMN finish_reason, "
    "DROP COLUMN tags, DROP COLUMN metadata",
    "ALTER TABLE tool_calls DROP COLUMN model_call_id",
    "ALTER TABLE system_prompts DROP COLUMN activated_at",
    "UPDATE schema_info SET version = 4",
)


class SharedStore:
    """A store for tests, in one database that is emptied after each of them."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, shared: ServerStore, clock: Clock) -> Iterator[ServerStore]:
        shared._clock = clock  # to open one for each test would take longer than the tests
        yield shared
        with shared._engine.begin() as conn:
            for table in metadata.sorted_tables:
                if table.name != "schema_info":
                    conn.execute(table.delete())


class OddSettingsContract(SharedStore, ConversationContract, FigureContract):
    """What settings of a server could change: texts, comparisons, numbers, times."""


class ServerStoreContract(SharedStore, SQLStoreContract):
    """The tests."""

    scheme: str
    kill: str
    """Ends the session of an id."""
    gone: tuple[type[Exception], ...] = ()
    """What it raises where that has just ended by itself."""
    hold_lock: str
    """Locks the totals of a user's sessions until the transaction ends."""

    # Connections

    @pytest.mark.parametrize(
        "use",
        [
            lambda store: save_turn(store, "q"),
            lambda store: store.write([entry("q", "c1")]),
            lambda store: texts(store),
            lambda store: store.get_overview(),
            lambda store: store.save_prompt("p", "v1", "text"),
            lambda store: store.purge_before(1),
        ],
        ids=["turn", "write", "history", "overview", "prompt", "purge"],
    )
    def test_a_connection_that_was_cut_between_two_calls_is_made_again(
        self, server: Any, shared: ServerStore, store: BaseStore, use: Callable[[BaseStore], Any]
    ) -> None:
        save_turn(store, "before")
        self.cut(server, url_of(shared))

        use(store)

        assert texts(store)[:2] == ["before", "re: before"]

    def test_all_connections_that_were_cut_are_made_again(
        self, server: Any, shared: ServerStore, store: BaseStore
    ) -> None:
        for _ in range(2):
            together = threading.Barrier(8)

            def write(i: int, together: threading.Barrier = together) -> None:
                together.wait(30)
                save_turn(store, f"q{i}")

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(write, range(8)))
            self.cut(server, url_of(shared))

        assert store.get_overview()["calls"] == 16

    @pytest.mark.parametrize(
        "use",
        [lambda store: texts(store), lambda store: save_turn(store, "lost")],
        ids=["read", "write"],
    )
    def test_a_connection_that_is_cut_within_a_call_is_told_and_the_next_call_works(
        self, server: Any, shared: ServerStore, store: BaseStore, use: Callable[[BaseStore], Any]
    ) -> None:
        url = url_of(shared)
        save_turn(store, "before")
        with ThreadPoolExecutor(1) as pool, closing(self.lock_conversations(server, url)):
            call = pool.submit(use, store)
            self.wait_until_blocked(server, url)
            self.cut(server, url)
            with pytest.raises(StoreError) as caught:
                call.result(30)

        assert caught.value.retryable
        assert texts(store) == ["before", "re: before"]

    def test_a_connection_that_was_long_idle_is_asked_whether_it_is_there(
        self, store: BaseStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pywrapai_monitor.db.server._IDLE_S", -1.0)
        for i in range(3):
            save_turn(store, f"q{i}")

        assert len(texts(store)) == 6

    def test_callers_wait_for_a_connection_and_the_server_sees_a_few(
        self, server: Any, url: str
    ) -> None:
        store = store_from_url(url, max_connections=2)
        wait_until(lambda: len(self.sessions(server, url)) <= 2)
        most = 0

        def write(i: int) -> None:
            nonlocal most
            save_turn(store, f"q{i}", session=f"s{i % 5}")
            store.get_overview()
            most = max(most, len(self.sessions(server, url)))

        with ThreadPoolExecutor(12) as pool:
            list(pool.map(write, range(36)))

        assert store.get_overview()["calls"] == 36
        assert 1 <= most <= 2
        store.close()

    def test_no_connection_is_held_while_a_transaction_is_open(self, url: str) -> None:
        store = store_from_url(url, max_connections=1)
        with store.transaction():
            store.save_message(message("user", "q"))
            with ThreadPoolExecutor(1) as pool:
                pool.submit(save_turn, store, "another's", session="s2").result(20)
            store.save_message(message("assistant", "a"))

        assert texts(store) == ["q", "a"]
        store.close()

    def test_no_connection_is_held_while_a_model_is_called(self, url: str) -> None:
        store = store_from_url(url, max_connections=1)
        all_at_once = Barrier(8, timeout=20)
        model = StubProvider(lambda messages, tools: f"a{all_at_once.wait()}")
        with Monitor(store=store) as monitor, ThreadPoolExecutor(8) as pool:
            graph = GraphLLM(LLM(model, max_retries=0))
            users = [monitor.wrap(graph, f"user {i}", "s") for i in range(8)]
            list(pool.map(lambda user: user.chat("hi"), users))

            assert store.get_overview()["calls"] == 8

    def test_a_caller_for_whom_no_connection_becomes_free_is_told_so(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pywrapai_monitor.db.server._POOL_TIMEOUT_S", 0.1)
        store = store_from_url(url, max_connections=1)
        with store.transaction(), ThreadPoolExecutor(1) as pool:
            assert texts(store) == []  # from here on the transaction has the connection
            for use in (lambda: texts(store), lambda: save_turn(store, "q")):
                with pytest.raises(StoreError, match="more of them with max_connections") as caught:
                    pool.submit(use).result()
                assert caught.value.retryable

        save_turn(store, "q")
        store.close()

    def test_a_closed_store_connects_again_when_used(self, url: str) -> None:
        store = store_from_url(url)
        store.close()

        save_turn(store, "q")
        assert texts(store) == ["q", "re: q"]
        store.close()

    # Threads and processes

    @needs_fork
    def test_eight_processes_may_open_a_new_database_at_once(self, url: str) -> None:
        run_as_script(server_processes.open_at_once, url)

        store = store_from_url(url)
        assert store.get_overview()["calls"] == 8
        store.close()

    @needs_fork
    def test_eight_processes_write_every_turn_exactly_once(self, url: str) -> None:
        store = store_from_url(url)
        run_as_script(server_processes.write_at_once, url, TURNS)

        for worker in range(8):
            expected = [text for i in range(TURNS) for text in (f"q{i}", f"re: q{i}")]
            assert texts(store, f"u{worker % 4}", f"s{worker}", max_turns=None) == expected
        overview = store.get_overview()
        assert (overview["calls"], overview["users"], overview["sessions"]) == (8 * TURNS, 4, 8)
        assert overview["cost_usd"] == pytest.approx(8 * TURNS * 0.0001, abs=1e-9)
        assert sum(row["turns"] for row in store.get_sessions()) == 8 * TURNS
        store.close()

    @needs_fork
    def test_a_store_works_on_both_sides_of_a_fork(self, url: str) -> None:
        run_as_script(server_processes.fork_while_writing, url)

        store = store_from_url(url)
        turns = {row["session_id"]: row["turns"] for row in store.get_sessions()}
        assert turns.pop("parent") >= 3
        assert turns == {f"child{i}": 10 for i in range(3)}
        store.close()

    def test_two_that_write_the_same_sessions_in_opposite_order_do_not_lock_each_other_out(
        self, store: BaseStore
    ) -> None:
        users = [f"u{i}" for i in range(6)]
        together = threading.Barrier(2)

        def write(order: list[str]) -> None:
            for i in range(20):
                together.wait(30)
                with store.transaction():
                    for user in order:
                        save_turn(store, f"q{i}", user)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(write, users), pool.submit(write, users[::-1])]:
                done.result()

        assert store.get_overview()["calls"] == 2 * 20 * 6
        assert [row["turns"] for row in store.get_sessions()] == [40] * 6

    def test_the_victim_of_a_deadlock_is_written_again(
        self,
        server: Any,
        shared: ServerStore,
        store: BaseStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for user in ("a", "b"):
            save_turn(store, "q0", user)
        deadlocks: list[BaseException] = []
        passes = shared._passes

        def note(error: BaseException) -> bool:
            deadlocks.append(error)
            return passes(error)

        monkeypatch.setattr(shared, "_passes", note)
        with ThreadPoolExecutor(1) as pool, closing(self.rival(server, url_of(shared))) as rival:
            cursor = rival.cursor()
            cursor.execute(self.hold_lock.format("b"))
            both = pool.submit(store.write, [entry("q1", "1", "a"), entry("q1", "2", "b")])
            self.wait_until_blocked(server, url_of(shared))
            cursor.execute(self.hold_lock.format("a"))  # which they have, and they want b
            rival.commit()
            both.result(30)

        assert len(deadlocks) == 1
        assert texts(store, "a") == texts(store, "b") == ["q0", "re: q0", "q1", "re: q1"]
        assert store.get_overview()["calls"] == 4

    # Errors

    def test_an_error_of_the_server_repeats_no_text_and_no_password(
        self, server: Any, url: str
    ) -> None:
        store = store_from_url(url)
        server.execute("DROP TABLE token_records", url)

        with pytest.raises(StoreError, match="token_records") as caught:
            save_turn(store, "a secret")

        assert not caught.value.retryable
        assert "\n" not in str(caught.value)
        assert "a secret" not in whole_story(caught.value)
        assert store.load_history("alice", "s1") == []
        store.close()

    def test_what_the_server_refuses_to_store_is_not_worth_another_try(
        self, server: Any, url: str
    ) -> None:
        store = store_from_url(url)
        server.execute(
            "ALTER TABLE conversations ADD CONSTRAINT nobody CHECK (user_id <> 'mallory')", url
        )

        with pytest.raises(StoreError, match="nobody") as caught:
            store.save_message(message("user", "a secret", "mallory"))

        assert not caught.value.retryable
        assert "a secret" not in whole_story(caught.value)
        save_turn(store, "q")
        assert texts(store) == ["q", "re: q"]
        store.close()

    def test_a_database_that_is_not_there_is_named(self, url: str) -> None:
        elsewhere = urlsplit(url)._replace(path="/not_there").geturl()

        with pytest.raises(StoreError, match="not_there"):
            store_from_url(elsewhere)

    def test_nobody_listening_is_told_with_host_and_port(self) -> None:
        with pytest.raises(StoreError, match=r"u@127\.0\.0\.1:1/") as caught:
            store_from_url(f"{self.scheme}://u:{PASSWORD}@127.0.0.1:1/d")

        assert caught.value.retryable
        assert PASSWORD not in whole_story(caught.value)

    @pytest.mark.parametrize(
        "wrong",
        [
            "{scheme}://u:p@{password}@127.0.0.1/d",
            "{scheme}://u:{password}@127.0.0.1:port/d",
            "{scheme}://u:{password}@127.0.0.1:99999/d",
            "{scheme}+nonsense://u:{password}@127.0.0.1/d",
            "{scheme}:/u:{password}@127.0.0.1/d",
            "sqlite:///{password}",
            "",
        ],
    )
    def test_what_is_no_url_is_refused_and_not_repeated(
        self, shared: ServerStore, wrong: str
    ) -> None:
        with pytest.raises(ValueError, match=f"{self.scheme}|driver") as caught:
            type(shared)(wrong.format(scheme=self.scheme, password=PASSWORD))

        assert PASSWORD not in whole_story(caught.value)

    def test_a_server_that_stopped_is_told_and_is_used_again_once_it_is_back(
        self, private: PrivateServer
    ) -> None:
        store = store_from_url(private.url)
        save_turn(store, "before")

        private.stop()
        uses: list[Callable[[], Any]] = [
            lambda: save_turn(store, "lost"),
            lambda: store.write([entry("lost", "1")]),
            lambda: texts(store),
            lambda: store_from_url(private.url),
        ]
        for use in uses:
            with pytest.raises(StoreError, match=rf"127\.0\.0\.1:{private.port}/") as caught:
                use()
            assert caught.value.retryable
            assert PASSWORD not in whole_story(caught.value)

        private.start()
        save_turn(store, "after")
        assert texts(store) == ["before", "re: before", "after", "re: after"]
        store.close()

    # Schema

    def test_a_newer_schema_is_refused_and_left_alone(self, server: Any, url: str) -> None:
        store_from_url(url).close()
        server.execute("UPDATE schema_info SET version = version + 1", url)

        with pytest.raises(StoreError, match=f"version {SCHEMA_VERSION + 1} .*upgrade pywrapai"):
            store_from_url(url)

        assert server.execute("SELECT version FROM schema_info", url) == [(SCHEMA_VERSION + 1,)]

    def test_tables_of_somebody_else_are_not_taken_for_ours(self, server: Any, url: str) -> None:
        server.execute("CREATE TABLE conversations (id INT)", url)

        with pytest.raises(StoreError, match="conversations that this pywrapai did not make"):
            store_from_url(url)

    @pytest.mark.parametrize("killed_after", [1, 4, 9, None])
    def test_an_older_schema_is_brought_up_to_date_though_it_was_killed_in_the_middle(
        self, server: Any, shared: ServerStore, url: str, killed_after: int | None
    ) -> None:
        store = store_from_url(url)
        save_turn(store, "q0", cost_usd=0.5)
        store.save_prompt("p", "v1", "text", is_active=True)
        store.close()
        for statement in TO_VERSION_4:
            server.execute(statement, url)

        if killed_after is not None:
            with pytest.raises(Killed), killing(killed_after):
                store_from_url(url)
        migrated = type(shared)(url)

        assert schema(migrated) == schema(shared)
        assert server.execute("SELECT version FROM schema_info", url) == [(SCHEMA_VERSION,)]
        migrated.write([entry("q1", "c1", cost_usd=0.25)])
        assert texts(migrated) == ["q0", "re: q0", "q1", "re: q1"]
        assert migrated.get_overview()["cost_usd"] == 0.75
        assert migrated.list_prompt_versions("p")[0]["activated_at"] is not None
        migrated.close()

    # What the two servers do differently

    def rival(self, server: Any, url: str) -> Any:
        """A connection in a transaction, which no deadlock ends."""
        raise NotImplementedError

    def cut(self, server: Any, url: str) -> None:
        """End all sessions of stores, and wait until the server has done so."""
        for session in self.sessions(server, url):
            with suppress(*self.gone):
                server.execute(self.kill.format(session))
        wait_until(lambda: not self.sessions(server, url))

    def lock_conversations(self, server: Any, url: str) -> Any:
        """A connection that lets nobody read or write this table until it is closed."""
        raise NotImplementedError

    def sessions(self, server: Any, url: str) -> list[int]:
        """The ids of the sessions of stores in the database."""
        raise NotImplementedError

    def wait_until_blocked(self, server: Any, url: str) -> None:
        """Wait until a session waits for a lock."""
        raise NotImplementedError


class Killed(BaseException):
    pass


class killing:  # reads as a block
    """Die after so many changes to a schema."""

    def __init__(self, after: int) -> None:
        self._left = after

    def _count(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.strip().startswith(("ALTER", "CREATE", "UPDATE system")):
            self._left -= 1
            if self._left == 0:
                raise Killed

    def __enter__(self) -> None:
        event.listen(Engine, "after_cursor_execute", self._count)

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "after_cursor_execute", self._count)


def url_of(store: ServerStore) -> str:
    url = store._url.set(drivername=store._url.get_backend_name())
    return url.render_as_string(hide_password=False)


def schema(store: ServerStore) -> dict[str, Any]:
    """What a database has, but for the order of columns."""
    found = inspect(store._engine)
    return {
        name: (
            sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
            sorted((i["name"], i["column_names"], i["unique"]) for i in found.get_indexes(name)),
            found.get_pk_constraint(name)["constrained_columns"],
        )
        for name in found.get_table_names()
    }


def whole_story(error: BaseException) -> str:
    """What a log would show of an error and of all that led to it."""
    story: traceback.TracebackException | None
    story = traceback.TracebackException.from_exception(error, lookup_lines=False)
    lines: list[str] = []
    while story is not None:
        lines += story.format_exception_only()
        story = story.__cause__ or (None if story.__suppress_context__ else story.__context__)
    return "".join(lines)


def wait_until(true: Callable[[], bool], every_s: float = 0.01) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(every_s)


def run_as_script(function: Callable[..., None], *arguments: object) -> None:
    """Run a function of server_processes in a new interpreter, where no thread hinders a fork."""
    name = function.__name__
    code = f"import sys; from {server_processes.__name__} import {name}; {name}(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
