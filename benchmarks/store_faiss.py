"""What FAISSVectorStore costs beside faiss alone, searching and adding.

Run: python -m benchmarks.store_faiss [--rounds 15]

Searches are beside `index.search` with a query of length 1, which gives numbers of rows and no
texts. Adding 20 chunks to a full store is beside what a store without appending would do: writing
the whole index anew.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.measuring import Figure, compare, report
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
from pywrapai_graph.rag.types import Chunk

SIZES = [(10_000, 384), (100_000, 384), (10_000, 1_536)]
TEXT = "some words of a document, in a row. " * 12
GOAL = 1.1


def vectors_of(rows: int, dimension: int) -> Any:
    """Random, of length 1."""
    vectors = np.random.default_rng(7).standard_normal((rows, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def chunks_of(vectors: Any, prefix: str = "") -> list[Chunk]:
    return [
        Chunk(TEXT, "doc", {"page": row % 50}, f"{prefix}{row}", vector)
        for row, vector in enumerate(vectors)
    ]


def search_figures(rows: int, dimension: int, rounds: int) -> Iterator[Figure]:
    vectors = vectors_of(rows, dimension)
    index = faiss.IndexFlatIP(dimension)
    index.add(vectors)
    query = vectors[5] + vectors[6] / 2
    unit = (query / np.linalg.norm(query))[np.newaxis]
    bits = np.packbits(np.arange(rows) % 50 == 3, bitorder="little")
    name, calls = f"{rows // 1000}k x {dimension}", 40 if rows * dimension < 2e7 else 10
    with tempfile.TemporaryDirectory() as directory:
        paths = Path(directory) / "docs.faiss", Path(directory) / "docs_meta.pkl"
        with FAISSVectorStore(*paths) as store:
            store.add(chunks_of(vectors))

            def filtered() -> Any:
                selector = faiss.IDSelectorBitmap(bits)
                return index.search(unit, 4, params=faiss.SearchParameters(sel=selector))

            yield compare(
                f"search {name}, beside index.search",
                lambda: store.search(query),
                lambda: index.search(unit, 4),
                calls=calls,
                rounds=rounds,
                goal=GOAL,
            )
            yield compare(
                "  2% pass, beside a ready selector",
                lambda: store.search(query, filter={"page": 3}),
                filtered,
                calls=calls,
                rounds=rounds,
            )


def add_figures(rows: int, dimension: int, rounds: int) -> Iterator[Figure]:
    vectors, numbers = vectors_of(rows, dimension), count()
    index = faiss.IndexFlatIP(dimension)
    index.add(vectors)
    with tempfile.TemporaryDirectory() as directory:
        paths = Path(directory) / "docs.faiss", Path(directory) / "docs_meta.pkl"
        with FAISSVectorStore(*paths) as store:
            store.add(chunks_of(vectors))

            def whole() -> None:
                path = str(Path(directory) / "other")
                faiss.write_index(index, path)
                with open(path, "rb") as file:
                    os.fsync(file.fileno())

            yield compare(
                f"add 20 to {rows // 1000}k x {dimension}, beside write_index",
                lambda: store.add(chunks_of(vectors[:20], f"{next(numbers)}-")),
                whole,
                calls=2,
                rounds=min(rounds, 5),
                goal=0.5,
            )


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    cases: list[Callable[..., Iterator[Figure]]] = [search_figures] * 3 + [add_figures]
    sizes = [*SIZES, SIZES[1]]
    return report(
        [one for case, size in zip(cases, sizes, strict=True) for one in case(*size, rounds)]
    )


if __name__ == "__main__":
    sys.exit(main())
