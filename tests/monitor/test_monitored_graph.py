"""What each call of a monitored graph leaves, sends and refuses."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
import warnings

import pytest

from pywrapai import LLM, Image
from pywrapai.testing import StubEmbedder, StubProvider
from pywrapai_graph import Chunk, GraphLLM, InMemoryVectorStore, ScoredChunk, VectorRetriever
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_monitor import MonitoredGraph, SQLiteStore, StoreError
from tests.monitor.notebook import Notebook, tracked_of
from tests.monitor.ways import ANN, EACH, TOOL, WAYS, go

# What every call leaves


@EACH
async def test_each_way_leaves_one_record_with_its_id_labels_and_rows(way):
    tracked, notebook, _ = tracked_of(ANN, prompt_name="p", prompt_version="v1")

    await go(tracked, way, tags=["a", "b"], metadata={"order": 7})

    (entry,) = notebook.entries
    token = entry.token
    assert (token.status, token.finish_reason) == ("ok", "stop")
    assert (token.tags, token.metadata) == (("a", "b"), {"order": 7})
    assert (token.prompt_name, token.prompt_version) == ("p", "v1")
    assert [(m.role, m.content) for m in entry.messages] == [("user", "hi"), ("assistant", ANN)]
    assert token.call_id
    assert {m.call_id for m in entry.messages} == {token.call_id}
    assert abs(entry.at - time.time_ns() // 1000) < 60_000_000
    assert notebook.ways == ["enqueue" if way.startswith("a") else "write"]


@pytest.mark.parametrize("way", WAYS)
def test_twins_take_the_same_arguments(way):
    twins = [inspect.signature(getattr(MonitoredGraph, name)) for name in (way, f"a{way}")]

    assert list(twins[0].parameters.values()) == list(twins[1].parameters.values())


@pytest.mark.parametrize("way", WAYS[:3])
def test_it_is_called_as_a_graph_is_but_for_the_history(way):
    ours, graphs = (
        list(inspect.signature(getattr(cls, way)).parameters) for cls in (MonitoredGraph, GraphLLM)
    )

    assert [name for name in ours if name not in ("metadata", "tags")] == [
        name for name in graphs if name != "history"
    ]


async def test_a_response_says_under_which_id_it_is_kept():
    tracked, notebook, _ = tracked_of(*["x"] * 6)

    responses = [tracked.chat("a"), await tracked.achat("b")]
    pieces = tracked.stream("c")
    list(pieces)
    apieces = tracked.astream("d")
    [piece async for piece in apieces]
    last = list(tracked.stream_events("e"))[-1]
    alast = [event async for event in tracked.astream_events("f")][-1]

    ids = [r.call_id for r in (*responses, pieces.response, apieces.response, last, alast)]
    assert ids == [token.call_id for token in notebook.tokens]
    assert len(set(ids)) == 6


async def test_the_history_is_loaded_once_settled_and_off_the_loop():
    tracked, notebook, provider = tracked_of("one", "two", "three")

    await tracked.achat("a")
    tracked.chat("b")
    await go(tracked, "astream", "c")

    assert [len(request.messages) for request in provider.requests] == [1, 3, 5]
    here = threading.get_ident()
    assert [ident == here for *_, ident in notebook.settled] == [False, True, False]
    assert {(user, session) for user, session, _ in notebook.settled} == {("u", "s")}


def test_without_turns_nothing_is_loaded():
    tracked, notebook, _ = tracked_of("one", max_turns=0)

    tracked.chat("a")

    assert notebook.settled == []


@EACH
async def test_what_is_wrong_is_said_before_any_io(way):
    tracked, notebook, provider = tracked_of(ANN)

    for wrong in ({"question": " "}, {"timeout": -1}, {"metadata": [1]}, {"tags": "ab"}):
        with pytest.raises((ValueError, TypeError)):
            await go(tracked, way, **wrong)
    with pytest.raises(TypeError, match="loads the history itself"):
        await go(tracked, way, history=[])

    assert (provider.requests, notebook.settled, notebook.entries) == ([], [], [])


@pytest.mark.parametrize("way", ["stream", "astream", "stream_events", "astream_events"])
def test_a_stream_says_what_is_wrong_at_the_call(way):
    tracked, _, _ = tracked_of("never")

    with pytest.raises(ValueError, match="empty"):
        getattr(tracked, way)(" ")
    with pytest.raises(ValueError, match="tool"):
        getattr(tracked, way)("hi", tools=[TOOL], tool_choice="nope")


def test_the_labels_of_a_record_are_its_own():
    tracked, notebook, _ = tracked_of("x")
    given = {"cart": [1, 2], "when": time.gmtime, "nan": float("nan")}

    tracked.chat("hi", metadata=given)
    given["cart"].append(3)

    assert notebook.tokens[0].metadata["cart"] == [1, 2]
    assert notebook.tokens[0].metadata["nan"] == "NaN"


def test_what_an_object_among_the_labels_can_do_is_not_done():
    class Body:
        async def json(self) -> dict[str, str]:
            raise AssertionError("it was read")

        def __repr__(self) -> str:
            return "a body"

    tracked, notebook, _ = tracked_of("x")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracked.chat("hi", metadata={"request": Body()})

    assert notebook.tokens[0].metadata == {"request": "a body"}


def test_what_a_user_of_the_graph_looks_at_is_there():
    tracked, _, _ = tracked_of("x", llm=LLM(StubProvider(["x"]), cache=True), prompt_name="p")
    graph = tracked.graph

    assert (tracked.llm, tracked.tokens, tracked.cache) == (graph.llm, graph.tokens, graph.cache)
    assert (tracked.model, tracked.provider) == ("stub-model", "stub")
    assert (tracked.retriever, tracked.system_prompt) == (None, None)
    assert (tracked.user_id, tracked.session_id) == ("u", "s")
    kind = tracked.with_system_prompt("Be kind.")
    assert (kind.system_prompt, tracked.system_prompt) == ("Be kind.", None)
    assert kind.conversation.prompt_name is None


async def test_what_a_call_would_send_can_be_looked_at():
    tracked, notebook, _ = tracked_of("one")
    tracked.chat("a")

    assembly = tracked.assemble("b")

    assert [m.text for m in assembly.messages] == ["a", "one", "b"]
    assert await tracked.aassemble("b") == assembly
    assert len(notebook.entries) == 1


def test_an_image_is_kept_as_its_hash_and_size_and_the_next_turn_has_no_empty_question():
    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 100)
    tracked, notebook, provider = tracked_of("a square", "blue")

    tracked.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": image.as_url}}]}])  # fmt: skip
    tracked.chat("And its colour?")

    assert notebook.entries[0].messages[0].content == f"[image {image.fingerprint}]"
    assert "108 bytes" in provider.requests[1].messages[0].text


# Retrieval


class Shelf(BaseRetriever):
    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        return [ScoredChunk(Chunk("It is 330 m.", "d1", {"at": {1, 2}}, id="d1:0"), 0.75)]

    def add_documents(self, docs, chunker=None) -> int:
        raise NotImplementedError


@EACH
async def test_the_chunks_that_were_sent_are_kept_with_the_question(way):
    tracked, notebook, provider = tracked_of(ANN, retriever=Shelf())

    await go(tracked, way)

    assert "330 m" in provider.requests[0].messages[-1].text
    found = {"id": "d1:0", "doc_id": "d1", "text": "It is 330 m.", "score": 0.75}
    kept = notebook.entries[0].messages[0]
    assert kept.rag_context == [{**found, "metadata": {"at": [1, 2]}}]
    assert kept.content == "hi"


@EACH
async def test_when_retrieval_fails_nothing_is_asked(way):
    class Broken(Shelf):
        def retrieve(self, query, k=4):
            raise StoreError("away")

    tracked, notebook, provider = tracked_of("never", retriever=Broken())

    with pytest.raises(StoreError, match="away"):
        await go(tracked, way)
    assert (provider.requests, notebook.entries) == ([], [])


@EACH
async def test_what_a_question_cost_in_embeddings_is_recorded_with_the_call(way):
    store, embedder = InMemoryVectorStore(), StubEmbedder()
    retriever = VectorRetriever(embedder, store)
    tracked, notebook, _ = tracked_of(ANN, retriever=retriever)

    await go(tracked, way, "three words here")

    embedding, chat = notebook.tokens
    assert (embedding.kind, embedding.model, embedding.input_tokens) == (
        "embedding",
        "stub-embedding",
        3,
    )
    assert (embedding.user_id, embedding.session_id) == ("u", "s")
    assert chat.kind == "chat"


# When something else is wrong


@EACH
async def test_a_history_that_cannot_be_loaded_is_an_error_before_the_model_is_called(way):
    notebook = Notebook()
    tracked, _, provider = tracked_of("never", notebook=notebook)
    notebook.store.load_history = lambda *args: _raise(StoreError("gone"))

    with pytest.raises(StoreError, match="gone"):
        await go(tracked, way)
    assert (provider.requests, notebook.entries) == ([], [])


def _raise(error: BaseException):
    raise error


def test_a_question_that_was_not_kept_is_left_out_of_the_history_with_its_answer():
    from pywrapai_monitor.privacy import Privacy

    silent, notebook, provider = tracked_of(
        "one", "two", "three", privacy=Privacy(store_content=False)
    )
    open_ = MonitoredGraph(silent.graph, notebook.conversation())

    silent.chat("a")
    open_.chat("b")
    open_.chat("c")

    assert [[m.text for m in r.messages] for r in provider.requests] == [
        ["a"],
        ["b"],
        ["b", "two", "c"],
    ]


def test_a_stream_that_garbage_collection_ends_waits_for_no_lock():
    """It may have interrupted whoever holds the database's."""

    class Locked(Notebook):
        lock = threading.Lock()

        def write(self, entry) -> None:
            assert self.lock.acquire(timeout=5)
            try:
                gc.collect()
                super().write(entry)
            finally:
                self.lock.release()

    tracked, notebook, _ = tracked_of("one two three", "fine", notebook=Locked())
    stream = tracked.stream("a")
    next(stream)
    stream.itself = stream
    gc.disable()
    try:
        del stream
        tracked.chat("b")
    finally:
        gc.enable()

    assert notebook.ways == ["enqueue", "write"]
    assert notebook.statuses == ["interrupted", "ok"]


def test_one_graph_serves_many_threads_and_tasks():
    tracked, notebook, _ = tracked_of(lambda messages, tools: messages[-1].text, max_turns=1)

    async def ask(number: int) -> None:
        assert (await tracked.achat(f"a{number}")).content == f"a{number}"

    async def many() -> None:
        await asyncio.gather(*(ask(number) for number in range(40)))

    def work(number: int) -> None:
        assert tracked.chat(f"t{number}").content == f"t{number}"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    asyncio.run(many())
    for thread in threads:
        thread.join()

    said = [[m.content for m in entry.messages] for entry in notebook.entries]
    assert len(said) == 80
    assert all(asked == answered for asked, answered in said)
    assert len({token.call_id for token in notebook.tokens}) == 80


def test_a_fork_child_may_go_on_calling(tmp_path):
    tracked, notebook, _ = tracked_of(
        lambda messages, tools: "x", notebook=Notebook(SQLiteStore(tmp_path / "m.db"))
    )
    tracked.chat("parent")

    pid = os.fork()
    if pid == 0:
        try:
            tracked.chat("child")
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

    rows = notebook.store.get_session_token_records("u", "s")
    assert len({row["id"] for row in rows}) == 2
    notebook.store.close()
