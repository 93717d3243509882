"""Cases in which retrieval, its stores and its callers meet, as users run into them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pywrapai import LLM, Embedder
from pywrapai.core.flow import Flow
from pywrapai.exceptions import AuthError
from pywrapai.testing import StubEmbedder, StubProvider
from pywrapai_graph import (
    BaseRetriever,
    BM25Retriever,
    Chunk,
    Chunker,
    Document,
    GraphLLM,
    HybridRetriever,
    InMemoryVectorStore,
    PGVectorStore,
    ScoredChunk,
    VectorRetriever,
    aevaluate_retrieval,
    evaluate_retrieval,
)
from pywrapai_graph.rag.stores import pgvector_copy

CATS = "Cats purr when they are content."


class RefusingProvider:
    """Answers requests, but for one that ends in an error."""

    name, model, default_embedding_model, max_texts = "refusing", "one", "one", 100

    def __init__(self, refused: int, error: BaseException) -> None:
        self.refused = refused
        self.error = error
        self.requests = 0
        self.paid: list[str] = []

    def embed_flow(self, texts: list[str], *, dimensions: int | None, timeout: float) -> Flow[Any]:
        self.requests += 1
        if self.requests == self.refused:
            raise self.error
        self.paid += texts
        return (yield from StubEmbedder()._provider.embed_flow(texts, dimensions=8, timeout=1.0))

    def close(self) -> None:
        """Nothing is held open."""


class Lazy(BaseRetriever):
    """Gives a generator where a list was asked for."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def retrieve(self, query: str, k: int = 4) -> Any:
        return (ScoredChunk(Chunk(f"Page {id}.", id=id), 1.0) for id in self.ids)

    def add_documents(self, docs: Any, chunker: Any = None) -> int:
        return 0


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture
def retriever(embedder: StubEmbedder) -> VectorRetriever:
    return VectorRetriever(embedder, InMemoryVectorStore())


@pytest.mark.parametrize("error", [AuthError("the key is gone"), KeyboardInterrupt()])
def test_after_a_request_that_failed_the_next_run_pays_for_no_text_twice(error):
    provider, store = RefusingProvider(4, error), InMemoryVectorStore()
    retriever = VectorRetriever(Embedder(provider, batch_size=10), store)
    docs = [Document(f"text {number}", id=str(number)) for number in range(100)]
    with pytest.raises(type(error)):
        retriever.add_documents(docs)
    assert len(store) == 30

    assert retriever.add_documents(docs) == 70

    assert provider.paid == [doc.text for doc in docs]


async def test_a_cancelled_task_keeps_what_it_paid_for():
    provider, store = RefusingProvider(4, asyncio.CancelledError()), InMemoryVectorStore()
    retriever = VectorRetriever(Embedder(provider, batch_size=10), store)
    docs = [Document(f"text {number}", id=str(number)) for number in range(100)]

    with pytest.raises(asyncio.CancelledError):
        await retriever.aadd_documents(docs)

    assert await retriever.aadd_documents(docs) == 70
    assert provider.paid == [doc.text for doc in docs]


@pytest.mark.parametrize("kind", ["vector", "bm25"])
def test_a_number_that_becomes_a_bool_is_a_change_that_filters_see(kind, retriever, embedder):
    tried = retriever if kind == "vector" else BM25Retriever()
    tried.add_documents([Document(CATS, {"open": {"to": [1]}, "public": 1}, id="cats")])

    assert tried.add_documents([Document(CATS, {"open": {"to": [1]}, "public": True}, "cats")]) == 1
    assert tried.retrieve("cats", filter={"public": True})
    assert tried.add_documents([Document(CATS, {"open": {"to": [True]}, "public": True}, "cats")])
    assert tried.add_documents([Document(CATS, {"open": {"to": [True]}, "public": 1.0}, "cats")])
    assert tried.add_documents([Document(CATS, {"open": {"to": [True]}, "public": 1}, "cats")]) == 0


def test_changed_bools_cost_no_vectors(retriever, embedder):
    retriever.add_documents([Document(CATS, {"public": 1}, id="cats")])
    retriever.add_documents([Document(CATS, {"public": True}, id="cats")])

    assert embedder.requests == [[CATS]]


