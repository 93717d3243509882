"""Several retrievers as one: their rankings are fused by the ranks, so that no scores compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from math import isfinite
from typing import TYPE_CHECKING, Any

from pywrapai.core import flow
from pywrapai.core.checks import at_least_1
from pywrapai.core.flow import Flow, blocking, together
from pywrapai_graph.rag.portions import (
    PORTION,
    Splitter,
    document_progress,
    documents,
    next_of,
    pieces_of,
    without_vector,
)
from pywrapai_graph.rag.retriever import BaseRetriever, FlowRetriever, checked_query
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.embedder import Embedder

# Deeper rankings find less: with rrf_k=60 the 20th place of two outweighs the first of one.
_LEAST_DEPTH = 10


class HybridRetriever(FlowRetriever):
    """Asks several retrievers and fuses what they find: reciprocal rank fusion.

    A chunk's score is the sum of `weight / (rrf_k + rank)` over the rankings that have it, as a
    share of what the first place in all of them gives: 1 for that, and never 0. Each retriever is
    asked for half as many again as are wanted, and for 10 at least. When one fails,
    the whole fails.

    Args:
        retrievers: any retrievers, usually a VectorRetriever and a BM25Retriever. Where they were
            not filled by `add_documents` here, their chunks must have the same ids.
        k: how many chunks `retrieve` gives if it is not told.
        rrf_k: the higher, the less the first places count beside the later ones.
        weights: how much each retriever counts, beside the others; by default all the same.
    """

    def __init__(
        self,
        retrievers: Sequence[BaseRetriever],
        k: int = 4,
        *,
        rrf_k: int = 60,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.retrievers = () if isinstance(retrievers, BaseRetriever) else tuple(retrievers)
        if not self.retrievers or not all(isinstance(r, BaseRetriever) for r in self.retrievers):
            raise TypeError(f"HybridRetriever takes a list of retrievers, not {retrievers!r:.80}")
        self.k = at_least_1("k", k)
        self.rrf_k = at_least_1("rrf_k", rrf_k)
        self.weights = tuple([1.0] * len(self.retrievers) if weights is None else weights)
        if len(self.weights) != len(self.retrievers) or not all(
            weight > 0 and isfinite(weight) for weight in self.weights
        ):
            raise ValueError(
                f"weights is {weights!r}; expected a number above 0 for each retriever, "
                f"{len(self.retrievers)} in all"
            )

    @property
    def embedders(self) -> tuple[Embedder, ...]:
        """Those of all its retrievers, each once."""
        found = {id(each): each for part in self.retrievers for each in part.embedders}
        return tuple(found.values())

    def retrieve_flow(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> Flow[list[ScoredChunk]]:
        """`retrieve` as a flow. All retrievers must know filters if one is given."""
        k = at_least_1("k", self.k if k is None else k)
        checked_query(query)
        depth = max(k + k // 2, _LEAST_DEPTH)
        rankings = yield from together(
            [each.retrieve_flow(query, depth, filter=filter) for each in self.retrievers]
        )
        return fused(rankings, self.weights, self.rrf_k)[:k]

    def add_documents(
        self,
        docs: Iterable[Document],
        chunker: Splitter | None = None,
        *,
        show_progress: bool | None = None,
    ) -> int:
        """Cut documents into chunks once, and add the same chunks to every retriever.

        Args:
            docs: any iterable, read once and in portions. Of two with one id the later one stays.
            chunker: cuts them, a Chunker say; without one each document is one chunk.
            show_progress: a progress bar on stderr for work that takes more than half a second;
                by default where that is a terminal.

        Returns:
            How many chunks were new or changed, in the retriever where there were most.
        """
        return flow.run(self._adding(docs, chunker, show_progress))

    async def aadd_documents(
        self,
        docs: Iterable[Document],
        chunker: Splitter | None = None,
        *,
        show_progress: bool | None = None,
    ) -> int:
        """`add_documents`, awaited. The documents are read in a thread."""
        return await flow.arun(self._adding(docs, chunker, show_progress))

    def add_flow(self, docs: Iterable[Document], chunker: Splitter | None = None) -> Flow[int]:
        """`add_documents` as a flow, without a progress bar."""
        return self._adding(docs, chunker, False)

    def __repr__(self) -> str:
        return f"HybridRetriever({list(self.retrievers)!r}, k={self.k})"

    def _adding(
        self, docs: Iterable[Document], chunker: Splitter | None, show_progress: bool | None
    ) -> Flow[int]:
        written = 0
        groups = _groups(docs, chunker)
        with document_progress(docs, show_progress) as advance:
            while (group := (yield from blocking(next_of, groups))) is not None:
                counts = yield from together(
                    [each.add_flow(list(group.docs), group) for each in self.retrievers]
                )
                written += max(counts)
                advance(len(group.docs))
        return written


class _Group:
    """Documents with their chunks: the chunker for all the retrievers, which cuts no more."""

    def __init__(self) -> None:
        self.docs: list[Document] = []
        self._pieces: dict[int, list[Chunk]] = {}
        self.size = 0

    def add(self, doc: Document, pieces: list[Chunk]) -> None:
        own = copy(doc)  # a source may change and give the same object again and again
        self.docs.append(own)
        self._pieces[id(own)] = pieces
        self.size += len(pieces) + 1

    def split(self, document: Document, /) -> list[Chunk]:
        return [without_vector(piece) for piece in self._pieces[id(document)]]


def _groups(docs: Iterable[Document], chunker: Splitter | None) -> Iterator[_Group]:
    group = _Group()
    for doc in documents(docs):
        group.add(doc, pieces_of(doc, chunker))
        if group.size >= PORTION:
            yield group
            group = _Group()
    if group.docs:
        yield group


def fused(
    rankings: Sequence[Sequence[ScoredChunk]], weights: Sequence[float], rrf_k: int
) -> list[ScoredChunk]:
    """One ranking out of several; ties in the order of the rankings, and then of the ranks."""
    chunks: dict[str, Chunk] = {}
    scores: dict[str, float] = {}
    for weight, ranking in zip(weights, rankings, strict=True):
        unique: dict[str, Chunk] = {}
        for hit in ranking:
            unique.setdefault(hit.chunk.id, hit.chunk)
        for rank, (id, chunk) in enumerate(unique.items(), 1):
            chunks.setdefault(id, chunk)
            scores[id] = scores.get(id, 0.0) + weight / (rrf_k + rank)
    most = sum(weights) / (rrf_k + 1)
    best = sorted(scores, key=lambda id: -scores[id])
    return [ScoredChunk(chunks[id], scores[id] / most) for id in best]
