from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.stores.sqlite import SQLiteVectorStore
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, chunks, ids
from tests.graph import sqlite_vector_processes

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteVectorStore]:
    with SQLiteVectorStore(path) as store:
        yield store


@pytest.fixture
def other(store: SQLiteVectorStore, path: Path) -> Iterator[SQLiteVectorStore]:
    """A second store on the same file, as another process would have it."""
    with SQLiteVectorStore(path) as other:
        yield other


@pytest.fixture
def raw(store: SQLiteVectorStore, path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's connection to the same file, which does not wait."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    yield connection
    connection.close()


# What others write


def test_a_search_finds_what_another_store_wrote(
    store: SQLiteVectorStore, other: SQLiteVectorStore
) -> None:
    store.add([chunk("a"), chunk("b", metadata={"page": 1})])
    assert ids(store.search(X, filter={"page": 1})) == ["b"]

    other.add([chunk("c", metadata={"page": 1}), chunk("a", text="new", metadata={"page": 1})])
    assert ids(store.search(X)) == ["b", "c", "a"]
    assert ids(store.search(X, filter={"page": 1})) == ["b", "c", "a"]
    assert store.search(X)[2].chunk.text == "new"

    other.delete(["b"])
    assert ids(store.search(X, filter={"page": 1})) == ids(store.search(X)) == ["c", "a"]

    other.delete(["c"])  # one went and one came: there are as many as before
    other.add([chunk("d")])
    assert ids(store.search(X)) == ["a", "d"]

    other.delete(["a"])
    other.add([chunk("a")])
    assert ids(store.search(X)) == ["d", "a"]
    assert len(store) == 2


def test_another_store_may_clear_and_begin_with_another_dimension(
    store: SQLiteVectorStore, other: SQLiteVectorStore
) -> None:
    store.add([chunk("a")])
    assert ids(store.search(X)) == ["a"]

    other.clear()
    assert store.search(X) == []
    assert store.dimension is None

    other.add([chunk("b", [1.0, 0.0])])
    assert ids(store.search([1.0, 1.0])) == ["b"]
    with pytest.raises(DimensionMismatchError, match=r"(?s)\b3\b.*\b2\b"):
        store.add([chunk("c")])


def test_two_stores_that_begin_with_different_dimensions_do_not_mix_them(
    store: SQLiteVectorStore, other: SQLiteVectorStore
) -> None:
    start = threading.Barrier(2)

    def begin(one: SQLiteVectorStore, vector: list[float]) -> str:
        start.wait()
        try:
            one.add(chunks("a", 50, vector))
        except DimensionMismatchError:
            return "refused"
        return "stored"

    with ThreadPoolExecutor(2) as pool:
        told = set(pool.map(begin, (store, other), ([1.0, 0.0], X)))

    assert told == {"refused", "stored"}
    assert len(store) == len(other) == 50
    assert store.dimension == other.dimension


def test_a_file_that_was_put_back_to_an_earlier_state_is_searched_as_it_is(
    store: SQLiteVectorStore, raw: sqlite3.Connection, tmp_path: Path
) -> None:
    store.add([chunk("a"), chunk("b", Y)])
    copy = sqlite3.connect(tmp_path / "copy.db")
    raw.backup(copy)
    store.delete(["a"])
    store.add([chunk("c")])
    assert ids(store.search(X)) == ["c", "b"]

    copy.backup(raw)
    copy.close()

    assert ids(store.search(X)) == ["a", "b"]
    store.add([chunk("d")])
    assert ids(store.search(X)) == ["a", "d", "b"]


def test_a_search_reads_only_what_changed(
    store: SQLiteVectorStore, other: SQLiteVectorStore
) -> None:
    store.add(chunks("a", 50))
    store.search(X)
    statements: list[str] = []
    with store._file.reading() as connection:
        connection.set_trace_callback(statements.append)

    def read(vectors_after: str) -> bool:
        found = any(
            f'embedding FROM "vector_chunks" WHERE {vectors_after}' in s for s in statements
        )
        statements.clear()
        return found

    store.search(Y)
    assert not read("seq >")
    other.add([chunk("b")])
    store.search(X)
    assert read("seq > 50 ")
    store.add([chunk("c")])
    store.search(X)
    assert read("seq > 51 ")
    other.delete(["b"])
    store.search(X)
    assert read("seq > 52 ")
    store.search(X)
    assert not read("seq >")


def test_a_chunk_that_is_replaced_whenever_it_was_found_is_found_nonetheless(
    store: SQLiteVectorStore, path: Path
) -> None:
    class Unlucky(SQLiteVectorStore):
        replaced = 0

        def _rows(self, last: str, key: str, values: Any) -> Any:
            if self.replaced < 3:
                self.replaced += 1
                store.add([chunk("hot", X, f"text {self.replaced}")])
            return super()._rows(last, key, values)

    store.add([chunk("hot", X, "text 0"), *chunks("cold", 9, Y)])
    with Unlucky(path) as unlucky:
        found = unlucky.search(X, k=2)

    assert [(one.chunk.id, one.chunk.text) for one in found] == [
        ("hot", "text 3"),
        ("cold0", "text of cold0"),
    ]


@pytest.mark.parametrize("place", ["file", "memory"])
def test_a_chunk_that_is_replaced_all_the_time_is_in_every_search(path: Path, place: str) -> None:
    done = threading.Event()
    with SQLiteVectorStore(path if place == "file" else ":memory:") as store:
        store.add([*chunks("cold", 1_000, Y), chunk("hot", X, metadata={"hot": True})])

        def replace() -> None:
            while not done.is_set():
                store.add([chunk("hot", X, metadata={"hot": True})])

        with ThreadPoolExecutor(2) as pool:
            replacing = [pool.submit(replace) for _ in range(2)]
            try:
                for _ in range(100):
                    assert ids(store.search(X, k=2)) == ["hot", "cold0"]
                    assert ids(store.search(Z, filter={"hot": True})) == ["hot"]
            finally:
                done.set()
            for one in replacing:
                one.result()


# Threads and processes


def test_readers_and_a_writer_do_not_wait_for_each_other(
    store: SQLiteVectorStore, raw: sqlite3.Connection
) -> None:
    store.add([chunk("a")])
    raw.execute("BEGIN")
    assert raw.execute("SELECT count(*) FROM vector_chunks").fetchone() == (1,)

    store.add([chunk("b")])  # while somebody reads
    assert raw.execute("SELECT count(*) FROM vector_chunks").fetchone() == (1,)
    raw.execute("COMMIT")

    raw.execute("BEGIN IMMEDIATE")  # while somebody writes
    assert ids(store.search(X)) == ["a", "b"]


def test_a_writer_waits_for_the_lock(store: SQLiteVectorStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["COMMIT"])
    release.start()

    store.add([chunk("a")])

    release.join()
    other.close()
    assert ids(store.search(X)) == ["a"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc")
def test_threads_that_come_and_go_leave_no_connection_open(
    store: SQLiteVectorStore, path: Path
) -> None:
    def use(number: int) -> None:
        store.add([chunk(str(number))])
        store.search(X)

    def opened() -> int:
        links = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return sum(link.startswith(str(path)) for link in links)

    use(0)
    before = opened()
    for number in range(1, 20):
        thread = threading.Thread(target=use, args=[number])
        thread.start()
        thread.join()

    assert len(store) == 20
    assert opened() == before
    store.close()
    assert opened() == 0


def test_closing_while_others_search_ends_them_with_a_clear_error(store: SQLiteVectorStore) -> None:
    store.add(chunks("a", 100))
    searching = threading.Barrier(5)

    def search() -> None:
        searching.wait()
        while True:
            assert len(store.search(X)) == 4

    with ThreadPoolExecutor(4) as pool:
        ended = [pool.submit(search) for _ in range(4)]
        searching.wait()
        store.close()

    for one in ended:
        assert isinstance(one.exception(), VectorStoreError)
        assert "is closed" in str(one.exception())


@needs_fork
@pytest.mark.parametrize(
    "function",
    [
        sqlite_vector_processes.write_and_search_at_once,
        sqlite_vector_processes.search_while_another_process_replaces,
        sqlite_vector_processes.fork_while_writing,
        sqlite_vector_processes.fork_and_close,
        sqlite_vector_processes.fork_while_a_thread_is_in_the_store,
        sqlite_vector_processes.kill_writers,
    ],
    ids=lambda function: function.__name__,
)
def test_processes_share_a_file(path: Path, function: Callable[..., None]) -> None:
    run_as_script(function, path)

    sqlite_vector_processes.assert_sound(str(path))


@needs_fork
def test_sixteen_processes_may_open_a_fresh_file_at_once(path: Path) -> None:
    run_as_script(sqlite_vector_processes.open_at_once, path)

    with SQLiteVectorStore(path) as store:
        assert len(store) == 16


@needs_fork
def test_a_forked_child_has_a_copy_of_what_is_in_memory() -> None:
    run_as_script(sqlite_vector_processes.fork_in_memory)


@needs_fork
def test_a_file_can_be_searched_where_nothing_may_be_written() -> None:
    run_as_script(sqlite_vector_processes.search_where_nothing_may_be_written)


@needs_fork
def test_who_may_only_read_finds_what_the_owner_adds() -> None:
    run_as_script(sqlite_vector_processes.search_while_the_owner_writes)


def run_as_script(function: Callable[..., None], *arguments: Path) -> str:
    """Run a function of sqlite_vector_processes in an interpreter of its own."""
    name = function.__name__
    code = f"import sys; from {function.__module__} import {name}; {name}(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return done.stdout
