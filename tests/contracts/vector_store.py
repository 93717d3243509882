"""What every vector store does, whatever keeps its chunks.

Subclass `VectorStoreContract` and give it the fixtures `store` (empty, open; it closes it, too) and
`reopen` (a function that closes the store and gives it opened again). No test is overridden: what
differs is told by attributes.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.store import BaseVectorStore, VectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk
from tests.contracts.vector_store_chunks import (
    ZERO,
    X,
    Y,
    Z,
    chunk,
    chunks,
    cosine,
    ids,
    nearest,
    scores,
    unit,
)
from tests.contracts.vector_store_filters import FilterContract
from tests.contracts.vector_store_input import InputContract
from tests.contracts.vector_store_reopen import ReopenContract


class VectorStoreContract(InputContract, FilterContract, ReopenContract):
    """The tests. Vectors have 3 dimensions, but where `store_of` is asked for others."""

    persistent = True
    """False for a store that is gone when it is closed: it needs no `reopen`."""
    dimension_is_fixed = False
    """True where `store` was made for 3 dimensions: then override the fixture `store_of`."""
    atomic = True
    """False for a store whose searches may see a part of a batch that is being added."""

    def __init_subclass__(cls) -> None:
        if not cls.persistent:
            for name in vars(ReopenContract):
                if name.startswith("test_"):
                    setattr(cls, name, None)  # which pytest does not collect

    @pytest.fixture
    def store_of(self, store: VectorStore) -> Callable[[int], VectorStore]:
        """Gives an empty store for vectors of a size; asked once in a test."""
        return lambda dimension: store

    # Nearness

    def test_the_score_is_the_cosine(self, store: VectorStore) -> None:
        store.add([chunk("right angle", Y), chunk("0.6", [3.0, 4.0, 0.0]), chunk("same", X)])
        store.add([chunk("45 degrees", [5.0, 5.0, 0.0]), chunk("1/3", [1.0, 2.0, -2.0])])

        found = store.search([2.0, 0.0, 0.0], k=5)

        assert ids(found) == ["same", "45 degrees", "0.6", "1/3", "right angle"]
        assert scores(found) == pytest.approx([1, 0.5**0.5, 0.6, 1 / 3, 0], abs=1e-6)
        assert all(isinstance(one, ScoredChunk) for one in found)
        assert {type(one.score) for one in found} == {float}

    @pytest.mark.parametrize("dimension", [3, 64])
    def test_the_nearest_are_those_of_a_brute_force_search(
        self, store_of: Callable[[int], VectorStore], dimension: int
    ) -> None:
        random_ = random.Random(dimension)
        store = store_of(dimension)
        stored = [
            chunk(str(i), [random_.gauss(0, 1) for _ in range(dimension)]) for i in range(200)
        ]
        for start in range(0, 200, 50):
            store.add(stored[start : start + 50])

        for _ in range(5):
            query = [random_.gauss(0, 1) for _ in range(dimension)]
            for k in (1, 10, 200):
                found, expected = store.search(query, k), nearest(stored, query, k)
                assert ids(found) == [id for id, _ in expected]
                assert scores(found) == pytest.approx([score for _, score in expected], abs=1e-4)

    def test_a_score_is_between_0_and_1(self, store: VectorStore) -> None:
        random_ = random.Random(7)
        vectors = [[random_.gauss(0, 1) for _ in range(3)] for _ in range(50)]
        store.add([chunk(str(i), vector) for i, vector in enumerate(vectors)])
        store.add([chunk(f"minus {i}", [-x for x in vector]) for i, vector in enumerate(vectors)])

        for i, vector in enumerate(vectors):
            found = store.search(vector, k=100)
            assert ids(found)[0] == str(i)
            assert found[0].score == pytest.approx(1, abs=1e-6)
            assert all(0 <= score <= 1 for score in scores(found))
            assert dict(zip(ids(found), scores(found), strict=True))[f"minus {i}"] == 0

    def test_zero_vectors_are_found_with_score_0(self, store: VectorStore) -> None:
        store.add([chunk("zero", ZERO), chunk("opposite", [-1.0, 0.0, 0.0]), chunk("near", X)])
        store.add([chunk("right angle", Y), chunk("another zero", ZERO)])

        found = store.search(X, k=5)

        assert ids(found) == ["near", "zero", "opposite", "right angle", "another zero"]
        assert scores(found)[1:] == [0, 0, 0, 0]
        assert ids(store.search(X, k=2)) == ["near", "zero"]

    def test_a_zero_query_finds_the_first_inserted_with_score_0(self, store: VectorStore) -> None:
        store.add([chunk("a", X), chunk("b", ZERO), chunk("c", Y)])

        assert [(one.chunk.id, one.score) for one in store.search(ZERO, k=2)] == [
            ("a", 0.0),
            ("b", 0.0),
        ]

    def test_a_store_of_zero_vectors_alone_can_be_searched(self, store: VectorStore) -> None:
        store.add(chunks("zero", 3, ZERO))

        assert [(one.chunk.id, one.score) for one in store.search(X, k=2)] == [
            ("zero0", 0.0),
            ("zero1", 0.0),
        ]

    def test_what_rounding_makes_of_0_counts_as_0(self, store: VectorStore) -> None:
        store.add([chunk("a", Y), chunk("b", [1.5e-6, 1.0, 0.0]), chunk("c", [-1e-7, 1.0, 0.0])])
        store.add([chunk("d", [0.1, 0.1, -0.2]), chunk("e", X)])

        found = store.search(X, k=5)
        assert ids(found) == ["e", "d", "a", "b", "c"]
        assert scores(found)[2:] == [0, 0, 0]
        assert ids(store.search(X, k=3)) == ["e", "d", "a"]
        assert store.search([0.3, 0.3, 0.3], k=5)[-1].score == 0

    # How many

    def test_a_k_beyond_the_store_gives_all(self, store: VectorStore) -> None:
        store.add([chunk("a"), chunk("b", Y), chunk("c", ZERO)])

        assert ids(store.search(X, k=3)) == ids(store.search(X, k=4)) == ["a", "b", "c"]
        assert ids(store.search(X, k=10**12)) == ["a", "b", "c"]

    def test_without_k_there_are_4(self, store: VectorStore) -> None:
        store.add(chunks("a", 6))

        assert len(store.search(X)) == 4

    @pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3", None])
    def test_a_k_that_is_no_number_of_chunks_is_refused(
        self, store: VectorStore, wrong: Any
    ) -> None:
        store.add([chunk("a")])

        with pytest.raises(ValueError, match="k is"):
            store.search(X, k=wrong)

    def test_an_empty_store_finds_nothing(self, store: VectorStore) -> None:
        assert store.search(X) == []
        assert store.search(X, filter={"page": 1}) == []
        assert store.get(["a"]) == []
        store.delete(["a"])
        assert len(store) == 0
        assert store.dimension == (3 if self.dimension_is_fixed else None)

    def test_a_store_is_true_though_it_is_empty(self, store: VectorStore) -> None:
        assert store
        assert isinstance(store, BaseVectorStore)

    # Ties

    def test_ties_come_in_the_order_of_insertion(self, store: VectorStore) -> None:
        store.add([chunk("b"), chunk("z", Y), chunk("a")])
        store.add([chunk("c"), chunk("y", Y)])

        assert ids(store.search(X, k=5)) == ["b", "a", "c", "z", "y"]
        assert ids(store.search(Y, k=3)) == ["z", "y", "b"]

    @pytest.mark.parametrize("k", [1, 2, 6, 7, 20, 64, 119, 123])
    def test_when_k_ends_within_a_tie_the_first_inserted_are_found(
        self, store: VectorStore, k: int
    ) -> None:
        store.add(chunks("a", 60, [0.3, 0.7, 0.1]))
        store.add(chunks("nearer", 2, [0.3, 0.8, 0.1]))
        store.add(chunks("b", 60, [0.3, 0.7, 0.1]))
        store.add([chunk("far", Z)])
        expected = [f"nearer{i}" for i in range(2)]
        expected += [f"{letter}{i}" for letter in "ab" for i in range(60)] + ["far"]

        found = store.search([0.3, 0.8, 0.1], k)

        assert ids(found) == expected[:k]
        assert len({score for score in scores(found)[2:122]}) <= 1

    def test_equal_vectors_of_many_dimensions_tie(
        self, store_of: Callable[[int], VectorStore]
    ) -> None:
        random_ = random.Random(1)
        vector, query = ([random_.gauss(0, 1) for _ in range(64)] for _ in range(2))
        query = [a + b for a, b in zip(vector, query, strict=True)]
        store = store_of(64)
        store.add(chunks("a", 100, vector))

        for k in (1, 10, 99, 100):
            found = store.search(query, k)
            assert ids(found) == [f"a{i}" for i in range(k)]
            assert len(set(scores(found))) == 1

    def test_a_tie_among_chunks_that_are_not_near_at_all_is_one_too(
        self, store: VectorStore
    ) -> None:
        opposite = [[-1.0, 0.0, 0.0], Y, [-0.5, -0.5, 0.0], ZERO, Z]
        store.add([chunk(str(i), opposite[i % 5]) for i in range(100)])
        store.add([chunk("near", X)])

        assert ids(store.search(X, k=31)) == ["near", *(str(i) for i in range(30))]

    # Replacing

    def test_adding_an_id_again_replaces_its_chunk(self, store: VectorStore) -> None:
        store.add([chunk("a", X, "old", metadata={"old": 1}, doc_id="d", start=1, end=2)])
        store.add([chunk("a", Y, "new", metadata={"new": 2})])

        assert len(store) == 1
        [found] = store.search(X)
        assert (found.chunk, found.score) == (chunk("a", Y, "new", metadata={"new": 2}), 0)
        assert store.search(Y)[0].score == pytest.approx(1)
        assert store.get(["a"])[0].embedding == Y

    def test_of_two_with_one_id_in_a_batch_the_later_one_stays(self, store: VectorStore) -> None:
        store.add([chunk("a", X, "first"), chunk("b"), chunk("a", Y, "second")])

        assert len(store) == 2
        assert [(one.chunk.text, one.score) for one in store.search(Y)] == [
            ("second", pytest.approx(1)),
            ("text of b", 0),
        ]

    def test_a_chunk_that_replaced_another_counts_as_inserted_then(
        self, store: VectorStore
    ) -> None:
        store.add([chunk("a"), chunk("b"), chunk("c")])
        store.add([chunk("a"), chunk("d")])
        store.add([chunk("c"), chunk("e"), chunk("c")])

        assert ids(store.search(X, k=9)) == ["b", "a", "d", "e", "c"]
        assert ids(store.search(X, k=2)) == ["b", "a"]

    def test_replaced_chunks_take_no_place_among_the_k(self, store: VectorStore) -> None:
        store.add(chunks("a", 100, X))
        for _ in range(3):
            store.add(chunks("a", 100, Y))
        store.add([chunk("b", X)])

        assert ids(store.search(X, k=5)) == ["b", "a0", "a1", "a2", "a3"]
        assert len(store) == 101

    # Deleting

    def test_deleted_chunks_are_not_found(self, store: VectorStore) -> None:
        store.add(chunks("a", 4))
        store.delete(["a1", "a3", "unknown", "a1"])

        assert ids(store.search(X)) == ["a0", "a2"]
        assert ids(store.get(["a0", "a1", "a2", "a3"])) == ["a0", "a2"]
        assert len(store) == 2

    def test_deleted_chunks_take_no_place_among_the_k(self, store: VectorStore) -> None:
        store.add([chunk(f"far{i}", [0.01, 1.0, 0.01 * i]) for i in range(10)])
        store.add(chunks("near", 300))
        store.delete([f"near{i}" for i in range(300)])

        assert ids(store.search(X, k=10)) == [f"far{i}" for i in range(10)]
        assert len(store) == 10

    def test_deleting_nothing_or_what_is_not_there_does_nothing(self, store: VectorStore) -> None:
        store.add([chunk("a")])
        store.delete([])
        store.delete(["b", "", "a' OR '1'='1"])

        assert ids(store.search(X)) == ["a"]

    def test_a_deleted_chunk_can_be_added_again(self, store: VectorStore) -> None:
        store.add([chunk("a"), chunk("b")])
        store.delete(["a"])
        store.add([chunk("a", text="again")])

        assert ids(store.search(X)) == ["b", "a"]
        assert store.get(["a"])[0].text == "again"

    def test_ids_may_come_as_any_iterable_of_texts_but_a_text(self, store: VectorStore) -> None:
        store.add(chunks("a", 4))
        assert ids(store.get(id for id in ("a1", "a0"))) == ["a1", "a0"]
        store.delete(id for id in ("a1",))
        store.delete({"a2"})
        assert ids(store.search(X)) == ["a0", "a3"]

        for call in (store.get, store.delete):
            with pytest.raises(TypeError, match="a0"):
                call("a0")
            with pytest.raises(TypeError, match="str"):
                call(["a0", 5])  # type: ignore[list-item]
        assert len(store) == 2

    # Getting

    def test_get_gives_the_chunks_in_the_order_asked_and_leaves_out_the_unknown(
        self, store: VectorStore
    ) -> None:
        store.add(chunks("a", 5))

        assert ids(store.get(["a3", "unknown", "a0", "a4"])) == ["a3", "a0", "a4"]
        assert store.get([]) == store.get(["unknown"]) == []

    def test_an_id_asked_twice_is_given_twice(self, store: VectorStore) -> None:
        store.add(chunks("a", 2))

        assert ids(store.get(["a1", "a0", "a1"])) == ["a1", "a0", "a1"]

    # Clearing

    def test_a_cleared_store_is_empty_and_can_be_filled_again(self, store: VectorStore) -> None:
        store.add(chunks("a", 3, metadata={"page": 1}))
        store.search(X, filter={"page": 1})
        store.clear()

        assert len(store) == 0
        assert store.search(X) == store.search(X, filter={"page": 1}) == []
        assert store.get(["a0"]) == []
        store.clear()
        store.add([chunk("b", Y), chunk("a0", X)])
        assert ids(store.search(Y)) == ["b", "a0"]

    def test_clearing_forgets_the_size_where_it_was_not_given(self, store: VectorStore) -> None:
        store.add([chunk("a")])
        store.clear()

        assert store.dimension == (3 if self.dimension_is_fixed else None)
        if not self.dimension_is_fixed:
            store.add([chunk("a", [0.0, 1.0])])
            assert store.dimension == 2
            assert scores(store.search([1.0, 1.0])) == pytest.approx([0.5**0.5], abs=1e-6)

    # Threads

    def test_eight_threads_add_search_and_delete_at_once(self, store: VectorStore) -> None:
        """Each chunk's text and vector follow from its id and the round it was added in."""
        start = threading.Barrier(8)
        store.add([_of_round("shared-0", 0)])

        def work(worker: int) -> None:
            random_ = random.Random(worker)
            start.wait()
            for round in range(10):
                own = [_of_round(f"{worker}-{round}-{i}", round) for i in range(4)]
                store.add([*own, _of_round(f"shared-{round % 3}", round)])
                _check_found(store, [random_.gauss(0, 1) for _ in range(3)])
                store.delete(ids(own[:2]))
                for one in store.get([own[0].id, own[3].id, "shared-0"]):
                    assert one.id != own[0].id
                    _check_chunk(one)
                    assert one.embedding == pytest.approx(_vector_of(one.text), abs=1e-6)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

        kept = {f"{w}-{r}-{i}" for w in range(8) for r in range(10) for i in (2, 3)}
        kept |= {f"shared-{i}" for i in range(3)}
        assert len(store) == len(kept)
        assert set(ids(store.search(X, k=1_000))) == kept
        assert set(ids(store.get(sorted(kept)))) == kept

    def test_a_search_sees_a_batch_whole_or_not_at_all(self, store: VectorStore) -> None:
        store.add([chunk("first", Y)])
        done = threading.Event()
        seen: list[int] = []

        def search() -> None:
            while not done.is_set():
                seen.append(len(store.search(X, k=500)))

        with ThreadPoolExecutor(2) as pool:
            searching = [pool.submit(search) for _ in range(2)]
            try:
                for batch in range(15):
                    store.add(chunks(f"{batch}-", 20))
            finally:
                done.set()
            for one in searching:
                one.result()

        if self.atomic:
            assert {count % 20 for count in seen} == {1}

    # Closing

    def test_a_closed_store_says_so(self, store: VectorStore) -> None:
        store.add([chunk("a")])
        store.close()
        store.close()

        for use in (
            lambda: store.add([chunk("b")]),
            lambda: store.search(X),
            lambda: store.search(X, filter={"page": 1}),
            lambda: store.delete(["a"]),
            lambda: store.get(["a"]),
            lambda: store.clear(),
            lambda: len(store),
        ):
            with pytest.raises(VectorStoreError, match="closed"):
                use()

    def test_with_closes_the_store(self, store: VectorStore) -> None:
        with store as same:
            same.add([chunk("a")])
            assert same is store

        with pytest.raises(VectorStoreError, match="closed"):
            store.search(X)

    def test_with_closes_the_store_when_the_caller_fails(self, store: VectorStore) -> None:
        with pytest.raises(RuntimeError, match="boom"), store:
            raise RuntimeError("boom")

        with pytest.raises(VectorStoreError, match="closed"):
            len(store)


def _of_round(id: str, round: int) -> Chunk:
    text = f"{id} {round}"
    return chunk(id, np.array(_vector_of(text)), text, metadata={"text": text})


def _vector_of(text: str) -> list[float]:
    random_ = random.Random(text)
    return unit([random_.gauss(0, 1) for _ in range(3)])


def _check_chunk(found: Chunk) -> None:
    assert found.text.split()[0] == found.id
    assert found.metadata == {"text": found.text}


def _check_found(store: VectorStore, query: list[float]) -> None:
    found = store.search(query, k=50)
    assert found
    assert len(set(ids(found))) == len(found)
    assert scores(found) == sorted(scores(found), reverse=True)
    for one in found:
        _check_chunk(one.chunk)
        assert one.score == pytest.approx(cosine(_vector_of(one.chunk.text), query), abs=1e-4)
