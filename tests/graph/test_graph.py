from __future__ import annotations

import copy
from pathlib import Path

import pytest

from pywrapai import LLM, Image, LLMResponse, Message, Role
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM

HISTORY = [
    Message(Role.USER, "My name is Alice."),
    Message(Role.ASSISTANT, "Hello Alice!"),
]
TOOL = {"name": "f", "description": "", "parameters": {"type": "object"}}


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider(lambda messages, tools: f"answer {len(messages)}")


@pytest.fixture
def graph(provider: StubProvider) -> GraphLLM:
    return GraphLLM(LLM(provider))


def roles(messages) -> list[str]:
    return [str(message.role) for message in messages]


def test_system_prompt_history_and_message_go_out_in_this_order(graph, provider):
    graph.with_system_prompt("Be kind.").chat("What's my name?", history=HISTORY)

    assert provider.requests[0].messages == (
        Message(Role.SYSTEM, "Be kind."),
        *HISTORY,
        Message(Role.USER, "What's my name?"),
    )


def test_assemble_shows_what_a_call_would_send(graph):
    history, given = copy.deepcopy(HISTORY), [Message(Role.USER, "one"), Message(Role.USER, "two")]

    assembly = graph.with_system_prompt("Be kind.").assemble(given, history)

    assert roles(assembly.messages) == ["system", "user", "assistant", "user", "user"]
    assert assembly.query == "two"
    assert assembly.system_prompt == "Be kind."
    assert assembly.history_count == 1
    assert assembly.rag_chunks == []
    assert history == HISTORY
    assert len(given) == 2


def test_without_a_system_prompt_nothing_is_added(graph):
    assembly = graph.assemble("hi")

    assert assembly.messages == [Message(Role.USER, "hi")]
    assert assembly.system_prompt is None
    assert assembly.history_count == 0


def test_a_system_message_at_the_head_of_the_input_gives_way(graph):
    given = [Message(Role.SYSTEM, "theirs"), Message(Role.USER, "hi")]

    with_prompt = graph.with_system_prompt("ours").assemble(given)
    without = graph.assemble(given)

    assert [m.content for m in with_prompt.messages] == ["ours", "hi"]
    assert [m.content for m in without.messages] == ["theirs", "hi"]


def test_the_llms_own_system_prompt_serves_a_graph_without_one():
    provider = StubProvider(["a", "b"])
    graph = GraphLLM(LLM(provider, system_prompt="the LLM's"))

    graph.chat("hi")
    graph.with_system_prompt("the graph's").chat("hi")

    assert [request.messages[0].content for request in provider.requests] == [
        "the LLM's",
        "the graph's",
    ]


@pytest.mark.parametrize(
    "given", ["", "  ", [], [Message(Role.USER, " ")], [{"role": "user", "content": ""}]]
)
def test_an_empty_user_message_is_refused(graph, provider, given):
    with pytest.raises(ValueError, match="empty"):
        graph.chat(given)
    with pytest.raises(ValueError, match="empty"):
        graph.stream(given)
    assert provider.requests == []


async def test_all_four_ways_assemble_the_same(graph, provider):
    answers = [
        graph.chat("hi", history=HISTORY).content,
        (await graph.achat("hi", history=HISTORY)).content,
        "".join(graph.stream("hi", history=HISTORY)),
        "".join([piece async for piece in graph.astream("hi", history=HISTORY)]),
    ]

    assert answers == ["answer 3"] * 4
    assert len({request.messages for request in map(_hashable, provider.requests)}) == 1


def _hashable(request):
    from dataclasses import replace

    return replace(request, messages=tuple(str(message) for message in request.messages))


def test_tools_and_overrides_go_on_to_the_llm(graph, provider):
    graph.chat("hi", tools=[TOOL], tool_choice="f", temperature=0.5)

    assert provider.requests[0].tools == [TOOL]
    assert provider.requests[0].tool_choice == "f"
    assert provider.requests[0].settings == {"temperature": 0.5}


def test_streams_refuse_tools_at_the_call(graph):
    with pytest.raises(ValueError, match="chat"):
        graph.stream("hi", tools=[TOOL])
    with pytest.raises(ValueError, match="chat"):
        graph.astream("hi", tools=[TOOL])


def test_with_system_prompt_leaves_the_original_and_shares_the_llm(graph):
    twin = graph.with_system_prompt("Be kind.")

    assert graph.system_prompt is None
    assert twin.system_prompt == "Be kind."
    assert twin.llm is graph.llm
    twin.chat("hi")
    assert graph.tokens.total_calls == 1
    assert (graph.model, graph.provider) == ("stub-model", "stub")


def test_a_prompt_file_is_the_system_prompt(tmp_path: Path, provider):
    (tmp_path / "agent-v1.txt").write_text("  Be brief.\n", encoding="utf-8")

    graph = GraphLLM(
        LLM(provider),
        enable_system_prompt_versioning=True,
        prompt_file="agent-v1.txt",
        prompts_dir=tmp_path,
    )

    assert graph.system_prompt == "Be brief."


def test_versioning_without_a_file_is_refused_at_once(provider):
    with pytest.raises(ValueError, match="prompt_file"):
        GraphLLM(LLM(provider), enable_system_prompt_versioning=True)


def test_a_missing_prompt_file_is_refused_at_once(tmp_path, provider):
    with pytest.raises(FileNotFoundError, match="nope"):
        GraphLLM(LLM(provider), True, "nope.txt", tmp_path)


def test_a_whole_response_can_go_back_as_history(graph):
    answer = LLMResponse("Hello Alice!")

    assembly = graph.assemble("hi", [HISTORY[0], answer.message])

    assert assembly.messages[:2] == HISTORY


def test_an_empty_system_prompt_is_none(graph, provider):
    graph.with_system_prompt("").chat("hi")

    assert provider.requests[0].messages == (Message(Role.USER, "hi"),)


def test_a_system_message_in_the_history_gives_way_too(graph):
    history = [Message(Role.SYSTEM, "older"), *HISTORY]

    assembly = graph.with_system_prompt("ours").assemble("hi", history)

    assert [m.content for m in assembly.messages if m.role == Role.SYSTEM] == ["ours"]


def test_an_image_alone_is_a_message(graph, provider):
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n")

    graph.chat([Message(Role.USER, [picture])])

    assert provider.requests[0].messages[0].images == [picture]
