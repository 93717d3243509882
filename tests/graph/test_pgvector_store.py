"""PGVectorStore: the contract, exact and by an index, its table, and what the index promises."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
import psycopg2
import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.stores.pgvector_sql import index_settings
from pywrapai_graph.rag.stores.pgvector_table import Table
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, chunks, ids, nearest, scores
from tests.contracts.vector_store_machine import agree_with_a_dict
from tests.postgres import Postgres

ODD_SETTINGS = (
    "default_transaction_isolation = 'serializable'",
    "standard_conforming_strings = off",
    "escape_string_warning = off",
    "bytea_output = 'escape'",
    "extra_float_digits = 0",
    "datestyle = 'German'",
    "quote_all_identifiers = on",
    "transform_null_equals = on",
    "array_nulls = off",
    "client_encoding = 'LATIN1'",
)


class Opened:
    """Opens the table of a test, as often as it is asked to; it is gone with its database."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.table = f"t_{uuid4().hex}"
        self.stores: list[PGVectorStore] = []

    def __call__(self, **options: Any) -> PGVectorStore:
        self.stores.append(PGVectorStore(self.database, **{"table_name": self.table} | options))
        return self.stores[-1]


@pytest.fixture
def open_(database: str) -> Iterator[Opened]:
    opened = Opened(database)
    yield opened
    for store in opened.stores:
        store.close()


