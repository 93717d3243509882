"""The store on FAISS: the contract, and what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from pywrapai.core.filelock import file_lock
from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
from pywrapai_graph.rag.stores.locks import SharedLock
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, chunks, ids
from tests.contracts.vector_store_machine import agree_with_a_dict


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., FAISSVectorStore]]:
    """Opens the store of this test, closing what it opened before unless told otherwise."""
    stores: list[FAISSVectorStore] = []

    def open_(dimension: int | None = None, close: bool = True) -> FAISSVectorStore:
        for store in stores if close else ():
            store.close()
        stores.append(
            FAISSVectorStore(tmp_path / "docs.faiss", tmp_path / "docs_meta.pkl", dimension)
        )
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


class TestFAISS(VectorStoreContract):
    @pytest.fixture
    def store(self, opened: Callable[..., FAISSVectorStore]) -> FAISSVectorStore:
        return opened()

    @pytest.fixture
    def reopen(self, opened: Callable[..., FAISSVectorStore]) -> Callable[[], FAISSVectorStore]:
        return opened


class TestFAISSOfAGivenDimension(VectorStoreContract):
    dimension_is_fixed = True

    @pytest.fixture
    def store(self, opened: Callable[..., FAISSVectorStore]) -> FAISSVectorStore:
        return opened(3)

    @pytest.fixture
    def store_of(
        self, opened: Callable[..., FAISSVectorStore]
    ) -> Callable[[int], FAISSVectorStore]:
        return opened

    @pytest.fixture
    def reopen(self, opened: Callable[..., FAISSVectorStore]) -> Callable[[], FAISSVectorStore]:
        return partial(opened, 3)


def test_it_agrees_with_a_plain_dict(tmp_path_factory: pytest.TempPathFactory) -> None:
    def new() -> Callable[[], FAISSVectorStore]:
        directory = tmp_path_factory.mktemp("faiss")
        return partial(FAISSVectorStore, directory / "a.faiss", directory / "a.pkl")

    agree_with_a_dict(new)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Where `opened` opens its stores."""
    return tmp_path / "docs.faiss", tmp_path / "docs_meta.pkl"


# The files


def test_opening_makes_no_file_and_the_first_add_makes_both(opened, paths):
    store = opened()
    assert (len(store), store.search(X), store.get(["a"])) == (0, [], [])
    assert list(paths[0].parent.iterdir()) == []

    store.add([chunk("a")])

    assert all(path.exists() for path in paths)


def test_the_index_is_one_that_faiss_reads(opened, paths):
    store = opened()
    for id, vector in (("a", [3.0, 4.0, 0.0]), ("b", Y), ("c", Z)):
        store.add([chunk(id, vector)])

        index = faiss.read_index(str(paths[0]))
        assert isinstance(index, faiss.IndexFlatIP)
        assert index.ntotal == len(store)

    assert index.reconstruct_n(0, 3) == pytest.approx(np.array([[0.6, 0.8, 0.0], Y, Z]))


def test_the_index_is_what_faiss_writes_but_for_two_numbers_that_faiss_does_not_use(
    opened, paths, tmp_path
):
    opened().add([chunk("a", [3.0, 4.0, 0.0]), chunk("b", Y)])
    faiss.write_index(faiss.read_index(str(paths[0])), str(tmp_path / "theirs"))

    ours, theirs = paths[0].read_bytes(), (tmp_path / "theirs").read_bytes()

    assert (ours[:16], ours[32:]) == (theirs[:16], theirs[32:])
    assert theirs[16:32] == 2 * (1 << 20).to_bytes(8, "little")
    assert int.from_bytes(ours[16:24], "little") == 1


def test_an_add_writes_what_it_adds_and_leaves_the_rest_as_it_is(opened, paths):
    store = opened()
    store.add(chunks("a", 1_000))
    before = [(path.stat().st_ino, path.read_bytes()) for path in paths]

    store.add([chunk("b", Y)])

    for path, (inode, content), head in zip(paths, before, (45, 0), strict=True):
        assert path.stat().st_ino == inode
        assert path.read_bytes()[head : len(content)] == content[head:]
        assert len(path.read_bytes()) < len(content) + 200


