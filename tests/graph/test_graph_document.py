"""The code of the graph layer's reference, run as it is written there.

`LLM(provider=..., model=...)` finds its server by the environment, as a program does.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pywrapai import (
    LLM,
    LLMResponse,
    Message,
    ResponseCache,
    Role,
    TokenTracker,
    ToolCall,
)
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Call, text, tool_calls
from pywrapai_graph import (
    GraphLLM,
    PromptRegistry,
    ToolRegistry,
)
from tests.graph.document_example import parameters, point_providers_at, sent, weather_and_search

PROMPTS = {
    "support-agent-v1.txt": "You are a friendly support agent for Acme Corp.\n\nBe concise.\n",
    "support-agent-v2.txt": "You are a support agent for Acme Corp.\n",
    "finance-bot-v1.txt": "\nYou are a finance expert.\n\n",
}
LONDON = Call("get_weather", {"city": "London"}, id="call_abc")


@pytest.fixture(autouse=True)
def _environment(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_providers_at(server, monkeypatch)


@pytest.fixture(autouse=True)
def _nothing_is_refused(server: StubServer) -> Iterator[None]:
    yield
    assert server.refusals == []


@pytest.fixture
def prompts_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "system_prompts_registry"
    folder.mkdir()
    for name, prompt in PROMPTS.items():
        (folder / name).write_text(prompt, encoding="utf-8")
    return folder


@pytest.fixture
def llm() -> LLM:
    return LLM(provider="openai", model="gpt-4o-mini")


@pytest.fixture
def graph(llm: LLM) -> GraphLLM:
    return GraphLLM(llm=llm)


@pytest.fixture
def registry() -> ToolRegistry:
    return weather_and_search()


# GraphLLM: the constructor


def test_constructor_with_a_prompt_file(server: StubServer, prompts_dir: Path):
    llm = LLM(provider="anthropic", model="claude-haiku-4-5-20251001")
    server.reply("Hello.")

    graph = GraphLLM(
        llm=llm,
        enable_system_prompt_versioning=True,
        prompt_file="support-agent-v1.txt",
        prompts_dir=str(prompts_dir),
    )
    graph.chat("Hi")

    body = server.requests[0].json
    assert "friendly support agent" in str(body["system"])
    assert [turn["role"] for turn in body["messages"]] == ["user"]


def test_constructor_defaults():
    table = parameters(GraphLLM.__init__)

    assert list(table)[:4] == [
        "llm",
        "enable_system_prompt_versioning",
        "prompt_file",
        "prompts_dir",
    ]
    assert table["llm"] is inspect.Parameter.empty
    assert table["enable_system_prompt_versioning"] is False
    assert table["prompt_file"] is None
    assert table["prompts_dir"] == "system_prompts_registry"


def test_versioning_without_a_prompt_file_is_a_value_error_at_once(llm: LLM):
    with pytest.raises(ValueError, match="prompt_file"):
        GraphLLM(llm=llm, enable_system_prompt_versioning=True)


def test_without_versioning_the_llms_own_system_prompt_stands(server: StubServer):
    llm = LLM(provider="openai", system_prompt="You are a concise code reviewer.")
    graph = GraphLLM(llm=llm)
    server.reply("c is not defined.")

    response = graph.chat("def add(a, b): return a + c")

    assert response.content == "c is not defined."
    assert sent(server) == [
        ("system", "You are a concise code reviewer."),
        ("user", "def add(a, b): return a + c"),
    ]


def test_a_prompts_directory_is_looked_for_where_the_program_runs(
    llm: LLM, prompts_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(prompts_dir.parent)

    graph_v1 = GraphLLM(
        llm=llm, enable_system_prompt_versioning=True, prompt_file="support-agent-v1.txt"
    )
    graph_v2 = GraphLLM(
        llm=llm, enable_system_prompt_versioning=True, prompt_file="support-agent-v2.txt"
    )

    assert graph_v1.system_prompt == PROMPTS["support-agent-v1.txt"].strip()
    assert graph_v2.system_prompt == PROMPTS["support-agent-v2.txt"].strip()


# GraphLLM: the calls


@pytest.mark.parametrize("name", ["chat", "achat"])
def test_chat_takes_these_and_by_default(name: str):
    assert parameters(getattr(GraphLLM, name)) == {
        "input": inspect.Parameter.empty,
        "history": None,
        "tools": None,
        "tool_choice": None,
        "rag": True,
    }


@pytest.mark.parametrize("name", ["stream", "astream"])
def test_stream_takes_these_and_by_default(name: str):
    taken = parameters(getattr(GraphLLM, name))

    assert taken == {"input": inspect.Parameter.empty, "history": None, "rag": True}


@pytest.mark.parametrize("history", [None, []])
@pytest.mark.parametrize("rag", [True, False])
def test_chat_answers_a_text(server: StubServer, graph: GraphLLM, history: Any, rag: bool):
    server.reply("Hello.")

    response = graph.chat("Hi", history=history, tools=None, tool_choice=None, rag=rag)

    assert isinstance(response, LLMResponse)
    assert (response.content, response.tool_calls) == ("Hello.", None)
    assert sent(server) == [("user", "Hi")]


def test_chat_takes_several_messages_at_once(server: StubServer, graph: GraphLLM):
    server.reply("Hello Alice.")

    graph.chat([Message(Role.USER, "I am Alice."), Message(Role.USER, "Who am I?")])

    assert sent(server) == [("user", "I am Alice."), ("user", "Who am I?")]


def test_a_tool_call_comes_back_without_text(
    server: StubServer, graph: GraphLLM, registry: ToolRegistry
):
    server.reply(tool_calls(LONDON))

    response = graph.chat("Weather?", tools=registry.to_schema(), tool_choice="get_weather")

    assert response.content == ""
    assert response.tool_calls == [ToolCall("call_abc", "get_weather", {"city": "London"})]
    assert server.requests[0].json["tool_choice"]["function"] == {"name": "get_weather"}


def test_a_system_message_at_the_head_of_the_input_is_replaced_by_the_prompt_file(
    server: StubServer, llm: LLM, prompts_dir: Path
):
    graph = GraphLLM(llm, True, "support-agent-v2.txt", prompts_dir)
    server.reply("Hello.")

    graph.chat([Message(Role.SYSTEM, "You are a pirate."), Message(Role.USER, "Hi")])

    assert sent(server) == [("system", "You are a support agent for Acme Corp."), ("user", "Hi")]


def test_stream_prints_as_it_comes_and_is_counted(
    server: StubServer, graph: GraphLLM, capsys: pytest.CaptureFixture[str]
):
    server.reply(text("Once upon a time", usage={"prompt_tokens": 3, "completion_tokens": 4}))

    for chunk in graph.stream("Write a story", history=None):
        print(chunk, end="", flush=True)

    assert capsys.readouterr().out == "Once upon a time"
    assert (graph.tokens.total_calls, graph.tokens.total_tokens) == (1, 7)


async def test_streams_refuse_tools(graph: GraphLLM, registry: ToolRegistry):
    with pytest.raises(ValueError, match="tools"):
        graph.stream("Hi", tools=registry.to_schema())
    with pytest.raises(ValueError, match="tools"):
        graph.astream("Hi", tools=registry.to_schema())


class Person(BaseModel):
    name: str
    age: int


async def test_chat_structured_has_history_and_system_prompt(server: StubServer, graph: GraphLLM):
    server.reply(*['{"name": "Ann", "age": 30}'] * 2)
    history = [Message(Role.USER, "I am Ann, 30."), Message(Role.ASSISTANT, "Hello Ann.")]
    graph = graph.with_system_prompt("Read.")

    result = graph.chat_structured("Who am I?", schema=Person, history=history)
    awaited = await graph.achat_structured("Who am I?", schema=Person, history=history)

    assert result == awaited == Person(name="Ann", age=30)
    assert [role for role, _ in sent(server)] == ["system", "user", "assistant", "user"]


async def test_the_async_twins(server: StubServer, graph: GraphLLM, registry: ToolRegistry):
    history = [Message(Role.USER, "My name is Alice."), Message(Role.ASSISTANT, "Hello Alice!")]
    server.reply("Hello again.", tool_calls(LONDON), "Once upon a time")

    response = await graph.achat("Hello", history=history)
    called = await graph.achat(
        "What's the weather in Paris?",
        history=history,
        tools=registry.to_schema(),
        tool_choice="auto",
    )
    chunks = [chunk async for chunk in graph.astream("Write a story", history=history)]

    assert response.content == "Hello again."
    assert called.tool_calls == [ToolCall("call_abc", "get_weather", {"city": "London"})]
    assert "".join(chunks) == "Once upon a time"
    assert len(chunks) > 1
    for number in range(3):
        assert sent(server, number)[:2] == [(str(m.role), m.content) for m in history]
    assert graph.tokens.total_calls == 3


# GraphLLM: what it shows of the LLM


def test_proxy_properties():
    llm = LLM(provider="anthropic", model="claude-haiku-4-5-20251001", cache=True)
    graph = GraphLLM(llm=llm)

    assert graph.tokens is graph.llm.tokens
    assert isinstance(graph.tokens, TokenTracker)
    assert isinstance(graph.cache, ResponseCache)
    assert graph.model == "claude-haiku-4-5-20251001"
    assert graph.provider == "anthropic"
    assert graph.system_prompt is None
    assert graph.llm is llm


def test_a_graph_on_an_llm_without_a_cache_has_none(graph: GraphLLM):
    assert graph.cache is None


def test_with_system_prompt_serves_several_roles_from_one_base(server: StubServer):
    llm = LLM(provider="openai", model="gpt-4o-mini", cache=True)
    base_graph = GraphLLM(llm=llm)
    finance_graph = base_graph.with_system_prompt("You are a finance expert.")
    support_graph = base_graph.with_system_prompt("You are a support agent.")
    server.reply("Price over earnings.", "Ask for a link.")

    r1 = finance_graph.chat("What is the P/E ratio?")
    r2 = support_graph.chat("How do I reset my password?")

    assert (r1.content, r2.content) == ("Price over earnings.", "Ask for a link.")
    assert sent(server, 0)[0] == ("system", "You are a finance expert.")
    assert sent(server, 1)[0] == ("system", "You are a support agent.")
    assert base_graph.tokens is finance_graph.tokens is support_graph.tokens
    assert base_graph.tokens.total_calls == 2
    assert base_graph.cache is finance_graph.cache is support_graph.cache


def test_what_a_copy_with_another_system_prompt_has(server: StubServer, prompts_dir: Path):
    llm = LLM(provider="openai", cache=True)
    graph = GraphLLM(llm, True, "support-agent-v2.txt", prompts_dir)
    before = graph.system_prompt
    server.reply("A", "B")

    g = graph.with_system_prompt("You are a finance expert.")

    assert type(g) is GraphLLM
    assert g is not graph
    assert g.system_prompt == "You are a finance expert."
    assert graph.system_prompt == before
    assert g.llm is graph.llm
    assert g.chat("Hi").content == "A"
    assert graph.with_system_prompt("You are a finance expert.").chat("Hi").cached
    assert graph.chat("Hi").content == "B"  # another prompt, so another request


# PromptRegistry


def test_prompt_registry(prompts_dir: Path):
    registry = PromptRegistry(prompts_dir=str(prompts_dir))

    text = registry.load("support-agent-v1.txt")
    available = registry.list_files()

    assert text == "You are a friendly support agent for Acme Corp.\n\nBe concise."
    assert registry.load("finance-bot-v1.txt") == "You are a finance expert."
    assert available == ["finance-bot-v1.txt", "support-agent-v1.txt", "support-agent-v2.txt"]


def test_a_prompt_that_is_not_there(prompts_dir: Path):
    with pytest.raises(FileNotFoundError, match=r"support-agent-v1\.txt"):
        PromptRegistry(prompts_dir=prompts_dir).load("support-agent-v9.txt")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        PromptRegistry(prompts_dir=prompts_dir / "nowhere").load("support-agent-v1.txt")
    assert PromptRegistry(prompts_dir=prompts_dir / "nowhere").list_files() == []


# History


def test_a_conversation_of_three_turns(server: StubServer, graph: GraphLLM):
    graph = graph.with_system_prompt("You are a helpful support agent.")
    answers = ["Hello Alice! How can I help you?", "Your name is Alice.", "You've sent 3 messages."]
    asked = ["My name is Alice.", "What's my name?", "How many messages?"]
    server.reply(*answers)
    history: list[Message] = []

    for question, answer in zip(asked, answers, strict=True):
        response = graph.chat(question, history=history)
        assert response.content == answer
        history += [Message(Role.USER, question), Message(Role.ASSISTANT, response.content)]

    assert sent(server) == [
        ("system", "You are a helpful support agent."),
        ("user", "My name is Alice."),
        ("assistant", "Hello Alice! How can I help you?"),
        ("user", "What's my name?"),
        ("assistant", "Your name is Alice."),
        ("user", "How many messages?"),
    ]


def test_history_comes_from_the_applications_own_database(server: StubServer, graph: GraphLLM):
    database = [("user", "I have bought a lamp."), ("assistant", "Order 7.")]

    def fetch_history_from_my_db(user_id: str, session_id: str) -> list[Message]:
        return [Message(Role(role), content) for role, content in database]

    def save_to_my_db(user_id: str, session_id: str, role: str, content: str) -> None:
        database.append((role, content))

    user_id, session_id = "alice", "chat-1"
    server.reply("On its way.")

    history = fetch_history_from_my_db(user_id, session_id)
    response = graph.chat("Where is my order?", history=history)
    save_to_my_db(user_id, session_id, "user", "Where is my order?")
    save_to_my_db(user_id, session_id, "assistant", response.content)

    assert sent(server) == database[:3]
    assert database[3] == ("assistant", "On its way.")