@pytest.fixture(scope="module")
def odd_database(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as url:
        for setting in ODD_SETTINGS:
            postgres.execute(f"ALTER DATABASE {urlsplit(url).path[1:]} SET {setting}")
        yield url


class ReopenedByTheSameOptions:
    options: dict[str, Any]

    @pytest.fixture
    def store(self, open_: Opened) -> PGVectorStore:
        return open_(**self.options)

    @pytest.fixture
    def reopen(self, open_: Opened, store: PGVectorStore) -> Callable[[], PGVectorStore]:
        def reopened() -> PGVectorStore:
            open_.stores[-1].close()
            return open_(**self.options)

        return reopened


class TestExact(ReopenedByTheSameOptions, VectorStoreContract):
    options = {}  # noqa: RUF012  (it is not changed)


class TestIndexed(ReopenedByTheSameOptions, VectorStoreContract):
    """In a database whose settings are not the usual ones, too."""

    options = {"index": "hnsw"}  # noqa: RUF012

    @pytest.fixture
    def database(self, odd_database: str) -> str:
        return odd_database


@pytest.mark.parametrize("index", [None, "hnsw"])
def test_it_agrees_with_a_plain_dict(open_: Opened, index: str | None) -> None:
    agree_with_a_dict(lambda: lambda: open_(index=index))


# What it is made with


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"index": "ivfflat"}, "'hnsw'"),
        ({"index": True}, "'hnsw'"),
        ({"dimension": 0}, "1 to 16,000"),
        ({"dimension": 16_001}, "1 to 16,000"),
        ({"dimension": 4_001, "index": "hnsw"}, "at most 4,000"),
        ({"max_connections": 0}, "max_connections"),
        ({"table_name": ""}, "1 to 63 bytes"),
        ({"table_name": "ä" * 32}, "1 to 63 bytes"),
        ({"table_name": "a\0b"}, "NUL"),
        ({"table_name": "\ud800"}, "UTF-8"),
    ],
    ids=repr,
)
def test_what_cannot_be_is_refused_before_any_network(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PGVectorStore("postgresql://127.0.0.1:1/nowhere", **options)


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql+psycopg2://u:s3cret@host/db",
        "postgresql://u:s3cret%zz@host/db",
        "postgresql://u:x@s3cret@host/db",
        "postgresql://u:s3cret@host/db?unknown=1",
        "host=x password='s3cret",
        "postgresql://u:s3cret\ud800@host/db",
        "s3cret",
    ],
)
def test_a_wrong_connection_string_is_refused_without_being_repeated(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected 'postgresql://") as caught:
        PGVectorStore(wrong)

    assert caught.value.__cause__ is None
    assert "s3cret" not in str(caught.value)


def test_a_connection_string_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        PGVectorStore(None)  # type: ignore[arg-type]


# The table


@pytest.mark.parametrize(
    "name",
    [
        "x'; DROP TABLE y; --",
        'a"b',
        "100%s %(id)s %%",
        "ünï 漢",
        "Select",
        "a.b",
        " ",
        "{table}",
        "\\",
        "n" * 63,
    ],
)
def test_a_table_may_have_any_name(open_: Opened, name: str) -> None:
    for index in (None, "hnsw"):
        store = open_(table_name=name, index=index)
        store.add([chunk("a"), chunk("b", Y, metadata={"page": 1})])
        store.delete(["a"])

        assert ids(open_(table_name=name).search(X, filter={"page": 1})) == ["b"]
        assert ids(store.get(["a", "b"])) == ["b"]
        store.clear()
        assert len(store) == 0


def test_extension_and_table_are_made_when_it_is_made(postgres: Postgres) -> None:
    with postgres.database() as url:
        PGVectorStore(url, dimension=3).close()

        assert postgres.execute("SELECT extname FROM pg_extension WHERE extname = 'vector'", url)
        assert postgres.execute("SELECT count(*) FROM vector_chunks", url) == [(0,)]


def test_many_may_make_it_at_once(postgres: Postgres) -> None:
    with postgres.database() as url, ThreadPoolExecutor(12) as threads:
        opened = [threads.submit(PGVectorStore, url, "t", 3, index="hnsw") for _ in range(8)]
        opened += [threads.submit(PGVectorStore, url, "other") for _ in range(4)]
        stores = [one.result() for one in opened]
        list(threads.map(lambda pair: pair[1].add([chunk(str(pair[0]))]), enumerate(stores)))

        assert (len(stores[0]), len(stores[-1])) == (8, 4)
        indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = 't' AND indexdef ~ 'hnsw'"
        assert postgres.execute(indexes, url) == [(1,)]
        for store in stores:
            store.close()


def test_the_dimension_must_be_the_tables(open_: Opened) -> None:
    open_(dimension=3)

    assert open_().dimension == 3
    with pytest.raises(DimensionMismatchError, match=r"\b4\b.*\b3\b"):
        open_(dimension=4)


def test_a_given_dimension_settles_the_table_before_anything_is_added(open_: Opened) -> None:
    store = open_()
    assert store.dimension is None

    open_(dimension=2)

    assert store.dimension == 2
    with pytest.raises(DimensionMismatchError, match=r"\b3\b.*\b2\b"):
        store.add([chunk("a", X)])


def test_a_given_dimension_outlives_clear(open_: Opened) -> None:
    store = open_(dimension=3)
    store.add([chunk("a")])

    store.clear()

    assert (store.dimension, open_().dimension) == (3, 3)


@pytest.mark.parametrize("index", [None, "hnsw"])
def test_a_store_notices_that_another_one_changed_the_dimension(
    open_: Opened, index: str | None
) -> None:
    ours, theirs = open_(index=index), open_(index=index)
    ours.add([chunk("a", X)])
    assert ids(theirs.search(X)) == ["a"]

    theirs.clear()
    assert ours.search(X) == []
    theirs.add([chunk("b", [1.0, 0.0])])

    assert ids(ours.search([1.0, 0.0])) == ["b"]
    ours.clear()
    theirs.clear()
    ours.add([chunk("c", X)])
    theirs.add([chunk("d", X)])
    assert ids(theirs.search(X)) == ["c", "d"]
    ours.clear()
    ours.add([chunk("e", [1.0, 0.0])])
    with pytest.raises(DimensionMismatchError, match=r"\b3\b.*\b2\b"):
        theirs.search(X)
    with pytest.raises(DimensionMismatchError, match=r"\b3\b.*\b2\b"):
        theirs.add([chunk("f", X)])
    assert len(theirs) == 1


@pytest.mark.parametrize(
    "made",
    [
        'CREATE TABLE "{}" (id text PRIMARY KEY, embedding real[])',
        'CREATE VIEW "{}" AS SELECT 1 AS id',
        'CREATE SEQUENCE "{}"',
    ],
)
def test_what_belongs_to_somebody_else_is_refused_and_left_as_it_is(
    postgres: Postgres, made: str
) -> None:
    with postgres.database() as url:
        postgres.execute(made.format("theirs"), url)

        with pytest.raises(VectorStoreError, match="theirs is there, but is no table of a PG"):
            PGVectorStore(url, "theirs")

        assert postgres.execute("SELECT count(*) FROM theirs", url)[0][0] in (0, 1)


def test_a_table_that_was_dropped_meanwhile_is_told(postgres: Postgres, open_: Opened) -> None:
    store = open_(dimension=3)
    postgres.execute(f'DROP TABLE "{open_.table}"', open_.database)

    with pytest.raises(VectorStoreError, match="open the store again"):
        store.search(X)
    open_()
    assert store.search(X) == []


def test_columns_that_somebody_added_do_no_harm(postgres: Postgres, open_: Opened) -> None:
    open_()
    postgres.execute(f"ALTER TABLE {open_.table} ADD tenant text DEFAULT 'a'", open_.database)

    store = open_()
    store.add([chunk("a")])

    assert ids(store.search(X)) == ["a"]


def test_the_extension_may_be_in_a_schema_that_is_not_searched(postgres: Postgres) -> None:
    with postgres.database() as url:
        postgres.execute('CREATE SCHEMA "odd % ""schema"""', url)
        postgres.execute('CREATE EXTENSION vector SCHEMA "odd % ""schema"""', url)
        for index in (None, "hnsw"):
            with PGVectorStore(url, f"t_{index}", index=index) as store:
                store.add([chunk("a"), chunk("b", Y)])
                assert ids(store.search(Y, k=1)) == ["b"]
                assert store.get(["b"])[0].embedding == Y
                store.clear()


def test_the_search_path_says_where_the_table_is(postgres: Postgres) -> None:
    with postgres.database() as url:
        postgres.execute("CREATE SCHEMA docs", url)
        separator = "&" if "?" in url else "?"
        with PGVectorStore(f"{url}{separator}options=-csearch_path%3Ddocs%2Cpublic") as store:
            store.add([chunk("a")])

        assert postgres.execute("SELECT id FROM docs.vector_chunks", url) == [("a",)]


def test_a_search_path_of_nothing_is_told(postgres: Postgres) -> None:
    with postgres.database() as url:
        postgres.execute("CREATE EXTENSION vector", url)
        separator = "&" if "?" in url else "?"

        with pytest.raises(VectorStoreError, match="no schema of the search_path"):
            PGVectorStore(f"{url}{separator}options=-csearch_path%3Dnowhere")


# What the server may lack


def test_a_server_without_pgvector_is_told(postgres: Postgres) -> None:
    if postgres.execute("SHOW server_version_num")[0][0] < "180000":
        pytest.skip("PostgreSQL 18 lets a database look elsewhere for its extensions")
    with postgres.database() as url:
        name = urlsplit(url).path[1:]
        postgres.execute(f"ALTER DATABASE {name} SET extension_control_path = '/nowhere'")

        with pytest.raises(VectorStoreError, match="install it there"):
            PGVectorStore(url)


@pytest.fixture
def user(postgres: Postgres) -> Iterator[Callable[[str], str]]:
    """Gives the URL of a database for a user who may do nothing but connect."""
    name = f"user_{uuid4().hex}"
    postgres.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pw'")

    def url_of(url: str) -> str:
        parts = urlsplit(url)
        return parts._replace(netloc=f"{name}:pw@{parts.netloc.rpartition('@')[2]}").geturl()

    url_of.name = name  # type: ignore[attr-defined]
    yield url_of
    postgres.execute(f"DROP ROLE {name}")


def test_a_user_who_may_not_make_the_extension_is_told(postgres: Postgres, user: Any) -> None:
    with (
        postgres.database() as url,
        pytest.raises(VectorStoreError, match="let an administrator run CREATE EXTENSION") as told,
    ):
        PGVectorStore(user(url))

    assert isinstance(told.value.__cause__, psycopg2.errors.InsufficientPrivilege)


def test_a_user_who_may_not_make_the_table_is_told(postgres: Postgres, user: Any) -> None:
    with postgres.database() as url:
        postgres.execute("CREATE EXTENSION vector", url)
        postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", url)

        with pytest.raises(VectorStoreError, match="permission denied for schema public; grant"):
            PGVectorStore(user(url))


def test_a_user_who_may_only_read_can_search(postgres: Postgres, user: Any) -> None:
    with postgres.database() as url:
        with PGVectorStore(url, dimension=3, index="hnsw") as store:
            store.add([chunk("a")])
        postgres.execute(f"GRANT SELECT ON vector_chunks TO {user.name}", url)

        with PGVectorStore(user(url), dimension=3, index="hnsw") as store:
            assert ids(store.search(X)) == ids(store.get(["a"])) == ["a"]
            for change in (lambda: store.add([chunk("b")]), lambda: store.delete(["a"])):
                with pytest.raises(VectorStoreError, match=r"permission denied.*grant this user"):
                    change()
            assert len(store) == 1


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_keeps_every_text_or_is_refused(
    postgres: Postgres, encoding: str
) -> None:
    options = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with postgres.database(options) as url:
        if encoding == "LATIN1":
            with pytest.raises(VectorStoreError, match="encoding is LATIN1"):
                PGVectorStore(url)
        else:
            with PGVectorStore(url) as store:
                store.add([chunk("漢", text="\x00 é 漢 👩‍👩‍👧 \ud800")])
                assert store.get(["漢"])[0].text == "\x00 é 漢 👩‍👩‍👧 \ud800"


# Ids and texts that PostgreSQL would refuse


def test_long_ids_that_begin_alike_are_told_apart(open_: Opened) -> None:
    long = secrets.token_hex(10_000)
    names = [long + "a", long + "b", long[:500], long[:501], long[:499] + "ä"]
    store = open_()
    store.add([chunk(name) for name in names])
    store.add([chunk(names[0], text="new")])

    assert ids(store.search(X, k=9)) == [*names[1:], names[0]]
    assert store.get(names[:1])[0].text == "new"
    store.delete(names[:1])
    assert ids(store.get(names)) == names[1:]


def test_an_id_that_looks_like_what_is_kept_of_another_is_another(
    postgres: Postgres, open_: Opened
) -> None:
    store = open_()
    store.add([chunk("x" * 1000), chunk("\x00")])
    kept = [id for (id,) in postgres.execute(f"SELECT id FROM {open_.table}", open_.database)]
    assert all(id.startswith("\x01") for id in kept)

    store.add([chunk(id, text=id) for id in kept])

    assert ids(store.search(X, k=9)) == ["x" * 1000, "\x00", *kept]
    assert [one.text for one in store.get(kept)] == kept


def test_two_halves_are_not_taken_for_one_character(open_: Opened) -> None:
    halves, whole = "\ud83d\ude00", "\U0001f600"
    store = open_()
    store.add([chunk(halves, text=halves), chunk(whole, text=whole)])

    assert [one.text for one in store.get([halves, whole])] == [halves, whole]


def test_ordinary_rows_can_be_read_by_anybody(postgres: Postgres, open_: Opened) -> None:
    open_().add([Chunk("Grüße", "doc 1", {"page": 1}, "a", X, 3, 8, "model")])

    columns = "id, long_id, text, doc_id, metadata::json->>'page', starts, ends, embedded_by"
    found = postgres.execute(f"SELECT {columns} FROM {open_.table}", open_.database)
    assert found == [("a", None, "Grüße", "doc 1", "1", 3, 8, "model")]


def test_metadata_of_subclasses_is_kept_as_what_they_are_equal_to(open_: Opened) -> None:
    class Page(IntEnum):
        ONE = 1

    store = open_()
    store.add([chunk("a", metadata={"page": Page.ONE}), chunk("b", metadata={"page": True})])

    assert ids(store.search(X, filter={"page": 1})) == ["a"]
    assert [one.metadata for one in store.get(["a", "b"])] == [{"page": 1}, {"page": True}]


def test_a_place_beyond_64_bits_is_refused_and_nothing_of_its_batch_is_stored(
    open_: Opened,
) -> None:
    store = open_()
    store.add([chunk("a", text="old")])

    with pytest.raises(ValueError, match="start or end"):
        store.add([chunk("a", text="new"), chunk("b", start=2**63)])

    assert [one.text for one in store.get(["a", "b"])] == ["old"]


# By index


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
