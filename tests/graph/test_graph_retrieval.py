from __future__ import annotations

import asyncio

import pytest

from pywrapai import LLM, Image, Message, Role, ToolCall, ToolResult
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_graph.rag.types import Chunk, ScoredChunk

PARIS = "Paris is the capital of France."
TOWER = "The tower is 330 metres tall."
ASKED = f"""\
Use the following context to answer the question.

<context>
[1] {PARIS}
[2] {TOWER}
</context>

Question: How tall is it?"""
PIXEL = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 16)


class Shelf(BaseRetriever):
    """A retriever of two methods, as a user writes one."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked: list[tuple[str, int]] = []

    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        self.asked.append((query, k))
        return [ScoredChunk(Chunk(text), 0.5) for text in self.texts[:k]]

    def add_documents(self, docs, chunker=None) -> int:
        raise NotImplementedError


class Broken(Shelf):
    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        raise ConnectionError("the store is away")


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider(lambda messages, tools: "330 metres")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(PARIS, TOWER)


@pytest.fixture
def graph(provider: StubProvider, shelf: Shelf) -> GraphLLM:
    return GraphLLM(LLM(provider), retriever=shelf)


async def whole(stream) -> str:
    return "".join([piece async for piece in stream])


WAYS = {
    "chat": lambda graph, *args, **kw: graph.chat(*args, **kw).content,
    "achat": lambda graph, *args, **kw: asyncio.run(graph.achat(*args, **kw)).content,
    "stream": lambda graph, *args, **kw: "".join(graph.stream(*args, **kw)),
    "astream": lambda graph, *args, **kw: asyncio.run(whole(graph.astream(*args, **kw))),
    "stream_events": lambda graph, *args, **kw: list(graph.stream_events(*args, **kw))[-1].content,
}


@pytest.fixture(params=WAYS)
def ask(request):
    return WAYS[request.param]


def test_what_was_found_stands_before_the_question_in_the_same_message(ask, graph, provider):
    assert ask(graph, "How tall is it?") == "330 metres"

    assert provider.requests[0].messages == (Message(Role.USER, ASKED),)


def test_the_retriever_is_asked_once_with_the_question_and_rag_k(ask, provider, shelf):
    ask(GraphLLM(LLM(provider), retriever=shelf, rag_k=1), "How tall is it?")

    assert shelf.asked == [("How tall is it?", 1)]
    assert TOWER not in provider.requests[0].messages[0].text


def test_rag_false_asks_nobody(ask, graph, provider, shelf):
    ask(graph, "Thank you!", rag=False)

    assert shelf.asked == []
    assert provider.requests[0].messages == (Message(Role.USER, "Thank you!"),)


def test_a_retriever_that_fails_raises_before_the_model_is_called(ask, provider):
    graph = GraphLLM(LLM(provider), retriever=Broken())

    with pytest.raises(ConnectionError, match="the store is away"):
        ask(graph, "How tall is it?")

    assert provider.requests == []


def test_nothing_found_sends_the_message_as_it_is(ask, provider):
    ask(GraphLLM(LLM(provider), retriever=Shelf()), "How tall is it?")

    assert provider.requests[0].messages == (Message(Role.USER, "How tall is it?"),)


def test_structured_answers_are_asked_for_with_context(provider, shelf):
    schema = {"type": "object", "properties": {"metres": {"type": "integer"}}}
    graph = GraphLLM(LLM(StubProvider(['{"metres": 330}'] * 2)), retriever=shelf)

    assert graph.chat_structured("How tall is it?", schema) == {"metres": 330}
    assert asyncio.run(graph.achat_structured("How tall is it?", schema)) == {"metres": 330}
    assert [query for query, _ in shelf.asked] == ["How tall is it?"] * 2


def test_an_input_that_ends_in_a_tools_result_is_sent_as_it_is(graph, provider, shelf):
    call = ToolCall("c1", "height", {})
    turns = [
        Message(Role.USER, "How tall is it?"),
        Message(Role.ASSISTANT, "", tool_calls=[call]),
        Message(Role.TOOL, "330", tool_result=ToolResult("c1", "height", "330")),
    ]

    graph.chat(turns)

    assert shelf.asked == []
    assert provider.requests[0].messages == tuple(turns)


def test_only_the_last_user_message_is_asked_with_and_changed(graph, provider, shelf):
    turns = [Message(Role.USER, "One."), Message(Role.USER, "How tall is it?")]
    history = [Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi")]

    graph.with_system_prompt("Be brief.").chat(turns, history=history)

    assert [query for query, _ in shelf.asked] == ["How tall is it?"]
    assert [message.text for message in provider.requests[0].messages] == [
        "Be brief.",
        "Hello",
        "Hi",
        "One.",
        ASKED,
    ]


def test_images_stay_with_the_question(graph, provider):
    graph.chat([Message(Role.USER, ["How tall is it?", PIXEL])])

    assert provider.requests[0].messages[0].content == [ASKED, PIXEL]


def test_an_image_without_words_asks_nobody(graph, shelf):
    graph.chat([Message(Role.USER, [PIXEL])])

    assert shelf.asked == []


def test_braces_in_chunks_and_questions_are_text(provider):
    graph = GraphLLM(LLM(provider), retriever=Shelf("{question} {0}"))

    graph.chat("What is {context}?")

    text = provider.requests[0].messages[0].text
    assert "[1] {question} {0}\n" in text
    assert text.endswith("Question: What is {context}?")


def test_input_and_history_stay_as_they_were(graph):
    turns = [Message(Role.USER, "How tall is it?")]
    history = [Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi")]

    graph.chat(turns, history=history)

    assert turns == [Message(Role.USER, "How tall is it?")]
    assert len(history) == 2


def test_assemble_tells_what_was_found_and_what_history_is_to_keep(graph):
    assembly = graph.assemble("How tall is it?")

    assert assembly.query == "How tall is it?"
    assert [found.chunk.text for found in assembly.rag_chunks] == [PARIS, TOWER]
    assert asyncio.run(graph.aassemble("How tall is it?")).messages == assembly.messages


def test_what_was_assembled_is_sent_as_it_is_and_nothing_is_looked_up_again(
    ask, graph, shelf, provider
):
    history = [Message(Role.USER, "Hi"), Message(Role.ASSISTANT, "Hello")]
    assembly = graph.assemble("How tall is it?", history)

    ask(graph, assembly)

    assert len(shelf.asked) == 1
    assert list(provider.requests[0].messages) == assembly.messages
    with pytest.raises(ValueError, match="history"):
        ask(graph, assembly, history=history)


def test_an_empty_message_is_refused_before_the_retriever_is_asked(ask, graph, shelf):
    with pytest.raises(ValueError, match="message is empty"):
        ask(graph, "  ")

    assert shelf.asked == []


@pytest.mark.parametrize("start", [GraphLLM.stream, GraphLLM.astream])
def test_a_stream_refuses_bad_input_at_the_call_and_retrieves_when_it_is_read(start, graph, shelf):
    with pytest.raises(ValueError, match="message is empty"):
        start(graph, "")
    with pytest.raises(ValueError, match="takes no tools"):
        start(graph, "Hello", tools=[{"name": "f", "parameters": {}}])

    start(graph, "How tall is it?")

    assert shelf.asked == []


def test_a_stream_has_its_response_at_the_end(graph):
    stream = graph.stream("How tall is it?")

    assert "".join(stream) == "330 metres"
    assert stream.response.content == "330 metres"


def test_copies_with_another_prompt_share_the_retriever(graph, shelf):
    graph.with_system_prompt("Be brief.").chat("How tall is it?")

    assert len(shelf.asked) == 1


def test_wrong_arguments_are_told_at_once(provider):
    with pytest.raises(TypeError, match="retriever is a BaseRetriever or None"):
        GraphLLM(LLM(provider), retriever="docs")
    with pytest.raises(ValueError, match="rag_k is 0; expected an int of 1 or more"):
        GraphLLM(LLM(provider), rag_k=0)
