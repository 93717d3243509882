"""The Recorder in one process: order, a store that is away, bounds, reports."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sqlite3
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pywrapai_monitor.db import SQLiteStore, StoreError
from pywrapai_monitor.db.base import BaseStore, Entry
from pywrapai_monitor.queueing import Breaker
from pywrapai_monitor.recorder import Recorder
from pywrapai_monitor.spool_files import look_at
from tests.contracts.store_rows import entry
from tests.monitor.recorder_stores import AWAY, ListStore, MoodyList, MoodyStore, PlainStore

LARGE_RECORDS = int(os.environ.get("PYWRAPAI_TEST_RECORDS", "2000"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "m.db.spool"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MoodyStore]:
    with_it = MoodyStore(tmp_path / "m.db")
    yield with_it
    with_it.open.set()
    with_it.close()


@pytest.fixture
def make(folder: Path) -> Iterator[Callable[..., Recorder]]:
    """A Recorder that does not wait for long before it asks again."""
    made: list[Recorder] = []

    def recorder(store: BaseStore, spool: bool = True, **more: Any) -> Recorder:
        waits = {"first_wait_s": 0.005, "longest_wait_s": 0.02}
        made.append(Recorder(store, folder if spool else None, **{**waits, **more}))
        return made[-1]

    yield recorder
    for each in made:
        each.close(timeout=5)


def calls_of(store: BaseStore, session: str = "s1", user: str = "alice") -> list[str]:
    """The ids of a session's calls, in their order."""
    return [row["call_id"] for row in store.get_session_token_records(user, session)]


def ids(entries: list[Entry]) -> list[str | None]:
    return [each.token.call_id for each in entries]


