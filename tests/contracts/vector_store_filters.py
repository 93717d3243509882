"""How every vector store filters by metadata: before it takes the k nearest."""

from __future__ import annotations

from typing import Any

import pytest

from pywrapai_graph.rag.store import VectorStore
from tests.contracts.vector_store_chunks import ODD_TEXTS, X, Y, chunk, chunks, ids, scores

LONG = "long " * 400
VALUES: dict[str, Any] = {
    "one": 1,
    "one float": 1.0,
    "true": True,
    "text 1": "1",
    "zero": 0,
    "minus zero": -0.0,
    "false": False,
    "none": None,
    "text none": "None",
    "null": "null",
    "empty": "",
    "half": 0.5,
    "big": 2**53 + 1,
    "big float": float(2**53),
    "huge": 10**40,
    "list": [1],
    "dict": {"a": 1},
    "long": LONG,
    "longer": LONG + "!",
}
EQUAL: list[tuple[Any, list[str]]] = [
    (1, ["one", "one float"]),
    (1.0, ["one", "one float"]),
    (True, ["true"]),
    ("1", ["text 1"]),
    (0, ["zero", "minus zero"]),
    (False, ["false"]),
    (None, ["none"]),
    ("None", ["text none"]),
    ("null", ["null"]),
    ("", ["empty"]),
    (0.5, ["half"]),
    (2**53 + 1, ["big"]),
    (2**53, ["big float"]),
    (10**40, ["huge"]),
    (1e40, []),
    (LONG, ["long"]),
    (LONG + "!", ["longer"]),
    (LONG[:-1], []),
    ({"$in": [1, True]}, ["one", "one float", "true"]),
    ({"$in": (None, "")}, ["none", "empty"]),
    ({"$in": {0, 0.5}}, ["zero", "minus zero", "half"]),
    ({"$in": [1, 1, 1.0]}, ["one", "one float"]),
    ({"$in": ["nowhere"]}, []),
    ({"$in": []}, []),
]
REFUSED: list[Any] = [
    {"page": {"$gt": 1}},
    {"page": {"$in": [1], "$ne": 2}},
    {"page": {}},
    {"page": {"$in": 1}},
    {"page": {"$in": "abc"}},
    {"page": {"$in": None}},
    {"page": {"$in": [[1]]}},
    {"page": [1]},
    {"page": (1,)},
    {"page": {1}},
    {"page": object},
    {1: "a"},
    ["page"],
    "page",
]


