"""What tests of the Anthropic wire share: its bodies, checked as the stub server checks them."""

from __future__ import annotations

import json
from typing import Any

from pywrapai import (
    Message,
    Role,
    ToolCall,
    ToolResult,
)
from pywrapai.core.base import Request
from pywrapai.providers.anthropic import to_wire

MODEL = "claude-sonnet-4-5"


def wire(*messages: Message, **fields: Any) -> dict[str, Any]:
    """The body for these messages; it has passed what the stub server knows of the API's rules."""
    body = to_wire(Request(MODEL, messages, **fields), stream=False)
    accepted(body)
    return body


def accepted(body: dict[str, Any]) -> None:
    from pywrapai.testing.wires.anthropic_checks import check_messages

    check_messages(json.loads(json.dumps(body)))


def assistant(*calls: ToolCall, said: str = "", **fields: Any) -> Message:
    return Message(Role.ASSISTANT, said, list(calls) or None, **fields)


def result(call_id: str, said: str = "ok", **fields: Any) -> Message:
    return Message(Role.TOOL, said, tool_result=ToolResult(call_id, "f", said, **fields))


def use(call_id: str, name: str = "f", given: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}
