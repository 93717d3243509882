"""From what a caller writes to a tuple of `Message`, checked before any money is spent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pywrapai.core.base import Message, Role, ToolCall, ToolResult

MessageInput: TypeAlias = str | Message | Sequence[Message | Mapping[str, Any]]
"""A string (one USER message), one Message, or a list of Message or of OpenAI-style dicts."""

_ROLES = ", ".join(role.value for role in Role)


def to_messages(messages: MessageInput) -> tuple[Message, ...]:
    """Check and normalise what a call was given; the caller's objects are never changed.

    Raises ValueError for empty input, an unknown role or a TOOL message without its result,
    and TypeError for what is no message at all.
    """
    if isinstance(messages, str):
        if not messages.strip():
            raise ValueError("the message is empty: give the model some text to answer")
        return (Message(Role.USER, messages),)
    if isinstance(messages, Message):
        return (_checked(messages),)
    if isinstance(messages, Mapping) or not isinstance(messages, Iterable):
        raise TypeError(
            f"messages must be a string, a Message or a list of them, not {messages!r:.80}"
        )
    result = tuple([_to_message(item) for item in messages])
    if not result:
        raise ValueError("the list of messages is empty: it needs at least one")
    return result


def system_text(messages: Iterable[Message]) -> str | None:
    """The SYSTEM text of a conversation, if it has any."""
    return next((m.content for m in messages if m.role == Role.SYSTEM), None)


def _to_message(item: Message | Mapping[str, Any]) -> Message:
    if isinstance(item, Message):
        return _checked(item)
    if isinstance(item, Mapping):
        return _from_dict(item)
    raise TypeError(
        f"a message must be a Message or a dict with role and content, not {item!r:.80}"
    )


def _checked(message: Message) -> Message:
    role = message.role
    if role not in _KNOWN:
        raise ValueError(f"unknown role {role!r}: expected one of {_ROLES}")
    if not isinstance(message.content, str):
        raise TypeError(
            f"the content of a {role} message must be text, not {message.content!r:.80}"
        )
    if role == "tool" and message.tool_result is None:
        raise ValueError(
            "a TOOL message needs its tool_result: Message(Role.TOOL, text, "
            "tool_result=ToolResult(tool_call.id, tool_call.name, text))"
        )
    return message


_KNOWN = frozenset(Role)


def _from_dict(item: Mapping[str, Any]) -> Message:
    role = item.get("role")
    content = _content(item.get("content"))
    match role:
        case "system" | "developer":
            return Message(Role.SYSTEM, content)
        case "user":
            return Message(Role.USER, content)
        case "assistant":
            calls = item.get("tool_calls")
            return Message(Role.ASSISTANT, content, [_call(c) for c in calls] if calls else None)
        case "tool":
            call_id = item.get("tool_call_id")
            if not call_id:
                raise ValueError("a tool message needs the tool_call_id that it answers")
            result = ToolResult(str(call_id), str(item.get("name") or ""), content)
            return Message(Role.TOOL, content, tool_result=result)
    raise ValueError(f"unknown role {role!r}: expected one of {_ROLES}")


def _content(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(_part(part) for part in content)
    raise TypeError(f"content must be text or a list of text parts, not {content!r:.80}")


def _part(part: Any) -> str:
    match part:
        case str():
            return part
        case {"type": "text", "text": str(text)}:
            return text
    raise ValueError(f"this content part is not known here: {part!r:.80}; a text part is expected")


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    arguments, raw = parse_arguments(function.get("arguments"))
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), arguments, raw)


def parse_arguments(arguments: Any) -> tuple[dict[str, Any], str | None]:
    """A tool call's arguments as a dict; when they are no JSON object, `{}` and the raw text."""
    if arguments is None or arguments == "":
        return {}, None
    if isinstance(arguments, dict):
        return arguments, None
    try:
        parsed = json.loads(arguments, strict=False)
    except (TypeError, ValueError):
        parsed = None
    return (parsed, None) if isinstance(parsed, dict) else ({}, str(arguments))
