"""Vector stores: the contract, what our own stores share, and the one in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pywrapai.core.checks import at_least_1
from pywrapai_graph.copies import copied
from pywrapai_graph.rag.batch import Batch, batch_of, unit_query
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.matrix import Matrix
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array


class BaseVectorStore(ABC):
    """Chunks by the nearness of their vectors. Four methods make a store of your own.

    `delete` and `get` are for stores that can; a VectorRetriever does without them, but then
    embeds documents again that are in the store.
    """

    @abstractmethod
    def add(self, chunks: list[Chunk]) -> None:
        """Store chunks, each with its `embedding`; one whose id is there replaces it."""

    @abstractmethod
    def search(self, query_vector: Sequence[float], k: int = 4) -> list[ScoredChunk]:
        """The at most k chunks nearest to a vector, the nearest first, scores from 0 to 1."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all chunks."""

    @abstractmethod
    def __len__(self) -> int:
        """How many chunks there are."""

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the chunks with these ids; unknown ones are no error."""
        raise NotImplementedError(f"{type(self).__name__} cannot delete")

    def get(self, ids: Iterable[str]) -> list[Chunk]:
        """The chunks with these ids, embeddings included, in the order asked; unknown ones are
        left out.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot get chunks by id")

    def close(self) -> None:  # noqa: B027  (a store that holds nothing open need not write it)
        """Give back what is held open."""

    def __bool__(self) -> bool:
        return True  # an empty store is a store, and `store or default` keeps it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class VectorStore(BaseVectorStore):
    """What our stores share: input is checked here, once, and a backend gets only what is right.

    The score is the cosine, clamped to 0..1. Chunks come nearest first, ties in the order of
    insertion; a chunk that replaced another counts as inserted then. A zero vector scores 0. All
    may be used by many threads.
    """

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Store chunks, each with its `embedding`; all of them, or none.

        The first chunk settles how many dimensions there are. Of two with one id the later one
        stays. The caller's chunks are copied.

        Raises:
            DimensionMismatchError: a vector has another size than those of the store.
            ValueError: a chunk has no embedding, or one with NaN or infinity in it.
            TypeError: for what is no Chunk, and metadata that would not come back as it went in.
            VectorStoreError: the backend failed.
        """
        if (batch := batch_of(chunks, self.dimension)) is not None:
            self._put(batch)

    def search(
        self,
        query_vector: Sequence[float],
        k: int = 4,
        filter: Mapping[str, Any] | None = None,
    ) -> list[ScoredChunk]:
        """The at most k chunks nearest to a vector, without their embeddings.

        `filter` is applied before the k are taken: `{"source": "a.txt", "page": {"$in": [1, 2]}}`
        admits chunks whose metadata has these values.

        Raises:
            DimensionMismatchError: the vector has another size than those of the store.
            ValueError: k is under 1, or the vector has NaN or infinity in it.
            VectorStoreError: the backend failed.
        """
        at_least_1("k", k)
        where = Where.of(filter)
        dimension = self.dimension
        query = unit_query(query_vector, dimension)
        return [] if dimension is None else self._nearest(query, k, where)

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the chunks with these ids; unknown ones are no error."""
        if known := list(dict.fromkeys(_texts(ids))):
            self._remove(known)

    def get(self, ids: Iterable[str]) -> list[Chunk]:
        """The chunks with these ids in the order asked; unknown ones are left out.

        Their embeddings are lists, of length 1 whatever they were when added (or all zeros).
        """
        asked = _texts(ids)
        found = self._fetch(list(dict.fromkeys(asked))) if asked else {}
        return [found[id] for id in asked if id in found]

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """How many numbers a vector has; None where that is not settled yet."""

    @abstractmethod
    def _put(self, batch: Batch) -> None:
        """Store a batch that was checked: all of it, or nothing."""

    @abstractmethod
    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        """Search with a unit vector of the right size; k may be larger than the store."""

    @abstractmethod
    def _remove(self, ids: list[str]) -> None:
        """Remove chunks; the ids are at least one, and no two are equal."""

    @abstractmethod
    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        """The chunks that are there, by id; the ids are at least one, and no two are equal."""


class InMemoryVectorStore(VectorStore):
    """Chunks and vectors in the memory of this process; exact search.

    Holds 4 bytes a number beside the texts: 100,000 chunks of 1,536 dimensions are 0.6 GB.
    """

    def __init__(self) -> None:
        self._kept: Matrix[Chunk] | None = Matrix(lambda chunks: (one.metadata for one in chunks))

    @property
    def _matrix(self) -> Matrix[Chunk]:
        if (kept := self._kept) is None:
            raise VectorStoreError("this InMemoryVectorStore is closed: make another one")
        return kept

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until the first chunk was added."""
        return self._matrix.dimension

    def __len__(self) -> int:
        return len(self._matrix)

    def clear(self) -> None:
        """Remove all chunks; those that follow may have another dimension."""
        self._matrix.clear()

    def close(self) -> None:
        """Give the memory back; the chunks are gone."""
        self._kept = None

    def _put(self, batch: Batch) -> None:
        kept = [copy_of(chunk) for chunk in batch.chunks]
        self._matrix.put(batch.ids, batch.vectors, kept)

    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        found = self._matrix.nearest(query, k, where)
        return [ScoredChunk(copy_of(chunk), score) for chunk, score in found]

    def _remove(self, ids: list[str]) -> None:
        self._matrix.discard(ids)

    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        found = self._matrix.get(ids)
        return {chunk.id: copy_of(chunk, vector.tolist()) for chunk, vector in found}


def copy_of(chunk: Chunk, embedding: list[float] | None = None) -> Chunk:
    """A chunk that shares nothing with this one, with the embedding that is given."""
    return Chunk(
        chunk.text,
        chunk.doc_id,
        copied(chunk.metadata),
        chunk.id,
        embedding,
        chunk.start,
        chunk.end,
        chunk.embedded_by,
    )


def _texts(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str):
        raise TypeError(f"ids is a list of ids, not one text: [{ids!r:.80}]")
    asked = list(ids)
    for id in asked:
        if not isinstance(id, str):
            raise TypeError(f"an id is of type str, not {id!r:.80}")
    return asked
