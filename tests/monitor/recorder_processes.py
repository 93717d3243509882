"""What the tests of crashes run in interpreters of their own: `python -m ... NAME PATH`."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from pywrapai_monitor.db import SQLiteStore
from pywrapai_monitor.db.base import Entry
from pywrapai_monitor.recorder import Recorder
from pywrapai_monitor.spool_files import look_at
from tests.contracts.store_rows import entry
from tests.monitor.recorder_stores import AWAY, MoodyStore
from tests.monitor.sqlite_processes import NOBODY, assert_sound, in_children, run_and_leave

PATIENT = {"first_wait_s": 60.0, "longest_wait_s": 60.0}
QUICK = {"first_wait_s": 0.005, "longest_wait_s": 0.02}


def recorder_on(path: str, store: SQLiteStore | None = None, **more: Any) -> Recorder:
    return Recorder(store or SQLiteStore(path), f"{path}.spool", **more)


def calls_in(path: str) -> list[str]:
    """The ids of all calls, in the order of writing; whole turns and true totals are seen to."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT call_id FROM token_records ORDER BY id").fetchall()
    connection.close()
    if rows:
        assert_sound(Path(path))
    return [call_id for (call_id,) in rows]


def child(work: Callable[[int], None]) -> int:
    """The id of a process that does the work and ends without what atexit knows."""
    if (pid := os.fork()) == 0:
        run_and_leave(work, 0)
    return pid


def ended(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert ended(pid) == signal.SIGKILL


# Ways to end


def enqueue_1000(path: str) -> Recorder:
    recorder = recorder_on(path)
    for number in range(1000):
        recorder.enqueue(entry("q", f"c{number}"))
    return recorder


def end(path: str) -> None:
    enqueue_1000(path)


def end_after_asyncio(path: str) -> None:
    async def main() -> None:
        recorder = recorder_on(path)

        async def one(number: int) -> None:
            recorder.enqueue(entry("q", f"c{number}", session=f"s{number % 20}"))

        await asyncio.gather(*(one(number) for number in range(1000)))

    asyncio.run(main())


def end_with_sys_exit(path: str) -> None:
    enqueue_1000(path)
    sys.exit(0)


def end_with_an_exception(path: str) -> None:
    enqueue_1000(path)
    raise RuntimeError("the program's own fault")


def end_on_a_handled_sigterm(path: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    enqueue_1000(path)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def end_while_the_store_is_away(path: str) -> None:
    store = MoodyStore(path)
    store.error = AWAY
    recorder = recorder_on(path, store)
    for number in range(1000):
        recorder.enqueue(entry("q", f"c{number}"))


def end_on_sigterm(path: str) -> None:
    """The default, which ends a process at once: what is queued is gone, what is written is not."""

    def work(_: int) -> None:
        store = MoodyStore(path)
        recorder = recorder_on(path, store)
        recorder.write(entry("q", "written"))
        store.open.clear()
        recorder.enqueue(entry("q", "queued"))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    assert ended(child(work)) == signal.SIGTERM
    assert calls_in(path) == ["written"]


def end_of_multiprocessing(path: str) -> None:
    SQLiteStore(path).close()
    for number, method in enumerate(("fork", "spawn")):
        context = multiprocessing.get_context(method)
        process = context.Process(target=enqueue_in_process, args=(path, str(number)))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert sorted(calls_in(path)) == sorted(f"{p}-{n}" for p in range(2) for n in range(300))


def enqueue_in_process(path: str, name: str) -> None:
    recorder = recorder_on(path)
    for number in range(300):
        recorder.enqueue(entry("q", f"{name}-{number}"))


# Killed


def killed_with_a_queue(path: str) -> None:
    """At any time: only what was queued is lost, and never half an entry."""
    random = Random(7)
    SQLiteStore(path).close()
    told: list[str] = []
    for run in range(8):
        read, write = os.pipe()

        def work(_: int, run: int = run, write: int = write) -> None:
            recorder = recorder_on(path)
            for number in range(100_000):
                recorder.enqueue(entry("q" * 2000, f"{run}-{number}"))
                if number % 50 == 49:
                    assert recorder.flush()
                    os.write(write, b".")

        pid = child(work)
        os.read(read, 1)
        time.sleep(random.random() * 0.1)
        kill(pid)
        os.close(write)
        flushed = 50 * (1 + len(os.read(read, 10_000)))
        os.close(read)
        told += [f"{run}-{number}" for number in range(flushed)]
        assert set(told) <= set(calls_in(path))
    found = calls_in(path)
    assert len(found) == len(set(found))


def killed_while_spooling(path: str) -> None:
    """What `write` has returned from is in the spool, whenever the process dies."""
    random = Random(7)
    SQLiteStore(path).close()
    acknowledged: list[str] = []
    for run in range(8):
        read, write = os.pipe()

        def work(_: int, run: int = run, write: int = write) -> None:
            store = MoodyStore(path)
            store.error = AWAY
            recorder = recorder_on(path, store, **PATIENT)
            for number in range(100_000):
                recorder.write(entry("q" * 20_000, f"{run}-{number}"))
                os.write(write, b".")

        pid = child(work)
        os.read(read, 1)
        time.sleep(random.random() * 0.05)
        kill(pid)
        os.close(write)
        acknowledged += [f"{run}-{n}" for n in range(1 + len(os.read(read, 1_000_000)))]
        os.close(read)
    assert calls_in(path) == []

    recorder = recorder_on(path)
    report = recorder.close(timeout=60)

    found = calls_in(path)
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found)) <= len(acknowledged) + 8
    assert found == sorted(found, key=lambda call: [int(part) for part in call.split("-")])
    assert report.lost <= 8  # a torn last line each
    assert look_at(f"{path}.spool") == []


