"""Retrievers: the contract, the one over a vector store, and a retriever as a tool."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from pywrapai.core import flow
from pywrapai.core.checks import at_least_1
from pywrapai.core.flow import Flow, blocking, io
from pywrapai_graph.rag.metadata import is_same
from pywrapai_graph.rag.portions import (
    PORTION,
    Portion,
    Splitter,
    document_progress,
    next_of,
    portions,
)
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk
from pywrapai_graph.tools.tool import Tool

if TYPE_CHECKING:
    from pywrapai.embedder import Embedder
    from pywrapai_graph.rag.store import BaseVectorStore

_STALE_AT_ONCE = 100


class BaseRetriever(ABC):
    """Finds the chunks that help with a question. Two methods make a retriever of your own.

    The awaited twins run those in a thread; write better ones where there are.
    """

    @property
    def embedders(self) -> tuple[Embedder, ...]:
        """What it makes vectors with, each once: whose costs a layer above may ask for."""
        return ()

    @abstractmethod
    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        """The at most k best chunks, the best first."""

    @abstractmethod
    def add_documents(self, docs: Iterable[Document], chunker: Splitter | None = None) -> int:
        """Make documents findable; without a chunker each is one chunk. How many chunks."""

    async def aretrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        """`retrieve`, awaited."""
        return await flow.arun(blocking(self.retrieve, query, k))

    async def aadd_documents(
        self, docs: Iterable[Document], chunker: Splitter | None = None
    ) -> int:
        """`add_documents`, awaited."""
        return await flow.arun(blocking(self.add_documents, docs, chunker))

    def retrieve_flow(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> Flow[list[ScoredChunk]]:
        """`retrieve` as a flow, for a layer above; what is None is left to the retriever."""
        given = {"k": k, "filter": filter}
        options: dict[str, Any] = {name: it for name, it in given.items() if it is not None}
        return list((yield from io(self.retrieve, self.aretrieve, query, **options)))

    def add_flow(self, docs: Iterable[Document], chunker: Splitter | None = None) -> Flow[int]:
        """`add_documents` as a flow, for a layer above."""
        return io(self.add_documents, self.aadd_documents, docs, chunker)


class FlowRetriever(BaseRetriever):
    """What our retrievers share: each is two flows, with a blocking and an awaited face."""

    def retrieve(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> list[ScoredChunk]:
        """The at most k best chunks, the best first.

        Args:
            query: the question, or key words.
            k: how many; by default what the retriever was made with.
            filter: only chunks with this metadata, `{"source": "a.txt", "page": {"$in": [1, 2]}}`.

        Raises:
            ValueError: the query is blank, or k is under 1.
        """
        return flow.run(self.retrieve_flow(query, k, filter=filter))

    async def aretrieve(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> list[ScoredChunk]:
        """`retrieve`, awaited."""
        return await flow.arun(self.retrieve_flow(query, k, filter=filter))

    def add_documents(self, docs: Iterable[Document], chunker: Splitter | None = None) -> int:
        """Make documents findable; one whose id is known replaces its older version.

        Args:
            docs: any iterable, read in portions. Of two with one id the later one stays.
            chunker: cuts them, a Chunker say; without one each document is one chunk.

        Returns:
            How many chunks were new or changed.
        """
        return flow.run(self.add_flow(docs, chunker))

    async def aadd_documents(
        self, docs: Iterable[Document], chunker: Splitter | None = None
    ) -> int:
        """`add_documents`, awaited. The documents are read in a thread."""
        return await flow.arun(self.add_flow(docs, chunker))

    @abstractmethod
    def retrieve_flow(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> Flow[list[ScoredChunk]]:
        """`retrieve` as a flow."""

    @abstractmethod
    def add_flow(self, docs: Iterable[Document], chunker: Splitter | None = None) -> Flow[int]:
        """`add_documents` as a flow."""


class VectorRetriever(FlowRetriever):
    """Finds chunks by the meaning of their text. May be shared by threads and by tasks.

    Args:
        embedder: makes the vectors, of the documents and of the queries.
        store: keeps them. With one that has `get` and `delete`, as ours do, what is in the store
            is not embedded again, and what a document no longer says is removed.
        k: how many chunks `retrieve` gives if it is not told.
        min_score: chunks with a lower score, from 0 to 1, are left out.
    """

    def __init__(
        self, embedder: Embedder, store: BaseVectorStore, k: int = 4, min_score: float = 0.0
    ) -> None:
        if not callable(getattr(embedder, "array_flow", None)):
            raise TypeError(
                f"VectorRetriever takes an Embedder, not {embedder!r:.80}; a model of your own "
                "is an EmbeddingProvider, for Embedder(provider)"
            )
        if not callable(getattr(store, "search", None)):
            raise TypeError(f"VectorRetriever takes a BaseVectorStore, not {store!r:.80}")
        if not 0 <= min_score <= 1:
            raise ValueError(f"min_score is {min_score!r}; expected a number from 0 to 1")
        self.embedder = embedder
        self.store = store
        self.k = at_least_1("k", k)
        self.min_score = min_score

    @property
    def embedders(self) -> tuple[Embedder, ...]:
        """The one embedder."""
        return (self.embedder,)

    def retrieve_flow(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> Flow[list[ScoredChunk]]:
        """`retrieve` as a flow. The score is the store's: ours give the cosine from 0 to 1."""
        k = at_least_1("k", self.k if k is None else k)
        vector = (yield from self.embedder.array_flow([checked_query(query)]))[0]
        search: Any = self.store.search  # a foreign one may know no filter
        options = {} if filter is None else {"filter": filter}
        found = list((yield from blocking(search, vector.tolist(), k, **options)))
        self._warn_of_others(found, len(vector))
        return [hit for hit in found if hit.score >= self.min_score and hit.chunk.text.strip()]

    def add_documents(
        self,
        docs: Iterable[Document],
        chunker: Splitter | None = None,
        *,
        skip_unchanged: bool = True,
        batch_size: int = PORTION,
        show_progress: bool | None = None,
    ) -> int:
        """Cut documents into chunks, embed them and store them.

        After an error or a crash, what was stored stays; run it again, and it goes on from there.
        Chunks that a document no longer has are removed if their ids are as Chunker makes them.

        Args:
            docs: any iterable, read in portions. Of two with one id the later one stays.
            chunker: cuts them, a Chunker say; without one each document is one chunk.
            skip_unchanged: leave alone what the store has already, of the same embedding model.
            batch_size: how many chunks are embedded, and then stored, before the next ones.
            show_progress: a progress bar on stderr for work that takes more than half a second;
                by default where that is a terminal.

        Returns:
            How many chunks were new or changed.

        Raises:
            TypeError: for what is no Document: wrap a text as Document(text).
            DimensionMismatchError: the store has vectors of another size.
            ProviderError: one of its kinds, when the embedding failed for good.
        """
        return flow.run(self._adding(docs, chunker, skip_unchanged, batch_size, show_progress))

    async def aadd_documents(
        self,
        docs: Iterable[Document],
        chunker: Splitter | None = None,
        *,
        skip_unchanged: bool = True,
        batch_size: int = PORTION,
        show_progress: bool | None = None,
    ) -> int:
        """`add_documents`, awaited. The documents are read in a thread."""
        return await flow.arun(
            self._adding(docs, chunker, skip_unchanged, batch_size, show_progress)
        )

    def add_flow(self, docs: Iterable[Document], chunker: Splitter | None = None) -> Flow[int]:
        """`add_documents` as a flow, without a progress bar."""
        return self._adding(docs, chunker, True, PORTION, False)

    def __repr__(self) -> str:
        return f"VectorRetriever({self.embedder!r}, {self.store!r}, k={self.k})"

    def _adding(
        self,
        docs: Iterable[Document],
        chunker: Splitter | None,
        skip_unchanged: bool,
        batch_size: int,
        show_progress: bool | None,
    ) -> Flow[int]:
        written = 0
        cut = portions(docs, chunker, at_least_1("batch_size", batch_size))
        with document_progress(docs, show_progress) as advance:
            while (portion := (yield from blocking(next_of, cut))) is not None:
                written += yield from self._add(portion, skip_unchanged)
                advance(len(portion.ended))
        return written

    def _add(self, portion: Portion, skip_unchanged: bool) -> Flow[int]:
        chunks = list(portion.chunks.values())
        known = yield from blocking(self._kept, portion, skip_unchanged)
        vectors = {old.text: old for old in known.values() if skip_unchanged and self._fits(old)}
        for chunk in chunks:
            if (old := vectors.get(chunk.text)) is not None:
                chunk.embedding, chunk.embedded_by = old.embedding, old.embedded_by
        todo = [c for c in chunks if c.embedding is None or not is_same(c, known.get(c.id))]
        try:
            yield from self._embed([chunk for chunk in todo if chunk.embedding is None])
        except GeneratorExit:
            raise
        except BaseException:  # what was paid for is kept, also when a user interrupts or cancels
            if paid := [chunk for chunk in todo if chunk.embedding is not None]:
                yield from blocking(self.store.add, paid)
            raise
        if todo:
            yield from blocking(self.store.add, todo)
        yield from blocking(self._remove_stale, portion, known)
        return len(todo)

    def _kept(self, portion: Portion, skip_unchanged: bool) -> dict[str, Chunk]:
        """What the store has of the chunks, and of those that would come next after them."""
        asked = list(portion.chunks) if skip_unchanged else []
        asked += [_id(doc, _next(doc, ids)) for doc, ids in portion.ended.items()]
        if self._is_ours():
            self._check(portion.chunks.values())
        return {chunk.id: chunk for chunk in self._held(asked)}

    def _held(self, ids: list[str]) -> list[Chunk]:
        try:
            return list(self.store.get(ids))
        except NotImplementedError:  # a foreign store need not have it
            return []

    def _check(self, chunks: Iterable[Chunk]) -> None:
        """Raise what the store would raise, before anything is paid for."""
        from pywrapai_graph.rag.batch import check_fields, check_size

        for chunk in chunks:
            check_fields(chunk)
        held, given = getattr(self.store, "dimension", None), self.embedder.dimensions
        if given is not None:
            check_size(given, held, f"a vector of {self.embedder!r}")

    def _fits(self, old: Chunk) -> bool:
        """Whether its vector is what this embedder would make."""
        vector = old.embedding
        return vector is not None and old.embedded_by == self._signature(len(vector))

    def _signature(self, size: int) -> str:
        size = self.embedder.dimensions or size
        return f"{self.embedder.provider}/{self.embedder.model}/{size}"

    def _embed(self, chunks: list[Chunk]) -> Flow[None]:
        """Give each chunk its vector, request by request; no text is sent twice."""
        having: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            having.setdefault(chunk.text, []).append(chunk)
        left = iter(having)
        while texts := list(islice(left, self.embedder.batch_size)):
            vectors = yield from self.embedder.array_flow(texts)
            rows = vectors if self._is_ours() else vectors.tolist()  # others were promised lists
            made_by = self._signature(vectors.shape[1])
            for text, row in zip(texts, rows, strict=True):
                for chunk in having[text]:
                    chunk.embedding, chunk.embedded_by = row, made_by

    def _is_ours(self) -> bool:
        from pywrapai_graph.rag.store import VectorStore

        return isinstance(self.store, VectorStore)

    def _remove_stale(self, portion: Portion, known: dict[str, Chunk]) -> None:
        stale: list[str] = []
        for doc, ids in portion.ended.items():
            number = _next(doc, ids)
            if _id(doc, number) in known:
                stale += self._stale(doc, number, set(ids))
        if stale:
            with suppress(NotImplementedError):  # nor this
                self.store.delete(stale)

    def _stale(self, doc: str, number: int, ids: set[str]) -> Iterator[str]:
        """The ids of chunks from this number on, up to one that is not there."""
        for first in count(number, _STALE_AT_ONCE):
            window = [_id(doc, at) for at in range(first, first + _STALE_AT_ONCE)]
            there = self._held(window)
            yield from (old.id for old in there if old.doc_id == doc and old.id not in ids)
            if len(there) < len(window):
                return

    def _warn_of_others(self, found: list[ScoredChunk], size: int) -> None:
        mine = self._signature(size)
        others = {hit.chunk.embedded_by for hit in found} - {None, mine}
        if others:
            warnings.warn(
                f"the store has chunks embedded by {', '.join(sorted(map(str, others)))}, and the "
                f"query was by {mine}: their scores mean nothing. Add those documents again",
                stacklevel=2,
            )


