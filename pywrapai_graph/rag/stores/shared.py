"""What stores share whose chunks stand in a database that others use, too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk

T = TypeVar("T")


class SharedVectorStore(VectorStore):
    """Knows the dimension by heart, and asks again when a vector does not fit: somebody else may
    have cleared the store and filled it with another size.
    """

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Store chunks, each with its `embedding`; as VectorStore says."""
        kept = list(chunks)
        self._as_it_is_now(lambda: super(SharedVectorStore, self).add(kept))

    def search(
        self,
        query_vector: Sequence[float],
        k: int = 4,
        filter: Mapping[str, Any] | None = None,
    ) -> list[ScoredChunk]:
        """The at most k chunks nearest to a vector; as VectorStore says."""
        return self._as_it_is_now(
            lambda: super(SharedVectorStore, self).search(query_vector, k, filter)
        )

    @abstractmethod
    def _look_again(self) -> None:
        """Let `dimension` be what it now is in the database."""

    def _as_it_is_now(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except DimensionMismatchError:
            known = self.dimension
            self._look_again()
            if self.dimension == known:
                raise
            return call()
