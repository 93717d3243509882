"""Exact search in memory: unit vectors in one matrix, one product a search, and a partial sort.

A row is never changed once it is written: what replaces it is appended, and the old row is dead
until the matrix is packed. So a search needs the lock only to see how far the matrix goes, and
works on while others write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pywrapai.core.process import ProcessLock
from pywrapai_graph.rag.batch import NOISE, check_size
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.tagged import Tagged

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

T = TypeVar("T")
Places = npt.NDArray[np.intp]

_DEAD = -2.0
_LEAST = -1.5  # between a dead row and the farthest of the living
_BLOCK = 4096


class Matrix(Generic[T]):
    """Items with an id and a unit vector each, in the order of their insertion.

    Args:
        metadata_of: gives the metadata of items, for filters; asked when a key is first filtered
            by, and then for new items.
    """

    def __init__(self, metadata_of: Callable[[Sequence[T]], Iterable[dict[str, Any]]]) -> None:
        self._lock = ProcessLock()
        self._metadata_of = metadata_of
        self._empty()

    def _empty(self) -> None:
        self._rows: Array = np.empty((0, 0), dtype=np.float32)
        self._items: list[T] = []
        self._row_of: dict[str, int] = {}
        self._dead: Places = np.empty(0, dtype=np.intp)
        self._tagged = Tagged(self._metadata_of)

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until there is one."""
        return int(self._rows.shape[1]) or None

    def put(self, ids: Sequence[str], vectors: Array, items: Sequence[T]) -> None:
        """Append; an id that is there gives way, and counts as inserted now."""
        with self._lock:
            used = len(self._items)
            check_size(vectors.shape[1], self.dimension if used else None)
            self._reserve(used + len(ids), vectors.shape[1])
            self._rows[used : used + len(ids)] = vectors
            self._kill(ids)
            self._items.extend(items)
            self._row_of.update(zip(ids, range(used, used + len(ids)), strict=True))
            self._tagged.extend(items, used)
            self._pack()

    def discard(self, ids: Iterable[str]) -> None:
        """Remove what is there of these."""
        with self._lock:
            self._kill(ids)
            self._pack()

    def clear(self) -> None:
        """Remove everything; the next vectors may have another dimension."""
        with self._lock:
            self._empty()

    def get(self, ids: Iterable[str]) -> list[tuple[T, Array]]:
        """What is there of these, in the order asked, each with a copy of its vector."""
        with self._lock:
            found = [self._row_of[id] for id in ids if id in self._row_of]
            return [(self._items[row], self._rows[row].copy()) for row in found]

    def nearest(self, query: Array, k: int, where: Where | None) -> list[tuple[T, float]]:
        """The items with the highest cosine to a unit query, clamped to 0..1; ties by insertion."""
        with self._lock:
            rows, items, dead = self._rows[: len(self._items)], self._items, self._dead
            among = None if where is None else self._rows_where(where)
        if not items or rows.shape[1] != len(query):  # cleared since the query was checked
            return []
        scores = _scores(rows, query, dead, among)
        found, exact = _top(rows, query, scores, k, among)
        pairs = zip(found.tolist(), exact.tolist(), strict=True)
        return [(items[row], min(score, 1.0)) for row, score in pairs]

    def _reserve(self, rows: int, dimension: int) -> None:
        if rows > len(self._rows) or self._rows.shape[1] != dimension:
            larger = np.empty((max(rows, 2 * len(self._rows), 64), dimension), dtype=np.float32)
            used = len(self._items)
            if used:
                larger[:used] = self._rows[:used]
            self._rows = larger

    def _kill(self, ids: Iterable[str]) -> None:
        rows = [row for id in ids if (row := self._row_of.pop(id, None)) is not None]
        if rows:
            self._dead = np.append(self._dead, np.array(rows, dtype=np.intp))

    def _pack(self) -> None:
        """Leave the dead rows behind, once there are more of them than of the others."""
        if len(self._dead) <= max(len(self._row_of), 64):
            return
        alive = list(self._row_of.values())
        self._rows = self._rows[np.array(alive, dtype=np.intp)]
        self._items = [self._items[row] for row in alive]
        self._row_of = {id: row for row, id in enumerate(self._row_of)}
        self._dead = np.empty(0, dtype=np.intp)
        self._tagged = Tagged(self._metadata_of)

    def _rows_where(self, where: Where) -> Places:
        """The living rows that pass a filter, in order."""
        passing = self._tagged.passing(where, self._items)
        passing[self._dead] = False
        return np.flatnonzero(passing)


def _scores(rows: Array, query: Array, dead: Places, among: Places | None) -> Array:
    if among is not None and len(among) < len(rows) // 4:
        few: Array = rows[among] @ query
        return few
    scores: Array = rows @ query
    if among is not None:
        return scores[among]
    if len(dead):
        scores[dead] = _DEAD
    return scores


def _top(
    rows: Array, query: Array, scores: Array, k: int, among: Places | None
) -> tuple[Places, Array]:
    """The rows of the k best, and their scores.

    Products of a whole matrix differ in the last bits by where a row stands. Scores that are so
    close are worked out again one by one: rows that are equal get equal scores.
    """
    least = np.partition(scores, len(scores) - k)[len(scores) - k] if k < len(scores) else _DEAD
    near = np.flatnonzero(scores > max(least - NOISE, NOISE / 2))
    exact = scores[near]
    if among is not None:
        near = among[near]
    if (np.diff(np.sort(exact)) < NOISE).any():
        exact = _cosines(rows, near, query)
    order = np.argsort(-exact, kind="stable")[:k]
    near, exact = near[order], exact[order]
    if len(near) == k and exact[-1] >= NOISE:
        return near, exact
    return _with_zeros(near, exact, np.flatnonzero(scores > _LEAST), k, among)


def _with_zeros(
    near: Places, exact: Array, living: Places, k: int, among: Places | None
) -> tuple[Places, Array]:
    """What is near, and then as many of the others as are still wanted, the oldest first."""
    positive = exact >= NOISE
    near, exact = near[positive], exact[positive]
    if among is not None:
        living = among[living]
    rest = living[~np.isin(living, near)][: k - len(near)]
    return np.append(near, rest), np.append(exact, np.zeros(len(rest), dtype=np.float32))


def _cosines(rows: Array, places: Places, query: Array) -> Array:
    if len(places) <= _BLOCK:
        return _products(rows[places], query)
    blocks = range(0, len(places), _BLOCK)
    return np.concatenate([_products(rows[places[at : at + _BLOCK]], query) for at in blocks])


def _products(block: Array, query: Array) -> Array:
    products: Array = np.einsum("ij,j->i", block, query)
    return products
