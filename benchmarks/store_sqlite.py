"""What SQLiteVectorStore costs beside sqlite3 and numpy by hand.

Run: python -m benchmarks.store_sqlite [--rounds 7] [--large]

Adding, beside one executemany of the same rows in one transaction; the second search, beside the
product of the matrix and the query, a partial sort and a sort of the k; and what the second search
costs beside the same search of the matrix that it keeps. `--large` needs 3 GB of memory and disk.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Figure, compare, report
from pywrapai_graph.rag.batch import unit_query
from pywrapai_graph.rag.store import InMemoryVectorStore
from pywrapai_graph.rag.stores.sqlite import SQLiteVectorStore
from pywrapai_graph.rag.types import Chunk

ADDED, SMALL_DIMENSION = 10_000, 384
SIZES = [(10_000, 384), (10_000, 1536)]
LARGE_SIZES = [(100_000, 384), (100_000, 1536)]
K = 4
TEXT = "some words of a document, in a row. " * 12
TABLE = (
    "CREATE TABLE chunks (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
    "doc_id TEXT, text TEXT, metadata TEXT, start INTEGER, stop INTEGER, model TEXT, vector BLOB)"
)


def vectors_of(size: int, dimension: int) -> Any:
    """Unit vectors."""
    vectors = np.random.default_rng(7).standard_normal((size, dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def chunks_of(vectors: Any) -> Iterator[Chunk]:
    for number, vector in enumerate(vectors):
        yield Chunk(f"{number} {TEXT}", "doc", {"page": number}, f"chunk-{number:07}", vector, 0, 9)


def add_by_hand(path: Path, rows: list[tuple[Any, ...]]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(TABLE)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")
    connection.close()


def adding(directory: Path, rounds: int) -> Iterator[Figure]:
    """Each side makes a new file each time; by hand means that the rows are ready to be bound."""
    numbers = count()
    vectors = vectors_of(ADDED, SMALL_DIMENSION)
    lists = vectors.tolist()
    rows = [
        (one.id, one.doc_id, one.text, json.dumps(one.metadata), one.start, one.end, None)
        for one in chunks_of(vectors)
    ]

    def path() -> Path:
        for old in directory.glob("*.db*"):
            old.unlink()
        return directory / f"{next(numbers)}.db"

    def ours(chunks: list[Chunk]) -> Callable[[], None]:
        def add() -> None:
            with SQLiteVectorStore(path()) as store:
                store.add(chunks)

        return add

    def by_hand(pack: Callable[[], list[Any]]) -> Callable[[], None]:
        return lambda: add_by_hand(
            path(), [(*row, blob) for row, blob in zip(rows, pack(), strict=True)]
        )

    ready = [vector.tobytes() for vector in vectors]

    def packed() -> list[bytes]:
        return [np.array(numbers, dtype=np.float32).tobytes() for numbers in lists]

    def case(how: str, given: Any, theirs: Callable[[], list[Any]], goal: float | None) -> Figure:
        chunks = list(chunks_of(given))
        name = f"add {ADDED:,}, {how}"
        return compare(name, ours(chunks), by_hand(theirs), calls=1, rounds=rounds, goal=goal)

    yield case("arrays, beside bytes", vectors, lambda: ready, 1.5)
    yield case("lists, beside lists", lists, packed, 1.5)
    yield case("lists, beside bytes", lists, lambda: ready, None)


def searching(directory: Path, size: int, dimension: int, rounds: int) -> Iterator[Figure]:
    vectors = vectors_of(size, dimension)
    query = vectors[:50].mean(axis=0)
    unit = unit_query(query, dimension)

    def by_hand() -> list[tuple[int, float]]:
        scores = vectors @ unit
        best = np.argpartition(scores, -K)[-K:]
        best = best[np.argsort(-scores[best])]
        return [(int(row), float(scores[row])) for row in best]

    name = f"{size:,} x {dimension}"
    calls = max(3, 300_000_000 // vectors.size)
    with SQLiteVectorStore(directory / f"{size}-{dimension}.db") as store:
        store.add(chunks_of(vectors))
        found = [one.chunk.id for one in store.search(query, K)]
        assert found == [f"chunk-{row:07}" for row, _ in by_hand()]

        def ours() -> Any:
            return store.search(query, K)

        yield compare(f"search {name}", ours, by_hand, calls=calls, rounds=rounds, goal=1.15)
        matrix = store._matrix()

        def matrix_alone() -> Any:
            return matrix.nearest(unit, K, None)

        yield compare(f"search {name}, its matrix", ours, matrix_alone, calls=calls, rounds=rounds)


def overhead(rounds: int) -> Iterator[Figure]:
    """With ten vectors: what there is beside the product."""
    vectors = vectors_of(10, 384)
    chunks = list(chunks_of(vectors))
    memory = InMemoryVectorStore()
    memory.add(chunks)
    with (
        tempfile.TemporaryDirectory() as name,
        SQLiteVectorStore(Path(name) / "small.db") as store,
    ):
        store.add(chunks)
        yield compare(
            "search 10, beside in memory",
            lambda: store.search(vectors[0], K),
            lambda: memory.search(vectors[0], K),
            calls=500,
            rounds=rounds,
        )


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    figures = list(overhead(options.rounds))
    with tempfile.TemporaryDirectory() as name:
        figures += adding(Path(name), options.rounds)
    for size, dimension in SIZES + LARGE_SIZES * options.large:
        with tempfile.TemporaryDirectory() as name:
            figures += searching(Path(name), size, dimension, options.rounds)
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
