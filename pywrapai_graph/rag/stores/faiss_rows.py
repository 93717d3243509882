"""Chunks and a flat FAISS index in memory, row by row, and the exact search in them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import faiss
import numpy as np
import numpy.typing as npt

from pywrapai_graph.rag.batch import NOISE, batch_of
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.store import copy_of
from pywrapai_graph.rag.stores.faiss_meta import Save
from pywrapai_graph.rag.stores.locks import SharedLock
from pywrapai_graph.rag.tagged import Mask, Tagged
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array
    from pywrapai_graph.rag.stores.faiss_files import News

Places = npt.NDArray[np.int64]

_MORE = 8
"""Asked for beyond k, to see whether a tie goes on there."""
_BLOCK = 4096
_pid = os.getpid()


class Rows:
    """Chunks with a row of the index each, in the order of their insertion.

    The row of a chunk that is gone is dead: it stays, as zeros, so that it is never near.
    """

    def __init__(self, index: faiss.IndexFlat, dimension: int | None) -> None:
        self.dimension = dimension
        """How many numbers a vector has; None where the next chunks settle it."""
        self._index = index
        self._chunks: list[Chunk] = []
        self._row_of: dict[str, int] = {}
        self._dead = array("q")
        self._tagged: Tagged[Chunk] = Tagged(lambda chunks: (one.metadata for one in chunks))
        self._lock = SharedLock()

    @classmethod
    def empty(cls, dimension: int | None = None) -> Self:
        """No rows yet."""
        return cls(faiss.IndexFlatIP(dimension or 1), dimension)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, id: str) -> bool:
        return id in self._row_of

    @property
    def is_wasteful(self) -> bool:
        """Whether there are more dead rows than others, and not a few."""
        return len(self._dead) > max(len(self._row_of), 64)

    def apply(self, saves: Iterable[Save], vectors: Array | None) -> None:
        """Take over what was saved; `vectors` are those of its chunks, if the index lacks them."""
        with self._lock.writing:
            if vectors is not None and len(vectors):
                self._index.add(np.ascontiguousarray(vectors))
            died = len(self._dead)
            for save in saves:
                first = len(self._chunks)
                self._kill(save.deleted)
                self._kill(chunk.id for chunk in save.chunks)
                self._chunks.extend(save.chunks)
                for row, chunk in enumerate(save.chunks, first):
                    self._row_of[chunk.id] = row
                self._tagged.extend(save.chunks, first)
            if len(self._dead) > died:
                self._vectors()[np.asarray(self._dead[died:])] = 0

    def _kill(self, ids: Iterable[str]) -> None:
        for id in ids:
            if (row := self._row_of.pop(id, None)) is not None:
                self._dead.append(row)

    def living(self) -> list[Chunk]:
        """The chunks that are there, in order."""
        return [self._chunks[row] for row in self._row_of.values()]

    def blocks(self) -> Iterator[Array]:
        """Their vectors, some rows at a time."""
        rows = np.fromiter(self._row_of.values(), np.int64, len(self._row_of))
        for start in range(0, len(rows), _BLOCK):
            yield self._vectors()[rows[start : start + _BLOCK]]

    def get(self, ids: Iterable[str]) -> list[Chunk]:
        """Copies of what is there of these, in the order asked, with their embeddings."""
        with self._lock.reading:
            found = [self._row_of[id] for id in ids if id in self._row_of]
            vectors = self._vectors()[found].tolist() if found else []
            pairs = zip(found, vectors, strict=True)
            return [copy_of(self._chunks[row], vector) for row, vector in pairs]

    def nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        """The chunks with the highest cosine to a unit query, clamped to 0..1; ties in order."""
        with self._lock.reading:
            if len(query) != self._index.d or not self._row_of:
                return []  # cleared since the query was checked
            passing = None if where is None else self._passing(where)
            rows, scores = self._top(query, min(k, len(self._row_of)), passing)
            pairs = zip(rows.tolist(), scores.tolist(), strict=True)
            return [
                ScoredChunk(copy_of(self._chunks[row]), min(score, 1.0)) for row, score in pairs
            ]

    def _top(self, query: Array, k: int, passing: Mask | None) -> tuple[Places, Array]:
        """The rows of the k best, and their scores.

        Faiss errs in the last bits by where a row stands. Rows that it has so close are multiplied
        again: those that are equal get equal scores.
        """
        _work_after_fork()
        index, asked = self._index, query[np.newaxis]
        params = None if passing is None else _selecting(passing)
        found, places = index.search(asked, min(k + _MORE, index.ntotal), params=params)
        scores, rows = found[0], places[0]
        if _are_apart(scores[: k + 1], k):
            return rows[:k], scores[:k]
        least = max(float(scores[k - 1]) - NOISE, NOISE / 2)
        near = rows[scores > least]
        if len(near) == len(rows) < index.ntotal:  # a tie that goes on
            _, _, near = index.range_search(asked, least, params=params)
        return self._in_order(query, k, np.sort(near), passing)

    def _in_order(
        self, query: Array, k: int, near: Places, passing: Mask | None
    ) -> tuple[Places, Array]:
        """The k best of near rows, and then what is wanted of the others, the oldest first."""
        scores: Array = np.einsum("ij,j->i", self._vectors()[near], query)
        order = np.argsort(-scores, kind="stable")[:k]
        order = order[scores[order] >= NOISE]
        near, scores = near[order], scores[order]
        if len(near) == k:
            return near, scores
        others = self._alive() if passing is None else passing
        others[near] = False
        rest = np.flatnonzero(others)[: k - len(near)]
        return np.append(near, rest), np.append(scores, np.zeros(len(rest), dtype=np.float32))

    def _passing(self, where: Where) -> Mask:
        return self._tagged.passing(where, self._chunks) & self._alive()

    def _alive(self) -> Mask:
        alive = np.ones(len(self._chunks), dtype=np.bool_)
        alive[np.asarray(self._dead)] = False
        return alive

    def _vectors(self) -> Array:
        """The rows of the index as an array, which is not a copy."""
        index = self._index
        numbers: Array = faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d)
        return numbers.reshape(index.ntotal, index.d)


def rows_after(rows: Rows, news: News, path: str) -> Rows:
    """The rows after news of the files; new ones, if these are void. `path` is that of the index.

    Raises:
        VectorStoreError: the index cannot be read, or another library's metadata has other rows.
    """
    if not news.anew:
        rows.apply(news.saves, news.vectors)
        return rows
    if news.place.made is None and news.saves:
        return _rows_of_others(news, path)
    if news.vectors is None and news.saves:
        fresh = Rows(_read(path), news.dimension)
    else:
        fresh = Rows.empty(news.dimension)
    fresh.apply(news.saves, news.vectors)
    return fresh


def _rows_of_others(news: News, path: str) -> Rows:
    """From an index that another library wrote, with its vectors brought to length 1."""
    index = _read(path)
    chunks = [chunk for save in news.saves for chunk in save.chunks]
    if len(chunks) != index.ntotal:
        raise VectorStoreError(
            f"{path} has {index.ntotal} rows, and its metadata {len(chunks)} chunks: they do not "
            "belong together. Give other paths, and add the documents again"
        )
    vectors = index.reconstruct_n(0, index.ntotal)
    for chunk, vector in zip(chunks, vectors, strict=True):
        chunk.embedding = vector
    try:
        batch = batch_of(chunks, index.d)
    except (TypeError, ValueError) as error:
        raise VectorStoreError(f"the metadata of {path} is no plain data: {error}") from error
    rows = Rows.empty(index.d)
    if batch is not None:
        rows.apply([Save([], [copy_of(chunk) for chunk in batch.chunks])], batch.vectors)
    return rows


def _read(path: str) -> faiss.IndexFlat:
    try:
        index = faiss.read_index(path)
    except RuntimeError as error:
        raise VectorStoreError(
            f"faiss cannot read {path}: {error}. Put both files back from one backup, or remove "
            "both and add the documents again"
        ) from error
    if not isinstance(index, faiss.IndexFlat):
        raise VectorStoreError(
            f"{path} is a {type(index).__name__}; expected a flat index, as FAISSVectorStore "
            "writes it: give another index_path, and add the documents again"
        )
    return index


def _are_apart(scores: Array, k: int) -> bool:
    """Whether k falling scores are over 0, and no two so close that noise may have ordered them."""
    numbers: list[float] = scores.tolist()  # faster than numpy for the few that most ask for
    return numbers[k - 1] >= NOISE and all(a - b >= NOISE for a, b in pairwise(numbers))


def _selecting(passing: Mask) -> faiss.SearchParameters:
    bits = np.packbits(passing, bitorder="little")
    selector = faiss.IDSelectorBitmap(bits)  # type: ignore[call-arg, arg-type]  # stubs: in C++
    return faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]  # stubs: by attribute


def _work_after_fork() -> None:
    """One thread in a forked child: OpenMP waits there for threads that only the parent has."""
    global _pid
    if _pid != os.getpid():
        faiss.omp_set_num_threads(1)
        _pid = os.getpid()
