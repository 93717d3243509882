"""Short ways to write Gemini's replies and our messages, for the tests of its wire."""

from __future__ import annotations

import json
from typing import Any

from pywrapai import Message, Role, ToolResult
from pywrapai.core.base import LLMResponse, Request
from pywrapai.providers.gemini import StreamDecoder, to_wire

MODEL = "gemini-2.5-flash"


def reply(*parts: Any, finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **more}


def decode(*payloads: Any) -> tuple[list[Any], LLMResponse]:
    decoder = StreamDecoder()
    wire = b"".join(b"data: %b\r\n\r\n" % json.dumps(p).encode() for p in payloads)
    seen = list(decoder.feed(wire))
    seen += decoder.finish()
    return seen, decoder.response()


def wire_of(*messages: Message, model: str = MODEL, **fields: Any) -> dict[str, Any]:
    return to_wire(Request(model, messages, **fields))


def contents_of(*messages: Message, model: str = MODEL) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = wire_of(*messages, model=model)["contents"]
    return contents


def user(content: Any) -> Message:
    return Message(Role.USER, content)


def result(call_id: str, content: str, name: str = "", **more: Any) -> Message:
    return Message(Role.TOOL, content, tool_result=ToolResult(call_id, name, content, **more))