def wait_until(met: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not met() and time.monotonic() < deadline:
        time.sleep(0.002)
    return met()


# Written now, or in the background


def test_an_entry_is_written_before_write_returns(make, store):
    recorder = make(store)

    recorder.write(entry("hello", "c1"))

    assert calls_of(store) == ["c1"]
    assert [row["content"] for row in store.get_conversation("alice", "s1")] == [
        "hello",
        "re: hello",
    ]
    assert recorder.counts() == {"queued": 0, "spooled": 0, "lost": 0, "written": 1}


def test_enqueue_returns_at_once_and_writes_many_in_one_transaction(make, store):
    recorder = make(store)
    store.open.clear()

    for number in range(500):
        recorder.enqueue(entry("q", f"c{number}"))
    assert recorder.counts()["queued"] == 500
    store.open.set()

    assert recorder.flush(timeout=10)
    assert calls_of(store) == [f"c{number}" for number in range(500)]
    assert len(store.batches) <= 4


async def test_200_tasks_on_20_sessions_lose_nothing_and_keep_each_sessions_order(make, store):
    recorder = make(store)
    turns: dict[str, list[str]] = {f"s{number}": [] for number in range(20)}

    async def work(task: int) -> None:
        session = f"s{task % 20}"
        for turn in range(5):
            call_id = f"{task}-{turn}"
            turns[session].append(call_id)
            recorder.enqueue(entry("q", call_id, session=session))
            await asyncio.sleep(0)

    await asyncio.gather(*(work(task) for task in range(200)))
    report = await asyncio.to_thread(recorder.flush, 30)

    assert (report.written, bool(report)) == (1000, True)
    for session, asked in turns.items():
        assert calls_of(store, session) == asked
        assert len(store.get_conversation("alice", session)) == 100


async def test_what_was_enqueued_is_seen_after_settling(make, store):
    recorder = make(store)

    async def work(session: str) -> None:
        for turn in range(10):
            recorder.enqueue(entry(f"q{turn}", f"{session}-{turn}", session=session))
            assert await asyncio.to_thread(recorder.settle, "alice", session)
            assert len(store.load_history("alice", session)) == 2 * (turn + 1)

    await asyncio.gather(*(work(f"s{number}") for number in range(8)))


def test_settling_does_not_wait_for_other_sessions(make, store):
    recorder = make(store)
    store.open.clear()
    recorder.enqueue(entry("q", "c1", session="other"))

    assert recorder.settle("alice", "s1", timeout=60)
    assert not recorder.settle("alice", "other", timeout=0.01)


def test_a_sync_write_goes_behind_what_its_session_has_in_the_queue(make, store):
    recorder = make(store)
    store.open.clear()
    recorder.enqueue(entry("q", "first"))
    store.asked.acquire()

    writer = threading.Thread(target=recorder.write, args=(entry("q", "second"),))
    writer.start()
    assert wait_until(lambda: recorder.counts()["queued"] == 2)
    store.open.set()
    writer.join()

    assert calls_of(store) == ["first", "second"]


def test_entries_that_garbage_collection_makes_in_the_midst_of_others_are_kept(make):
    store = ListStore()
    recorder = make(store)

    class Stream:
        """An abandoned one: it is closed by the collector, wherever that happens."""

        def __init__(self, number: int) -> None:
            self.number, self.itself = number, self

        def __del__(self) -> None:
            recorder.enqueue(entry("q", f"late-{self.number}"))

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for number in range(1000):
            Stream(number)
            recorder.enqueue(entry("q", f"c{number}"))
    finally:
        gc.set_threshold(*before)
    gc.collect()

    assert recorder.flush(timeout=30)
    assert len(store.entries) == len(set(ids(store.entries))) == 2000
    assert recorder.counts()["queued"] == 0


# Refused


def test_one_bad_entry_does_not_make_its_batch_fail(make, store, caplog):
    recorder = make(store)
    store.open.clear()
    store.refused = {"c3"}
    for number in range(6):
        recorder.enqueue(entry("q", f"c{number}"))
    recorder.enqueue(entry("q", "long", user="u" * 300))
    store.open.set()

    report = recorder.flush(timeout=10)

    assert calls_of(store) == ["c0", "c1", "c2", "c4", "c5"]
    assert (report.written, report.lost, bool(report)) == (5, 2, False)
    assert report.reason is not None
    assert "user_id has 300 characters" in report.reason
    assert "this one does not fit" in caplog.text


def test_a_refused_entry_is_counted_and_logged_and_nothing_is_raised(make, store, caplog):
    recorder = make(store)
    store.error = RuntimeError("custom driver failed")

    recorder.write(entry("q", "c1"))

    assert recorder.counts()["lost"] == 1
    assert "was not recorded" in caplog.text
    assert "custom driver failed" in caplog.text
    store.error = None
    assert not recorder.flush()
    assert recorder.flush()  # lost since the last report: none


def test_a_store_that_saves_one_by_one_gets_none_twice_when_one_is_refused(make):
    store = PlainStore()
    recorder = make(store)
    store.refused = {"c3"}

    for number in range(8):
        recorder.enqueue(entry("q", f"c{number}"))
    recorder.flush(timeout=10)

    assert store.saved == [f"c{number}" for number in range(8) if number != 3]
    assert recorder.counts()["lost"] == 1


def test_ctrl_c_in_the_midst_of_writing_is_raised_and_the_entry_kept(make, store):
    recorder = make(store)
    store.once = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        recorder.write(entry("q", "c1"))

    assert recorder.flush(timeout=10)
    assert calls_of(store) == ["c1"]


# Away


@pytest.mark.parametrize("spool", [True, False], ids=["spool", "memory"])
@pytest.mark.parametrize("way", ["write", "enqueue"])
def test_while_the_store_is_away_entries_wait_and_are_written_once_in_order(
    make, store, folder, way, spool
):
    recorder = make(store, spool)
    keep = getattr(recorder, way)
    keep(entry("q", "c0"))
    recorder.flush()
    store.error = AWAY

    for number in range(1, 50):
        keep(entry("q", f"c{number}"))
    report = recorder.flush()
    assert not report
    assert (report.spooled if spool else report.queued) == 49
    assert report.reason == "db.example:5432: connection refused"
    assert sum(waiting.entries for waiting in look_at(folder)) == (49 if spool else 0)
    store.error = None

    report = recorder.flush(timeout=10)
    assert (report.written, report.lost, bool(report)) == (49, 0, True)
    assert calls_of(store) == [f"c{number}" for number in range(50)]
    assert look_at(folder) == []


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), TimeoutError("late"), AWAY])
def test_these_errors_mean_that_the_store_is_away(make, error):
    store = MoodyList()
    recorder = make(store)
    store.error = error
    recorder.write(entry("q", "c1"))
    store.error = None

    assert recorder.flush(timeout=10)
    assert ids(store.entries) == ["c1"]


