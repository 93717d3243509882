from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import weakref
from decimal import Decimal

import pytest

from pywrapai import LLM, Embedder, ToolCall
from pywrapai.core.flow import Flow
from pywrapai.providers.embedding import EmbeddingReply
from pywrapai.testing import StubEmbedder, StubProvider
from pywrapai_graph import (
    BM25Retriever,
    Document,
    GraphLLM,
    HybridRetriever,
    InMemoryVectorStore,
    ToolRegistry,
    VectorRetriever,
    retrieval_tool,
)
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_monitor import MonitoredGraph, SQLiteStore
from pywrapai_monitor.agent import MonitoredAgent
from pywrapai_monitor.embedding_costs import embedding_entries
from tests.monitor.notebook import Notebook

MODEL = "text-embedding-3-small"


class Paid:
    """An embedding model with a price, which counts a token for each letter."""

    name = "openai"
    max_texts = 100

    def __init__(self, model: str = MODEL) -> None:
        self.model = self.default_embedding_model = model

    def embed_flow(self, texts, *, dimensions, timeout) -> Flow[EmbeddingReply]:
        yield from ()
        return EmbeddingReply([[1.0, 0.0]] * len(texts), sum(map(len, texts)), self.model)

    def close(self) -> None:
        pass


def due(*embedders):
    found = embedding_entries(embedders, user_id="u", session_id="s", at=7)
    return [entry.token for entry in found]


def test_what_was_counted_is_due_once():
    embedder = Embedder(Paid())
    embedder.embed(["a" * 1000, "b" * 500])
    embedder.embed(["c" * 500])

    (token,) = due(embedder)

    assert (token.kind, token.model, token.provider) == ("embedding", MODEL, "openai")
    assert (token.input_tokens, token.output_tokens) == (2000, 0)
    assert token.cost_usd == embedder.tokens.total_cost > 0
    assert (token.priced, token.status) == (True, "ok")
    assert token.duration_ms == pytest.approx(
        sum(call.duration_ms for call in embedder.tokens.records)
    )
    assert due(embedder) == []
    embedder.embed(["d" * 10])
    assert [(token.input_tokens) for token in due(embedder)] == [10]
    assert due(embedder) == []


def test_an_entry_is_like_any_other():
    embedder = Embedder(Paid())
    embedder.embed(["a"])

    (entry,) = embedding_entries([embedder], user_id="u", session_id="s", at=7)

    assert (entry.at, entry.messages, entry.tools) == (7, (), None)
    assert (entry.token.user_id, entry.token.session_id) == ("u", "s")
    assert len(entry.token.call_id) == 32


def test_the_rows_sum_exactly_to_what_the_tracker_says(tmp_path):
    store, embedder = SQLiteStore(tmp_path / "m.db"), Embedder(Paid())
    for number in range(200):
        embedder.embed(["x" * (1 + number * 7 % 13)])
        if number % 3:
            store.write(embedding_entries([embedder], user_id="u", session_id="s", at=number + 1))
    store.write(embedding_entries([embedder], user_id="u", session_id="s", at=999))

    rows = store.get_session_token_records("u", "s")
    total = sum(Decimal(str(row["cost_usd"])) for row in rows)
    assert total == Decimal(str(embedder.tokens.total_cost))
    assert sum(row["input_tokens"] for row in rows) == embedder.tokens.total_input_tokens
    assert store.get_overview()["embeddings"] == len(rows)
    store.close()


def test_an_embedder_whose_price_nobody_knows_is_marked_so():
    embedder = Embedder(Paid("embedded-by-nobody"))
    with pytest.warns(UserWarning, match="embedded-by-nobody"):
        embedder.embed(["a"])

    (token,) = due(embedder)

    assert (token.priced, token.cost_usd) == (False, 0.0)


def test_what_counts_nothing_has_nothing_due():
    silent = StubEmbedder(track_tokens=False)
    silent.embed(["a"])

    assert due(silent, object(), None) == []


def test_a_tracker_that_was_reset_starts_again():
    embedder = StubEmbedder()
    embedder.embed(["one two three"])
    embedder.embed(["one two three"])
    due(embedder)
    embedder.tokens.reset()
    embedder.embed(["one two"])

    assert [token.input_tokens for token in due(embedder)] == [2]


def test_many_threads_record_everything_once():
    embedder = Embedder(Paid())
    found, lock = [], threading.Lock()

    def work(number: int) -> None:
        for turn in range(50):
            embedder.embed(["x" * (number + turn + 1)])
            mine = due(embedder)
            with lock:
                found.extend(mine)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert due(embedder) == []
    assert sum(token.input_tokens for token in found) == embedder.tokens.total_input_tokens
    assert sum(Decimal(str(token.cost_usd)) for token in found) == Decimal(
        str(embedder.tokens.total_cost)
    )


def test_a_garbage_collection_in_mid_count_holds_nothing_up():
    embedder = StubEmbedder()
    by_model = embedder.tokens.by_model
    seen = []

    def interrupted():
        seen.append(due(embedder))  # as a stream would that the collection ends
        return by_model()

    embedder.embed(["one two"])
    embedder.tokens.by_model = interrupted

    assert [token.input_tokens for token in due(embedder)] == [2]
    assert seen == [[]]


