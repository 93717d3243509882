"""What the reference shows of retrieval, run as it is written, against the stub server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pywrapai import LLM, Embedder
from pywrapai.testing import StubEmbedder, StubProvider, StubServer
from pywrapai_graph import (
    BaseRetriever,
    BaseVectorStore,
    Chunk,
    Chunker,
    Document,
    FAISSVectorStore,
    GraphLLM,
    InMemoryVectorStore,
    ScoredChunk,
    SQLiteVectorStore,
    ToolRegistry,
    VectorRetriever,
    retrieval_tool,
)

DOCS = [
    Document("Paris is the capital of France, founded in 987 AD."),
    Document("The Louvre museum houses over 380,000 works of art."),
    Document("France uses the Euro as its currency since 2002."),
]


@pytest.fixture
def embedder() -> Iterator[Embedder]:
    with StubServer() as vectors:
        yield Embedder("openai", "text-embedding-3-small", api_key="k", base_url=vectors.url())


def test_the_full_example(server, llm, embedder):
    retriever = VectorRetriever(embedder=embedder, store=InMemoryVectorStore(), k=4)
    assert retriever.add_documents(DOCS, chunker=Chunker(chunk_size=500)) == 3
    graph = GraphLLM(llm=llm, retriever=retriever, rag_k=3)

    server.reply("Paris.", "You are welcome.")
    graph.chat("What is the capital of France?")
    graph.chat("Thank you!", rag=False)

    asked, plain = (request.json for request in server.requests)
    content = asked["messages"][-1]["content"]
    assert content.startswith(
        "Use the following context to answer the question.\n\n<context>\n[1] "
    )
    assert content.endswith("\n</context>\n\nQuestion: What is the capital of France?")
    assert all(f"[{n}] " in content for n in (1, 2, 3))
    assert plain["messages"][-1]["content"] == "Thank you!"
    assert embedder.tokens.total_cost > 0
    assert embedder.tokens.total_calls == 2  # one for all documents, one for the query
    assert {record.kind for record in embedder.tokens.records} == {"embedding"}
    assert llm.tokens.total_calls == 2


def test_documents_chunks_and_scores_are_made_of_these():
    doc = Document("Paris is the capital.", metadata={"source": "geography.txt", "page": 1})
    chunk = Chunk("Paris is the capital.", doc_id=doc.id, metadata={"source": "geography.txt"})
    scored = ScoredChunk(chunk=chunk, score=0.87)

    assert isinstance(doc.id, str)
    assert doc.metadata == {"source": "geography.txt", "page": 1}
    assert isinstance(chunk.id, str)
    assert chunk.id != Chunk("Paris is the capital.").id
    assert chunk.embedding is None
    assert (scored.chunk, scored.score) == (chunk, 0.87)


def test_documents_that_are_short_are_one_chunk_each(embedder):
    retriever = VectorRetriever(embedder, InMemoryVectorStore(), k=4, min_score=0.0)
    docs = [
        Document("Paris is the capital of France."),
        Document("The Eiffel Tower is 330 metres tall."),
    ]

    assert retriever.add_documents(docs, chunker=Chunker(chunk_size=500, overlap=50)) == 2
    found = retriever.retrieve("What is the capital of France?", k=3)

    assert len(found) == 2
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_a_store_refuses_chunks_without_embedding():
    with pytest.raises(ValueError, match="has no embedding"):
        InMemoryVectorStore().add([Chunk("text")])


def test_stores_that_keep_survive_a_restart(tmp_path):
    def stores():
        yield SQLiteVectorStore(db_path=tmp_path / "kb.db", table_name="vector_chunks")
        yield FAISSVectorStore(
            index_path=tmp_path / "docs.faiss", meta_path=tmp_path / "docs_meta.pkl", dimension=None
        )

    for store in stores():
        store.add([Chunk("kept", id="a", embedding=[1.0, 0.0])])
        store.close()
    for store in stores():
        assert [hit.chunk.text for hit in store.search([1.0, 0.0], k=4)] == ["kept"]
        store.close()


def test_a_retriever_is_a_tool_that_the_model_can_call():
    retriever = VectorRetriever(StubEmbedder(64), InMemoryVectorStore())
    retriever.add_documents(
        [Document("Paris is the capital."), Document("The Eiffel Tower is 330 metres tall.")]
    )
    registry = ToolRegistry()
    tool = retrieval_tool(
        retriever=retriever,
        name="search_knowledge_base",
        description="Search the knowledge base for relevant facts.",
    )
    registry.register(tool)

    lines = tool("How tall is the Eiffel Tower?").splitlines()

    assert lines[0] == "[1] The Eiffel Tower is 330 metres tall."
    assert lines[1].startswith("[2] ")
    assert [schema["name"] for schema in registry.to_schema()] == ["search_knowledge_base"]


def test_stores_and_retrievers_of_ones_own_have_the_methods_that_the_reference_shows():
    class PineconeStore(BaseVectorStore):
        def __init__(self) -> None:
            self.chunks: list[Chunk] = []

        def add(self, chunks: list[Chunk]) -> None:
            self.chunks += chunks

        def search(self, query_vector: list[float], k: int) -> list[ScoredChunk]:
            return [ScoredChunk(chunk, 1.0) for chunk in self.chunks[:k]]

        def clear(self) -> None:
            self.chunks.clear()

        def __len__(self) -> int:
            return len(self.chunks)

    class KeywordRetriever(BaseRetriever):
        def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
            return [ScoredChunk(Chunk(query.upper()), 1.0)]

        def add_documents(self, docs, chunker=None) -> int:
            return 0

    retriever = VectorRetriever(StubEmbedder(64), PineconeStore())
    assert retriever.add_documents(DOCS) == 3
    assert retriever.retrieve("France", k=1)[0].chunk.text == DOCS[0].text
    graph = GraphLLM(LLM(StubProvider(["ok"])), retriever=KeywordRetriever())
    assert graph.assemble("hello").rag_chunks[0].chunk.text == "HELLO"
