"""What the tests of PostgreSQL and MySQL run in interpreters of their own, to fork."""

from __future__ import annotations

import os
import threading

from pywrapai_monitor.db.urls import store_from_url
from tests.contracts.store_rows import call, save_turn, texts
from tests.monitor.sqlite_processes import in_children, run_and_leave


def open_at_once(url: str) -> None:
    in_children(8, lambda i: store_from_url(url).save_token_record(call(session=f"s{i}")))


def write_at_once(url: str, turns: str) -> None:
    def work(worker: int) -> None:
        store = store_from_url(url)
        for i in range(int(turns)):
            save_turn(store, f"q{i}", f"u{worker % 4}", f"s{worker}", cost_usd=0.0001)

    in_children(8, work)


def fork_while_writing(url: str) -> None:
    store = store_from_url(url)
    stop = threading.Event()
    written = threading.Semaphore(0)

    def write() -> None:
        while not stop.is_set():
            save_turn(store, "q", session="parent")
            written.release()

    def work(child: int) -> None:
        for i in range(10):
            save_turn(store, f"q{i}", session=f"child{child}")
        assert len(texts(store, session=f"child{child}", max_turns=None)) == 20

    writer = threading.Thread(target=write)
    writer.start()
    children = []
    for child in range(3):
        written.acquire()
        if (pid := os.fork()) == 0:
            run_and_leave(work, child)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    stop.set()
    writer.join()
    save_turn(store, "the last", session="parent")  # the children took nothing along
    assert statuses == [0] * 3
