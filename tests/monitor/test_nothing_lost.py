"""A whole Monitor on each database, under load, killed, forked, without room or without a server:
every answer is returned, and every record is there once.

The sizes are small. PYWRAPAI_TEST_TURNS=500 PYWRAPAI_TEST_KILLS=100 PYWRAPAI_TEST_FORKS=200
PYWRAPAI_TEST_OUTAGES=10 PYWRAPAI_TEST_RECORDS=2000 makes them large.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor, StoreError
from pywrapai_monitor.db.urls import store_from_url
from tests.mariadb import MariaDB, mariadb  # noqa: F401
from tests.monitor.monitor_processes import questions_in
from tests.postgres import Postgres
from tests.servers import PrivateServer, private_mariadb, private_postgres  # noqa: F401

ROOT = Path(__file__).parents[2]
TURNS = int(os.environ.get("PYWRAPAI_TEST_TURNS", "10"))
KILLS = int(os.environ.get("PYWRAPAI_TEST_KILLS", "8"))
FORKS = int(os.environ.get("PYWRAPAI_TEST_FORKS", "20"))
OUTAGES = int(os.environ.get("PYWRAPAI_TEST_OUTAGES", "1"))
LARGE_RECORDS = int(os.environ.get("PYWRAPAI_TEST_RECORDS", "100"))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a new database."""
    if request.param == "sqlite":
        yield str(tmp_path / "m.db")
        return
    server: Postgres | MariaDB = request.getfixturevalue(request.param)
    with server.database() as made:
        yield made


