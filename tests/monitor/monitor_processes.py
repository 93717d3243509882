"""What the tests of whole Monitors run in interpreters of their own: `python -m ... NAME ...`.

Every question is asked once, and its answer is "re: " and the question.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from random import Random
from typing import Any

from sqlalchemy import text

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai.tokens import load_user_pricing
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor
from pywrapai_monitor.db.sql import SQLStore
from pywrapai_monitor.db.tables import COST_UNITS
from pywrapai_monitor.db.urls import store_from_url
from pywrapai_monitor.spool_files import look_at
from tests.monitor.sqlite_processes import NOBODY, in_children, run_and_leave

_BUCKETS = {
    "session_totals": ("1 = 1",),
    "usage_totals": ("bucket < 0", "bucket BETWEEN 0 AND 999999999"),
}
_TOTALS = {
    "session_totals": "calls, turns, row_count, total_tokens, cost",
    "usage_totals": "calls, errors, unpriced, input_tokens + output_tokens, cost",
}


def graph() -> GraphLLM:
    """Answers, at a price."""
    load_user_pricing({"stub-model": {"input": 1.0, "output": 2.0}})
    return GraphLLM(LLM(StubProvider(lambda messages, _: f"re: {messages[-1].text}")))


def ask(monitor: Monitor, of: GraphLLM, session: str, question: str, turns: int = 2) -> None:
    """A call of a user, in sync code."""
    answer = monitor.wrap(of, f"user of {session}", session, max_turns=turns).chat(question)
    assert answer.content == f"re: {question}"


async def aask(monitor: Monitor, of: GraphLLM, session: str, question: str, turns: int = 2) -> None:
    """A call of a user, in async code."""
    answer = await monitor.wrap(of, f"user of {session}", session, turns).achat(question)
    assert answer.content == f"re: {question}"


def questions_in(url: str) -> dict[str, list[str]]:
    """By session and in order what is in the database: whole turns and true totals, as it sees to.

    No question is there twice.
    """
    with closing(store_from_url(url)) as store:
        assert isinstance(store, SQLStore)
        records = {row["call_id"]: row for row in store.export_rows("token_records")}
        turns: dict[str, list[dict[str, Any]]] = {}
        for row in store.export_rows("conversations"):
            turns.setdefault(row["call_id"], []).append(row)
        assert_totals(store, list(records.values()))
    assert turns.keys() == records.keys()
    found: dict[str, list[str]] = {}
    for asked, answered in turns.values():
        assert (asked["role"], answered["role"]) == ("user", "assistant")
        assert answered["content"] == f"re: {asked['content']}"
        assert asked["session_id"] == answered["session_id"]
        found.setdefault(asked["session_id"], []).append(asked["content"])
    questions = [question for session in found.values() for question in session]
    assert len(set(questions)) == len(questions)
    return found


def assert_totals(store: SQLStore, records: list[dict[str, Any]]) -> None:
    """They are those of the calls, all answered and priced, to the last token and cent."""
    calls = len(records)
    tokens = sum(row["input_tokens"] + row["output_tokens"] for row in records)
    cost = sum(round(row["cost_usd"] * COST_UNITS) for row in records)
    expected = {
        "session_totals": (calls, calls, 3 * calls, tokens, cost),
        "usage_totals": (calls, 0, 0, tokens, cost),
    }
    for table, columns in _TOTALS.items():
        sums = ", ".join(f"COALESCE(SUM({column}), 0)" for column in columns.split(", "))
        for which in _BUCKETS[table]:
            with store._reading() as conn:
                row = conn.execute(text(f"SELECT {sums} FROM {table} WHERE {which}")).one()
            assert tuple(map(int, row)) == expected[table], (table, which)


# Many at once


def processes(url: str, spool: str, turns: str) -> None:
    """Eight, each with a session of its own."""
    Monitor(url, spool_dir=spool).close()

    def work(worker: int) -> None:
        answering = graph()
        with Monitor(url, spool_dir=spool) as monitor:
            for number in range(int(turns)):
                ask(monitor, answering, f"s{worker}", f"{worker}-{number}")

    in_children(8, work)
    expected = {f"s{w}": [f"{w}-{n}" for n in range(int(turns))] for w in range(8)}
    assert questions_in(url) == expected


def tasks(url: str, spool: str, turns: str) -> None:
    """200, of which ten share a session."""
    answered: dict[str, list[str]] = {f"s{number}": [] for number in range(20)}

    async def talk(monitor: Monitor, answering: GraphLLM, task: int) -> None:
        session = f"s{task % 20}"
        for number in range(int(turns)):
            await aask(monitor, answering, session, f"{task}-{number}")
            answered[session].append(f"{task}-{number}")

    async def all_of_them() -> None:
        with Monitor(url, spool_dir=spool) as monitor:
            answering = graph()
            await asyncio.gather(*(talk(monitor, answering, task) for task in range(200)))
            report = await monitor.aflush(60)
            assert report
            assert report.written == 200 * int(turns)

    asyncio.run(all_of_them())
    assert questions_in(url) == answered


# Killed


def killed(url: str, spool: str, kills: str) -> None:
    """At any time, in turn while sync and while async code asks; what was told is there."""
    random = Random(7)
    Monitor(url, spool_dir=spool).close()
    told: dict[str, int] = {}
    for run in range(int(kills)):
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            work = ask_for_ever if run % 2 else gather_for_ever
            run_and_leave(lambda run, work=work, write=write: work(url, spool, run, write), run)
        os.close(write)
        begun = os.read(read, 1)
        time.sleep(random.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        told[f"s{run}"] = len(begun + os.read(read, 1_000_000))
        os.close(read)

    with Monitor(url, spool_dir=spool) as monitor:
        report = monitor.flush(60)
        assert (bool(report), report.lost) == (True, 0)
    found = questions_in(url)
    for session, least in told.items():
        numbers = [int(question.split("-")[1]) for question in found[session]]
        assert len(numbers) >= least
        assert numbers == list(range(len(numbers)))
    print(sum(told.values()), "told,", sum(map(len, found.values())), "found")


def ask_for_ever(url: str, spool: str, run: int, progress: int) -> None:
    monitor, answering = Monitor(url, spool_dir=spool), graph()
    for number in count():
        ask(monitor, answering, f"s{run}", f"{run}-{number}")
        os.write(progress, b".")


def gather_for_ever(url: str, spool: str, run: int, progress: int) -> None:
    async def gather() -> None:
        monitor, answering = Monitor(url, spool_dir=spool), graph()
        for number in count(step=10):
            asked = (f"{run}-{n}" for n in range(number, number + 10))
            await asyncio.gather(*(aask(monitor, answering, f"s{run}", q, 0) for q in asked))
            assert await monitor.aflush(60)
            os.write(progress, b"." * 10)

    asyncio.run(gather())


# Without room


def full_disks(folder: str, records: str) -> None:
    """First the database's, while the spool has room, and then both."""
    with small_disk(folder) as (disk, grow):
        path = f"{disk}/m.db"
        with Monitor(path, spool_dir=f"{folder}/spool") as monitor:
            asked = ask_large(monitor, "s0", 100)
            report = monitor.flush()
            assert report.spooled > 0, report
            assert (bool(report), report.lost, report.queued) == (False, 0, 0)
            assert "full" in str(report.reason)
            grow()
            report = monitor.flush(60)
            assert (bool(report), monitor.recorder.counts()["written"]) == (True, 100)
        assert questions_in(path)["s0"] == asked

    with small_disk(folder) as (disk, grow):
        path = f"{disk}/m.db"
        with Monitor(path, spool_dir=None) as monitor:  # which then is beside the database
            asked = ask_large(monitor, "s1", int(records))
            counts = monitor.recorder.counts()
            assert counts["queued"] > 0
            assert sum(counts.values()) == len(asked), counts
            assert not monitor.flush()
            grow()
            report = monitor.flush(120)
            counts = monitor.recorder.counts()
            assert (report.queued, report.spooled) == (0, 0), report
            assert counts["written"] + counts["lost"] == len(asked)
            print(counts)
        found = questions_in(path)["s1"]
        assert found == [question for question in asked if question in set(found)]
        assert len(found) == counts["written"]
        assert look_at(f"{path}.spool") == []