def test_nobody_waits_for_a_store_that_was_away(make, store):
    recorder = make(store, first_wait_s=60, longest_wait_s=60)
    store.error = AWAY
    recorder.write(entry("q", "c0"))
    store.open.clear()  # whoever asked would wait

    for number in range(1, 20):
        recorder.write(entry("q", f"c{number}"))
    assert not recorder.settle("alice", "s1")

    assert store.batches == [1]
    assert recorder.counts()["spooled"] == 20
    store.error = None
    store.open.set()
    assert recorder.flush(timeout=10)


def test_it_says_whether_enqueueing_writes_to_the_disk(make, store):
    recorder = make(store, first_wait_s=60, longest_wait_s=60)
    assert not recorder.uses_disk

    store.error = AWAY
    recorder.write(entry("q", "c0"))
    assert recorder.uses_disk

    store.error = None
    assert recorder.flush(timeout=10)
    assert not recorder.uses_disk


def test_the_store_is_asked_again_by_itself_when_the_pause_is_over(make, store):
    recorder = make(store)
    store.error = AWAY
    recorder.enqueue(entry("q", "c0"))
    assert wait_until(lambda: len(store.batches) >= 3)

    store.error = None

    assert wait_until(lambda: recorder.counts()["written"] == 1)
    assert calls_of(store) == ["c0"]


def test_the_next_call_of_a_session_sees_what_waited_in_the_spool(make, store):
    recorder = make(store)
    store.error = AWAY
    for number in range(300):
        recorder.write(entry("q", f"c{number}"))
    store.error = None

    assert wait_until(lambda: recorder.settle("alice", "s1"))

    assert len(calls_of(store)) == 300


def test_a_write_while_the_spool_is_replayed_waits_for_its_turn(make, store):
    recorder = make(store)
    store.error = AWAY
    for number in range(2000):
        recorder.write(entry("q", f"c{number}"))
    store.error = None
    assert wait_until(lambda: recorder.counts()["written"] > 0)

    recorder.write(entry("q", "last"))

    assert calls_of(store)[-1] == "last"
    assert len(calls_of(store)) == 2001


def test_each_pause_is_twice_the_one_before_up_to_the_longest():
    now = [100.0]
    breaker = Breaker(0.5, 30.0, clock=lambda: now[0])
    pauses = []

    for _ in range(8):
        breaker.trip(AWAY)
        breaker.trip(AWAY)  # another thread had asked at the same time
        pauses.append(breaker.wait_s())
        now[0] += breaker.wait_s()

    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    breaker.close()
    breaker.trip(AWAY)
    assert breaker.wait_s() == 0.5


def test_an_outage_is_told_once_at_its_beginning_and_once_at_its_end(make, store, caplog):
    caplog.set_level(logging.INFO)
    recorder = make(store)
    store.error = AWAY
    for number in range(20):
        recorder.write(entry("q", f"c{number}"))
    recorder.flush()
    store.error = None
    recorder.flush(timeout=10)

    assert caplog.text.count("the store is away") == 1
    assert caplog.text.count("the store is back") == 1


def test_what_was_being_written_when_the_store_failed_goes_before_what_came_later(make, store):
    """The queue overflows while a write hangs; then the write fails."""
    recorder = make(store, max_queued_bytes=40_000)
    store.open.clear()
    for number in range(60):
        recorder.enqueue(entry("q", f"c{number}"))
    counts = recorder.counts()
    assert min(counts["queued"], counts["spooled"]) > 0

    store.error = AWAY
    store.open.set()
    assert wait_until(lambda: recorder.counts()["spooled"] == 60)
    recorder.enqueue(entry("q", "c60"))
    store.error = None

    assert recorder.flush(timeout=10)
    assert calls_of(store) == [f"c{number}" for number in range(61)]


