"""How good a retriever is: recall, MRR and nDCG over queries whose right answers are known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log2
from typing import TypeAlias

from pywrapai.core import flow
from pywrapai.core.checks import at_least_1
from pywrapai.core.flow import Flow
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_graph.rag.types import ScoredChunk

Relevant: TypeAlias = Collection[str] | Mapping[str, float]
"""Ids of chunks or of documents; or such ids with how much each is worth, above 0."""


@dataclass(frozen=True, slots=True)
class QueryScore:
    """How one query went."""

    query: str
    recall: float
    """Which part of the relevant ids was found among the k."""
    reciprocal_rank: float
    """1 / the rank of the first chunk that is relevant; 0 if none was found."""
    ndcg: float
    """The gains found, each divided by log2(rank + 1), as a share of what the best order gives."""
    found: tuple[str, ...]
    """The ids of the chunks that were found, the best first."""


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """The means over all queries, each from 0 to 1, and each query alone."""

    recall: float
    mrr: float
    """The mean of the reciprocal ranks."""
    ndcg: float
    k: int
    queries: int
    rows: tuple[QueryScore, ...] = field(repr=False)
    """In the order of the queries."""

    @property
    def missed(self) -> list[QueryScore]:
        """The queries for which nothing relevant was found."""
        return [row for row in self.rows if row.recall == 0]


def evaluate_retrieval(
    retriever: BaseRetriever, queries: Sequence[str], relevant: Sequence[Relevant], k: int = 10
) -> RetrievalReport:
    """Ask all queries, and compare what is found with what is relevant.

    A chunk is a hit if its own id is relevant, or else that of its document. Of several chunks of
    one relevant document the first is the hit, and the others take up ranks and count as nothing.

    Args:
        retriever: what is measured.
        queries: the questions.
        relevant: for each query, ids of chunks or documents; with a dict of ids and gains, nDCG
            tells better hits from good ones.
        k: how many chunks each query gives.

    Raises:
        ValueError: no queries, another number of `relevant`, or a query to which nothing is.
    """
    return flow.run(_evaluation(retriever, queries, relevant, k))


async def aevaluate_retrieval(
    retriever: BaseRetriever, queries: Sequence[str], relevant: Sequence[Relevant], k: int = 10
) -> RetrievalReport:
    """`evaluate_retrieval`, awaited; one query after the other."""
    return await flow.arun(_evaluation(retriever, queries, relevant, k))


def _evaluation(
    retriever: BaseRetriever, queries: Sequence[str], relevant: Sequence[Relevant], k: int
) -> Flow[RetrievalReport]:
    at_least_1("k", k)
    if isinstance(queries, str):
        raise TypeError("queries is a list of questions, also of one: [query]")
    if not queries or len(queries) != len(relevant):
        raise ValueError(
            f"there are {len(queries)} queries and {len(relevant)} sets of relevant ids; expected "
            "one set for each query, and at least one query"
        )
    gains = [_gains(each, query) for query, each in zip(queries, relevant, strict=True)]
    rows: list[QueryScore] = []
    for query, wanted in zip(queries, gains, strict=True):
        found = yield from retriever.retrieve_flow(query, k)
        rows.append(_row(query, found[:k], wanted, k))
    return RetrievalReport(
        recall=sum(row.recall for row in rows) / len(rows),
        mrr=sum(row.reciprocal_rank for row in rows) / len(rows),
        ndcg=sum(row.ndcg for row in rows) / len(rows),
        k=k,
        queries=len(rows),
        rows=tuple(rows),
    )


def _gains(relevant: Relevant, query: str) -> dict[str, float]:
    if isinstance(relevant, str):
        raise TypeError(f"what is relevant to {query!r:.80} is a set of ids, also of one")
    gains = dict(relevant) if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1.0)
    if not gains or not all(gain > 0 and isfinite(gain) for gain in gains.values()):
        raise ValueError(
            f"relevant to {query!r:.80} is {relevant!r:.80}; expected at least one id, and gains "
            "above 0"
        )
    return gains


def _row(
    query: str, found: Sequence[ScoredChunk], gains: Mapping[str, float], k: int
) -> QueryScore:
    hits = list(_hits(found, gains))
    return QueryScore(
        query,
        recall=sum(gain > 0 for gain in hits) / len(gains),
        reciprocal_rank=next((1 / rank for rank, gain in enumerate(hits, 1) if gain), 0.0),
        ndcg=_discounted(hits) / _discounted(sorted(gains.values(), reverse=True)[:k]),
        found=tuple(hit.chunk.id for hit in found),
    )


def _hits(found: Sequence[ScoredChunk], gains: Mapping[str, float]) -> Iterator[float]:
    """For each rank what it gains; what was found before gains nothing."""
    left = dict(gains)
    for hit in found:
        chunk = hit.chunk
        yield left.pop(chunk.id if chunk.id in gains else chunk.doc_id, 0.0)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))
