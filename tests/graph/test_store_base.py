"""What the stores are made of: checked batches, metadata as text and tags, the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai_graph.rag.batch import batch_of, unit_query
from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.matrix import Matrix
from pywrapai_graph.rag.metadata import (
    Where,
    check_metadata,
    metadata_from_json,
    metadata_to_json,
    tag_of,
    tags_of,
)
from pywrapai_graph.rag.store import BaseVectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk
from tests.contracts.vector_store_chunks import X, Y, chunk, cosine, ids, scores, unit
from tests.contracts.vector_store_machine import (
    FILTERS,
    METADATA,
    VECTORS,
    check_search,
    passes,
    same,
)

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
SURROGATES_TOO = st.text(st.characters(codec=None))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | SURROGATES_TOO
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | SURROGATES_TOO
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(SURROGATES_TOO, inner),
    max_leaves=8,
)  # fmt: skip

# A store of somebody else


class ForeignStore(BaseVectorStore):
    """As a user writes one: the four methods of the manual, and nothing more."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def add(self, chunks: list[Chunk]) -> None:
        self.chunks += chunks

    def search(self, query_vector: Sequence[float], k: int = 4) -> list[ScoredChunk]:
        found = [ScoredChunk(one, cosine(one.embedding or (), query_vector)) for one in self.chunks]
        return sorted(found, key=lambda one: -one.score)[:k]

    def clear(self) -> None:
        self.chunks = []

    def __len__(self) -> int:
        return len(self.chunks)


def test_four_methods_make_a_store() -> None:
    with ForeignStore() as store:
        assert store  # though it is empty
        store.add([chunk("a", X), chunk("b", [3.0, 4.0, 0.0])])

        assert scores(store.search(X, k=1)) == [1.0]
        assert len(store) == 2
        store.clear()
        assert len(store) == 0


def test_a_store_of_four_methods_says_what_it_cannot() -> None:
    store = ForeignStore()

    with pytest.raises(NotImplementedError, match="ForeignStore cannot delete"):
        store.delete(["a"])
    with pytest.raises(NotImplementedError, match="ForeignStore cannot get"):
        store.get(["a"])


def test_a_store_that_lacks_one_of_the_four_cannot_be_made() -> None:
    class NoLength(ForeignStore):
        __len__ = BaseVectorStore.__len__

    with pytest.raises(TypeError, match="__len__"):
        NoLength()  # type: ignore[abstract]


# Batches


def test_a_batch_of_nothing_is_none() -> None:
    assert batch_of([], None) is None
    assert batch_of(iter(()), 3) is None


def test_a_batch_is_in_the_order_given_the_later_of_two_in_its_own_place() -> None:
    batch = batch_of([chunk("a", text="1"), chunk("b"), chunk("a", Y, "2"), chunk("c")], None)

    assert batch is not None
    assert batch.ids == ["b", "a", "c"]
    assert batch.chunks[1].text == "2"
    assert batch.vectors.tolist() == [X, Y, X]
    assert (batch.dimension, batch.vectors.dtype) == (3, np.float32)


def test_an_earlier_one_of_two_is_checked_too() -> None:
    with pytest.raises(TypeError, match="metadata"):
        batch_of([chunk("a", metadata={"a": {1}}), chunk("a")], None)