class FilterContract:
    """The tests of `search(..., filter=...)`."""

    @pytest.mark.parametrize(("wanted", "expected"), EQUAL, ids=lambda value: repr(value)[:30])
    def test_a_filter_admits_values_that_are_equal(
        self, store: VectorStore, wanted: Any, expected: list[str]
    ) -> None:
        store.add([chunk(id, metadata={"value": value}) for id, value in VALUES.items()])
        store.add([chunk("none at all"), chunk("another key", metadata={"values": 1, "": 1})])

        assert ids(store.search(X, k=50, filter={"value": wanted})) == expected

    def test_a_chunk_passes_if_every_key_does(self, store: VectorStore) -> None:
        for source in "ab":
            for page in range(3):
                store.add([chunk(f"{source}{page}", metadata={"source": source, "page": page})])

        assert ids(store.search(X, filter={"source": "b", "page": 1})) == ["b1"]
        assert ids(store.search(X, filter={"source": "b", "page": {"$in": [2, 0]}})) == ["b0", "b2"]
        assert ids(store.search(X, filter={"source": {"$in": ["a", "b"]}, "page": 0})) == [
            "a0",
            "b0",
        ]
        assert store.search(X, filter={"source": "b", "page": 1, "missing": None}) == []
        assert store.search(X, filter={"source": "a", "page": {"$in": []}}) == []

    def test_values_of_two_keys_are_not_mixed_up(self, store: VectorStore) -> None:
        store.add([chunk("a", metadata={"x": "1", "y": "2"})])

        assert store.search(X, filter={"x": "2"}) == []
        assert store.search(X, filter={"x": "1", "y": "1"}) == []

    def test_an_empty_filter_admits_all(self, store: VectorStore) -> None:
        store.add([chunk("a"), chunk("b", metadata={"page": 1})])

        assert ids(store.search(X, filter={})) == ids(store.search(X, filter=None)) == ["a", "b"]

    def test_any_text_is_a_key_and_a_value(self, store: VectorStore) -> None:
        store.add([chunk(f"{i}", metadata={text: text}) for i, text in enumerate(ODD_TEXTS)])

        for i, text in enumerate(ODD_TEXTS):
            assert ids(store.search(X, k=50, filter={text: text})) == [f"{i}"]

    def test_keys_are_names_and_no_paths(self, store: VectorStore) -> None:
        store.add([chunk("nested", metadata={"a": {"b": 1}}), chunk("dot", metadata={"a.b": 1})])
        store.add([chunk("quote", metadata={"a' OR '1'='1": 1}), chunk("in", metadata={"$in": 1})])

        assert ids(store.search(X, filter={"a.b": 1})) == ["dot"]
        assert ids(store.search(X, filter={"a' OR '1'='1": 1})) == ["quote"]
        assert ids(store.search(X, filter={"$in": 1})) == ["in"]

    def test_a_filter_is_applied_before_the_k_are_taken(self, store: VectorStore) -> None:
        far = [[0.01, 1.0, 0.01 * i] for i in range(10)]
        store.add(chunks("near", 200, metadata={"kind": "near"}))
        store.add([chunk(f"far{i}", v, metadata={"kind": "far"}) for i, v in enumerate(far)])
        store.add(chunks("nearer", 200, metadata={"kind": "near"}))

        found = store.search(X, k=10, filter={"kind": "far"})

        assert ids(found) == [f"far{i}" for i in range(10)]
        assert scores(found) == sorted(scores(found), reverse=True)
        assert ids(store.search(X, k=3, filter={"kind": "far"})) == ["far0", "far1", "far2"]

    def test_a_filter_admits_a_few_of_many_equal_ones_in_order(self, store: VectorStore) -> None:
        store.add([chunk(f"{i}", metadata={"third": i % 3}) for i in range(150)])

        assert ids(store.search(X, k=20, filter={"third": 2})) == [
            f"{3 * i + 2}" for i in range(20)
        ]

    def test_filtered_chunks_that_are_not_near_at_all_are_found(self, store: VectorStore) -> None:
        store.add(chunks("near", 20, metadata={"kind": 1}))
        opposite = [chunk("minus", [-1.0, 0.0, 0.0]), chunk("zero", [0.0, 0.0, 0.0])]
        for one in opposite:
            one.metadata = {"kind": 2}
        store.add(opposite)

        found = store.search(X, k=4, filter={"kind": 2})

        assert [(one.chunk.id, one.score) for one in found] == [("minus", 0.0), ("zero", 0.0)]

    def test_a_filter_sees_the_newest_metadata(self, store: VectorStore) -> None:
        store.add([chunk("a", metadata={"page": 1}), chunk("b", metadata={"page": 1})])
        assert ids(store.search(X, filter={"page": 1})) == ["a", "b"]

        store.add([chunk("a", metadata={"page": 2}), chunk("c", Y, metadata={"page": 2})])
        store.delete(["b"])

        assert store.search(X, filter={"page": 1}) == []
        assert ids(store.search(X, filter={"page": 2})) == ["a", "c"]

    def test_a_filter_sees_what_is_left_of_many(self, store: VectorStore) -> None:
        store.add([chunk(f"{i}", metadata={"third": i % 3}) for i in range(300)])
        assert len(store.search(X, k=300, filter={"third": 1})) == 100
        store.delete(f"{i}" for i in range(290))

        assert ids(store.search(X, k=9, filter={"third": 1})) == ["292", "295", "298"]
        store.add([chunk("new", metadata={"third": 1}), chunk("295", metadata={"third": 2})])
        assert ids(store.search(X, k=9, filter={"third": 1})) == ["292", "298", "new"]

    @pytest.mark.parametrize("wrong", REFUSED, ids=repr)
    def test_what_is_no_filter_is_refused(self, store: VectorStore, wrong: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="filter"):
            store.search(X, filter=wrong)

        store.add([chunk("a", metadata={"page": 1})])
        with pytest.raises((TypeError, ValueError), match="filter"):
            store.search(X, filter=wrong)

    def test_an_operator_that_is_not_known_is_a_value_error_that_says_what_is(
        self, store: VectorStore
    ) -> None:
        with pytest.raises(ValueError, match=r"\$gt.*\$in"):
            store.search(X, filter={"page": {"$gt": 1}})
