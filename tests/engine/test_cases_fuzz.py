"""Replies of every wrong shape, and servers that misbehave at random under many callers."""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pywrapai import (
    LLM,
    LLMResponse,
    Message,
    ProviderError,
    Role,
    TextDelta,
    ThinkingDelta,
    ToolResult,
)
from pywrapai.core.base import Request
from pywrapai.core.flow import run
from pywrapai.providers import provider_class
from pywrapai.providers.wire import WireProvider, encoded

WIRES = ("openai", "anthropic", "gemini", "ollama")
KEY = "sk-test-0123456789"

pytestmark = pytest.mark.filterwarnings("ignore:no price is known")

# Whole replies and streams with all that is read of them

CALL = {"id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}}
USAGE = {
    "openai": {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
    "anthropic": {
        "input_tokens": 3,
        "output_tokens": 4,
        "cache_read_input_tokens": 1,
        "output_tokens_details": {"thinking_tokens": 1},
    },
    "gemini": {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 1},
}
BLOCKS = [
    {"type": "thinking", "thinking": "t", "signature": "s"},
    {"type": "text", "text": "hi"},
    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
]
PARTS = [
    {"text": "t", "thought": True},
    {"text": "hi", "thoughtSignature": "s"},
    {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "thoughtSignature": "s"},
]
DELTAS = [
    (0, {"type": "thinking_delta", "thinking": "t"}),
    (0, {"type": "signature_delta", "signature": "s"}),
    (1, {"type": "text_delta", "text": "hi"}),
    (2, {"type": "input_json_delta", "partial_json": "{}"}),
]
ENDING = {
    "type": "message_delta",
    "delta": {"stop_reason": "tool_use"},
    "usage": {"input_tokens": 7},
}
ERROR = {"error": {"message": "no", "type": "server_error", "code": 502, "details": [{}]}}
MESSAGE = {"content": "hi", "reasoning_content": "t", "tool_calls": [CALL]}
REPLIES: dict[str, list[Any]] = {
    "openai": [
        {"id": "r", "model": "m", "choices": [{"message": MESSAGE}], "usage": USAGE["openai"]},
        {"choices": [{"message": {"content": [{"type": "text", "text": "hi"}]}}]},
        {"choices": [{"message": {"refusal": "no"}, "finish_reason": "content_filter"}]},
        ERROR,
    ],
    "anthropic": [
        {
            "id": "r",
            "model": "m",
            "content": BLOCKS,
            "stop_reason": "tool_use",
            "usage": USAGE["anthropic"],
        },
        {"content": [], "stop_reason": "refusal", "stop_details": {"explanation": "no"}},
        ERROR,
    ],
    "gemini": [
        {
            "candidates": [{"content": {"parts": PARTS}, "finishReason": "STOP"}],
            "usageMetadata": USAGE["gemini"],
            "modelVersion": "m",
            "responseId": "r",
        },
        {"candidates": [{"finishReason": "SAFETY"}], "promptFeedback": {"blockReason": "OTHER"}},
        ERROR,
    ],
    "ollama": [
        {
            "model": "m",
            "message": {"content": "hi", "thinking": "t", "tool_calls": [CALL]},
            "done_reason": "stop",
            "prompt_eval_count": 3,
        },
        {"error": "no"},
    ],
}
STREAMS: dict[str, list[Any]] = {
    "openai": [
        {"id": "r", "model": "m", "choices": [{"index": 0, "delta": MESSAGE}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 1, **CALL}], "refusal": None}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE["openai"]},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"id": "r", "usage": USAGE["anthropic"]}},
        *(
            {"type": "content_block_start", "index": index, "content_block": block}
            for index, block in enumerate(BLOCKS)
        ),
        *(
            {"type": "content_block_delta", "index": index, "delta": delta}
            for index, delta in DELTAS
        ),
        ENDING,
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": PARTS}}], "modelVersion": "m"},
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": USAGE["gemini"]},
    ],
    "ollama": [
        {"model": "m", "message": {"content": "hi", "thinking": "t", "tool_calls": [CALL]}},
        {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 4},
    ],
}  # fmt: skip
ODD: list[Any] = [
    None, 0, -1, 7, 1.5, math.inf, 10**30, True, False, "", "x", "\ud800", "error", [], {}, [None],
    [[]], [{}], ["x"], {"a": 1}, {"text": 5}, {"type": 5}, {"type": "text"}, {"index": "x"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside."""
    inside = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else inside:
        yield (*path, key)
        yield from places(inner, (*path, key))


def mutated(value: Any, rng: random.Random) -> Any:
    """A copy in which something is odd, missing, or wrapped."""
    changed = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        found = list(places(changed))
        if not found:
            break
        *way, last = rng.choice(found)
        holder = changed
        for key in way:
            holder = holder[key]
        match rng.randrange(8):
            case 0:
                del holder[last]
            case 1:
                holder[last] = [holder[last]]
            case 2:
                holder[last] = {"a": holder[last]}
            case _:
                holder[last] = copy.deepcopy(rng.choice(ODD))
    return changed


def check(response: LLMResponse) -> None:
    """Everything has the type that it is promised to have."""
    assert type(response.content) is str
    assert response.tool_calls is None or response.tool_calls
    for call in response.tool_calls or ():
        assert (type(call.id), type(call.name), type(call.arguments)) == (str, str, dict)
        assert call.id
        assert isinstance(call.raw_arguments, str | None)
    usage = response.usage
    counts = [getattr(usage, name) for name in usage.__dataclass_fields__]
    assert all(type(count) is int and count >= 0 for count in counts), usage
    assert type(response.model) is str
    assert isinstance(response.request_id, str | None)
    assert isinstance(response.thinking, str | None)
    json.dumps(response.message.to_dict())


def sent_back(provider: WireProvider, response: LLMResponse) -> None:
    """What was answered may be what the next request begins with."""
    results = [
        Message(Role.TOOL, "r", tool_result=ToolResult(call.id, call.name or "f", "r"))
        for call in response.tool_calls or ()
    ]
    turns = (Message(Role.USER, "Go"), response.message, *results, Message(Role.USER, "on"))
    body = provider.to_wire(Request(provider.model, turns), stream=False)
    if "Infinity" not in json.dumps(body):  # kept for a provider that never sends such
        encoded(body)


class Canned:
    """A reply as the providers see one."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self.content = body
        self.headers = {"content-type": media_type}

    def iter_bytes(self) -> Iterator[bytes]:
        return (self.content[at : at + 41] for at in range(0, len(self.content), 41))

    def read(self) -> bytes:
        return self.content

    def close(self) -> None:
        pass

    aread = aiter_bytes = aclose = None


def canned(wire: str, reply: Canned) -> WireProvider:
    base: Any = provider_class(wire)
    kind = type("Canned", (base,), {"post": lambda *args, **kwargs: reply})
    made: WireProvider = kind("gemini-3-x", api_key=KEY, base_url="http://127.0.0.1")
    return made


def framed(wire: str, payloads: list[Any]) -> bytes:
    if wire == "ollama":
        return b"".join(ascii_json(payload) + b"\n" for payload in payloads)
    done = b"data: [DONE]\n\n" if wire == "openai" else b""
    return b"".join(b"data: %b\n\n" % ascii_json(payload) for payload in payloads) + done


def ascii_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def outcome(llm: LLM, call: Callable[[], Any]) -> LLMResponse | None:
    """What came of a call: a sound response, or one of our errors that can travel."""
    try:
        response = call()
    except ProviderError as error:
        again = pickle.loads(pickle.dumps(error))
        if again.response is not None:
            check(again.response)
        return None
    check(response)
    return response  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_of_any_shape_is_a_sound_response_or_our_error(wire: str, seed: int):
    rng = random.Random(f"{wire} {seed}")
    for _ in range(500):
        body = mutated(rng.choice(REPLIES[wire]), rng)
        provider = canned(wire, Canned(ascii_json(body), "application/json"))
        llm = LLM(provider, max_retries=0)

        response = outcome(llm, lambda llm=llm: llm.chat("Hello"))

        if response is not None:
            sent_back(provider, response)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_of_any_shape_is_a_sound_response_or_our_error(wire: str, seed: int):
    rng = random.Random(f"{wire} {seed}")

    def read(llm: LLM) -> LLMResponse:
        seen = llm.stream_events("Hello")
        for event in seen:
            if isinstance(event, TextDelta | ThinkingDelta):
                assert event.text
                assert type(event.text) is str
        assert seen.response is not None
        return seen.response

    for _ in range(500):
        body = framed(wire, mutated(STREAMS[wire], rng))
        provider = canned(wire, Canned(body, str(provider_class(wire).stream_type)))
        llm = LLM(provider, max_retries=0)

        response = outcome(llm, lambda llm=llm: read(llm))

        if response is not None:
            sent_back(provider, response)


def test_the_samples_are_read_whole_as_they_are():
    for wire in WIRES:
        llm = LLM(canned(wire, Canned(ascii_json(REPLIES[wire][0]), "application/json")))
        response = run(llm.chat_flow(llm.request("Hello")))
        assert (response.content, response.thinking) == ("hi", "t")
        assert [call.arguments for call in response.tool_calls or ()] == [{"a": 1}]
