"""What a vector store that keeps its chunks finds again when it is opened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import ODD_TEXTS, X, Y, Z, chunk, chunks, ids
from tests.contracts.vector_store_input import KEPT_METADATA

Reopen = Callable[[], VectorStore]


class ReopenContract:
    """The tests of what is there after `close()` and opening again."""

    dimension_is_fixed = False

    def test_reopened_it_finds_the_same(self, store: VectorStore, reopen: Reopen) -> None:
        store.add([chunk("a", [3.0, 4.0, 0.0], metadata={"page": 1}), chunk("zero", [0.0] * 3)])
        store.add([chunk("b", Y), chunk("c", [1.0, 1.0, 1.0], metadata={"page": 2})])
        before = store.search(X, k=9), store.search(Y, filter={"page": {"$in": [1, 2]}})
        got = store.get(["c", "a"])

        again = reopen()

        assert (again.search(X, k=9), again.search(Y, filter={"page": {"$in": [1, 2]}})) == before
        assert again.get(["c", "a"]) == got
        assert [one.embedding for one in again.get(["c", "a"])] == [one.embedding for one in got]
        assert len(again) == 4

    def test_reopened_it_has_every_chunk_as_it_went_in(
        self, store: VectorStore, reopen: Reopen
    ) -> None:
        odd = [
            Chunk(text, text, {"text": text}, text, X, i, None, text)
            for i, text in enumerate(ODD_TEXTS)
        ]
        odd += [chunk(f"m{i}", metadata=metadata) for i, metadata in enumerate(KEPT_METADATA)]
        store.add(odd)

        again = reopen()

        assert [one.chunk for one in again.search(X, k=100)] == odd
        assert again.get(ids(odd)) == odd

    def test_reopened_it_keeps_the_order_of_insertion(
        self, store: VectorStore, reopen: Reopen
    ) -> None:
        store.add(chunks("a", 5))
        store.add([chunk("a1")])
        store.delete(["a3"])

        again = reopen()
        again.add([chunk("b"), chunk("a0")])
        again = reopen()

        assert ids(again.search(X, k=9)) == ["a2", "a4", "a1", "b", "a0"]
        assert ids(again.search(X, k=2)) == ["a2", "a4"]

    def test_reopened_it_knows_its_size(self, store: VectorStore, reopen: Reopen) -> None:
        store.add([chunk("a")])

        again = reopen()

        assert again.dimension == 3
        with pytest.raises(DimensionMismatchError, match=r"(?s)\b2\b.*\b3\b"):
            again.add([chunk("b"), chunk("c", [1.0, 0.0])])
        with pytest.raises(DimensionMismatchError, match=r"(?s)\b4\b.*\b3\b"):
            again.search([1.0, 0.0, 0.0, 0.0])
        assert len(again) == 1

    def test_reopened_it_knows_its_size_though_all_was_deleted(
        self, store: VectorStore, reopen: Reopen
    ) -> None:
        store.add([chunk("a")])
        store.delete(["a"])

        again = reopen()

        assert (again.dimension, len(again)) == (3, 0)
        with pytest.raises(DimensionMismatchError):
            again.add([chunk("b", [1.0, 0.0])])

    def test_an_empty_store_can_be_opened_again(self, store: VectorStore, reopen: Reopen) -> None:
        again = reopen()

        assert len(again) == 0
        assert again.search(X) == []
        again.add([chunk("a")])
        assert ids(again.search(X)) == ["a"]

    def test_what_was_deleted_stays_deleted(self, store: VectorStore, reopen: Reopen) -> None:
        store.add([chunk("a"), chunk("b")])
        store.delete(["a"])

        again = reopen()

        assert ids(again.search(X)) == ["b"]
        assert again.get(["a"]) == []

    def test_what_was_cleared_stays_cleared(self, store: VectorStore, reopen: Reopen) -> None:
        store.add([chunk("a")])
        store.clear()

        again = reopen()

        assert len(again) == 0
        assert again.search(X) == []
        if not self.dimension_is_fixed:
            again.add([chunk("b", [1.0, 0.0])])
            again = reopen()
            assert ids(again.search([1.0, 0.0])) == ["b"]

    def test_it_can_be_opened_again_and_again(self, store: VectorStore, reopen: Reopen) -> None:
        for round, vector in enumerate([X, Y, Z]):
            store.add([chunk(f"{round}", vector)])
            store = reopen()

        assert ids(store.search(Y, k=1)) == ["1"]
        assert ids(store.search(X, k=3)) == ["0", "1", "2"]