@given(st.lists(st.lists(FINITE, min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_vectors_of_a_batch_are_of_length_1_and_of_the_same_direction(
    vectors: list[list[float]],
) -> None:
    batch = batch_of([chunk(str(i), vector) for i, vector in enumerate(vectors)], 3)

    assert batch is not None
    for row, vector in zip(batch.vectors.tolist(), vectors, strict=True):
        assert row == pytest.approx(_exact_unit(vector), abs=1e-6)
        assert unit_query(vector, 3).tolist() == pytest.approx(row, abs=1e-6)


def _exact_unit(vector: list[float]) -> list[float]:
    """Scaled first, so that nothing is too small for its square."""
    largest = max(map(abs, vector)) or 1.0
    return unit(number / largest for number in vector)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_batch_shares_no_memory_with_the_caller(dimension: int) -> None:
    mine = np.full(dimension, 2, dtype=np.float32)
    batch = batch_of([chunk("a", mine)], None)

    assert batch is not None
    batch.vectors[:] = unit_query(mine, dimension)[:] = 7
    assert mine.tolist() == [2] * dimension


@pytest.mark.parametrize("wrong", [[[5.0]], [["5"]], {5.0}, {0: 5.0}, 5.0])
def test_what_is_no_flat_list_of_numbers_is_refused_though_its_size_is_right(wrong: Any) -> None:
    with pytest.raises(ValueError, match="'wrong one'"):
        batch_of([chunk("a", [1.0]), chunk("wrong one", wrong)], None)
    with pytest.raises(ValueError, match="query"):
        unit_query(wrong, 1)


def test_the_chunk_that_is_at_fault_is_named() -> None:
    many = [chunk(str(i)) for i in range(100)]
    for index, vector, error in [
        (0, [1.0, 2.0], DimensionMismatchError),
        (57, [1.0, 2.0], DimensionMismatchError),
        (99, [1.0, 2.0, float("nan")], ValueError),
        (3, [1.0, None, 2.0], ValueError),
    ]:
        wrong = [*many]
        wrong[index] = chunk(f"wrong {index}", vector)
        with pytest.raises(error, match=f"'wrong {index}'"):
            batch_of(wrong, 3)


# Metadata


@given(st.dictionaries(SURROGATES_TOO, JSON, max_size=3))
@settings(max_examples=50)
def test_metadata_that_is_taken_comes_back_from_its_text(metadata: dict[str, Any]) -> None:
    check_metadata(metadata, "chunk 'a'")
    text = metadata_to_json(metadata)

    assert repr(metadata_from_json(text)) == repr(metadata)
    assert text.isascii()
    assert text.isprintable()


def test_metadata_may_be_nested_a_hundred_deep() -> None:
    deep: Any = 1
    for _ in range(49):
        deep = [{"a": deep}]
    check_metadata({"a": [deep]}, "chunk 'a'")

    with pytest.raises(ValueError, match="chunk 'a' is more than 100"):
        check_metadata({"a": [[deep]]}, "chunk 'a'")


def test_the_place_of_what_is_refused_is_told() -> None:
    with pytest.raises(TypeError, match=r"metadata\['a'\]\[1\]\['b'\] of chunk 'c' is set; "):
        check_metadata({"a": [1, {"b": set()}]}, "chunk 'c'")


@given(SURROGATES_TOO, SCALARS, SURROGATES_TOO, SCALARS)
@settings(max_examples=300)
def test_two_tags_are_equal_if_key_and_value_are(
    key: str, value: Any, other_key: str, other: Any
) -> None:
    for against in (key, other_key):
        equal = key == against and same(value, other)
        assert (tag_of(key, value) == tag_of(against, other)) == equal


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (0, -0.0), (2**60, float(2**60)), (10**22, 1e22)]
)
def test_equal_numbers_have_one_tag(one: int, other: float) -> None:
    assert tag_of("a", one) == tag_of("a", other)


@given(SURROGATES_TOO, SCALARS | st.text(min_size=300), st.integers(1, 40))
def test_tags_are_short_and_ascii(key: str, value: Any, times: int) -> None:
    tag = tag_of(key * times, value)

    assert len(tag) <= 200
    assert tag.isascii()
    assert tag.isprintable()


@pytest.mark.parametrize("length", [180, 190, 200, 300, 10_000])
def test_long_texts_that_differ_at_their_end_have_two_tags(length: int) -> None:
    assert tag_of("a", "x" * length) != tag_of("a", "x" * length + "y")
    assert tag_of("a", "x" * length) == tag_of("a", "x" * length)
    assert tag_of("x" * length, "") != tag_of("x" * length + "y", "")


@given(METADATA | st.dictionaries(st.sampled_from("ab"), SCALARS), FILTERS)
@settings(max_examples=300)
def test_a_filter_admits_what_passes_it(metadata: dict[str, Any], wanted: dict[str, Any]) -> None:
    where = Where.of(wanted)

    if where is None:
        assert wanted == {}
        return
    tags = {*tags_of(metadata)}
    assert where.admits(metadata) == passes(metadata, wanted)
    assert all(tags & wanted for _, wanted in where.wanted) == passes(metadata, wanted)


def test_a_filter_is_a_mapping_of_any_kind() -> None:
    from types import MappingProxyType

    where = Where.of(MappingProxyType({"a": MappingProxyType({"$in": frozenset([1, 2])})}))

    assert where is not None
    assert where.admits({"a": 2})
    assert not where.admits({"a": 3})


# The matrix


def _matrix_of(items: Iterable[Chunk]) -> Matrix[Chunk]:
    matrix: Matrix[Chunk] = Matrix(lambda some: (one.metadata for one in some))
    _put(matrix, list(items))
    return matrix


def _put(matrix: Matrix[Chunk], items: list[Chunk]) -> None:
    if (batch := batch_of(items, None)) is not None:
        matrix.put(batch.ids, batch.vectors, batch.chunks)


def _found(matrix: Matrix[Chunk], query: Any, k: int, where: Where | None) -> list[ScoredChunk]:
    found = matrix.nearest(unit_query(query, len(query)), k, where)
    return [
        ScoredChunk(Chunk(one.text, metadata=one.metadata, id=one.id), score)
        for one, score in found
    ]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 30), max_size=60), VECTORS, METADATA)
        | st.lists(st.integers(0, 30), max_size=40),
        max_size=12,
    ),
    st.lists(st.tuples(VECTORS, st.integers(1, 40), st.none() | FILTERS), min_size=1, max_size=4),
)
def test_the_matrix_finds_what_brute_force_finds(
    steps: list[Any], searches: list[tuple[Any, int, dict[str, Any] | None]]
) -> None:
    """A step puts chunks of one vector and metadata, or discards; a search follows each."""
    matrix, model = _matrix_of([]), dict[str, Chunk]()
    for number, step in enumerate(steps):
        if isinstance(step, list):
            matrix.discard(map(str, step))
            for id in step:
                model.pop(str(id), None)
        else:
            numbers, vector, metadata = step
            fresh = {str(id): chunk(str(id), vector, metadata=metadata) for id in numbers}
            _put(matrix, [*fresh.values()])
            model = {id: one for id, one in model.items() if id not in fresh} | fresh
        query, k, wanted = searches[number % len(searches)]
        passing = [one for one in model.values() if passes(one.metadata, wanted or {})]
        check_search(_found(matrix, query, k, Where.of(wanted)), passing, query, k)
        assert len(matrix) == len(model)
        assert [one.id for one, _ in matrix.get(model)] == [*model]


