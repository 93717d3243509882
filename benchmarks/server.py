"""The cheapest server that the SDKs accept: the same bytes every time, on a core of its own.

Its work is part of every figure on both sides, so it does as little as HTTP/1.1 allows. Prints
its address, and runs until it is ended. Speaks OpenAI, Anthropic, Ollama and Gemini; a request
that asks for a stream gets CHUNKS words. Below TOOLS_PATH, on OpenAI's wire, it asks for one tool
after another until it has been told TOOL_TURNS results, and then answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable
from typing import Any, cast

CHUNKS = 2000
TEXT = '{"name": "Ann", "age": 30}'
WORDS = [f" word{n % 97}" for n in range(CHUNKS)]
TOOLS_PATH = "/tools/v1"
TOOL_TURNS = 10

_OPENAI: dict[str, Any] = {
    "id": "chatcmpl-benchmark",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-4o-mini-2024-07-18",
    "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
}
_ANTHROPIC: dict[str, Any] = {
    "id": "msg_benchmark",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5-20251001",
    "content": [{"type": "text", "text": TEXT}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 6},
}
_OLLAMA: dict[str, Any] = {
    "model": "llama3.2",
    "created_at": "2026-01-01T00:00:00Z",
    "message": {"role": "assistant", "content": TEXT},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 20_000,  # no fewer than the longest prompt has, or it would count as cut
    "eval_count": 6,
}
_GEMINI: dict[str, Any] = {
    "candidates": [
        {"content": {"parts": [{"text": TEXT}], "role": "model"}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 6, "totalTokenCount": 18},
    "modelVersion": "gemini-2.5-flash",
    "responseId": "benchmark",
}


def _whole(reply: dict[str, Any]) -> bytes:
    body = json.dumps(reply).encode()
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_benchmark\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    )
    return head + body


def _streamed(events: Iterable[str], content_type: str = "text/event-stream") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%b\r\n" % (len(event.encode()), event.encode()) for event in events]
    return head.encode() + b"".join(chunks) + b"0\r\n\r\n"


def _openai() -> dict[str, Any]:
    message = {"role": "assistant", "content": TEXT, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {**_OPENAI, "choices": [choice]}


def _openai_call(turn: int) -> dict[str, Any]:
    arguments = json.dumps({"x": turn, "label": "a label", "tags": ["one", "two"]})
    function = {"name": f"tool_{turn:02}", "arguments": arguments}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    return {**_OPENAI, "choices": [choice]}


def _openai_events() -> Iterable[str]:
    for word in WORDS:
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        yield _sse(
            {**_OPENAI, "object": "chat.completion.chunk", "usage": None, "choices": [choice]}
        )
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield _sse({**_OPENAI, "object": "chat.completion.chunk", "choices": [end]})
    yield "data: [DONE]\n\n"


def _anthropic_events() -> Iterable[str]:
    start = {**_ANTHROPIC, "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    yield _named({"type": "message_start", "message": start})
    yield _named({"type": "content_block_start", "index": 0, "content_block": block})
    for word in WORDS:
        delta = {"type": "text_delta", "text": word}
        yield _named({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _named({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": CHUNKS}})
    yield _named({"type": "message_stop"})


def _ollama_events() -> Iterable[str]:
    for word in WORDS:
        message = {"role": "assistant", "content": word}
        yield json.dumps({**_OLLAMA, "message": message, "done": False}) + "\n"
    yield json.dumps({**_OLLAMA, "message": {"role": "assistant", "content": ""}}) + "\n"


def _gemini_events() -> Iterable[str]:
    for number, word in enumerate(WORDS, start=1):
        candidate: dict[str, Any] = {"content": {"parts": [{"text": word}], "role": "model"}}
        if number == CHUNKS:
            candidate["finishReason"] = "STOP"
        yield _sse({**_GEMINI, "candidates": [candidate]})


def _sse(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"


def _named(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\n{_sse(event)}"


# What the path ends with, and the bytes for a plain request and for a stream.
ANSWERS = {
    b"/chat/completions": (_whole(_openai()), _streamed(_openai_events())),
    b"/messages": (_whole(_ANTHROPIC), _streamed(_anthropic_events())),
    b"/api/chat": (_whole(_OLLAMA), _streamed(_ollama_events(), "application/x-ndjson")),
    b":generateContent": (_whole(_GEMINI), b""),
    b":streamGenerateContent": (b"", _streamed(_gemini_events())),
}
TURNS = [*(_whole(_openai_call(turn)) for turn in range(TOOL_TURNS)), _whole(_openai())]
_RESULT = re.compile(rb'"role": *"tool"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": *true')


class _Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._received: list[bytes] = []
        self._missing = 0

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        if self._missing:
            self._missing -= len(data)
        else:
            head, found, body = b"".join(self._received).partition(b"\r\n\r\n")
            if not found:
                return
            length = _LENGTH.search(head)
            self._missing = (int(length[1]) if length else 0) - len(body)
        if not self._missing:
            self._transport.write(_answer(b"".join(self._received)))
            self._received.clear()


def _answer(request: bytes) -> bytes:
    path = request.split(b" ", 2)[1].partition(b"?")[0]
    if path.startswith(TOOLS_PATH.encode()):
        return TURNS[len(_RESULT.findall(request))]
    plain, streamed = next(both for end, both in ANSWERS.items() if path.endswith(end))
    return streamed if not plain or (streamed and _STREAM.search(request)) else plain


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve on the last core, away from the client that is measured."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
