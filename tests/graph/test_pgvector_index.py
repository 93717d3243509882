from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg2
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.stores.pgvector_sql import index_settings
from pywrapai_graph.rag.stores.pgvector_table import Table
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, chunks, ids, nearest, scores
from tests.graph.pgvector_opened import Opened
from tests.postgres import Postgres


@pytest.fixture
def open_(database: str) -> Iterator[Opened]:
    opened = Opened(database)
    yield opened
    for store in opened.stores:
        store.close()


def random_chunks(count: int, dimension: int) -> list[Chunk]:
    """Around 20 centres, as the vectors of texts are."""
    generator = np.random.default_rng(7)
    centres = generator.standard_normal((20, dimension))
    vectors = centres[generator.integers(0, 20, count)] + generator.standard_normal(
        (count, dimension)
    )
    return [
        chunk(f"{i}", vector, metadata={"of 500": i % 500, "half": i % 2})
        for i, vector in enumerate(vectors.tolist())
    ]


@pytest.fixture(scope="module")
def filled(postgres: Postgres, database: str) -> Iterator[tuple[PGVectorStore, PGVectorStore]]:
    """An exact store and one by index, of the same 3,000 chunks."""
    with (
        PGVectorStore(database, "filled", index="hnsw") as fast,
        PGVectorStore(database, "filled") as exact,
    ):
        exact.add(random_chunks(3000, 16))
        exact.add([chunk("zero", [0.0] * 16)])
        postgres.execute("ANALYZE filled", database)
        yield fast, exact


QUERIES = np.random.default_rng(3).standard_normal((10, 16))


def test_the_index_finds_nearly_all(filled: tuple[PGVectorStore, PGVectorStore]) -> None:
    fast, exact = filled
    right = [{one.chunk.id for one in exact.search(query, k=10)} for query in QUERIES]
    found = [{one.chunk.id for one in fast.search(query, k=10)} for query in QUERIES]

    assert sum(len(a & b) for a, b in zip(right, found, strict=True)) >= 95


@pytest.mark.parametrize("k", [1, 10, 50, 500, 1500, 3001, 5000])
def test_the_index_gives_k_results_whatever_k_is(
    filled: tuple[PGVectorStore, PGVectorStore], k: int
) -> None:
    fast, exact = filled

    for query in QUERIES[:3]:
        found = fast.search(query, k)
        assert len(found) == len(set(ids(found))) == min(k, 3001)
        assert scores(found) == sorted(scores(found), reverse=True)
        true = {one.chunk.id: one.score for one in exact.search(query, 3001)}
        assert scores(found) == pytest.approx([true[id] for id in ids(found)], abs=1e-6)


@pytest.mark.parametrize(
    ("wanted", "matching"),
    [({"of 500": 7}, 6), ({"half": 1}, 1500), ({"of 500": 7, "half": 0}, 0)],
    ids=repr,
)
def test_the_index_gives_k_results_whatever_the_filter_is(
    filled: tuple[PGVectorStore, PGVectorStore], wanted: dict[str, Any], matching: int
) -> None:
    fast, exact = filled

    for query in QUERIES[:3]:
        for k in (4, 100, 2000):
            found = fast.search(query, k, wanted)
            assert len(found) == min(k, matching)
            assert {key: one.chunk.metadata[key] for one in found for key in wanted} in (wanted, {})
            if matching < k:
                assert found == exact.search(query, k, wanted)


def test_without_index_the_search_is_exact_though_there_is_one(
    filled: tuple[PGVectorStore, PGVectorStore],
) -> None:
    stored = [*random_chunks(3000, 16), chunk("zero", [0.0] * 16)]

    for query in QUERIES[:3]:
        assert ids(filled[1].search(query, k=50)) == [id for id, _ in nearest(stored, query, 50)]


def test_the_index_is_used(postgres: Postgres, database: str) -> None:
    with PGVectorStore(database, "scanned", index="hnsw") as store:
        store.add(random_chunks(3000, 16))
        postgres.execute("ANALYZE scanned", database)
        for query in QUERIES:
            store.search(query)

    scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE relname = 'scanned' AND idx_scan = 10"
    deadline = time.monotonic() + 30
    while not postgres.execute(scans, database):  # it is counted once the connection has ended
        assert time.monotonic() < deadline, "the searches did not use the index"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("option", "asked", "used"),
    [("", 26, "100"), ("", 60, "120"), ("", 9000, "1000"), ("hnsw.ef_search=777", 26, "777")],
)
def test_ef_search_grows_with_k_and_a_higher_one_of_the_users_holds(
    database: str, option: str, asked: int, used: str
) -> None:
    statement = index_settings(Table("t", "public", (0, 8, 1)), asked)
    connection = psycopg2.connect(database, options=f"-c {option}" if option else "")
    for load_extension in ("SELECT 1", "SELECT '[1]'::vector"):
        with connection.cursor() as cursor:
            cursor.execute(statement, ())
            cursor.execute(f"{load_extension}; SHOW hnsw.ef_search")
            assert cursor.fetchall() == [(used,)]
        connection.rollback()
    connection.close()