def test_an_embedder_is_not_kept_alive():
    embedder = StubEmbedder()
    embedder.embed(["a"])
    due(embedder)
    gone = weakref.ref(embedder)

    del embedder
    gc.collect()

    assert gone() is None


@pytest.mark.parametrize("known", [True, False])
def test_a_fork_child_records_what_it_counts_itself(known):
    """What its parent has counted is the parent's to record."""
    embedder = Embedder(Paid())
    embedder.embed(["a" * 100])
    if known:
        due(embedder)
        embedder.embed(["b" * 50])
    receiver, sender = os.pipe()

    pid = os.fork()
    if pid == 0:
        try:
            embedder.embed(["c" * 7])
            told = [[token.input_tokens, token.cost_usd] for token in due(embedder)]
            os.write(sender, json.dumps(told).encode())
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(sender)

    with os.fdopen(receiver) as pipe:
        assert json.load(pipe) == [[7, pytest.approx(7 * 2e-8)]]
    assert [token.input_tokens for token in due(embedder)] == [50 if known else 100]


# Which embedders a retriever has


class Shelf(BaseRetriever):
    def retrieve(self, query, k=4):
        return []

    def add_documents(self, docs, chunker=None) -> int:
        return 0


def test_a_retriever_says_what_it_embeds_with():
    one, two = StubEmbedder(), StubEmbedder()
    first, second = (VectorRetriever(e, InMemoryVectorStore()) for e in (one, two))
    again = VectorRetriever(one, InMemoryVectorStore())

    assert Shelf().embedders == ()
    assert BM25Retriever().embedders == ()
    assert first.embedders == (one,)
    assert HybridRetriever([first, Shelf(), second, again]).embedders == (one, two)
    assert HybridRetriever([HybridRetriever([first]), again]).embedders == (one,)


# With calls around them


def tracked_with(embedder: Embedder, notebook: Notebook, user: str = "u") -> MonitoredGraph:
    retriever = VectorRetriever(embedder, InMemoryVectorStore())
    graph = GraphLLM(LLM(StubProvider(lambda messages, tools: "x")), retriever=retriever)
    return MonitoredGraph(graph, notebook.conversation(user_id=user))


def test_a_build_that_was_recorded_is_not_charged_to_the_first_user():
    embedder, notebook = Embedder(Paid()), Notebook()
    tracked = tracked_with(embedder, notebook)
    tracked.retriever.add_documents([Document("a" * 1000)])
    build = due(embedder)

    tracked.chat("four")

    assert [token.input_tokens for token in build] == [1000]
    assert [t.input_tokens for t in notebook.tokens if t.kind == "embedding"] == [4]


def test_a_question_whose_search_fails_was_still_paid_for():
    embedder, notebook = Embedder(Paid()), Notebook()
    tracked = tracked_with(embedder, notebook)

    def fail(*args, **kwargs):
        raise OSError("no disk")

    tracked.retriever.store.search = fail
    with pytest.raises(OSError, match="no disk"):
        tracked.chat("four")

    assert [(t.kind, t.input_tokens) for t in notebook.tokens] == [("embedding", 4)]


def test_calls_without_retrieval_have_no_embeddings():
    embedder, notebook = Embedder(Paid()), Notebook()
    tracked = tracked_with(embedder, notebook)

    tracked.chat("four", rag=False)

    assert [token.kind for token in notebook.tokens] == ["chat"]


def test_an_agent_that_searches_with_a_tool_pays_for_it():
    embedder, notebook = Embedder(Paid()), Notebook()
    registry = ToolRegistry()
    registry.register(retrieval_tool(VectorRetriever(embedder, InMemoryVectorStore())))
    replies = [[ToolCall("c1", "retrieve", {"query": "four"})], "done"]
    graph = GraphLLM(LLM(StubProvider(replies)))

    MonitoredAgent(graph, registry, notebook.conversation()).run("Look it up.")

    assert [(t.kind, t.input_tokens) for t in notebook.tokens if t.kind == "embedding"] == [
        ("embedding", 4)
    ]


def test_two_monitors_of_one_embedder_record_it_once():
    embedder = Embedder(Paid())
    ours, theirs = Notebook(), Notebook()

    tracked_with(embedder, ours).chat("four")
    tracked_with(embedder, theirs).chat("seven77")

    counts = [[t.input_tokens for t in n.tokens if t.kind == "embedding"] for n in (ours, theirs)]
    assert counts == [[4], [7]]


async def test_many_users_at_once_cost_what_the_tracker_says():
    embedder, notebook = Embedder(Paid()), Notebook()
    graphs = [tracked_with(embedder, notebook, f"u{number}") for number in range(20)]

    await asyncio.gather(*(graph.achat("x" * 9) for graph in graphs))

    embedded = [token for token in notebook.tokens if token.kind == "embedding"]
    assert sum(token.input_tokens for token in embedded) == 180
    assert len(notebook.tokens) - len(embedded) == 20