def retrieval_tool(
    retriever: BaseRetriever,
    name: str = "retrieve",
    description: str = "Search the documents for passages that help to answer a question.",
    k: int | None = None,
) -> Tool:
    """A tool with which a model searches; it reads `[1] text`, `[2] text` and so on, best first.

    Args:
        retriever: any retriever.
        name: what the model calls the tool.
        description: what the model is told of it: say what the documents are about.
        k: how many chunks at most; by default the retriever's own number.
    """
    if k is not None:
        at_least_1("k", k)

    def retrieve(query: str) -> str:
        asked = checked_query(query)
        found = retriever.retrieve(asked) if k is None else retriever.retrieve(asked, k)
        texts = [f"[{number}] {hit.chunk.text.strip()}" for number, hit in enumerate(found, 1)]
        return "\n".join(texts) or f"Nothing was found for {query!r}. Try other words."

    retrieve.__qualname__ = name  # what the model is told of a wrong argument names it
    vars(retrieve)["retriever"] = retriever  # for a layer above, which may ask what it costs
    told = {"type": "string", "description": "What to look for: a question, or key words."}
    parameters = {"type": "object", "properties": {"query": told}, "required": ["query"]}
    return Tool(name, description, parameters, retrieve)


def checked_query(query: str) -> str:
    """The query itself. TypeError or ValueError for what nobody can look for."""
    if not isinstance(query, str):
        raise TypeError(f"a query is a str, not {type(query).__name__}")
    if not query.strip():
        raise ValueError("the query is blank: give it a question or some key words")
    return query


def _id(doc: str, number: int) -> str:
    return f"{doc}:{number}"


def _next(doc: str, ids: list[str]) -> int:
    """The first number that no chunk of a document has, of those that are named by number."""
    number = len(ids)
    return number if not ids or ids[-1] == _id(doc, number - 1) else 0
