"""What a vector store takes and refuses, and that what it took comes back as it went in."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import (
    INFINITY,
    NAN,
    ODD_TEXTS,
    X,
    Y,
    Z,
    chunk,
    ids,
    scores,
    unit,
)

SELF_CONTAINED: dict[str, Any] = {}
SELF_CONTAINED["self"] = SELF_CONTAINED
KEPT_METADATA: list[dict[str, Any]] = [
    {},
    {"source": "a.txt", "page": 1},
    {"none": None, "yes": True, "no": False, "one": 1, "zero": 0, "empty": ""},
    {"float": 1.0, "small": 5e-324, "large": 1.7976931348623157e308, "minus": -0.5, "third": 1 / 3},
    {"big": 2**53 + 1, "bigger": 2**63, "huge": -(10**40)},
    {"list": [1, "two", None, [True, 3.5, []], {"a": {"b": [{}]}}], "dict": {"": {"": None}}},
    {"unicode": "Zürich 東京 👩‍👩‍👧", "schlüssel 鍵 🔑": 1},
    {"": "empty key", " ": 1, "a.b": 2, "a'b\"c`d": 3, "$in": 4, "#": 5, "key": 6, "id": 7},
    {"chroma:document": "x", "text": "y", "document": "z", "seq": 1, "_id": 2, "metadata": {}},
    {f"odd {i}": text for i, text in enumerate(ODD_TEXTS)},
    {text: i for i, text in enumerate(ODD_TEXTS)},
]
REFUSED_METADATA: list[tuple[Any, type[Exception]]] = [
    ({"a": NAN}, ValueError),
    ({"a": [1.0, -INFINITY]}, ValueError),
    ({"a": {"b": {"c": INFINITY}}}, ValueError),
    ({"a": 10**4_000}, ValueError),
    (SELF_CONTAINED, ValueError),
    ({"a": (1, 2)}, TypeError),
    ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, TypeError),
    ({"a": [date(2026, 1, 1)]}, TypeError),
    ({"a": {1, 2}}, TypeError),
    ({"a": b"bytes"}, TypeError),
    ({"a": np.int64(1)}, TypeError),
    ({"a": object}, TypeError),
    ({1: "a"}, TypeError),
    ({None: "a"}, TypeError),
    ({"a": {2.5: "b"}}, TypeError),
    ("no dict", TypeError),
    (["no dict"], TypeError),
    (None, TypeError),
]


class InputContract:
    """The tests of what goes in and comes back."""

    dimension_is_fixed = False

    # What comes back

    @pytest.mark.parametrize("metadata", KEPT_METADATA, ids=range(len(KEPT_METADATA)))
    def test_metadata_comes_back_as_it_went_in(
        self, store: VectorStore, metadata: dict[str, Any]
    ) -> None:
        store.add([chunk("a", metadata=copy.deepcopy(metadata))])

        [found], [got] = store.search(X), store.get(["a"])

        assert repr(_sorted(found.chunk.metadata)) == repr(_sorted(metadata))  # 1 is not True
        assert repr(_sorted(got.metadata)) == repr(_sorted(metadata))

    def test_a_chunk_comes_back_with_all_that_it_had(self, store: VectorStore) -> None:
        whole = Chunk(
            "text", "doc", {"page": 1}, "a", [3.0, 4.0, 0.0], 0, 2**40, "model-x/3 [query]"
        )
        bare = Chunk("text", id="b", embedding=Y)
        store.add([whole, bare])

        found = store.search(X, k=2)

        assert [one.chunk for one in found] == [whole, bare]
        assert [one.chunk.embedding for one in found] == [None, None]
        assert store.get(["a", "b"]) == [whole, bare]

    def test_an_embedding_comes_back_from_get_as_a_list_of_length_1(
        self, store: VectorStore
    ) -> None:
        store.add([chunk("a", [3.0, -4.0, 12.0]), chunk("zero", [0.0, 0.0, 0.0])])

        a, zero = (one.embedding for one in store.get(["a", "zero"]))

        assert isinstance(a, list)
        assert {type(number) for number in a} == {float}
        assert a == pytest.approx(unit([3, -4, 12]), abs=1e-6)
        assert zero == [0.0, 0.0, 0.0]

    def test_odd_texts_come_back_as_they_went_in(self, store: VectorStore) -> None:
        odd = [
            Chunk(text, text, {}, f"id {i}", X, embedded_by=text)
            for i, text in enumerate(ODD_TEXTS)
        ]
        store.add(odd)

        assert store.get(ids(odd)) == odd
        assert [one.chunk for one in store.search(X, k=100)] == odd

    def test_any_text_is_an_id(self, store: VectorStore) -> None:
        odd = [chunk(id, text=str(i)) for i, id in enumerate(ODD_TEXTS)]
        store.add(odd)
        store.add([chunk(ODD_TEXTS[3], text="again")])

        assert ids(store.search(X, k=100)) == ODD_TEXTS[:3] + ODD_TEXTS[4:] + ODD_TEXTS[3:4]
        assert [one.text for one in store.get(ODD_TEXTS[3:5])] == ["again", "4"]

        store.delete(ODD_TEXTS[:-1])
        assert ids(store.search(X, k=100)) == ODD_TEXTS[-1:]

    def test_two_equal_texts_are_two_chunks(self, store: VectorStore) -> None:
        store.add([chunk("a", text="same"), chunk("b", text="same")])

        assert ids(store.search(X)) == ["a", "b"]

    # Independence

    def test_adding_changes_nothing_of_the_caller(self, store: VectorStore) -> None:
        vector = np.array([3, 4, 0], dtype=np.float32)
        mine = [chunk("a", vector, metadata={"tags": ["x"]}), chunk("b", [3.0, 4.0, 0.0])]
        before = copy.deepcopy(mine)

        store.add(mine)

        assert mine == before
        assert mine[0].embedding is vector
        assert vector.tolist() == mine[1].embedding == [3.0, 4.0, 0.0]

    def test_what_the_caller_changes_later_is_not_in_the_store(self, store: VectorStore) -> None:
        vector = np.array(X, dtype=np.float32)
        mine = chunk("a", vector, metadata={"tags": ["x"], "deep": {"er": [1]}})
        store.add([mine])

        vector[:] = Y
        mine.text = mine.doc_id = "changed"
        mine.metadata["tags"].append("y")
        mine.metadata["deep"]["er"][0] = 2
        mine.metadata["new"] = 1

        [found] = store.search(X, k=1)
        assert found.score == pytest.approx(1)
        assert (found.chunk.text, found.chunk.doc_id) == ("text of a", "")
        assert found.chunk.metadata == {"tags": ["x"], "deep": {"er": [1]}}
        assert store.search(X, filter={"new": 1}) == []

    def test_what_was_handed_out_is_not_in_the_store(self, store: VectorStore) -> None:
        store.add([chunk("a", metadata={"tags": ["x"]})])

        for handed in (store.search(X)[0].chunk, store.get(["a"])[0], *store.get(["a", "a"])):
            handed.text = handed.id = "changed"
            handed.metadata["tags"].append("y")
            handed.metadata["new"] = 1
            if handed.embedding is not None:
                handed.embedding[0] = 0.0  # type: ignore[index]

        [found], [got] = store.search(X), store.get(["a"])
        assert (found.chunk.id, found.chunk.text, found.score) == ("a", "text of a", 1.0)
        assert found.chunk.metadata == got.metadata == {"tags": ["x"]}
        assert got.embedding == X

    # What is taken

    @pytest.mark.parametrize(
        "vector",
        [
            [3, 4, 0],
            (3.0, 4.0, 0.0),
            array("f", [3, 4, 0]),
            np.array([3, 4, 0], dtype=np.float32),
            np.array([3, 4, 0], dtype=np.float64),
            np.array([3, 4, 0], dtype=np.float16),
            np.array([3, 9, 4, 9, 0], dtype=np.int64)[::2],
        ],
        ids=["list", "tuple", "array", "float32", "float64", "float16", "strided int64"],
    )
    def test_vectors_of_any_kind_are_taken(self, store: VectorStore, vector: Any) -> None:
        store.add([chunk("a", vector), chunk("b", Z)])

        assert scores(store.search(X)) == pytest.approx([0.6, 0], abs=1e-6)
        assert scores(store.search(vector)) == pytest.approx([1, 0], abs=1e-6)

    @pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30, 3e38])
    def test_very_short_and_very_long_vectors_are_taken(
        self, store: VectorStore, scale: float
    ) -> None:
        store.add([chunk("a", [0.0, scale, 0.0]), chunk("b", X)])

        assert scores(store.search([0.0, scale, 0.0])) == pytest.approx([1, 0], abs=1e-6)

    def test_chunks_may_come_from_a_generator(self, store: VectorStore) -> None:
        store.add(chunk(id) for id in "ab")

        assert ids(store.search(X)) == ["a", "b"]

    def test_adding_nothing_does_nothing(self, store: VectorStore) -> None:
        store.add([])

        assert len(store) == 0
        assert store.search(X) == []

    def test_three_thousand_chunks_go_in_at_once(self, store: VectorStore) -> None:
        angles = np.linspace(0, np.pi / 2, 3_000)
        vectors = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
        store.add([chunk(str(i), vector) for i, vector in enumerate(vectors)])

        assert len(store) == 3_000
        assert ids(store.search(X, k=3)) == ["0", "1", "2"]
        assert ids(store.search(Y, k=3)) == ["2999", "2998", "2997"]
        asked = [str(i) for i in range(2_999, -1, -1)]
        assert ids(store.get(asked)) == asked
        store.delete(asked[:-2])
        assert ids(store.search(Y, k=5)) == ["1", "0"]

    # What is refused

    def test_a_vector_of_another_size_is_refused_and_nothing_of_its_batch_is_stored(
        self, store: VectorStore
    ) -> None:
        store.add([chunk("a", text="old")])

        with pytest.raises(DimensionMismatchError, match=r"(?s)'d'.*\b4\b.*\b3\b"):
            store.add([chunk("a", text="new"), chunk("c"), chunk("d", [1.0, 0.0, 0.0, 0.0])])

        assert [one.chunk.text for one in store.search(X)] == ["old"]
        assert len(store) == 1
        assert store.dimension == 3

    def test_two_sizes_in_the_first_batch_are_refused(self, store: VectorStore) -> None:
        with pytest.raises(DimensionMismatchError, match=r"(?s)'b'.*\b2\b.*\b3\b"):
            store.add([chunk("a"), chunk("b", [1.0, 0.0])])

        assert len(store) == 0
        assert store.dimension == (3 if self.dimension_is_fixed else None)

    def test_a_query_of_another_size_is_refused(self, store: VectorStore) -> None:
        store.add([chunk("a")])

        with pytest.raises(DimensionMismatchError, match=r"(?s)\b2\b.*\b3\b"):
            store.search([1.0, 0.0])

    def test_the_size_stays_settled_when_all_chunks_are_deleted(self, store: VectorStore) -> None:
        store.add([chunk("a")])
        store.delete(["a"])

        assert store.dimension == 3
        assert store.search(X) == []
        with pytest.raises(DimensionMismatchError):
            store.add([chunk("b", [1.0, 0.0])])

    @pytest.mark.parametrize(
        "wrong",
        [NAN, INFINITY, -INFINITY, 1e39, 10**400],
        ids=["NaN", "infinity", "minus infinity", "beyond float32", "beyond float64"],
    )
    def test_a_number_that_is_none_is_refused_and_nothing_of_its_batch_is_stored(
        self, store: VectorStore, wrong: float
    ) -> None:
        with pytest.raises(ValueError, match="'wrong one'"):
            store.add([chunk("a"), chunk("wrong one", [1.0, wrong, 0.0]), chunk("c")])
        assert len(store) == 0

        store.add([chunk("a")])
        with pytest.raises(ValueError, match="query"):
            store.search([1.0, wrong, 0.0])

    def test_a_query_is_checked_by_an_empty_store_too(self, store: VectorStore) -> None:
        with pytest.raises(ValueError, match="query"):
            store.search([1.0, NAN, 0.0])
        with pytest.raises(ValueError, match="k is 0"):
            store.search(X, k=0)

    @pytest.mark.parametrize("wrong", [[], [[1.0, 0.0, 0.0]], "abc", 5, ["x", "y", "z"]], ids=repr)
    def test_what_is_no_vector_is_refused(self, store: VectorStore, wrong: Any) -> None:
        with pytest.raises(ValueError, match="'wrong one'"):
            store.add([chunk("a"), chunk("wrong one", wrong)])
        assert len(store) == 0

        store.add([chunk("a")])
        with pytest.raises(ValueError, match="query"):
            store.search(wrong)

    def test_a_chunk_without_embedding_is_refused_and_nothing_of_its_batch_is_stored(
        self, store: VectorStore
    ) -> None:
        with pytest.raises(ValueError, match=r"'bare'.*no embedding"):
            store.add([chunk("a"), chunk("bare", None)])

        assert len(store) == 0

    @pytest.mark.parametrize(
        ("metadata", "error"), REFUSED_METADATA, ids=lambda value: repr(value)[:30]
    )
    def test_metadata_that_would_not_come_back_is_refused_and_nothing_of_its_batch_is_stored(
        self, store: VectorStore, metadata: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error, match="'wrong one'"):
            store.add([chunk("a"), chunk("wrong one", metadata=metadata)])

        assert len(store) == 0

    @pytest.mark.parametrize("wrong", ["text", {"text": "a"}, None, 5], ids=repr)
    def test_what_is_no_chunk_is_refused(self, store: VectorStore, wrong: Any) -> None:
        with pytest.raises(TypeError, match="Chunk"):
            store.add([chunk("a"), wrong])

        assert len(store) == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": 5},
            {"id": None},
            {"text": b"x"},
            {"doc_id": None},
            {"start": np.int64(1)},
            {"end": 1.0},
            {"embedded_by": 5},
        ],
        ids=repr,
    )
    def test_fields_of_another_type_are_refused_by_name(
        self, store: VectorStore, wrong: dict[str, Any]
    ) -> None:
        with pytest.raises(TypeError, match=rf"{next(iter(wrong))} of .* expected (str|int)"):
            store.add([chunk("a"), Chunk(**{"text": "t", "embedding": X} | wrong)])

        assert len(store) == 0

    def test_when_the_callers_generator_fails_nothing_is_stored(self, store: VectorStore) -> None:
        def failing() -> Iterator[Chunk]:
            yield chunk("a")
            raise OSError("the file ended")

        with pytest.raises(OSError, match="the file ended"):
            store.add(failing())

        assert len(store) == 0


def _sorted(value: Any) -> Any:
    """With the keys in one order, so that a text shows whether types are equal, too."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