def ask_large(monitor: Monitor, session: str, records: int) -> list[str]:
    answering, asked = graph(), [f"{n} " + "x" * 50_000 for n in range(records)]
    for question in asked:
        ask(monitor, answering, session, question, turns=0)
    return asked


@contextmanager
def small_disk(folder: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Two megabytes, until they are made many. It is seen by this process alone."""
    disk = f"{folder}/disk"
    os.makedirs(disk, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], check=True)
    more = ["mount", "-o", "remount,size=500m", disk]
    try:
        yield disk, lambda: subprocess.run(more, check=True) and None
    finally:
        subprocess.run(["umount", disk], check=True)


def made_read_only(folder: str) -> None:
    """By somebody, while it is used; and given back."""
    path, spool = f"{folder}/m.db", f"{folder}/spool"
    os.chmod(folder, 0o777)

    def work(_: int) -> None:
        if os.geteuid() == 0:
            os.setuid(NOBODY)  # root may write everywhere
        Monitor(path, spool_dir=spool).close()
        os.chmod(path, 0o444)
        answering = graph()
        with Monitor(path, spool_dir=spool) as monitor:
            for number in range(20):
                ask(monitor, answering, "s", f"{number}")
            report = monitor.flush()
            assert (bool(report), report.spooled) == (False, 20), report
            for name in ("", "-wal", "-shm"):  # SQLite has made these as it found the first
                os.chmod(path + name, 0o644)
            deadline = time.monotonic() + 20
            while not monitor.flush(10):  # a connection opened meanwhile is good for nothing
                assert time.monotonic() < deadline

    if (pid := os.fork()) == 0:
        run_and_leave(work, 0)
    assert os.waitpid(pid, 0)[1] == 0
    assert questions_in(path) == {"s": [f"{number}" for number in range(20)]}


# Forked


class Busy:
    """Four threads that use a Monitor until they are told to stop."""

    def __init__(self, monitor: Monitor, answering: GraphLLM) -> None:
        self.asked: dict[str, list[str]] = {"chat0": [], "chat1": [], "achat": []}
        self.longest_s = 0.0
        self._monitor, self._answering = monitor, answering
        self._stop = threading.Event()
        works = (
            lambda: self._chat("chat0"), lambda: self._chat("chat1"), self._achat, self._read
        )  # fmt: skip
        self._threads = [threading.Thread(target=work) for work in works]
        self._done = 0

    def __enter__(self) -> Busy:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self._done == 4

    def _numbers(self, session: str) -> Iterator[str]:
        for number in count():
            if self._stop.is_set():
                break
            started = time.perf_counter()
            yield f"{session}-{number}"
            self.asked[session].append(f"{session}-{number}")
            self.longest_s = max(self.longest_s, time.perf_counter() - started)
        self._done += 1

    def _chat(self, session: str) -> None:
        for question in self._numbers(session):
            ask(self._monitor, self._answering, session, question)

    def _achat(self) -> None:
        async def talk() -> None:
            for question in self._numbers("achat"):
                await aask(self._monitor, self._answering, "achat", question)

        asyncio.run(talk())

    def _read(self) -> None:
        store = self._monitor.store
        while not self._stop.is_set():
            store.get_overview()
            store.get_sessions()
            list(store.export_rows("token_records", session_id="chat0"))
        self._done += 1


def forked(path: str, forks: str) -> None:
    """While four threads are busy: each child makes a turn of its own within ten seconds."""
    answering = graph()
    monitor = Monitor(path)
    running: list[int] = []
    statuses: list[int] = []

    def work(child: int) -> None:
        signal.alarm(10)
        ask(monitor, answering, f"child{child}", f"child{child}-0")
        assert monitor.flush()
        monitor.close()

    began = time.perf_counter()
    with Busy(monitor, answering) as busy:
        for child in range(int(forks)):
            if (pid := os.fork()) == 0:
                run_and_leave(work, child)
            running.append(pid)
            if len(running) == 4:
                statuses.append(os.waitpid(running.pop(0), 0)[1])
        statuses += [os.waitpid(pid, 0)[1] for pid in running]
    spent = time.perf_counter() - began
    monitor.close()
    print(f"{spent:.1f} s, longest call {busy.longest_s:.2f} s", Counter(statuses))
    assert set(statuses) == {0}
    expected = {f"child{n}": [f"child{n}-0"] for n in range(int(forks))}
    assert questions_in(path) == {**busy.asked, **expected}


def preloaded(path: str, turns: str) -> None:
    """As gunicorn --preload and multiprocessing do: workers of a Monitor that was used before."""
    answering = graph()
    monitor = Monitor(path)
    ask(monitor, answering, "parent", "before")
    context: Any = multiprocessing.get_context("fork")
    served = [context.Semaphore(0) for _ in range(4)]

    def serve(worker: int) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        for number in range(int(turns)):
            ask(monitor, answering, f"w{worker}", f"w{worker}-{number}")
        asyncio.run(aask(monitor, answering, f"w{worker}", f"w{worker}-last"))
        served[worker].release()
        time.sleep(60)

    with Busy(monitor, answering) as busy:
        workers = [context.Process(target=serve, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for each in served:
            assert each.acquire(timeout=60)
        for worker in workers:
            worker.terminate()
            worker.join(10)
    assert [worker.exitcode for worker in workers] == [0] * 4
    ask(monitor, answering, "parent", "after")
    monitor.close()
    of_workers = {
        f"w{w}": [*(f"w{w}-{n}" for n in range(int(turns))), f"w{w}-last"] for w in range(4)
    }
    assert questions_in(path) == {**busy.asked, **of_workers, "parent": ["before", "after"]}


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
