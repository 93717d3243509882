"""What becomes of the two files of a FAISSVectorStore: kills, full disks, and mix-ups."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import faiss
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores import faiss_files
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
from pywrapai_graph.rag.stores.faiss_rows import Rows
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import X, chunk, ids, unit

Paths = tuple[Path, Path]
Work = Callable[[FAISSVectorStore], None]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """The index and the metadata."""
    return tmp_path / "docs.faiss", tmp_path / "docs_meta.pkl"


def batch(prefix: str, count: int = 3, text: str = "text") -> list[Chunk]:
    """Chunks whose vectors follow from their texts."""
    texts = [f"{text} {prefix}{i}" for i in range(count)]
    return [chunk(f"{prefix}{i}", vector_of(one), one) for i, one in enumerate(texts)]


def vector_of(text: str) -> list[float]:
    random_ = random.Random(text)
    return unit([random_.gauss(0, 1) for _ in range(3)])


def contents(store: FAISSVectorStore) -> list[Chunk]:
    """All chunks, in order, after a look whether their vectors are those of their texts."""
    found = [one.chunk for one in store.search([0.0] * (store.dimension or 3), k=10_000)]
    got = store.get(ids(found))
    assert got == found
    assert len(store) == len(found)
    for one in got:
        assert one.embedding == pytest.approx(vector_of(one.text), abs=1e-6)
    return found


def contents_of(paths: Paths) -> list[Chunk]:
    """The same, of files opened anew."""
    with FAISSVectorStore(*paths) as store:
        return contents(store)


# Killed, or failing, at any step


class Killed(BaseException):
    """The end of a process."""


class Steps:
    """Lets so many steps on the way to the disk succeed; then one fails, or all that follow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, good: int, kill: bool) -> None:
        self.left, self.kill, self.failed = good, kill, False
        self.put = faiss_files._put
        monkeypatch.setattr(faiss_files, "_put", self.half)
        for name in ("fsync", "replace", "remove"):
            monkeypatch.setattr(os, name, self.before(getattr(os, name)))

    def fails(self) -> bool:
        self.left -= 1
        failing = self.left < 0 if self.kill else self.left == -1
        self.failed |= failing
        return failing

    def fail(self) -> None:
        raise Killed if self.kill else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if self.fails():
                self.fail()
            return real(*arguments)

        return step

    def half(self, file: Any, start: int, content: Any) -> None:
        content = bytes(content)
        if self.fails():
            if start:  # the head of the index is one write, which is done or not
                self.put(file, start, content[: len(content) // 2])
            self.fail()
        self.put(file, start, content)


def fill(store: FAISSVectorStore) -> None:
    store.add(batch("a", 70))
    store.add(batch("b"))
    store.delete([f"a{i}" for i in range(50)])


def fill_with_dead_rows(store: FAISSVectorStore) -> None:
    fill(store)
    store.delete([f"a{i}" for i in range(68)])


def fill_and_clear(store: FAISSVectorStore) -> None:
    fill(store)
    store.clear()


def nothing(store: FAISSVectorStore) -> None:
    pass


def add(store: FAISSVectorStore) -> None:
    store.add(batch("c", 5))


CASES: dict[str, tuple[Work, Work]] = {
    "add": (fill, add),
    "first add": (nothing, add),
    "add after clear": (fill_and_clear, add),
    "add that writes anew": (fill_with_dead_rows, add),
    "replace": (fill, lambda store: store.add(batch("b", 3, "another text"))),
    "delete": (fill, lambda store: store.delete(["a69", "b0", "unknown"])),
    "clear": (fill, lambda store: store.clear()),
}


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "failing"])
@pytest.mark.parametrize("case", CASES)
def test_wherever_it_stops_a_save_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, kill: bool
) -> None:
    prepare, work = CASES[case]
    before, after = outcomes(tmp_path, prepare, work)
    for good in range(100):
        paths = tmp_path / f"{good}.faiss", tmp_path / f"{good}.pkl"
        with FAISSVectorStore(*paths) as store:
            prepare(store)
            with monkeypatch.context() as patched, suppress(VectorStoreError, Killed):
                steps = Steps(patched, good, kill)
                work(store)
                assert contents(store) == after
            there = contents_of(paths)
            assert there in (before, after)
            assert contents(store) == there
        check_that_it_goes_on(paths)
        if not steps.failed:
            break
    assert there == after
    assert good >= 5


def outcomes(directory: Path, prepare: Work, work: Work) -> tuple[list[Chunk], list[Chunk]]:
    """What is there before the work and after it."""
    with FAISSVectorStore(directory / "a", directory / "b") as store:
        prepare(store)
        before = contents(store)
        work(store)
        return before, contents(store)


def check_that_it_goes_on(paths: Paths) -> None:
    there = contents_of(paths)
    with FAISSVectorStore(*paths) as store:
        store.add(batch("more"))
        store.delete(["more1"])
    assert ids(contents_of(paths)) == [*ids(there), "more0", "more2"]
    assert not list(paths[0].parent.glob("*.new"))
    assert paths[1].read_bytes().splitlines()[-1].startswith(b'{"saved":')