@pytest.mark.parametrize("dimension", [1, 2, 5, 64, 333, 768, 1536, 3072])
def test_equal_rows_tie_wherever_they_stand(dimension: int) -> None:
    """A product over many rows at once sums in another order than over the last few."""
    generator = np.random.default_rng(dimension)
    same, query = generator.normal(size=(2, dimension))
    query += same
    others = generator.normal(size=(150, dimension))
    rows = [same if i % 3 else others[i // 3] for i in range(301)]
    stored = [chunk(str(i), row, metadata={"odd": i % 2}) for i, row in enumerate(rows)]
    matrix = _matrix_of(stored)
    equal = [str(i) for i in range(301) if i % 3]

    for where in (None, Where.of({"odd": 1}), Where.of({"odd": {"$in": [0, 1]}})):
        wanted = [id for id in equal if where is None or where.admits({"odd": int(id) % 2})]
        for k in (1, 7, 150, 301):
            found = _found(matrix, query, k, where)
            tied = [one for one in found if one.chunk.id in set(equal)]
            assert ids(tied) == wanted[: len(tied)]
            assert len({one.score for one in tied}) <= 1


def test_a_tie_may_be_longer_than_what_is_multiplied_at_once() -> None:
    matrix = _matrix_of(chunk(str(i), [0.6, 0.8]) for i in range(10_000))

    for k in (1, 5_000, 10_000, 20_000):
        assert ids(_found(matrix, [1.0, 0.3], k, None)) == [str(i) for i in range(min(k, 10_000))]


def test_the_nearest_of_many_are_those_that_float64_finds() -> None:
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(5_000, 96)).astype(np.float32)
    matrix = _matrix_of(chunk(str(i), vector) for i, vector in enumerate(vectors))
    exact = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)

    for query in generator.normal(size=(10, 96)):
        products = exact @ (query / np.linalg.norm(query))
        best = np.sort(products)[::-1][:50]
        found = _found(matrix, query, 50, None)
        assert scores(found) == pytest.approx(best.tolist(), abs=1e-6)
        assert scores(found) == pytest.approx([products[int(id)] for id in ids(found)], abs=1e-6)