def test_an_id_that_is_no_text_is_told_of_at_once():
    with pytest.raises(TypeError, match="the id of a Document is 5; expected a str"):
        Document(CATS, id=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["id", "doc_id", "text"])
def test_a_chunk_that_no_store_keeps_is_refused_before_it_is_paid_for(field, retriever, embedder):
    class Wrong:
        def split(self, document: Document) -> list[Chunk]:
            chunks = [Chunk(document.text, "cats", id="a"), Chunk("Dogs bark.", "cats", id="b")]
            setattr(chunks[1], field, 5)
            return chunks

    with pytest.raises(TypeError, match=f"{field} of Chunk.* is 5; expected str"):
        retriever.add_documents([Document(CATS)], Wrong())

    assert embedder.requests == []


def test_a_source_may_give_one_object_with_other_contents_each_time(retriever):
    def source() -> Iterator[Document]:
        document = Document(CATS)
        for number in range(5):
            document.id, document.text = str(number), f"Cat number {number} purrs."
            yield document

    words = BM25Retriever()

    assert HybridRetriever([retriever, words]).add_documents(source()) == 5
    assert len(retriever.store) == len(words) == 5
    assert words.retrieve("number 3", k=1)[0].chunk.text == "Cat number 3 purrs."


def test_a_generator_of_a_retriever_is_sent_and_told_of_alike():
    assembly = GraphLLM(LLM(StubProvider()), retriever=Lazy("a", "b")).assemble("Which?")

    assert [found.chunk.id for found in assembly.rag_chunks] == ["a", "b"]
    assert "[1] Page a.\n[2] Page b." in assembly.messages[-1].text


async def test_a_generator_without_chunks_adds_no_empty_context():
    graph = GraphLLM(LLM(StubProvider()), retriever=Lazy())

    assert (await graph.aassemble("Which?")).messages[-1].text == "Which?"


async def test_a_generator_of_a_retriever_is_measured():
    assert evaluate_retrieval(Lazy("a", "b"), ["Which?"], [{"b"}], k=2).mrr == 0.5
    assert (await aevaluate_retrieval(Lazy("a", "b"), ["Which?"], [{"b"}], k=2)).mrr == 0.5


def test_a_generator_of_a_store_is_read_once(embedder):
    class LazyStore(InMemoryVectorStore):
        def search(self, *args: Any, **options: Any) -> Any:
            return iter(super().search(*args, **options))

    retriever = VectorRetriever(embedder, LazyStore())
    retriever.add_documents([Document(CATS)])

    assert [hit.chunk.text for hit in retriever.retrieve("cats")] == [CATS]


def test_a_store_that_gives_chunks_one_by_one_serves_documents_that_shrink(embedder):
    class OneByOne(InMemoryVectorStore):
        def get(self, ids: Any) -> Any:
            yield from super().get(ids)

    retriever = VectorRetriever(embedder, OneByOne())
    retriever.add_documents([Document(CATS * 10, id="cats")], Chunker(40, 0))

    retriever.add_documents([Document(CATS, id="cats")], Chunker(40, 0))

    assert len(retriever.store) == 1


def test_words_are_not_indexed_again_when_nothing_changed(monkeypatch):
    built = []
    retriever = BM25Retriever()
    scorer = retriever._scorer
    monkeypatch.setattr(retriever, "_scorer", lambda: built.append(1) or scorer())
    for text in (CATS, CATS, "Dogs bark."):
        retriever.add_documents([Document(text, id="animals")])
        retriever.delete(["nobody"])
        retriever.retrieve("dogs cats")

    assert len(built) == 2
    retriever.delete(["animals:0"])
    assert retriever.retrieve("dogs") == []


def test_an_interrupt_while_postgresql_is_written_to_stays_an_interrupt(
    database, embedder, monkeypatch
):
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    with PGVectorStore(database, "interrupted") as store:
        retriever = VectorRetriever(embedder, store)
        with monkeypatch.context() as patched:
            patched.setattr(pgvector_copy, "_row", interrupted)
            with pytest.raises(KeyboardInterrupt):
                retriever.add_documents([Document(CATS)])

        assert len(store) == 0
        assert retriever.add_documents([Document(CATS)]) == 1