def test_hundreds_of_equal_vectors_come_in_the_order_of_insertion_by_index_too(
    open_: Opened,
) -> None:
    store = open_(index="hnsw")
    store.add(chunks("far", 50, Y))
    store.add(chunks("near", 400, Z))

    assert ids(store.search(Z, k=100)) == [f"near{i}" for i in range(100)]
    assert ids(store.search(X, k=60))[49:51] == ["far49", "near0"]


def test_zero_vectors_are_in_the_index(open_: Opened) -> None:
    store = open_(index="hnsw")
    store.add(chunks("zero", 30, [0.0, 0.0, 0.0]))
    store.add(chunks("near", 3, X))

    assert ids(store.search(X, k=5)) == ["near0", "near1", "near2", "zero0", "zero1"]


def test_an_index_may_be_asked_for_later(postgres: Postgres, open_: Opened) -> None:
    plain = open_()
    plain.add(chunks("a", 30))
    definition = f"SELECT indexdef FROM pg_indexes WHERE tablename = '{open_.table}'"

    open_(index="hnsw")
    open_(index="hnsw")
    plain.add([chunk("b", Y)])

    made = [one for (one,) in postgres.execute(definition, open_.database) if "hnsw" in one]
    assert len(made) == 1
    assert made[0].endswith("USING hnsw (embedding vector_ip_ops)")
    assert ids(open_(index="hnsw").search(Y, k=1)) == ["b"]


def test_the_index_comes_back_with_the_first_chunk_after_clear(
    postgres: Postgres, open_: Opened
) -> None:
    store = open_(index="hnsw")
    store.add([chunk("a")])
    store.clear()
    store.add([chunk("b", [1.0, 0.0])])

    indexes = f"SELECT indexdef FROM pg_indexes WHERE tablename = '{open_.table}'"
    assert "hnsw" in str(postgres.execute(indexes, open_.database))
    assert ids(store.search([1.0, 0.0])) == ["b"]


def test_above_2000_dimensions_the_index_is_of_halves_and_the_scores_are_not(
    postgres: Postgres, open_: Opened
) -> None:
    random_ = random.Random(1)
    stored = [chunk(str(i), [random_.gauss(0, 1) for _ in range(2001)]) for i in range(30)]
    store = open_(index="hnsw")
    store.add(stored)

    indexes = f"SELECT indexdef FROM pg_indexes WHERE tablename = '{open_.table}'"
    assert "halfvec(2001)" in str(postgres.execute(indexes, open_.database))
    query = stored[7].embedding or ()
    found, expected = store.search(query, k=3), nearest(stored, query, 3)
    assert ids(found) == [id for id, _ in expected]
    assert scores(found) == pytest.approx([score for _, score in expected], abs=1e-6)


def test_above_4000_dimensions_there_is_exact_search_alone(open_: Opened) -> None:
    wide = [1.0, *[0.0] * 4000]

    with pytest.raises(ValueError, match="at most 4,000"):
        open_(index="hnsw").add([chunk("a", wide)])
    store = open_()
    assert store.dimension is None
    store.add([chunk("a", wide)])
    assert ids(store.search(wide)) == ["a"]
    with pytest.raises(ValueError, match="at most 4,000"):
        open_(index="hnsw")


def test_more_dimensions_than_pgvector_takes_are_refused(open_: Opened) -> None:
    with pytest.raises(ValueError, match="1 to 16,000"):
        open_().add([chunk("a", [1.0] * 16_001)])


def test_an_older_pgvector_serves_as_far_as_it_can(postgres: Postgres) -> None:
    """The version is written into the catalogue: what is there is a newer one."""
    with postgres.database() as url:
        postgres.execute("CREATE EXTENSION vector", url)

        def pretend(version: str) -> None:
            postgres.execute(f"UPDATE pg_extension SET extversion = '{version}'", url)

        pretend("0.7.4")
        with PGVectorStore(url, "seven", 2001, index="hnsw") as store:
            store.add(chunks("a", 30, [1.0, *[0.0] * 2000], metadata={"page": 1}))
            assert len(store.search([1.0] * 2001, k=7, filter={"page": 1})) == 7
        pretend("0.6.0")
        with pytest.raises(VectorStoreError, match=r"2001 dimensions needs pgvector 0\.7.*0\.6\.0"):
            PGVectorStore(url, "six", 2001, index="hnsw")
        pretend("0.4.4")
        with pytest.raises(VectorStoreError, match=r"3 dimensions needs pgvector 0\.5.*0\.4\.4"):
            PGVectorStore(url, "four", 3, index="hnsw")
        with PGVectorStore(url, "four", 3) as store:
            store.add([chunk("a")])
            assert ids(store.search(X)) == ["a"]
