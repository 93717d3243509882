"""A vector store against a plain dict with a brute-force search, through random histories.

    def test_it_agrees_with_a_plain_dict(tmp_path_factory):
        agree_with_a_dict(lambda: partial(SQLiteVectorStore, tmp_path_factory.mktemp("s") / "a.db"))

The function that is given gives, for each history, one that opens a store: an empty one when it is
called first, and the same one again after `close()`. PYWRAPAI_TEST_EXAMPLES is the number of
histories; without it they are few, and the same in every run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk
from tests.contracts.vector_store_chunks import chunk, cosine, ids, unit

Open = Callable[[], VectorStore]

# Their cosines are 0 or at least 0.001 from each other's 0, so that rounding decides nothing.
VECTORS = st.one_of(
    st.sampled_from([(1, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 0, 0), (3, 4, 0), (1, 1, 1)]),
    st.tuples(*[st.integers(-16, 16).map(lambda eighths: eighths / 8)] * 3),
)
IDS = st.sampled_from([*"abcdefgh", "", "'", "ä\x00"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, "", "1", "a'b", "\x00", "x" * 300])
KEYS = st.sampled_from(["page", "a.b", ""])
METADATA = st.dictionaries(KEYS, SCALARS | st.just([1]), max_size=3)
FILTERS = st.dictionaries(
    KEYS,
    SCALARS | st.lists(SCALARS, max_size=3).map(lambda values: {"$in": values}),
    max_size=2,
)
TEXTS = st.sampled_from(["", "text", "\x00", "\ud800", "👩‍👩‍👧", "\\u0000"])
CHUNKS = st.builds(
    Chunk,
    TEXTS,
    st.sampled_from(["", "doc"]),
    METADATA,
    IDS,
    VECTORS,
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.sampled_from([None, "model/3"]),
)


def agree_with_a_dict(new: Callable[[], Open], *, persistent: bool = True) -> None:
    """Run the histories; where `persistent` is False no store is opened again."""

    class Machine(VectorStoreMachine):
        def __init__(self) -> None:
            super().__init__(new(), persistent)

    examples = os.environ.get("PYWRAPAI_TEST_EXAMPLES")
    chosen = settings(
        max_examples=int(examples or 20),
        stateful_step_count=30,
        deadline=None,
        derandomize=examples is None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=chosen)


class VectorStoreMachine(RuleBasedStateMachine):
    """One history of one store."""

    def __init__(self, open_: Open, persistent: bool) -> None:
        super().__init__()
        self.open, self.persistent = open_, persistent
        self.store = open_()
        self.model: dict[str, Chunk] = {}

    def teardown(self) -> None:
        self.store.clear()
        self.store.close()

    @rule(batch=st.lists(CHUNKS, max_size=6))
    def add(self, batch: list[Chunk]) -> None:
        self.store.add(batch)
        self._add_to_model(batch)

    @rule(vector=VECTORS, metadata=METADATA, count=st.integers(20, 90))
    def add_many_of_one_vector(
        self, vector: tuple[float, ...], metadata: dict[str, Any], count: int
    ) -> None:
        batch = [chunk(f"many {i}", vector, metadata=metadata) for i in range(count)]
        self.store.add(batch)
        self._add_to_model(batch)

    @rule(batch=st.lists(CHUNKS, max_size=3), last=CHUNKS, wrong=st.sampled_from([None, "NaN", 4]))
    def add_what_is_refused(self, batch: list[Chunk], last: Chunk, wrong: Any) -> None:
        vectors = {None: None, "NaN": [1.0, float("nan"), 0.0], 4: [1.0] * 4}
        if wrong == 4 and self.store.dimension is None:
            return  # the first vector may be of any size, and the last may replace all others
        with pytest.raises(ValueError, match="embedding"):
            self.store.add([*batch, replace(last, embedding=vectors[wrong])])

    @rule(gone=st.lists(IDS | st.integers(0, 40).map("many {}".format), max_size=8))
    def delete(self, gone: list[str]) -> None:
        self.store.delete(gone)
        for id in gone:
            self.model.pop(id, None)

    @rule()
    def delete_all_of_the_many(self) -> None:
        self.delete([id for id in self.model if id.startswith("many")])

    @rule(query=VECTORS, k=st.integers(1, 12) | st.integers(13, 200))
    def search(self, query: tuple[float, ...], k: int) -> None:
        check_search(self.store.search(query, k), [*self.model.values()], query, k)

    @rule(query=VECTORS, k=st.integers(1, 12) | st.integers(13, 200), wanted=FILTERS)
    def search_filtered(self, query: tuple[float, ...], k: int, wanted: dict[str, Any]) -> None:
        passing = [one for one in self.model.values() if passes(one.metadata, wanted)]
        check_search(self.store.search(query, k, wanted), passing, query, k)

    @rule()
    def search_with_another_size(self) -> None:
        if self.store.dimension is not None:
            with pytest.raises(DimensionMismatchError):
                self.store.search([1.0, 0.0])

    @rule(asked=st.lists(IDS | st.integers(0, 40).map("many {}".format), max_size=8))
    def get(self, asked: list[str]) -> None:
        found = self.store.get(asked)

        assert found == [self.model[id] for id in asked if id in self.model]
        for one in found:
            assert one.embedding == pytest.approx(
                unit(self.model[one.id].embedding or ()), abs=1e-6
            )

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        if really == 0:
            self.store.clear()
            self.model.clear()

    @rule()
    def reopen(self) -> None:
        if self.persistent:
            self.store.close()
            self.store = self.open()

    @invariant()
    def the_length_is_right(self) -> None:
        assert len(self.store) == len(self.model)

    def _add_to_model(self, batch: list[Chunk]) -> None:
        for one in batch:
            self.model.pop(one.id, None)
            self.model[one.id] = replace(one, metadata=dict(one.metadata))


def passes(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """A filter, evaluated plainly."""
    for key, value in wanted.items():
        allowed = value["$in"] if isinstance(value, dict) else [value]
        if key not in metadata or not any(same(metadata[key], one) for one in allowed):
            return False
    return True


def same(one: Any, other: Any) -> bool:
    """Equal, with True and 1 told apart; lists are equal to nothing."""
    scalar = one is None or isinstance(one, (str, int, float))
    return scalar and isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def check_search(
    found: list[ScoredChunk], stored: list[Chunk], query: tuple[float, ...], k: int
) -> None:
    """What was found is right; two that only rounding tells apart may come in either order."""
    by_id = {one.id: one for one in stored}
    true = {one.id: cosine(one.embedding or (), query) for one in stored}
    best = sorted(true.values(), reverse=True)[:k]

    assert [one.score for one in found] == pytest.approx(best, abs=1e-4)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert [one.score for one in found] == pytest.approx(
        [true[one.chunk.id] for one in found], abs=1e-4
    )
    assert [one.chunk for one in found] == [by_id[id] for id in ids(found)]
    assert {one.chunk.embedding for one in found} <= {None}
    _check_ties(ids(found), stored, true)


def _check_ties(found: list[str], stored: list[Chunk], true: dict[str, float]) -> None:
    """Of equal vectors, and of those that score 0, the first inserted are found, in order."""
    groups: dict[Any, list[str]] = {}
    for one in stored:
        tied = 0 if true[one.id] == 0 else tuple(one.embedding or ())
        groups.setdefault(tied, []).append(one.id)
    for inserted in groups.values():
        members = set(inserted)
        of_group = [id for id in found if id in members]
        assert of_group == inserted[: len(of_group)]
