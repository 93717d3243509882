"""The vectors in SQLite: the contract, in a file and in memory, and what is SQLite's own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.stores.sqlite import SQLiteVectorStore
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, chunks, ids
from tests.contracts.vector_store_machine import agree_with_a_dict
from tests.graph import sqlite_vector_processes

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class TestSQLite(VectorStoreContract):
    @pytest.fixture
    def store(self, path: Path) -> Iterator[SQLiteVectorStore]:
        with SQLiteVectorStore(path) as store:
            yield store

    @pytest.fixture
    def reopen(self, store: SQLiteVectorStore, path: Path) -> Iterator[Callable[[], VectorStore]]:
        opened = [store]

        def again() -> VectorStore:
            opened[-1].close()
            opened.append(SQLiteVectorStore(path))
            return opened[-1]

        yield again
        opened[-1].close()


class TestSQLiteInMemory(VectorStoreContract):
    persistent = False

    @pytest.fixture
    def store(self) -> Iterator[SQLiteVectorStore]:
        with SQLiteVectorStore(":memory:") as store:
            yield store


def test_a_file_agrees_with_a_plain_dict(tmp_path_factory: pytest.TempPathFactory) -> None:
    agree_with_a_dict(
        lambda: partial(SQLiteVectorStore, tmp_path_factory.mktemp("history") / "a.db")
    )


def test_memory_agrees_with_a_plain_dict() -> None:
    agree_with_a_dict(lambda: partial(SQLiteVectorStore, ":memory:"), persistent=False)


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


# Where the chunks are


@pytest.mark.parametrize("name", ["plain.db", "a b?c%d#e.db", "ünï.db"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_may_be_a_str_or_a_path(tmp_path: Path, name: str, kind: type) -> None:
    SQLiteVectorStore(kind(tmp_path / name)).close()

    assert os.listdir(tmp_path) == [name]


def test_a_relative_path_stays_where_it_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SQLiteVectorStore("knowledge.db") as store:
        monkeypatch.chdir("/")
        store.add([chunk("a")])

    with SQLiteVectorStore(tmp_path / "knowledge.db") as again:
        assert ids(again.search(X)) == ["a"]


def test_memory_is_no_file_and_is_shared_by_the_threads_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SQLiteVectorStore(":memory:") as store, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: store.add([chunk(str(i))]), range(50)))
        assert set(pool.map(lambda _: len(store.search(X, k=99)), range(50))) == {50}
        with SQLiteVectorStore(":memory:") as another:
            assert len(another) == 0

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("wrong", ["", "a\x00b"])
def test_what_is_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="db_path"):
        SQLiteVectorStore(wrong)


@pytest.mark.parametrize("wrong", [b"a.db", None, 5])
def test_what_is_no_text_is_no_path(wrong: Any) -> None:
    with pytest.raises(TypeError):
        SQLiteVectorStore(wrong)


@pytest.mark.parametrize(
    "name",
    ["chunks", "x'; DROP TABLE vector_chunks; --", 'a"b', "a b.c", "select", "[x]", "鍵 🔑", "?1"],
)
def test_a_table_may_have_any_name(path: Path, name: str) -> None:
    with SQLiteVectorStore(path) as default, SQLiteVectorStore(path, name) as store:
        default.add([chunk("default", [1.0, 0.0])])
        store.add([chunk("a"), chunk("b", Y, metadata={"page": 1})])
        assert ids(store.search(X, filter={"page": 1})) == ["b"]
        store.delete(["b"])

    with SQLiteVectorStore(path, table_name=name) as again:
        assert ids(again.search(X)) == ["a"]
        again.clear()
        assert len(again) == 0
    with SQLiteVectorStore(path) as default:
        assert ids(default.search([1.0, 0.0])) == ["default"]


@pytest.mark.parametrize("wrong", ["", "a\x00b", "\ud800", "PyWrapAI_vector_tables"])
def test_a_name_that_no_table_can_have_is_refused(path: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match="table_name is"):
        SQLiteVectorStore(path, wrong)

    assert not path.exists()


def test_what_is_no_text_is_no_name(path: Path) -> None:
    with pytest.raises(TypeError, match="table_name is of type str, not int"):
        SQLiteVectorStore(path, 5)  # type: ignore[arg-type]


def test_names_that_sqlite_takes_for_one_are_one_store(path: Path) -> None:
    with SQLiteVectorStore(path, "Docs") as store, SQLiteVectorStore(path, "docs") as same:
        store.add([chunk("a")])

        assert same.dimension == 3
        assert ids(same.search(X)) == ["a"]


# Databases that cannot be used


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(VectorStoreError, match=r"no directory .*/missing: create it"):
        SQLiteVectorStore(tmp_path / "missing" / "knowledge.db")


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(VectorStoreError, match="a directory: give the path of a file"):
        SQLiteVectorStore(tmp_path)


def test_a_file_that_is_no_database_is_left_as_it_is(path: Path) -> None:
    path.write_text("Dear diary, " * 100)

    with pytest.raises(VectorStoreError, match=r"knowledge\.db: .*no SQLite database") as caught:
        SQLiteVectorStore(path)

    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert path.read_text() == "Dear diary, " * 100


@pytest.mark.parametrize("columns", ["id TEXT, text TEXT", "seq, id, doc_id, text, embedding"])
def test_a_table_of_somebody_else_is_not_taken_for_ours(path: Path, columns: str) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute(f"CREATE TABLE vector_chunks ({columns})")
    raw.close()

    with pytest.raises(VectorStoreError, match=r"'vector_chunks' was not made by .* table_name"):
        SQLiteVectorStore(path)
    with SQLiteVectorStore(path, "mine") as store:
        store.add([chunk("a")])
        assert ids(store.search(X)) == ["a"]


def test_a_newer_format_is_refused_and_left_alone(
    store: SQLiteVectorStore, raw: sqlite3.Connection, path: Path
) -> None:
    store.add([chunk("a")])
    raw.execute("UPDATE pywrapai_vector_tables SET format = 2")
    raw.execute("ALTER TABLE vector_chunks ADD COLUMN later")

    with pytest.raises(VectorStoreError, match=r"format 2, .* knows 1: upgrade pywrapai"):
        SQLiteVectorStore(path)

    assert raw.execute("SELECT count(*) FROM vector_chunks").fetchone() == (1,)


def test_a_table_that_was_dropped_is_an_error_and_is_made_again_when_opened(
    store: SQLiteVectorStore, raw: sqlite3.Connection, path: Path
) -> None:
    store.add([chunk("a")])
    raw.execute("DROP TABLE vector_chunks")

    for use in (lambda: store.search(X), lambda: store.add([chunk("b")]), lambda: len(store)):
        with pytest.raises(VectorStoreError, match="no such table"):
            use()
    with SQLiteVectorStore(path) as again:
        again.add([chunk("b", [1.0, 0.0])])
        assert ids(again.search([1.0, 0.0])) == ["b"]


def test_a_table_that_was_forgotten_is_an_error(
    store: SQLiteVectorStore, raw: sqlite3.Connection, path: Path
) -> None:
    raw.execute("DELETE FROM pywrapai_vector_tables")

    with pytest.raises(VectorStoreError, match="not in pywrapai_vector_tables any more"):
        store.add([chunk("a")])
    with pytest.raises(VectorStoreError, match="was not made by this store"):
        SQLiteVectorStore(path)


def test_vectors_that_were_damaged_are_an_error(
    store: SQLiteVectorStore, raw: sqlite3.Connection
) -> None:
    store.add([chunk("a"), chunk("b")])
    raw.execute("UPDATE vector_chunks SET embedding = x'00' WHERE id = 'b'")

    for _ in range(2):
        with pytest.raises(VectorStoreError, match="not of 3 numbers"):
            store.search(X)
    raw.execute("DELETE FROM vector_chunks WHERE id = 'b'")
    assert ids(store.search(X)) == ["a"]


# Writing


def test_what_sqlite_cannot_keep_is_an_error_and_nothing_of_its_batch_is_stored(
    store: SQLiteVectorStore,
) -> None:
    with pytest.raises(VectorStoreError, match="too large"):
        store.add([chunk("a"), chunk("b", start=2**63)])

    assert len(store) == 0
    assert store.dimension is None
    store.add([chunk("a")])
    assert ids(store.search(X)) == ["a"]


def test_a_full_disk_is_an_error_and_the_store_is_as_before(
    store: SQLiteVectorStore, path: Path
) -> None:
    store.add([chunk("a", text="old"), chunk("b", Y)])
    before = store.search(X), store.get(["a", "b"])
    limit_pages(store, 20)

    with pytest.raises(VectorStoreError, match="disk is full") as caught:
        store.add([chunk("a", Z, "new"), *chunks("c", 5_000)])

    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert (store.search(X), store.get(["a", "b"]), len(store)) == (*before, 2)
    with SQLiteVectorStore(path) as again:
        assert (again.search(X), again.get(["a", "b"]), len(again)) == (*before, 2)
    limit_pages(store, 10_000)
    store.add(chunks("c", 5_000))
    assert len(store) == 5_002


def limit_pages(store: SQLiteVectorStore, pages: int) -> None:
    """To SQLite it is as if the disk had no more room."""
    with store._file.writing() as connection:
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()


def test_an_interrupted_add_stores_nothing(store: SQLiteVectorStore, path: Path) -> None:
    class Interrupting(str):
        def isascii(self) -> bool:
            raise KeyboardInterrupt

    store.add([chunk("a")])

    with pytest.raises(KeyboardInterrupt):
        store.add([*chunks("b", 100), chunk("c", text=Interrupting("x"))])

    assert ids(store.search(X)) == ["a"]
    with SQLiteVectorStore(path) as another:  # the lock was given back
        another.add([chunk("d")])
    assert ids(store.search(X)) == ["a", "d"]


def test_a_text_with_halves_of_characters_is_the_only_one_that_is_no_text_in_the_file(
    store: SQLiteVectorStore, raw: sqlite3.Connection
) -> None:
    store.add([chunk("ä", text="a\x00b 👩‍👩‍👧", doc_id="\ud800"), chunk("\udfff", text="x")])

    kinds = raw.execute("SELECT typeof(id), typeof(text), typeof(doc_id) FROM vector_chunks")

    assert kinds.fetchall() == [("text", "text", "blob"), ("blob", "text", "text")]


def test_vectors_are_little_endian_float32_of_length_1_in_the_file(
    store: SQLiteVectorStore, raw: sqlite3.Connection
) -> None:
    store.add([chunk("a", [0.0, -3.0, 4.0])])

    [(kept,)] = raw.execute("SELECT embedding FROM vector_chunks")

    assert kept == np.array([0, -0.6, 0.8], dtype="<f4").tobytes()


def test_a_number_in_the_order_of_insertion_is_never_given_twice(
    store: SQLiteVectorStore, raw: sqlite3.Connection
) -> None:
    numbers = []
    for change in (
        lambda: store.add([chunk("a"), chunk("b")]),
        lambda: store.add([chunk("a")]),
        lambda: store.delete(["a"]) or store.add([chunk("a")]),
        lambda: store.clear() or store.add([chunk("a")]),
    ):
        change()
        numbers.append(raw.execute("SELECT seq FROM vector_chunks WHERE id = 'a'").fetchone()[0])

    assert numbers == [1, 3, 4, 5]


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