def test_bytes_behind_the_end_do_not_count_however_many_there_are(paths: Paths) -> None:
    with FAISSVectorStore(*paths) as store:
        store.add(batch("a", 2))
        store.delete(["a0"])
        index, meta = (path.read_bytes() for path in paths)
        before = contents(store)
        store.add(batch("c", 2))
    longer_index, longer_meta = (path.read_bytes() for path in paths)
    mark = b'{"saved":3}\n'
    assert longer_meta.startswith(meta)
    assert longer_meta.endswith(mark)

    for end in range(len(meta) - len(mark), len(longer_meta) - len(mark) + 1):
        paths[0].write_bytes(index[:45] + longer_index[45:])
        paths[1].write_bytes(longer_meta[:end])
        assert contents_of(paths) == before
    paths[1].write_bytes(longer_meta[: -len(mark)] + b'{"id":"' + 5_000 * b"x")
    check_that_it_goes_on(paths)
    for end in range(len(longer_meta) - len(mark), len(longer_meta) + 1):
        paths[0].write_bytes(longer_index)
        paths[1].write_bytes(longer_meta[:end])
        assert contents_of(paths) == [*before, *batch("c", 2)]
    check_that_it_goes_on(paths)


def test_a_full_disk_is_told_and_the_store_is_as_before(paths: Paths) -> None:
    with FAISSVectorStore(*paths) as store:
        fill(store)
        before, sizes = contents(store), [path.stat().st_size for path in paths]
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[1] + 500, hard))
        try:
            with pytest.raises(VectorStoreError, match=r"cannot write .*: File too large"):
                store.add(batch("c", 100))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        assert contents(store) == contents_of(paths) == before
        assert [path.stat().st_size for path in paths] == sizes
        store.add(batch("d"))
        assert contents(store) == contents_of(paths) == [*before, *batch("d")]


