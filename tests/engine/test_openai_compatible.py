from __future__ import annotations

import json
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    Message,
    Role,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    get_cost,
    register_provider,
)
from pywrapai.core.base import Request
from pywrapai.core.thinking import ThinkTags
from pywrapai.providers import PROVIDERS, Compatible, provider_class
from pywrapai.providers.openai import from_wire, to_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import events, raw, text
from pywrapai.testing.wires.openai import completion


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice], **more}


@pytest.mark.parametrize(
    ("message", "finish", "content", "reason"),
    [
        ({"content": "hi"}, None, "hi", "stop"),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            "stop",
            "ab",
            "stop",
        ),
        ({"content": None}, "stop", "", "stop"),
        ({"content": "hi"}, "eos", "hi", "stop"),
        ({"content": "hal"}, "length", "hal", "length"),
        ({"content": "hal"}, "content_filter", "hal", "content_filter"),
    ],
)
def test_what_compatible_servers_send_is_read_as_they_mean_it(message, finish, content, reason):
    response = from_wire({"choices": [{"message": message, "finish_reason": finish}]})

    assert response.content == content
    assert response.finish_reason == reason


# Thinking, which compatible servers put in several places


@pytest.mark.parametrize(
    "message",
    [
        {"content": "because", "reasoning_content": "why"},
        {"content": "because", "reasoning": "why"},
        {"content": "because", "reasoning": "why", "reasoning_content": "why"},
        {"content": "<think>\nwhy</think>\n\nbecause"},
        {"content": "\n<think>why</think>because", "reasoning_content": None},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
                {"type": "text", "text": "because"},
            ]
        },
    ],
)
def test_thinking_is_found_wherever_it_stands(server: StubServer, llm: LLM, message):
    server.reply(raw(completion(message)), events(chunk(message, "stop")))

    whole, seen = llm.chat("Why?"), list(llm.stream_events("Why?"))

    assert (whole.thinking, whole.content) == ("why", "because")
    assert seen[:-1] == [ThinkingDelta("why"), TextDelta("because")]
    assert (seen[-1].thinking, seen[-1].content) == ("why", "because")


def test_tags_in_the_text_may_be_cut_in_a_stream(server: StubServer, llm: LLM):
    pieces = ["\n<th", "ink>wh", "y</thi", "nk>\n", "be", "cause <thi"]
    server.reply(events(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")))

    stream = llm.stream("Why?")

    assert list(stream) == ["be", "cause <thi"]
    assert stream.response is not None
    assert stream.response.thinking == "why"


def test_a_tag_that_was_not_completed_is_text(server: StubServer, llm: LLM):
    server.reply(events(chunk({"content": "<thi"}), chunk({}, "stop")))

    assert "".join(llm.stream("Why?")) == "<thi"


def test_text_that_openai_itself_sends_is_left_as_it_is(monkeypatch):
    official, compatible = provider_class("openai")(), provider_class("openai")(base_url="http://h")

    assert official.splitter() is None
    assert isinstance(compatible.splitter(), ThinkTags)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1")
    assert isinstance(official.splitter(), ThinkTags)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_before_a_tool_call_goes_back_by_the_servers_own_key(
    server: StubServer, llm: LLM, field: str, streamed: bool
):
    asked, tool = Message(Role.USER, "f?"), {"name": "f"}
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    if streamed:
        parts = ({field: "Look "}, {field: "it up."}, {"tool_calls": [call]})
        server.reply(events(*map(chunk, parts), chunk({}, "tool_calls")))
        *_, answered = llm.stream_events([asked], tools=[tool])
    else:
        server.reply(raw(completion({field: "Look it up.", "tool_calls": [call]})))
        answered = llm.chat([asked], tools=[tool])
    saved = json.loads(json.dumps(Message(Role.ASSISTANT, "", answered.tool_calls).to_dict()))
    result = Message(Role.TOOL, "?", tool_result=ToolResult("1", "f", "x"))
    server.reply("done")

    llm.chat([asked, Message.from_dict(saved), result], tools=[tool])

    assert server.requests[1].json["messages"][1][field] == "Look it up."
    assert server.requests[1].body.count(b"Look it up.") == 1


@pytest.mark.parametrize("kept", [{"groq": {"reasoning": "x"}}, {"openai": {"role": "system"}}])
def test_what_is_not_this_servers_is_not_sent(kept):
    call = ToolCall("1", "f", {}, provider_data=kept)
    request = Request("m", (Message(Role.ASSISTANT, "", [call]),))

    (message,) = to_wire(request, stream=False)["messages"]

    assert message.keys() == {"role", "content", "tool_calls"}
    assert message["role"] == "assistant"


# Compatible servers by name


@pytest.mark.parametrize(
    ("name", "root", "key"),
    [
        ("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        ("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    ],
)
def test_a_row_is_a_provider(server: StubServer, monkeypatch, name: str, root: str, key: str):
    monkeypatch.delenv(key, raising=False)
    server.reply(text("ok", usage={"prompt_tokens": 1000, "completion_tokens": 1000}))

    assert provider_class(name)().base_url == root
    assert provider_class(name) is provider_class(name)
    with pytest.raises(AuthError, match=key):
        LLM(name, base_url=server.url(), max_retries=0).chat("Hello")
    monkeypatch.setenv(key, "sk-row")
    response = LLM(name, base_url=server.url(), max_tokens=5).chat("Hello")

    assert response.provider == name
    assert response.priced
    assert response.cost_usd == get_cost(response.model, 1000, 1000, provider=name) > 0
    assert server.requests[0].headers["authorization"] == "Bearer sk-row"
    assert server.requests[0].json["max_tokens"] == 5


def test_a_server_of_ones_own_is_a_row_too(monkeypatch):
    monkeypatch.setattr("pywrapai.providers.PROVIDERS", dict(PROVIDERS))
    with StubServer(text("ok", model="its-only"), check=False) as server:
        register_provider("vllm", Compatible(server.url("openai")))
        with pytest.warns(UserWarning, match="its-only"):
            response = LLM("vllm").chat("Hello")

    assert (response.provider, response.model) == ("vllm", "its-only")
    assert "model" not in server.requests[0].json


def test_what_is_no_provider_cannot_be_registered():
    with pytest.raises(TypeError, match="BaseLLM or a Compatible"):
        register_provider("x", "http://h")  # type: ignore[arg-type]  # what a user may try
