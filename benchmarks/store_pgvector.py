"""What PGVectorStore costs beside PostgreSQL by hand, loading and searching, and what hnsw finds.

Run: python -m benchmarks.store_pgvector [--rounds 5] [--large]

Loading 10,000 chunks is beside a bare binary COPY of the same rows, encoded before, into the same
table, and beside execute_values. Searches are beside the statement that one writes by hand, with
`<=>` and no filter, which makes no Chunks of its rows.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg2
import psycopg2.extras

from benchmarks.measuring import Figure, compare, report
from pywrapai_graph.rag.batch import batch_of
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.stores.pgvector_copy import WRITTEN, CopyStream, vector_of
from pywrapai_graph.rag.types import Chunk
from tests.postgres import running

SIZES = [(10_000, 384), (10_000, 1536)]
LARGE_SIZES = [(100_000, 384)]
K = 10
INSERT = "INSERT INTO loaded (id, text, doc_id, metadata, tags, embedding) VALUES %s"
TEXT = "some words of a document, in a row. " * 12


def vectors_of(rows: int, dimension: int, seed: int = 7) -> Any:
    """Of length 1, and of no more than some 40 directions, as those of texts are."""
    directions = np.random.default_rng(1).standard_normal((40, dimension), dtype=np.float32)
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((rows, 40), dtype=np.float32) @ directions
    vectors += random.standard_normal((rows, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def chunks_of(vectors: Any) -> list[Chunk]:
    return [
        Chunk(f"{row} {TEXT}", "doc", {"page": row % 50}, f"chunk-{row:07}", vector, 0, 9)
        for row, vector in enumerate(vectors)
    ]


def loading(url: str, rows: int, dimension: int, rounds: int) -> Iterator[Figure]:
    """Each side begins with a table that was just emptied, which both of them pay for."""
    chunks = chunks_of(vectors_of(rows, dimension))
    batch = batch_of(chunks, dimension)
    assert batch is not None
    stream = CopyStream(batch)
    ready = b"".join(iter(lambda: stream.read(0), b""))
    literals = [
        (*_plain(chunk), vector_of(vector))
        for chunk, vector in zip(chunks, batch.vectors, strict=True)
    ]
    connection = psycopg2.connect(url)
    connection.autocommit = True
    cursor = connection.cursor()
    with PGVectorStore(url, "loaded", dimension) as store:

        def emptied(load: Callable[[], Any]) -> Callable[[], None]:
            def run() -> None:
                cursor.execute("TRUNCATE loaded")
                load()

            return run

        def by_copy() -> None:
            statement = f"COPY loaded ({WRITTEN}) FROM STDIN (FORMAT binary)"
            cursor.copy_expert(statement, io.BytesIO(ready), size=1 << 17)

        def by_values() -> None:
            psycopg2.extras.execute_values(
                cursor,
                "INSERT INTO loaded (id, text, doc_id, metadata, tags, embedding) VALUES %s",
                literals,
                page_size=1000,
            )

        ours = emptied(lambda: store.add(chunks))
        name = f"load {rows // 1000}k x {dimension}"
        yield compare(
            f"{name}, beside COPY", ours, emptied(by_copy), calls=1, rounds=rounds, goal=1.3
        )
        yield compare(
            f"{name}, beside execute_values",
            ours,
            emptied(by_values),
            calls=1,
            rounds=min(rounds, 3),
            goal=0.7,
        )
    cursor.execute("DROP TABLE loaded")
    connection.close()


def _plain(chunk: Chunk) -> tuple[Any, ...]:
    page = chunk.metadata["page"]
    return chunk.id, chunk.text, chunk.doc_id, f'{{"page":{page}}}', [f'["page",{page}]']


def searching(url: str, rows: int, dimension: int, rounds: int) -> Iterator[Figure]:
    vectors = vectors_of(rows, dimension)
    query = vectors[5] + vectors[6]
    unit = vector_of(query / np.linalg.norm(query))
    connection = psycopg2.connect(url)
    connection.autocommit = True
    cursor = connection.cursor()
    name = f"{rows // 1000}k x {dimension}"

    def by_hand() -> Any:
        cursor.execute(
            "SELECT id, text, metadata, 1 - (embedding <=> %(query)s::vector) FROM searched "
            "ORDER BY embedding <=> %(query)s::vector LIMIT %(k)s",
            {"query": unit, "k": K},
        )
        return cursor.fetchall()

    def by_index() -> Any:
        cursor.execute(
            "SET LOCAL hnsw.ef_search = 100; "
            "SELECT id, text, metadata, -(embedding <#> %(query)s::vector) FROM searched "
            "ORDER BY embedding <#> %(query)s::vector LIMIT %(k)s",
            {"query": unit, "k": K},
        )
        return cursor.fetchall()

    with PGVectorStore(url, "searched", dimension) as exact:
        exact.add(chunks_of(vectors))
        cursor.execute("VACUUM ANALYZE searched")
        calls = max(3, 60_000_000 // vectors.size)

        def case(what: str, ours: Any, theirs: Any, goal: float | None) -> Figure:
            return compare(what, ours, theirs, calls=calls, rounds=rounds, goal=goal)

        yield case(f"search {name}", lambda: exact.search(query, K), by_hand, 1.1)
        yield case(
            "  2% pass, beside no filter",
            lambda: exact.search(query, K, {"page": 3}),
            by_hand,
            None,
        )
        with PGVectorStore(url, "searched", index="hnsw") as fast:
            yield case("  hnsw, beside by hand", lambda: fast.search(query, K), by_index, None)
            yield case("  hnsw, beside exact", lambda: fast.search(query, K), by_hand, None)
            print(f"{name}: hnsw finds {recall(fast, exact, dimension):.1%} of the {K} nearest")
    cursor.execute("DROP TABLE searched")
    connection.close()


def recall(fast: PGVectorStore, exact: PGVectorStore, dimension: int) -> float:
    queries = vectors_of(50, dimension, seed=8)
    found = 0
    for query in queries:
        right = {one.chunk.id for one in exact.search(query, K)}
        found += sum(one.chunk.id in right for one in fast.search(query, K))
    return found / (K * len(queries))


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="100,000 chunks")
    options = parser.parse_args()
    with running(durable=True) as server, server.database() as url:
        figures: list[Figure] = []
        for size in SIZES:
            figures += loading(url, *size, options.rounds)
        for size in LARGE_SIZES if options.large else SIZES:
            figures += searching(url, *size, options.rounds)
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