def test_what_was_saved_is_there_though_memory_did_not_take_it(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with FAISSVectorStore(*paths) as store:
        fill(store)
        before = contents(store)
        with monkeypatch.context() as patched:
            patched.setattr(Rows, "_kill", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.add(batch("c"))

        assert contents(store) == [*before, *batch("c")]
        for one in batch("c"):
            assert ids(store.search(vector_of(one.text), k=2))[0] == one.id


# Files that do not belong together


def copies(paths: Paths, name: str) -> Paths:
    """Copies of both files as they are now."""
    kept = tuple(path.with_name(f"{name} {path.name}") for path in paths)
    for path, copy in zip(paths, kept, strict=True):
        shutil.copy(path, copy)
    return kept[0], kept[1]


LATER: dict[str, list[Work]] = {
    "an add": [add],
    "adds": [add, lambda store: store.add(batch("d"))],
    "a delete": [lambda store: store.delete(["b0"])],
    "a clear": [lambda store: store.clear()],
    "a clear and an add": [lambda store: store.clear(), add],
    "writing anew": [lambda store: store.delete([f"a{i}" for i in range(69)]), add],
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("wrong", [0, 1], ids=["index", "metadata"])
def test_a_file_that_is_older_than_the_other_is_named(paths: Paths, later: str, wrong: int) -> None:
    with FAISSVectorStore(*paths) as store:
        fill(store)
        old = copies(paths, "old")
        for work in LATER[later]:
            work(store)
    new = copies(paths, "new")
    shutil.copy(old[wrong], paths[wrong])

    with pytest.raises(VectorStoreError, match=f"{paths[wrong].name} is the wrong file: .*older"):
        FAISSVectorStore(*paths)

    assert paths[wrong].read_bytes() == old[wrong].read_bytes()
    shutil.copy(new[wrong], paths[wrong])
    check_that_it_goes_on(paths)


@pytest.mark.parametrize("wrong", [0, 1], ids=["index", "metadata"])
def test_a_file_of_another_store_is_refused(paths: Paths, tmp_path: Path, wrong: int) -> None:
    others = tmp_path / "other.faiss", tmp_path / "other.pkl"
    for two in (paths, others):
        with FAISSVectorStore(*two) as store:
            fill(store)
    shutil.copy(others[wrong], paths[wrong])

    with pytest.raises(VectorStoreError, match=r"docs\.faiss .*not that of .*docs_meta\.pkl"):
        FAISSVectorStore(*paths)


def test_two_that_went_on_from_one_backup_are_told_apart(paths: Paths) -> None:
    with FAISSVectorStore(*paths) as store:
        fill(store)
    other = copies(paths, "other")
    for two in (paths, other):
        with FAISSVectorStore(*two) as store:
            store.add(batch("c"))
    shutil.copy(other[0], paths[0])

    with pytest.raises(VectorStoreError, match=r"docs\.faiss is the wrong file"):
        FAISSVectorStore(*paths)


@pytest.mark.parametrize("missing", [0, 1], ids=["index", "metadata"])
def test_where_one_file_is_missing_the_store_is_not_taken_for_an_empty_one(
    paths: Paths, missing: int
) -> None:
    with FAISSVectorStore(*paths) as store:
        fill(store)
    there = paths[1 - missing].read_bytes()
    paths[missing].unlink()

    with pytest.raises(VectorStoreError, match=rf"{paths[missing].name} is missing"):
        FAISSVectorStore(*paths)

    assert not paths[missing].exists()
    assert paths[1 - missing].read_bytes() == there


def test_files_that_are_gone_while_a_store_is_open_are_told(paths: Paths) -> None:
    with FAISSVectorStore(*paths) as store:
        fill(store)
        for path in paths:
            path.unlink()
            with pytest.raises(VectorStoreError, match=r"docs\.faiss is gone"):
                store.search(X)
        with pytest.raises(VectorStoreError, match=r"docs\.faiss is gone"):
            add(store)


@pytest.mark.parametrize(
    ("wrong", "damage", "told"),
    [
        (0, lambda old: b"", "docs.faiss is not the index"),
        (0, lambda old: b"no index at all" * 10, "docs.faiss is not the index"),
        (0, lambda old: old[:-1], "faiss cannot read .*docs.faiss"),
        (0, lambda old: old[:45], "faiss cannot read .*docs.faiss"),
        (0, lambda old: old[:40], "docs.faiss is not the index"),
        (1, lambda old: b"", "docs_meta.pkl is not the file"),
        (1, lambda old: b"text\n", "docs_meta.pkl is not the file"),
        (1, lambda old: old[:-20], "docs_meta.pkl is damaged"),
        (1, lambda old: old[:200], "docs_meta.pkl is damaged"),
        (1, lambda old: old.replace(b'"text":', b"text:"), "docs_meta.pkl is damaged"),
        (1, lambda old: old.replace(b'"text":', b'"texts":'), "docs_meta.pkl is damaged"),
        (1, lambda old: old.replace(b'"save":1', b'"gave":1'), "docs_meta.pkl is damaged"),
        (1, lambda old: old.replace(b'"version":1', b'"version":2'), "upgrade pywrapai"),
    ],
)
def test_a_damaged_file_is_named(paths: Paths, wrong: int, damage: Any, told: str) -> None:
    with FAISSVectorStore(*paths) as store:
        store.add(batch("a"))
    paths[wrong].write_bytes(damage(paths[wrong].read_bytes()))

    with pytest.raises(VectorStoreError, match=told):
        FAISSVectorStore(*paths)


def test_an_index_of_another_tool_beside_our_metadata_is_refused(paths: Paths) -> None:
    with FAISSVectorStore(*paths) as store:
        store.add(batch("a"))
    faiss.write_index(faiss.read_index(str(paths[0])), str(paths[0]))

    with pytest.raises(VectorStoreError, match=r"docs\.faiss is not the index that"):
        FAISSVectorStore(*paths)


# Killed for good

CHILD = """
import os, sys
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
from tests.graph.test_faiss_files import batch

def say(line):
    os.write(1, f"{line}\\n".encode())  # at once, so that no line is cut by the kill

store = FAISSVectorStore(sys.argv[1], sys.argv[2])
first = int(sys.argv[3])
say("ready")
for number in range(first, first + 1_000):
    say(f"adding {number}")
    store.add(batch(f"{number}-", 20))
    say(f"added {number}")
    if number >= 3:
        say(f"deleting {number - 3}")
        store.delete([f"{number - 3}-{i}" for i in range(20)])
        say(f"deleted {number - 3}")
"""


def test_a_killed_process_leaves_all_that_it_had_saved(paths: Paths) -> None:
    random_ = random.Random(5)
    there: set[int] = set()
    for _ in range(int(os.environ.get("PYWRAPAI_TEST_KILLS", "4"))):
        lines = killed_after(random_.uniform(0, 0.2), paths, max(there, default=-1) + 1)
        certain, unsure = told(lines, there)
        there = batches_in(paths)
        assert there - unsure == certain - unsure


def killed_after(seconds: float, paths: Paths, first: int) -> list[str]:
    """What a child said until it was killed, so long after it was ready."""
    command = [sys.executable, "-c", CHILD, *map(str, paths), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(seconds)
        child.kill()
        return child.stdout.read().splitlines()


def told(lines: Iterable[str], there: set[int]) -> tuple[set[int], set[int]]:
    """Which batches are there after what a child said, and which may be or not."""
    there, unsure = set(there), set()
    for line in lines:
        did, _, number = line.partition(" ")
        unsure = {int(number)} if did in ("adding", "deleting") else set()
        if did == "added":
            there.add(int(number))
        elif did == "deleted":
            there.discard(int(number))
    return there, unsure


def batches_in(paths: Paths) -> set[int]:
    """The numbers of the batches, each of which is there whole, with the vectors of its texts."""
    found = contents_of(paths)
    there = {int(one.id.partition("-")[0]) for one in found}
    assert sorted(ids(found)) == sorted(f"{number}-{i}" for number in there for i in range(20))
    return there
