"""What the tests of the SQLite vector store run in interpreters of their own, to fork and kill."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores import sqlite_file
from pywrapai_graph.rag.stores.sqlite import SQLiteVectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import X, Y, chunk, chunks, ids

NOBODY = 65534
BATCH = 20


# Chunks of which everything follows from the id and the round


def vector_of(text: str) -> list[float]:
    random_ = random.Random(text)
    return [random_.gauss(0, 1) for _ in range(8)]


def of_round(id: str, round: int) -> Chunk:
    text = f"{id} of {round}"
    return chunk(id, vector_of(text), text, metadata={"round": round})


def check(found: Chunk) -> None:
    """Text, metadata and vector are of one round."""
    assert found.text == f"{found.id} of {found.metadata['round']}"
    if found.embedding is not None:
        expected = np.array(vector_of(found.text))
        np.testing.assert_allclose(found.embedding, expected / np.linalg.norm(expected), atol=1e-6)


# Children


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


def run_and_leave(work: Callable[[int], None], i: int = 0) -> None:
    status = 1
    try:
        work(i)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


# Many at once


def open_at_once(path: str) -> None:
    in_children(16, lambda i: SQLiteVectorStore(path).add([of_round(f"{i}", 0)]))


def write_and_search_at_once(path: str) -> None:
    """Every chunk that is added stays; one chunk is replaced by all, all the time."""

    def work(worker: int) -> None:
        with SQLiteVectorStore(path) as store:
            for round in range(40):
                own = [of_round(f"{worker}-{round}-{i}", round) for i in range(5)]
                store.add([*own, of_round("shared", worker * 1000 + round)])
                for one in store.search(vector_of(own[0].text), k=20):
                    check(one.chunk)
                assert store.search(vector_of(own[0].text), k=1)[0].chunk == own[0]
                store.delete([own[4].id])
                assert ids(store.get([own[0].id, own[4].id])) == [own[0].id]

    in_children(3, work)


def replace_until_told(path: str, stop: int) -> None:
    """Replace the one chunk "hot", which every search is to find, until the pipe closes."""
    with SQLiteVectorStore(path) as store:
        os.set_blocking(stop, False)
        round = 0
        while True:
            store.add([chunk("hot", X, f"hot of {round}", metadata={"round": round})])
            round += 1
            try:
                if os.read(stop, 1) == b"":
                    return
            except BlockingIOError:
                pass


def search_while_another_process_replaces(path: str) -> None:
    with SQLiteVectorStore(path) as store:
        store.add([*chunks("cold", 3000, Y), chunk("hot", X)])
    stop_read, stop_write = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(stop_write)
        run_and_leave(lambda _: replace_until_told(path, stop_read))
    with SQLiteVectorStore(path) as store:
        for _ in range(300):
            assert ids(store.search(X, k=3)) == ["hot", "cold0", "cold1"]
    os.close(stop_write)
    assert os.waitpid(pid, 0)[1] == 0


# Kills


def kill_writers(path: str) -> None:
    """Kill processes in the middle of their work, and see what is there after each."""
    kills = int(os.environ.get("PYWRAPAI_TEST_KILLS", "6"))
    random_ = random.Random(7)
    SQLiteVectorStore(path).close()
    kept = cut_short = 0
    for run in range(kills):
        completed = completed_before_the_kill(path, run, random_)
        stored = check_after_the_kill(path, run, completed)
        kept += stored * BATCH + 1
        cut_short += stored > completed
        with SQLiteVectorStore(path) as store:
            assert len(store) == kept
    print(f"{kills} kills, {kept} chunks; in {cut_short} a batch was whole before it was told")


def completed_before_the_kill(path: str, run: int, random_: random.Random) -> int:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(read)
        run_and_leave(partial(write_for_ever, path, write), run)
    os.close(write)
    completed = 0
    for _ in range(random_.randint(1, 30)):
        assert os.read(read, 1) == b"."
        completed += 1
    time.sleep(random_.random() * 0.004)  # into the middle of a batch
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    with os.fdopen(read, "rb") as rest:
        return completed + len(rest.read())


def write_for_ever(path: str, progress: int, run: int) -> None:
    store, batch = SQLiteVectorStore(path), 0
    while True:
        store.add([*batch_of(run, batch), of_round(f"last of {run}", batch)])
        os.write(progress, b".")
        batch += 1


def batch_of(run: int, batch: int) -> list[Chunk]:
    return [of_round(f"{run}-{batch}-{i}", batch) for i in range(BATCH)]


def check_after_the_kill(path: str, run: int, completed: int) -> int:
    """How many batches there are: those that were told, and at most one more, all of them whole."""
    with SQLiteVectorStore(path) as store:
        [last] = store.get([f"last of {run}"])
        stored = int(last.metadata["round"]) + 1
        assert completed <= stored <= completed + 1
        expected = [one for batch in range(stored) for one in batch_of(run, batch)]
        found = store.get(ids(expected))
        assert found == expected
        for one in found:
            check(one)
        assert store.get(ids(batch_of(run, stored))) == []
        for one in (expected[0], expected[-1]):
            [hit] = store.search(vector_of(one.text), k=1)
            assert (hit.chunk, round(hit.score, 5)) == (one, 1)
    assert_sound(path)
    return stored


# Forks


def fork_while_writing(path: str) -> None:
    """A child works on with the store of its parent, whose threads are at work at the fork."""
    store = SQLiteVectorStore(path)
    stop = threading.Event()
    rounds = threading.Semaphore(0)

    def write() -> None:
        for round in takewhile(lambda _: not stop.is_set(), count()):
            store.add([of_round(f"parent-{round}", round)])
            rounds.release()

    def search() -> None:
        while not stop.is_set():
            list(map(check, (one.chunk for one in store.search(vector_of("x"), k=50))))

    threads = [threading.Thread(target=work) for work in (write, search, search)]
    for thread in threads:
        thread.start()
    children = []
    for child in range(5):
        rounds.acquire()
        if (pid := os.fork()) == 0:
            run_and_leave(partial(write_in_the_child, store), child)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 5
    written = [f"child{child}-{round}" for child in range(5) for round in range(20)]
    assert ids(store.get(written)) == written


def write_in_the_child(store: SQLiteVectorStore, child: int) -> None:
    before = len(store)
    assert before
    for round in range(20):
        store.add([of_round(f"child{child}-{round}", round)])
        assert store.search(vector_of(f"child{child}-{round} of {round}"), k=1)[0].score > 0.99
    assert len(store) >= before + 20


def fork_and_close(path: str) -> None:
    """The parent closes its store, and the child loses nothing."""
    store = SQLiteVectorStore(path)
    store.add([of_round("parent", 0)])
    store.search(vector_of("x"))
    read, write = os.pipe()

    def work(_: int) -> None:
        store.add([of_round("child-0", 0)])
        os.write(write, b".")
        for round in range(1, 20):
            store.add([of_round(f"child-{round}", round)])
        assert len(store.search(vector_of("x"), k=99)) == 21

    if (pid := os.fork()) == 0:
        run_and_leave(work)
    os.read(read, 1)
    store.close()
    assert os.waitpid(pid, 0)[1] == 0


def fork_in_memory() -> None:
    """A child has a copy of what is in memory."""
    store = SQLiteVectorStore(":memory:")
    store.add([of_round("parent", 0)])

    def work(_: int) -> None:
        store.add([of_round("child", 1)])
        assert {one.chunk.id for one in store.search(vector_of("x"))} == {"parent", "child"}

    in_children(2, work)
    assert ids(store.search(vector_of("x"))) == ["parent"]


def fork_while_a_thread_is_in_the_store(path: str) -> None:
    """A thread that does not come to an end, and is not in the child, leaves no lock behind."""
    sqlite_file._FORK_WAIT_S = 0.05
    store, in_memory = SQLiteVectorStore(path), SQLiteVectorStore(":memory:")
    for one in (store, in_memory):
        one.add([of_round("parent", 0)])
        one.search(vector_of("x"))

    def work(_: int) -> None:
        store.add([of_round("child", 0)])
        assert {one.chunk.id for one in store.search(vector_of("x"))} == {"parent", "child"}
        with pytest.raises(VectorStoreError, match="in use when the process was forked"):
            in_memory.search(vector_of("x"))

    with store._file.refreshing, in_memory._file.refreshing:
        in_children(1, work)
    assert len(store.search(vector_of("x"))) == 2
    assert len(in_memory.search(vector_of("x"))) == 1


# A user who may read only


def search_where_nothing_may_be_written() -> None:
    """The file is read by somebody who may write neither it nor its directory."""
    with readable_directory() as directory:
        path = directory / "knowledge.db"
        with SQLiteVectorStore(path) as store:
            store.add([chunk("a", X), chunk("b", Y)])
        path.chmod(0o444)
        directory.chmod(0o555)
        if (pid := os.fork()) == 0:
            run_and_leave(lambda _: search_only(path))
        assert os.waitpid(pid, 0)[1] == 0
        assert os.listdir(directory) == ["knowledge.db"]


def search_only(path: Path) -> None:
    become_nobody()
    with SQLiteVectorStore(path) as store:
        assert ids(store.search(X)) == ["a", "b"]
        assert ids(store.get(["b"])) == ["b"]
        for write in (lambda: store.add([chunk("c")]), lambda: store.delete(["a"]), store.clear):
            with pytest.raises(VectorStoreError, match="writable for this user"):
                write()
        assert ids(store.search(X)) == ["a", "b"]
        with pytest.raises(VectorStoreError, match="was read: try"), store._file.reading():
            store._file._seal = (0, 0, 0)  # as if the file had changed just now
        assert ids(store.search(X)) == ["a", "b"]
    with pytest.raises(VectorStoreError, match="writable for this user"):
        SQLiteVectorStore(path, "another table")


def search_while_the_owner_writes() -> None:
    """Who may only read finds what the owner adds, though neither waits for the other."""
    with readable_directory() as directory:
        path = directory / "knowledge.db"
        with SQLiteVectorStore(path) as store:
            store.add([chunk("0", X)])
        turn_read, turn_write = os.pipe()
        done_read, done_write = os.pipe()
        if (pid := os.fork()) == 0:
            run_and_leave(lambda _: search_in_turn(path, turn_read, done_write))
        os.close(done_write)  # the child's end: when it has died, nobody is waited for
        os.read(done_read, 1)
        for number in range(1, 6):  # the owner closes the file, or not, after each chunk
            store = SQLiteVectorStore(path)
            store.add([chunk(str(number), X)])
            if number % 2:
                store.close()
            os.write(turn_write, b".")
            os.read(done_read, 1)
            store.close()
        assert os.waitpid(pid, 0)[1] == 0


def search_in_turn(path: Path, turn: int, done: int) -> None:
    become_nobody()
    with SQLiteVectorStore(path) as store:
        for number in range(6):
            assert len(store.search(X, k=9)) == number + 1
            os.write(done, b".")
            os.read(turn, 1) if number < 5 else None


def become_nobody() -> None:
    import urllib.parse  # noqa: F401  # who is nobody may not be able to read the library

    if os.geteuid() == 0:  # who may write everywhere
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@contextmanager
def readable_directory() -> Iterator[Path]:
    """One that others may read, but not write in."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


def assert_sound(path: str) -> None:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        connection.close()