class Killed(SQLiteStore):
    """It dies after a commit, before anybody hears of it."""

    batches = 2

    def write(self, entries: Sequence[Entry], *, replayed: bool = False) -> None:
        super().write(entries, replayed=replayed)
        self.batches -= 1
        if self.batches == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_while_replaying(path: str) -> None:
    """Again and again, each time when a batch is in the store and not yet marked as done."""
    leave_in_the_spool(path, 2000)
    kills = 0
    for _ in range(20):
        pid = child(lambda _: bool(recorder_on(path, Killed(path)).flush()))
        if ended(pid) == 0:
            break
        kills += 1

    assert kills >= 3
    assert calls_in(path) == [f"c{number}" for number in range(2000)]
    assert look_at(f"{path}.spool") == []


def leave_in_the_spool(path: str, count: int) -> None:
    def work(_: int) -> None:
        store = MoodyStore(path)
        store.error = AWAY
        recorder = recorder_on(path, store, **PATIENT)
        for number in range(count):
            recorder.write(entry("q", f"c{number}"))
        os.kill(os.getpid(), signal.SIGKILL)

    assert ended(child(work)) == signal.SIGKILL


def replayed_by_many(path: str) -> None:
    """Eight processes begin at once where one has died: each entry is there once, and in order."""
    leave_in_the_spool(path, 1000)
    in_children(8, lambda _: recorder_on(path).close(timeout=30) or None)

    assert calls_in(path) == [f"c{number}" for number in range(1000)]
    assert list(Path(f"{path}.spool").iterdir()) == []


def many_in_an_outage(path: str) -> None:
    """Four processes go on writing while the store comes and goes."""

    def work(worker: int) -> None:
        store = MoodyStore(path)
        recorder = recorder_on(path, store, **QUICK)
        random = Random(worker)
        for number in range(300):
            if number % 20 == 0:
                store.error = None if number % 40 else AWAY
            keep = random.choice([recorder.write, recorder.enqueue])
            keep(entry("q", f"{worker}-{number}", session=f"s{worker}"))
        store.error = None
        assert recorder.close(timeout=60)

    in_children(4, work)
    found = calls_in(path)
    assert len(found) == 1200
    for worker in range(4):
        own = [call for call in found if call.startswith(f"{worker}-")]
        assert own == [f"{worker}-{number}" for number in range(300)]


# Forked


def forked_with_a_queue(path: str) -> None:
    """As gunicorn --preload does: the child begins with nothing, and its flush returns."""
    store = MoodyStore(path)
    recorder = recorder_on(path, store)
    store.open.clear()
    for number in range(5):
        recorder.enqueue(entry("q", f"parent-{number}"))
    store.asked.acquire()

    def work(_: int) -> None:
        store.open.set()
        assert recorder.counts() == {"queued": 0, "spooled": 0, "lost": 0, "written": 0}
        recorder.enqueue(entry("q", "child"))
        report = recorder.flush(timeout=5)
        assert (bool(report), report.written) == (True, 1)

    assert ended(child(work)) == 0
    assert calls_in(path) == ["child"]
    store.open.set()
    assert recorder.flush(timeout=10)
    assert calls_in(path) == ["child", *(f"parent-{number}" for number in range(5))]