def play(scene: str, *arguments: object, before: tuple[str, ...] = ()) -> None:
    """In an interpreter of its own."""
    module = "tests.monitor.monitor_processes"
    done = subprocess.run(
        [*before, sys.executable, "-m", module, scene, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


# Many at once, and killed


@needs_fork
def test_eight_processes_that_ask_at_once_record_every_turn_once(url: str, tmp_path: Path) -> None:
    play("processes", url, tmp_path / "spool", TURNS)


def test_200_tasks_on_20_sessions_get_their_answers_and_each_session_keeps_its_order(
    url: str, tmp_path: Path
) -> None:
    play("tasks", url, tmp_path / "spool", max(1, TURNS // 10))


@needs_fork
def test_a_kill_leaves_whole_turns_and_all_that_was_told_once(url: str, tmp_path: Path) -> None:
    play("killed", url, tmp_path / "spool", KILLS)


# Without a server


@pytest.mark.parametrize("server", ["private_postgres", "private_mariadb"])
def test_a_server_that_stops_under_load_costs_no_answer_and_no_record(
    request: pytest.FixtureRequest, server: str, tmp_path: Path
) -> None:
    private: PrivateServer = request.getfixturevalue(server)
    with Monitor(private.url, spool_dir=tmp_path / "spool") as monitor, Load(monitor) as load:
        for _ in range(OUTAGES):
            load.go_on(3)
            private.stop()
            load.go_on(3)
            asked_at = time.monotonic()
            report = monitor.flush(timeout=20)
            assert not report
            assert time.monotonic() - asked_at < 10  # it asks once, and does not wait
            assert report.spooled + report.queued > 0
            assert (report.lost, f"{private.port}" in str(report.reason)) == (0, True)
            private.start()
        load.go_on(3)
        load.stop()
        report = monitor.flush(timeout=60)

        assert report
        assert monitor.recorder.counts() == {
            "queued": 0,
            "spooled": 0,
            "lost": 0,
            "written": sum(map(len, load.answered.values())),
        }
    assert {session: q for session, q in load.asked.items() if q} == load.answered
    assert questions_in(private.url) == load.answered
    print(load.told())


@pytest.mark.parametrize("server", ["private_postgres", "private_mariadb"])
def test_callers_for_whom_no_connection_can_be_made_do_not_wait_for_each_other(
    request: pytest.FixtureRequest, server: str
) -> None:
    private: PrivateServer = request.getfixturevalue(server)
    store = store_from_url(private.url, max_connections=1)
    private.stop()

    def read(_: int) -> None:
        for _ in range(10):
            with pytest.raises(StoreError):
                store.get_overview()

    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    assert time.monotonic() - began < 10
    store.close()


class Load:
    """Four threads and a loop with twenty tasks that talk, each in a session of its own.

    Half of them send no history. The others are told when it cannot be read, and nothing is asked.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.asked: dict[str, list[str]] = {}
        """The questions that came to the model, by session."""
        self.answered: dict[str, list[str]] = {}
        self.refused = 0
        self.longest_s = 0.0
        self._monitor = monitor
        self._graph = GraphLLM(LLM(StubProvider(self._answer)))
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        works = [*(lambda n=n: self._talk(f"thread{n}", n % 2) for n in range(4)), self._tasks]
        self._threads = [threading.Thread(target=self._try, args=(work,)) for work in works]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self._failures == []

    def go_on(self, turns: int) -> None:
        """Until those without a history have had so many turns more."""
        free = [f"thread{n}" for n in (0, 2)] + [f"task{n}" for n in range(0, 20, 2)]
        wanted = {session: len(self.answered.get(session, ())) + turns for session in free}
        deadline = time.monotonic() + 60
        while any(len(self.answered.get(s, ())) < least for s, least in wanted.items()):
            assert time.monotonic() < deadline
            assert self._failures == []
            time.sleep(0.01)

    def told(self) -> str:
        answers = sum(map(len, self.answered.values()))
        return f"{answers} answers, {self.refused} refused, longest call {self.longest_s:.2f} s"

    def _answer(self, messages: list[Any], _tools: Any) -> str:
        question = messages[-1].text
        self.asked.setdefault(question.split("-")[0], []).append(question)
        return f"re: {question}"

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failures.append(error)

    def _questions(self, session: str) -> Iterator[str]:
        for number in count():
            if self._stop.is_set():
                return
            yield f"{session}-{number}"

    def _talk(self, session: str, turns: int) -> None:
        tracked = self._monitor.wrap(self._graph, "u", session, turns)
        for question in self._questions(session):
            started = time.perf_counter()
            try:
                answer = tracked.chat(question)
            except StoreError:
                self.refused += 1
            else:
                self._note(session, question, answer.content, started)
            time.sleep(0.01)

    def _tasks(self) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(self._atalk(f"task{n}", n % 2) for n in range(20)))

        asyncio.run(all_of_them())

    async def _atalk(self, session: str, turns: int) -> None:
        tracked = self._monitor.wrap(self._graph, "u", session, turns)
        for question in self._questions(session):
            started = time.perf_counter()
            try:
                answer = await tracked.achat(question)
            except StoreError:
                self.refused += 1
            else:
                self._note(session, question, answer.content, started)
            await asyncio.sleep(0.05)

    def _note(self, session: str, question: str, answer: str, started: float) -> None:
        assert answer == f"re: {question}"
        self.answered.setdefault(session, []).append(question)
        self.longest_s = max(self.longest_s, time.perf_counter() - started)


# Without room


def test_full_disks_cost_no_answer_and_what_there_is_no_room_for_is_counted(
    tmp_path: Path,
) -> None:
    alone = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"]).returncode:
        pytest.skip("nobody here may mount a small disk")

    play("full_disks", tmp_path, LARGE_RECORDS, before=alone)


@needs_fork
def test_a_database_that_is_made_read_only_costs_no_answer_and_no_record() -> None:
    with tempfile.TemporaryDirectory() as folder:  # one that others than root may come to
        play("made_read_only", folder)


# Forked


@needs_fork
def test_a_child_forked_while_others_use_sqlite_is_served_at_once(tmp_path: Path) -> None:
    play("forked", tmp_path / "m.db", FORKS)


@needs_fork
def test_workers_of_a_preloaded_program_are_served_and_record_every_turn(tmp_path: Path) -> None:
    play("preloaded", tmp_path / "m.db", TURNS)
