"""Writers of a vector store that are killed, and what is in the store after each.

    check_kills(ChromaVectorStore, str(path), atomic=True)

A writer is a process of its own, which adds batches for ever and tells each that is completed.
PYWRAPAI_TEST_KILLS is how many are killed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import chunk, ids, unit

BATCH = 20


def vector_of(text: str) -> list[float]:
    random_ = random.Random(text)
    return unit(random_.gauss(0, 1) for _ in range(8))


def batch_of(number: int) -> list[Chunk]:
    """Chunks of which everything follows from the number."""
    named = [f"{number}-{i}" for i in range(BATCH)]
    return [chunk(id, vector_of(id), f"text of {id}", metadata={"batch": number}) for id in named]


def write_for_ever(store: VectorStore, number: int) -> None:
    print("open", flush=True)
    while True:
        store.add(batch_of(number))
        print(number, flush=True)
        number += 1


def check_kills(kind: Callable[..., VectorStore], *args: str, atomic: bool) -> str:
    """Kill writers and check the store after each; a batch that a kill cut short is added again.

    `args` are what the store is opened with.
    """
    kills = int(os.environ.get("PYWRAPAI_TEST_KILLS", "3"))
    random_ = random.Random(os.environ.get("PYWRAPAI_TEST_SEED", "7"))
    completed = cut_short = 0
    for _ in range(kills):
        completed = killed_after(_code(kind, args, completed), completed, random_)
        with kind(*args) as store:
            cut_short += check(store, completed, random_, atomic=atomic)
    return f"{kills} kills, {completed} batches; {cut_short} cut short"


def _code(kind: Callable[..., VectorStore], args: tuple[str, ...], first: int) -> str:
    opening = f"{kind.__name__}(*{args!r})"
    return (
        f"from {kind.__module__} import {kind.__name__}\n"
        "from tests.graph.store_kills import write_for_ever\n"
        f"write_for_ever({opening}, {first})"
    )


def killed_after(code: str, completed: int, random_: random.Random) -> int:
    """How many batches there are when a writer that went on from so many was killed."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(random_.randint(1, 15))]
    assert told[-1], "the writer failed"
    time.sleep(random_.random() * 0.05)  # into the middle of a batch
    writer.kill()
    told += writer.stdout.readlines()
    writer.stdout.close()
    writer.wait()
    return completed + len([line for line in told[1:] if line.endswith("\n")])


def check(store: VectorStore, completed: int, random_: random.Random, *, atomic: bool) -> bool:
    """All that was completed is there, whole. Returns whether there is more of the next batch."""
    stored = [one for number in range(completed + 1) for one in batch_of(number)]
    found = {one.id: one for one in store.get(ids(stored))}
    assert [one for one in stored[: completed * BATCH] if found.get(one.id) != one] == []
    for id, one in found.items():
        np.testing.assert_allclose(one.embedding, vector_of(id), atol=1e-6)

    extra = len(store) - completed * BATCH
    assert extra == len(found) - completed * BATCH
    assert extra in (0, BATCH) or (not atomic and 0 < extra < BATCH)

    for one in random_.sample(stored[: completed * BATCH], k=min(30, completed * BATCH)):
        [nearest] = store.search(one.embedding, k=1)
        assert (nearest.chunk, nearest.score) == (one, pytest.approx(1))
    return extra > 0