def forked_with_a_spool(path: str) -> None:
    """What the parent has spooled is the parent's, as long as it lives."""
    store = MoodyStore(path)
    recorder = recorder_on(path, store, **PATIENT)
    store.error = AWAY
    for number in range(5):
        recorder.write(entry("q", f"parent-{number}"))

    def work(_: int) -> None:
        store.error = None
        recorder.write(entry("q", "child"))
        assert recorder.settle("alice", "s1")
        assert recorder.close()

    assert ended(child(work)) == 0
    assert calls_in(path) == ["child"]
    assert [(waiting.entries, waiting.held) for waiting in look_at(f"{path}.spool")] == [(5, True)]
    store.error = None
    assert recorder.flush(timeout=10)
    assert len(calls_in(path)) == 6


def outlived_by_a_child(path: str) -> None:
    """The parent dies, its child lives on: what it left is not held by the child."""
    read, write = os.pipe()

    def work(_: int) -> None:
        store = MoodyStore(path)
        recorder = recorder_on(path, store, **PATIENT)
        store.error = AWAY
        for number in range(5):
            recorder.write(entry("q", f"c{number}"))
        grandchild = child(lambda _: time.sleep(60))
        os.write(write, str(grandchild).encode())
        os.kill(os.getpid(), signal.SIGKILL)

    assert ended(child(work)) == signal.SIGKILL
    grandchild = int(os.read(read, 20))
    try:
        assert recorder_on(path).flush(timeout=10)
        assert calls_in(path) == [f"c{number}" for number in range(5)]
    finally:
        os.kill(grandchild, signal.SIGKILL)


class Fitful(SQLiteStore):
    """It has no locks of its own, which a child could find taken."""

    error: Exception | None = None

    def write(self, entries: Sequence[Entry], *, replayed: bool = False) -> None:
        if self.error is not None:
            raise self.error
        super().write(entries, replayed=replayed)


def forked_at_any_time(path: str) -> None:
    """While threads write and the store comes and goes; no child hangs, and nothing is twice."""
    store = Fitful(path)
    recorder = recorder_on(path, store, **QUICK)
    children = []
    for number in range(40):
        store.error = AWAY if number % 2 else None
        for part in range(5):
            recorder.enqueue(entry("q", f"parent-{number}-{part}"))

        def work(_: int, number: int = number) -> None:
            store.error = None
            recorder.enqueue(entry("q", f"child-{number}", session="child"))
            assert recorder.flush(timeout=20)

        children.append(child(work))
    store.error = None
    assert [ended(pid) for pid in children] == [0] * 40
    assert recorder.flush(timeout=20)
    found = calls_in(path)
    assert len(found) == len(set(found)) == 240


# Read-only


def made_read_only(_path: str) -> None:
    """By somebody, while others use it; and given back."""
    with tempfile.TemporaryDirectory() as folder:  # one that others than root may come to
        os.chmod(folder, 0o777)
        use_read_only(os.path.join(folder, "m.db"))


def use_read_only(path: str) -> None:
    def work(_: int) -> None:
        if os.geteuid() == 0:
            os.setuid(NOBODY)  # root may write everywhere
        SQLiteStore(path).close()
        os.chmod(path, 0o444)
        store = SQLiteStore(path)
        recorder = recorder_on(path, store, **QUICK)
        for number in range(20):
            recorder.write(entry("q", f"c{number}"))
        report = recorder.flush()
        assert not report
        assert report.spooled == 20, report
        assert "readonly" in str(report.reason), report
        for name in ("", "-wal", "-shm"):  # SQLite has made these as it found the first
            os.chmod(path + name, 0o644)
        for _ in range(10):  # a connection that was opened meanwhile is good for nothing
            if recorder.flush(timeout=10):
                return
        raise AssertionError(recorder.flush())

    assert ended(child(work)) == 0
    assert calls_in(path) == [f"c{number}" for number in range(20)]


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
