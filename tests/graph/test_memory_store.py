"""The store in memory: the contract, and what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from pywrapai_graph.rag.store import InMemoryVectorStore
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, chunk
from tests.contracts.vector_store_machine import agree_with_a_dict


class TestInMemory(VectorStoreContract):
    persistent = False

    @pytest.fixture
    def store(self) -> Iterator[InMemoryVectorStore]:
        with InMemoryVectorStore() as store:
            yield store


def test_it_agrees_with_a_plain_dict() -> None:
    agree_with_a_dict(lambda: InMemoryVectorStore, persistent=False)


def test_a_search_sees_whole_rows_while_others_grow_and_pack_the_matrix() -> None:
    """Chunk i has the vector e(i mod 8), so that a torn or shifted row would show."""
    axes = np.eye(8, dtype=np.float32)
    store = InMemoryVectorStore()
    store.add([chunk(str(i), axes[i]) for i in range(8)])
    done = threading.Event()
    searches = [0, 0]
    faults: list[tuple[str, float]] = []

    def search(worker: int) -> None:
        while not done.is_set():
            axis = searches[worker] % 8
            for one in store.search(axes[axis], k=50):
                if (int(one.chunk.id) % 8 == axis) != (one.score == 1.0):
                    faults.append((one.chunk.id, one.score))
            searches[worker] += 1

    workers = [threading.Thread(target=search, args=(worker,)) for worker in range(2)]
    for worker in workers:
        worker.start()
    while min(searches) == 0:
        done.wait(0.001)
    for start in range(8, 4_008, 40):
        store.add([chunk(str(i), axes[i % 8]) for i in range(start, start + 40)])
        store.delete(str(i) for i in range(start, start + 36))
    done.set()
    for worker in workers:
        worker.join()

    assert faults == []
    assert len(store) == 8 + 100 * 4


def test_memory_comes_back_after_deleting_and_after_closing() -> None:
    store = InMemoryVectorStore()
    tracemalloc.start()
    try:
        store.add([chunk(str(i), vector) for i, vector in enumerate(np.eye(1_000))])
        full, _ = tracemalloc.get_traced_memory()
        store.delete(str(i) for i in range(990))
        few, _ = tracemalloc.get_traced_memory()
        store.close()
        closed, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert full > 4_000_000
    assert few < full / 10
    assert closed < 20_000


def test_a_search_copies_no_matrix() -> None:
    store = InMemoryVectorStore()
    store.add([chunk(str(i), vector) for i, vector in enumerate(np.eye(1_000))])
    store.search(np.eye(1_000)[0])
    tracemalloc.start()
    try:
        store.search(np.eye(1, 1_000)[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 200_000  # and the matrix has 4 million bytes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_that_is_forked_while_threads_add_can_go_on() -> None:
    code = """
import os, threading
from pywrapai_graph.rag.store import InMemoryVectorStore
from pywrapai_graph.rag.types import Chunk
store = InMemoryVectorStore()
added = threading.Event()
done = threading.Event()
def add():
    number = 0
    while not done.is_set():
        store.add([Chunk("t", id=str(number % 500), embedding=[1.0, 0.0])])
        added.set()
        number += 1
threading.Thread(target=add).start()
added.wait()
codes = []
for _ in range(20):
    if not (child := os.fork()):
        store.add([Chunk("child", id="child", embedding=[0.0, 1.0])])
        [found] = store.search([0.0, 1.0], k=1)
        os._exit(0 if found.chunk.text == "child" and len(store) >= 2 else 1)
    codes.append(os.waitpid(child, 0)[1])
done.set()
print(codes == [0] * 20, [one.chunk.text for one in store.search([0.0, 1.0], k=1)])
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert (ended.stdout.strip(), ended.stderr) == ("True ['t']", "")


def test_a_closed_store_says_what_to_do() -> None:
    store = InMemoryVectorStore()
    store.close()

    with pytest.raises(Exception, match="closed: make another one"):
        store.search(X)