def test_dead_rows_are_left_behind_once_they_are_the_most(opened, paths):
    store = opened()
    store.add(chunks("a", 300, metadata={"page": 1}))
    store.add(chunks("b", 10, Y, metadata={"page": 2}))
    store.search(X, filter={"page": 1})
    full = [path.stat().st_size for path in paths]
    store.delete([f"a{i}" for i in range(299)])
    store.add([chunk("c", Z)])

    assert all(path.stat().st_size < size / 4 for path, size in zip(paths, full, strict=True))
    assert faiss.read_index(str(paths[0])).ntotal == len(store) == 12
    assert ids(store.search(X, k=20)) == ["a299", *(f"b{i}" for i in range(10)), "c"]
    assert ids(store.search(Y, filter={"page": 1})) == ["a299"]
    assert ids(opened().search(Y, k=2, filter={"page": 2})) == ["b0", "b1"]


def test_halves_of_a_character_stay_halves_though_they_make_a_whole(opened):
    halves = "\ud83d" + "\ude00"
    whole = Chunk(halves, halves, {halves: [halves]}, halves, X, embedded_by=halves)
    opened().add([whole])

    assert opened().get([halves]) == [whole]
    assert opened().get(["\U0001f600"]) == []


def test_paths_are_those_of_the_moment_of_opening_and_links_are_followed(tmp_path, monkeypatch):
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    (there / "link.faiss").symlink_to(elsewhere / "real.faiss")
    monkeypatch.chdir(there)
    with FAISSVectorStore("link.faiss", b"meta.pkl") as store:
        monkeypatch.chdir(tmp_path)
        store.add(chunks("a", 100))
        store.add(chunks("a", 100))
        store.add(chunks("a", 100))

    assert (there / "link.faiss").is_symlink()
    assert (elsewhere / "real.faiss").is_file()
    assert (there / "meta.pkl").is_file()
    with FAISSVectorStore(there / "link.faiss", there / "meta.pkl") as store:
        assert len(store) == 100


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3"])
def test_a_dimension_that_is_none_is_refused(tmp_path, wrong: Any):
    with pytest.raises(ValueError, match="dimension is"):
        FAISSVectorStore(tmp_path / "a", tmp_path / "b", wrong)


def test_paths_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two files"):
        FAISSVectorStore(tmp_path / "a", tmp_path / "." / "a")
    with pytest.raises(VectorStoreError, match=r"no directory .*nowhere"):
        FAISSVectorStore(tmp_path / "nowhere" / "a", tmp_path / "b")
    (tmp_path / "a").mkdir()
    with pytest.raises(VectorStoreError, match=r"cannot read .*a: Is a directory"):
        FAISSVectorStore(tmp_path / "a", tmp_path / "b")


def test_files_of_another_dimension_than_the_given_one_are_refused(opened):
    opened().add([chunk("a")])

    with pytest.raises(DimensionMismatchError, match=r"\b4\b.*\b3\b"):
        opened(4)


def test_without_faiss_the_error_is_the_line_that_installs_it():
    code = """
import sys
sys.modules["faiss"] = None
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
try:
    FAISSVectorStore("a", "b")
except ImportError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (ended.stdout, ended.stderr) == (
        'faiss is not installed: pip install "pywrapai[faiss]"\n',
        "",
    )


# More than one store on the files


def test_two_stores_on_the_files_see_what_either_saves(opened):
    one, other = opened(), opened(close=False)

    one.add([chunk("a"), chunk("b", Y)])
    assert ids(other.search(X)) == ["a", "b"]
    other.add([chunk("c"), chunk("a", Z)])
    assert ids(one.search(X)) == ["c", "b", "a"]
    one.delete(["c"])
    assert (len(other), other.get(["c"])) == (2, [])
    other.clear()
    assert (one.dimension, len(one)) == (None, 0)
    one.add([chunk("d", [1.0, 0.0])])
    assert ids(other.search([1.0, 0.0])) == ["d"]


def test_a_store_sees_that_another_one_wrote_the_files_anew(opened):
    one, other = opened(), opened(close=False)
    one.add(chunks("a", 100))
    assert len(other) == 100
    for round in range(3):
        one.add(chunks("a", 100, Y, metadata={"round": round}))

    assert ids(other.search(Y, k=2, filter={"round": 2})) == ["a0", "a1"]
    other.add([chunk("b")])
    assert ids(one.search(X, k=1)) == ["b"]


def test_a_store_of_another_dimension_than_the_others_wrote_says_so(opened):
    fixed, free = opened(3), opened(close=False)
    free.add([chunk("a", [1.0, 0.0])])

    for use in (lambda: fixed.search(X), lambda: fixed.add([chunk("b")]), lambda: len(fixed)):
        with pytest.raises(DimensionMismatchError, match=r"\b3\b.*\b2\b"):
            use()


def test_processes_write_and_search_at_once(opened, paths):
    code = """
