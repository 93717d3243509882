"""The retriever over a vector store: adding, replacing, finding, and serving as a tool."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pywrapai import LLM, ToolCall
from pywrapai.core import flow
from pywrapai.testing import StubEmbedder, StubProvider
from pywrapai_graph import Agent, GraphLLM, ToolRegistry
from pywrapai_graph.rag.chunker import Chunker
from pywrapai_graph.rag.retriever import BaseRetriever, VectorRetriever, retrieval_tool
from pywrapai_graph.rag.store import BaseVectorStore
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk
from tests.graph.retrievers import CountingStore, OtherEmbedder, sent, texts

PARIS = "Paris is the capital of France."
TOWER = "The Eiffel Tower is 330 metres tall."
EURO = "France uses the Euro as its currency."


class ForeignStore(BaseVectorStore):
    """The four methods that a store must have, and no more."""

    def __init__(self) -> None:
        self.chunks: dict[str, Chunk] = {}

    def add(self, chunks: list[Chunk]) -> None:
        self.chunks.update((chunk.id, chunk) for chunk in chunks)

    def search(self, query_vector: Sequence[float], k: int = 4) -> list[ScoredChunk]:
        scored = [
            ScoredChunk(c, sum(a * b for a, b in zip(c.embedding or (), query_vector, strict=True)))
            for c in self.chunks.values()
        ]
        return sorted(scored, key=lambda hit: -hit.score)[:k]

    def clear(self) -> None:
        self.chunks.clear()

    def __len__(self) -> int:
        return len(self.chunks)


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def retriever(embedder: StubEmbedder, store: CountingStore) -> VectorRetriever:
    return VectorRetriever(embedder, store)


# Finding


def test_the_chunk_that_shares_the_most_words_comes_first(retriever):
    assert retriever.add_documents([Document(TOWER), Document(PARIS), Document(EURO)]) == 3

    found = retriever.retrieve("the capital of France", k=2)

    assert texts(found)[0] == PARIS
    assert len(found) == 2
    assert 1 >= found[0].score > found[1].score > 0
    assert found[0].chunk.embedding is None


def test_k_is_the_retrievers_unless_the_call_says_so(embedder, store):
    retriever = VectorRetriever(embedder, store, k=2)
    retriever.add_documents([Document(f"France {number}") for number in range(9)])

    assert len(retriever.retrieve("France")) == 2
    assert len(retriever.retrieve("France", 5)) == 5
    assert len(retriever.retrieve("France", k=50)) == 9


def test_chunks_under_the_least_score_are_left_out(embedder, store):
    VectorRetriever(embedder, store).add_documents([Document(PARIS), Document(TOWER)])

    assert texts(VectorRetriever(embedder, store, min_score=0.9).retrieve(PARIS)) == [PARIS]
    assert texts(VectorRetriever(embedder, store, min_score=0).retrieve(PARIS)) == [PARIS, TOWER]


def test_a_filter_is_applied_before_the_best_are_taken(retriever):
    docs = [Document(PARIS, {"page": page}, id=f"d{page}") for page in range(20)]
    retriever.add_documents(docs)

    found = retriever.retrieve(PARIS, 2, filter={"page": {"$in": [17, 19, 3]}})

    assert [hit.chunk.metadata["page"] for hit in found] == [3, 17]


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_is_refused_before_anything_is_embedded(retriever, embedder, query):
    with pytest.raises(ValueError, match="the query is blank"):
        retriever.retrieve(query)

    assert embedder.requests == []


def test_a_query_that_is_no_text_is_refused(retriever):
    with pytest.raises(TypeError, match="a query is a str, not list"):
        retriever.retrieve(["Paris"])


@pytest.mark.parametrize("k", [0, -1, True, 2.0])
def test_a_k_under_1_is_refused(retriever, embedder, store, k):
    with pytest.raises(ValueError, match=r"k is .*expected an int of 1 or more"):
        retriever.retrieve("Paris", k)
    with pytest.raises(ValueError, match=r"k is .*expected an int of 1 or more"):
        VectorRetriever(embedder, store, k=k)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_least_score_that_no_cosine_has_is_refused(embedder, store, score):
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        VectorRetriever(embedder, store, min_score=score)


def test_what_is_no_embedder_is_told_how_to_become_one(store):
    with pytest.raises(TypeError, match=r"a model of your own is an EmbeddingProvider"):
        VectorRetriever(len, store)


@pytest.mark.parametrize("store", [None, [], "vectors.db"])
def test_what_is_no_store_is_refused_when_the_retriever_is_made(embedder, store):
    with pytest.raises(TypeError, match="takes a BaseVectorStore"):
        VectorRetriever(embedder, store)


def test_an_empty_store_finds_nothing(retriever):
    assert retriever.retrieve("Paris") == []


def test_a_blank_document_stops_nothing_and_is_never_found(retriever):
    assert retriever.add_documents([Document(""), Document(" \n "), Document(PARIS)]) == 3

    assert texts(retriever.retrieve("Paris")) == [PARIS]


def test_chunks_of_another_model_in_the_store_are_warned_of(retriever, store):
    VectorRetriever(OtherEmbedder(), store).add_documents([Document(PARIS)])

    with pytest.warns(UserWarning, match=r"by stub/another-model/64, and the query was by stub/"):
        retriever.retrieve("Paris")


# Stores of others


def test_a_store_with_four_methods_gets_everything_each_time():
    embedder, store = StubEmbedder(), ForeignStore()
    retriever = VectorRetriever(embedder, store)
    docs = [Document(PARIS), Document(TOWER)]

    assert [retriever.add_documents(docs) for _ in range(2)] == [2, 2]
    assert sent(embedder) == [PARIS, TOWER] * 2
    assert texts(retriever.retrieve("the capital of France", 1)) == [PARIS]
    assert all(type(chunk.embedding) is list for chunk in store.chunks.values())


def test_a_store_that_can_get_but_not_delete_skips_what_it_has():
    class Getting(ForeignStore):
        def get(self, ids: Any) -> list[Chunk]:
            return [self.chunks[id] for id in ids if id in self.chunks]

    embedder = StubEmbedder()
    retriever = VectorRetriever(embedder, Getting())
    cut = Chunker(chunk_size=40, overlap=0)
    retriever.add_documents([Document(PARIS + "\n\n" + TOWER, id="doc")], cut)
    before = len(sent(embedder))

    assert retriever.add_documents([Document(PARIS + "\n\n" + EURO, id="doc")], cut) == 1
    assert sent(embedder)[before:] == [EURO]
    assert retriever.add_documents([Document(PARIS, id="doc")], cut) == 1
    assert len(retriever.store) == 2


# Awaited


async def test_the_awaited_twins_do_the_same(retriever, embedder):
    docs = [Document(PARIS, {"page": 1}), Document(TOWER, {"page": 2})]

    assert await retriever.aadd_documents(docs) == 2
    assert await retriever.aadd_documents(iter(docs)) == 0

    assert await retriever.aretrieve("Paris") == retriever.retrieve("Paris")
    assert texts(await retriever.aretrieve("Paris", 1, filter={"page": 2})) == [TOWER]
    with pytest.raises(ValueError, match="blank"):
        await retriever.aretrieve(" ")


async def test_documents_are_read_and_stored_off_the_event_loop(retriever, store):
    threads: set[int] = set()

    def read() -> Iterator[Document]:
        for number in range(4):
            threads.add(threading.get_ident())
            yield Document(f"text {number}")

    await retriever.aadd_documents(read(), batch_size=1)

    assert threading.get_ident() not in threads


def test_a_retriever_may_be_used_from_many_threads(retriever, store):
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            docs = [Document(f"text {number} {n}", id=f"{number}-{n}") for n in range(20)]
            retriever.add_documents(docs, batch_size=3)
            assert retriever.retrieve(f"text {number}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(store) == 160


# Retrievers of others


class Foreign(BaseRetriever):
    """The two methods that a retriever must have, with a k of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def retrieve(self, query: str, k: int = 8) -> list[ScoredChunk]:
        self.calls.append((query, k, threading.get_ident()))
        return [ScoredChunk(Chunk(f"about {query}"), 0.5)][:k]

    def add_documents(self, docs: Any, chunker: Any = None) -> int:
        self.calls.append((docs, chunker, threading.get_ident()))
        return len(docs)