def test_the_matrix_is_enlarged_a_few_times_only() -> None:
    matrix, sizes = _matrix_of([]), set()
    for i in range(3_000):
        _put(matrix, [chunk(str(i))])
        sizes.add(len(matrix._rows))

    assert len(sizes) < 10
    assert max(sizes) <= 2 * 3_000


def test_replaced_and_deleted_rows_are_left_behind() -> None:
    matrix = _matrix_of(chunk(str(i)) for i in range(100))
    for round in range(50):
        _put(matrix, [chunk(str(i), Y, f"{round}") for i in range(100)])
    assert len(matrix._rows) <= 400

    matrix.discard([str(i) for i in range(95)])
    assert len(matrix) == 5
    assert len(matrix._rows) <= 200
    assert ids(_found(matrix, Y, 9, None)) == ["95", "96", "97", "98", "99"]
    assert [one.text for one, _ in matrix.get(["95"])] == ["49"]


def test_metadata_is_asked_for_filtered_keys_alone_and_once_of_each_item() -> None:
    asked: list[str] = []

    def metadata_of(items: Sequence[Chunk]) -> Iterable[dict[str, Any]]:
        asked.extend(ids(items))
        return (one.metadata for one in items)

    matrix: Matrix[Chunk] = Matrix(metadata_of)
    _put(matrix, [chunk("a", metadata={"page": 1}), chunk("b")])
    _found(matrix, X, 1, None)
    assert asked == []

    for _ in range(3):
        assert ids(_found(matrix, X, 2, Where.of({"page": 1}))) == ["a"]
    _put(matrix, [chunk("c", metadata={"page": 1})])
    assert ids(_found(matrix, X, 2, Where.of({"page": 1}))) == ["a", "c"]

    assert asked == ["a", "b", "c"]


def test_a_matrix_gives_copies_of_its_rows() -> None:
    matrix = _matrix_of([chunk("a")])
    [(_, row)] = matrix.get(["a"])
    row[:] = 0

    assert scores(_found(matrix, X, 1, None)) == [1.0]


def test_a_matrix_refuses_rows_of_another_size_and_stays_as_it_was() -> None:
    matrix = _matrix_of([chunk("a")])

    with pytest.raises(DimensionMismatchError, match=r"(?s)\b2\b.*\b3\b"):
        _put(matrix, [chunk("a", [1.0, 0.0], "new")])

    assert [one.text for one, _ in matrix.get(["a"])] == ["text of a"]
    assert _found(matrix, [1.0, 0.0], 1, None) == []  # as when it was cleared meanwhile
