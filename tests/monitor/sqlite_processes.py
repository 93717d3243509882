"""What the SQLite tests run in interpreters of their own, to fork, kill and change the user."""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from pywrapai_monitor.db import SQLiteStore, StoreError
from tests.contracts.store_rows import call, entry, message, save_turn, texts

NOBODY = 65534


def in_children(number: int, work: Callable[[int], None]) -> None:
    """Fork, let all begin at once, and see that every one succeeds."""
    start_read, start_write = os.pipe()
    children = []
    for i in range(number):
        if (pid := os.fork()) == 0:
            os.close(start_write)
            os.read(start_read, 1)
            run_and_leave(work, i)
        children.append(pid)
    os.close(start_write)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * number


def run_and_leave(work: Callable[[int], None], i: int) -> None:
    status = 1
    try:
        work(i)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def open_at_once(path: str) -> None:
    in_children(16, lambda i: SQLiteStore(path).save_token_record(call(session=f"s{i}")))


def write_at_once(path: str) -> None:
    def work(worker: int) -> None:
        store = SQLiteStore(path)
        for i in range(100):
            save_turn(store, f"q{i}", session=f"s{worker}")

    in_children(4, work)


def kill_writers(path: str) -> None:
    random = Random(7)
    SQLiteStore(path).close()
    for kill in range(20):
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            run_and_leave(partial(write_for_ever, path, write), kill)
        os.read(read, 1)
        for _ in range(random.randint(0, 30)):
            os.read(read, 1)
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        os.close(read)
        os.close(write)
        assert_sound(Path(path))


def write_for_ever(path: str, progress: int, kill: int) -> None:
    store, session = SQLiteStore(path), f"s{kill}"
    while True:
        with store.transaction():
            save_turn(store, "q" * 5000, session=session)
            store.save_message(message("tool_call", "[]", session=session))
        os.write(progress, b".")


def fork_while_writing(path: str) -> None:
    store = SQLiteStore(path)
    stop = threading.Event()
    written = threading.Semaphore(0)

    def write() -> None:
        while not stop.is_set():
            save_turn(store, "q", session="parent")
            written.release()

    def work(child: int) -> None:
        for i in range(20):
            save_turn(store, f"q{i}", session=f"child{child}")
        assert len(texts(store, session=f"child{child}", max_turns=None)) == 40

    writer = threading.Thread(target=write)
    writer.start()
    children = []
    for child in range(5):
        written.acquire()
        if (pid := os.fork()) == 0:
            run_and_leave(work, child)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    stop.set()
    writer.join()
    assert statuses == [0] * 5


def fork_and_close(path: str) -> None:
    store = SQLiteStore(path)
    save_turn(store, "q", session="parent")
    read, write = os.pipe()

    def work(_: int) -> None:
        save_turn(store, "q0", session="child")
        os.write(write, b".")
        for i in range(1, 20):
            save_turn(store, f"q{i}", session="child")

    if (pid := os.fork()) == 0:
        run_and_leave(work, 0)
    os.read(read, 1)
    store.close()  # the child still has the file open, and its log must not go
    assert os.waitpid(pid, 0)[1] == 0


def open_read_only() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "library.db"
        SQLiteStore(path).close()
        path.chmod(0o444)
        Path(directory).chmod(0o555)
        if (pid := os.fork()) == 0:
            run_and_leave(lambda _: print_refusal(path), 0)
        assert os.waitpid(pid, 0)[1] == 0
        Path(directory).chmod(0o755)


def make_writable_again() -> None:
    """Prints whether the error told to try again, and how many calls there are in the end."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "library.db"
        SQLiteStore(path).close()
        if os.geteuid() == 0:
            for made in (Path(directory), path):
                os.chown(made, NOBODY, -1)
        if (pid := os.fork()) == 0:
            run_and_leave(lambda _: write_later(path), 0)
        assert os.waitpid(pid, 0)[1] == 0


def write_later(path: Path) -> None:
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    store = SQLiteStore(path)
    store.close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    with pytest.raises(StoreError) as caught:
        store.write([entry("q", "c1")])
    path.parent.chmod(0o755)
    path.chmod(0o644)
    store.write([entry("q", "c1")])
    print(caught.value.retryable, store.get_overview()["calls"], flush=True)


def print_refusal(path: Path) -> None:
    if os.geteuid() == 0:
        os.setuid(NOBODY)  # root may write everywhere
    with pytest.raises(StoreError) as caught:
        SQLiteStore(path)
    print(caught.value, flush=True)


def assert_sound(path: Path) -> None:
    """The file is whole, every turn is whole, and the totals are those of the rows."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        rows = dict(
            connection.execute("SELECT role, count(*) FROM conversations GROUP BY role").fetchall()
        )
        records = connection.execute("SELECT count(*) FROM token_records").fetchone()[0]
        assert rows["user"] == rows["assistant"] == records
        totals = connection.execute(
            "SELECT sum(turns), sum(calls), sum(row_count) FROM session_totals"
        ).fetchone()
        assert totals == (records, records, sum(rows.values()) + records)
        usage = "SELECT sum(calls) FROM usage_totals WHERE bucket {}"
        for which in ("< 0", "BETWEEN 0 AND 999999999"):
            assert connection.execute(usage.format(which)).fetchone()[0] == records
    finally:
        connection.close()