async def test_a_retriever_of_two_methods_is_awaited_in_a_thread():
    foreign = Foreign()

    assert texts(await foreign.aretrieve("Paris", 3)) == ["about Paris"]
    assert await foreign.aadd_documents([1, 2], "cut") == 2

    (query, k, first), (docs, chunker, second) = foreign.calls
    assert (query, k, docs, chunker) == ("Paris", 3, [1, 2], "cut")
    assert threading.get_ident() not in (first, second)


async def test_layers_above_drive_any_retriever_from_sync_and_async_code():
    foreign = Foreign()

    assert texts(flow.run(foreign.retrieve_flow("a"))) == ["about a"]
    assert texts(flow.run(foreign.retrieve_flow("b", 2))) == ["about b"]
    assert texts(await flow.arun(foreign.retrieve_flow("c", 2))) == ["about c"]
    assert flow.run(foreign.add_flow([1])) == 1
    assert [call[1] for call in foreign.calls] == [8, 2, 2, None]


def test_a_filter_goes_only_to_those_who_know_filters():
    with pytest.raises(TypeError, match="filter"):
        flow.run(Foreign().retrieve_flow("a", 2, filter={"page": 1}))


# As a tool


def test_the_tool_gives_the_model_a_numbered_list(retriever):
    retriever.add_documents([Document(TOWER), Document(PARIS)])
    tool = retrieval_tool(retriever, name="search", description="Search facts.", k=2)

    assert tool(query="capital of France") == f"[1] {PARIS}\n[2] {TOWER}"
    assert (tool.name, tool.description) == ("search", "Search facts.")
    assert tool.parameters["required"] == ["query"]
    assert retrieval_tool(retriever, k=1)(query="tall tower") == f"[1] {TOWER}"