def test_a_full_database_makes_entries_wait_until_there_is_room(make, tmp_path):
    store = SQLiteStore(tmp_path / "full.db")
    recorder = make(store)
    recorder.write(entry("q" * 10_000, "c0"))
    limit(store, 1)  # SQLite takes the pages that there are

    for number in range(1, 40):
        recorder.write(entry("q" * 10_000, f"c{number}"))
    assert "full" in str(recorder.flush().reason)
    assert recorder.counts()["spooled"] > 30
    limit(store, 2**30)

    assert recorder.flush(timeout=10)
    assert calls_of(store) == [f"c{number}" for number in range(40)]
    store.close()


def limit(store: SQLiteStore, pages: int) -> None:
    """Let the database's file have so many pages, on the one connection that writes."""
    with store._begin() as conn:
        conn.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    with store._turn:
        if store._kept is not None:
            store._kept.cursor().execute(f"PRAGMA max_page_count={pages}")


def test_a_database_that_another_process_locks_makes_entries_wait(make, tmp_path, monkeypatch):
    monkeypatch.setattr("pywrapai_monitor.db.sqlite._BUSY_TIMEOUT_S", 0.01)
    store = SQLiteStore(tmp_path / "busy.db")
    recorder = make(store)
    other = sqlite3.connect(tmp_path / "busy.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    for number in range(5):
        recorder.write(entry("q", f"c{number}"))
    assert "locked" in str(recorder.flush().reason)
    other.execute("COMMIT")
    other.close()

    assert recorder.flush(timeout=10)
    assert calls_of(store) == [f"c{number}" for number in range(5)]
    store.close()


# Bounds


@pytest.mark.parametrize("way", ["down", "hanging"])
def test_memory_and_spool_are_bounded_and_what_does_not_fit_is_counted(make, folder, way, caplog):
    store = MoodyList()
    recorder = make(store, max_queued_bytes=10_000_000, max_spool_bytes=20_000_000)
    if way == "down":
        store.error = AWAY
    else:
        store.open.clear()
    tracemalloc.start()

    for number in range(LARGE_RECORDS):
        recorder.enqueue(entry(f"{number} " + "x" * 100_000, f"c{number}"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 30_000_000
    counts = recorder.counts()
    assert counts["lost"] > 0
    assert counts["queued"] + counts["spooled"] + counts["lost"] == LARGE_RECORDS
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 20_001_000
    assert caplog.text.count("were lost so far") == 1
    store.error = None
    store.open.set()
    report = recorder.flush(timeout=30)
    assert report.lost == counts["lost"]
    kept = [int(str(each.token.call_id)[1:]) for each in store.entries]
    assert kept == sorted(kept)
    assert len(kept) == LARGE_RECORDS - counts["lost"]


def test_without_a_spool_what_memory_does_not_hold_is_counted_as_lost(make, store):
    recorder = make(store, spool=False, max_queued_bytes=40_000)
    store.error = AWAY

    for number in range(100):
        recorder.enqueue(entry("q", f"c{number}"))

    counts = recorder.counts()
    assert 0 < counts["queued"] < 100
    assert counts["queued"] + counts["lost"] == 100


def test_a_spool_that_cannot_be_written_leaves_entries_in_memory(make, store, folder, caplog):
    folder.write_text("a file where the folder should be")
    recorder = make(store)
    store.error = AWAY

    for number in range(10):
        recorder.write(entry("q", f"c{number}"))
    assert recorder.counts() == {"queued": 10, "spooled": 0, "lost": 0, "written": 0}
    store.error = None

    assert recorder.flush(timeout=10)
    assert calls_of(store) == [f"c{number}" for number in range(10)]
    assert str(folder) in caplog.text


def test_a_spool_that_somebody_deletes_is_told_as_lost_and_does_no_more_harm(make, store, folder):
    recorder = make(store, first_wait_s=60, longest_wait_s=60)
    store.error = AWAY
    for number in range(10):
        recorder.write(entry("q", f"c{number}"))
    for path in folder.glob("*.jsonl"):
        path.unlink()

    recorder.write(entry("q", "after"))
    store.error = None
    report = recorder.flush(timeout=10)

    assert (report.lost, report.written) == (10, 1)
    assert calls_of(store) == ["after"]


# Reports and the end


def test_flush_is_honest_about_a_store_that_hangs(make, store):
    recorder = make(store)
    store.open.clear()
    recorder.enqueue(entry("q", "c1"))
    store.asked.acquire()

    report = recorder.flush(timeout=0.05)

    assert (bool(report), report.queued, report.written) == (False, 1, 0)


def test_flush_of_nothing_is_true_and_starts_no_thread(make, store):
    before = set(threading.enumerate())

    assert make(store).flush()
    assert set(threading.enumerate()) <= before


def test_close_leaves_in_the_spool_what_the_store_does_not_take(make, store, folder):
    recorder = make(store)
    store.open.clear()
    for number in range(5):
        recorder.enqueue(entry("q", f"c{number}"))
    store.asked.acquire()

    report = recorder.close(timeout=0.05)
    assert (report.spooled, report.queued, report.lost) == (5, 0, 0)
    assert [(w.entries, w.held) for w in look_at(folder)] == [(5, False)]
    store.open.set()

    assert make(store).flush(timeout=10)
    assert calls_of(store) == [f"c{number}" for number in range(5)]


def test_close_without_a_spool_says_what_is_lost(make, store):
    recorder = make(store, spool=False)
    store.error = AWAY
    recorder.enqueue(entry("q", "c1"))

    report = recorder.close(timeout=5)

    assert (report.lost, report.queued) == (1, 0)


def test_closing_twice_is_no_error_and_later_entries_are_written_at_once(make, store, folder):
    recorder = make(store)
    recorder.enqueue(entry("q", "c0"))
    recorder.close()
    recorder.close()

    recorder.enqueue(entry("q", "c1"))
    recorder.write(entry("q", "c2"))
    assert calls_of(store) == ["c0", "c1", "c2"]

    store.error = AWAY
    recorder.enqueue(entry("q", "c3"))
    recorder.write(entry("q", "c4"))
    assert recorder.counts()["spooled"] == 2
    store.error = None
    assert make(store).flush(timeout=10)
    assert calls_of(store) == ["c0", "c1", "c2", "c3", "c4"]


def test_where_no_thread_can_be_started_entries_are_written_all_the_same(make, store, monkeypatch):
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    recorder = make(store)

    recorder.enqueue(entry("q", "c0"))
    assert calls_of(store) == ["c0"]
    store.error = AWAY
    recorder.enqueue(entry("q", "c1"))
    store.error = None

    assert recorder.flush()
    assert calls_of(store) == ["c0", "c1"]


def test_two_recorders_on_one_folder_in_one_process_keep_out_of_each_others_way(make, store):
    one, other = make(store), make(store)
    store.error = AWAY
    for number in range(50):
        one.write(entry("q", f"one-{number}", session="one"))
        other.write(entry("q", f"other-{number}", session="other"))
    store.error = None

    assert one.flush(timeout=10)
    assert other.flush(timeout=10)
    assert calls_of(store, "one") == [f"one-{number}" for number in range(50)]
    assert calls_of(store, "other") == [f"other-{number}" for number in range(50)]


def test_an_idle_recorder_uses_no_processor(make, store):
    recorder = make(store)
    recorder.enqueue(entry("q", "c0"))
    recorder.flush()

    before = time.process_time()
    time.sleep(1.0)

    assert time.process_time() - before < 0.01


def test_the_thread_ends_when_it_was_idle_for_long_and_comes_back_when_needed(store, monkeypatch):
    monkeypatch.setattr("pywrapai_monitor.delivery._IDLE_S", 0.01)
    recorder = Recorder(store)
    before = set(threading.enumerate())
    for call_id in ("c0", "c1"):
        recorder.enqueue(entry("q", call_id))
        assert recorder.flush(timeout=10)
        assert wait_until(lambda: set(threading.enumerate()) <= before)
    assert calls_of(store) == ["c0", "c1"]

    forgotten = weakref.ref(recorder)
    del recorder
    gc.collect()

    assert forgotten() is None


def test_a_recorder_that_nobody_holds_any_more_still_writes_what_it_has(store):
    store.open.clear()
    Recorder(store).enqueue(entry("q", "c0"))
    gc.collect()
    store.open.set()

    assert wait_until(lambda: calls_of(store) == ["c0"])


def test_a_store_error_that_is_not_retryable_is_a_refusal(make, store):
    recorder = make(store)
    store.error = StoreError("no such table")

    recorder.write(entry("q", "c0"))

    assert recorder.counts()["lost"] == 1