import sys
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
from tests.contracts.vector_store_chunks import chunks
store = FAISSVectorStore(sys.argv[1], sys.argv[2])
for batch in range(15):
    store.add(chunks(f"{sys.argv[3]}-{batch}-", 10))
    assert len(store) % 10 < 2
    assert len(store.search([1.0, 0.0, 0.0], k=1_000)) % 10 < 2
    store.delete([f"{sys.argv[3]}-{batch - 1}-{i}" for i in range(10)])
"""
    running = [
        subprocess.Popen([sys.executable, "-c", code, *map(str, paths), name], stderr=-1, text=True)
        for name in "xyz"
    ]
    store = opened()
    while any(process.poll() is None for process in running):
        store.add([chunk("own")])
        assert "own" in ids(store.search(X, k=1_000))

    assert [process.communicate()[1] for process in running] == ["", "", ""]
    kept = {f"{name}-14-{i}" for name in "xyz" for i in range(10)} | {"own"}
    assert set(ids(store.search(X, k=1_000))) == set(ids(opened().search(X, k=1_000))) == kept


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_searches_and_saves(opened):
    store = opened()
    vectors = np.random.default_rng(1).standard_normal((20_000, 8), dtype=np.float32)
    store.add([chunk(str(i), row, metadata={"page": i % 9}) for i, row in enumerate(vectors)])
    assert ids(store.search(vectors[7], k=1)) == ["7"]  # by threads that the child has not
    works = False
    if (child := os.fork()) == 0:
        try:
            assert ids(store.search(vectors[8], k=1)) == ["8"]
            assert ids(store.search(vectors[8], k=1, filter={"page": 8})) == ["8"]
            store.add([chunk("from the child", -vectors[8])])
            works = ids(store.search(-vectors[8], k=1)) == ["from the child"]
        finally:
            os._exit(0 if works else 1)

    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
        time.sleep(0.01)

    assert ended == (child, 0)
    assert ids(store.search(-vectors[8], k=1)) == ["from the child"]


def test_who_waits_too_long_for_another_process_is_told(opened, paths, monkeypatch):
    store = opened()
    store.add([chunk("a")])
    monkeypatch.setattr(
        "pywrapai_graph.rag.stores.faiss_files.file_lock", partial(file_lock, timeout_s=0.05)
    )
    with file_lock(f"{paths[0]}.lock", shared=False):
        assert ids(store.search(X)) == ["a"]  # nothing changed, so that nobody is asked
        with pytest.raises(VectorStoreError, match=r"docs\.faiss\.lock: another process held it"):
            store.add([chunk("b")])

    store.add([chunk("c")])
    assert ids(store.search(X)) == ["a", "c"]


def test_where_no_file_can_be_made_a_store_can_be_searched(opened, paths, monkeypatch):
    opened().add([chunk("a")])
    os.remove(f"{paths[0]}.lock")
    os.symlink("/nowhere/at/all", f"{paths[0]}.lock")  # it cannot be made, not even by root
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    store = opened()

    assert ids(store.search(X)) == ["a"]
    with pytest.raises(VectorStoreError, match=r"cannot write .*docs\.faiss\.lock"):
        store.add([chunk("b")])
    assert ids(store.search(X)) == ["a"]


# The lock of threads


def test_readers_read_at_once_and_a_writer_alone():
    lock, seen = SharedLock(), []
    both = threading.Barrier(2, timeout=10)
    reading = threading.Event()

    def read():
        with lock.reading:
            both.wait()
            reading.set()
            both.wait()
            seen.append("read")

    def write():
        with lock.writing:
            seen.append("written")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    reading.wait(10)
    writer = threading.Thread(target=write)
    writer.start()
    for thread in [*readers, writer]:
        thread.join(10)

    assert seen == ["read", "read", "written"]