def test_the_tool_leaves_k_to_the_retriever():
    foreign = Foreign()

    assert retrieval_tool(foreign)(query="Paris") == "[1] about Paris"
    assert foreign.calls[0][1] == 8


def test_the_tool_says_when_nothing_was_found(retriever):
    assert (
        retrieval_tool(retriever)(query="Rome") == "Nothing was found for 'Rome'. Try other words."
    )


def test_a_blank_query_of_a_model_is_a_result_that_it_understands(retriever):
    registry = ToolRegistry()
    registry.register(retrieval_tool(retriever))

    result = registry.execute(ToolCall("1", "retrieve", {"query": " "}))

    assert result.is_error
    assert result.content == "Error: the query is blank: give it a question or some key words"
    assert registry.execute(ToolCall("1", "retrieve", {})).is_error


def test_a_tool_with_a_k_under_1_is_refused(retriever):
    with pytest.raises(ValueError, match="k is 0"):
        retrieval_tool(retriever, k=0)


async def test_an_agent_searches_in_sync_and_in_async_runs(retriever):
    retriever.add_documents([Document(PARIS)])
    registry = ToolRegistry()
    registry.register(retrieval_tool(retriever))

    def agent() -> tuple[Agent, StubProvider]:
        call = ToolCall("1", "retrieve", {"query": "capital"})
        provider = StubProvider([[call], "Paris."])
        return Agent(GraphLLM(LLM(provider)), registry), provider

    for awaited in (False, True):
        made, provider = agent()
        result = await made.arun("Where?") if awaited else made.run("Where?")
        assert result.content == "Paris."
        assert provider.requests[-1].messages[-1].tool_result.content == f"[1] {PARIS}"
