from __future__ import annotations

import asyncio

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_graph.rag.types import Chunk, ScoredChunk
from pywrapai_monitor import Monitor


class Shelf(BaseRetriever):
    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        chunk = Chunk("It is 330 metres tall.", "d1", {"source": "tower.txt"}, id="d1:0")
        return [ScoredChunk(chunk, 0.75)]

    def add_documents(self, docs, chunker=None) -> int:
        raise NotImplementedError


def test_the_chunks_of_a_call_are_recorded_and_history_has_the_question_alone(tmp_path):
    provider = StubProvider(lambda messages, tools: "330 metres")
    graph = GraphLLM(LLM(provider), retriever=Shelf())
    with Monitor(db_path=tmp_path / "monitor.db") as monitor:
        tracked = monitor.wrap(graph, user_id="alice", session_id="s1")

        tracked.chat("How tall is it?")
        asyncio.run(tracked.achat("How tall is it?"))
        "".join(tracked.stream("How tall is it?"))
        rows = monitor.store.get_conversation("alice", "s1")
        history = monitor.store.load_history("alice", "s1", 20)

    found = {
        "id": "d1:0",
        "doc_id": "d1",
        "text": "It is 330 metres tall.",
        "score": 0.75,
        "metadata": {"source": "tower.txt"},
    }
    assert [row["rag_context"] for row in rows] == [[found], None] * 3
    assert [message.text for message in history] == ["How tall is it?", "330 metres"] * 3
    for request in provider.requests:
        assert "It is 330 metres tall." in request.messages[-1].text
        assert all("<context>" not in message.text for message in request.messages[:-1])


def test_what_was_assembled_is_recorded_as_it_was_sent(tmp_path):
    provider = StubProvider(lambda messages, tools: "330 metres")
    graph = GraphLLM(LLM(provider), retriever=Shelf())
    with Monitor(db_path=tmp_path / "monitor.db") as monitor:
        tracked = monitor.wrap(graph, user_id="alice", session_id="s1")
        tracked.chat("Hello")
        assembly = tracked.assemble("How tall is it?")
        graph.retriever = None
        "".join(tracked.stream(assembly))
        asyncio.run(tracked.achat(assembly))
        assert monitor.flush(60)
        rows = monitor.store.get_conversation("alice", "s1")

    assert [list(each.messages) for each in provider.requests[1:]] == [assembly.messages] * 2
    asked = [row for row in rows if row["role"] == "user"]
    assert [row["content"] for row in asked[1:]] == ["How tall is it?"] * 2
    assert [row["history_count"] for row in asked[1:]] == [1, 1]
    assert all(row["rag_context"][0]["id"] == "d1:0" for row in asked)


def test_rag_false_records_no_chunks(tmp_path):
    graph = GraphLLM(LLM(StubProvider(["Bye!"])), retriever=Shelf())
    with Monitor(db_path=tmp_path / "monitor.db") as monitor:
        monitor.wrap(graph, user_id="alice", session_id="s1").chat("Thanks!", rag=False)

        assert monitor.store.get_conversation("alice", "s1")[0]["rag_context"] is None
