"""PGVectorStore: the contract, exact and by an index, its table, and what the index promises."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg2
import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, chunk, ids
from tests.contracts.vector_store_machine import agree_with_a_dict
from tests.graph.pgvector_opened import Opened
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
        ({"dimension": "3"}, "expected an int"),
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
