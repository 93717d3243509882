"""The vectors in SQLite: the contract, in a file and in memory, and what is SQLite's own."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.stores.sqlite import SQLiteVectorStore
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, chunks, ids
from tests.contracts.vector_store_machine import agree_with_a_dict


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
