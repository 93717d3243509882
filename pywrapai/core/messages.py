"""From what a caller writes to a tuple of `Message`, checked before any money is spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pywrapai.core.base import Content, Message, Role, ToolCall, ToolResult
from pywrapai.core.image import Image
from pywrapai.core.tools import tool_call

MessageInput: TypeAlias = str | Message | Sequence[Message | Mapping[str, Any]]
"""A string (one USER message), one Message, or a list of Message or of OpenAI-style dicts."""

_ROLES = frozenset(Role)
_ROLE_NAMES = ", ".join(role.value for role in Role)
_SIMPLE = {role.value: role for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT)}


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
        _refuse_blank(_checked_message(messages))
        return (messages,)
    if isinstance(messages, Mapping) or not isinstance(messages, Iterable):
        raise TypeError(
            f"messages must be a string, a Message or a list of them, not {messages!r:.80}"
        )
    result = tuple([_simple_message(item) or _any_message(item) for item in messages])
    if not result:
        raise ValueError("the list of messages is empty: it needs at least one")
    _refuse_blank(result[-1])
    return result


def system_text(messages: Iterable[Message]) -> str | None:
    """The first SYSTEM text of a conversation, if it has any."""
    return next((m.text for m in messages if m.role == Role.SYSTEM), None)


def is_blank(message: Message) -> bool:
    """Whether there is neither text nor an image in it."""
    return not message.text.strip() and not message.images


def is_thinking_alone(message: Message) -> bool:
    """Whether it is an answer of thinking alone, which no server takes back as a message."""
    said = message.text or message.images or message.tool_calls
    return message.role == Role.ASSISTANT and not said


def _refuse_blank(last: Message) -> None:
    """An older message may be blank, as stored ones are; what is to be answered may not."""
    if last.role == Role.USER and is_blank(last):
        raise ValueError("the message is empty: give the model some text to answer")


def _simple_message(item: Any) -> Message | None:
    """What nearly every message is, in a tenth of the time of the general way; else None."""
    if type(item) is Message:
        simple = type(item.content) is str and item.tool_result is None and item.role in _SIMPLE
        return item if simple else None
    if type(item) is dict and len(item) == 2:
        role, content = item.get("role"), item.get("content")
        if type(role) is str and role in _SIMPLE and type(content) is str:
            return Message(_SIMPLE[role], content)
    return None


def _any_message(item: Message | Mapping[str, Any]) -> Message:
    if isinstance(item, Message):
        return _checked_message(item)
    if isinstance(item, Mapping):
        return _from_dict(item)
    raise TypeError(
        f"a message must be a Message or a dict with role and content, not {item!r:.80}"
    )


def _checked_message(message: Message) -> Message:
    role = message.role
    if role not in _ROLES:
        raise ValueError(f"unknown role {role!r}: expected one of {_ROLE_NAMES}")
    if not isinstance(message.content, str):
        _check_parts(message)
    if role == "tool" and message.tool_result is None:
        raise ValueError(
            "a TOOL message needs its tool_result: Message(Role.TOOL, text, "
            "tool_result=ToolResult(tool_call.id, tool_call.name, text))"
        )
    return message


def _check_parts(message: Message) -> None:
    parts = message.content
    if not isinstance(parts, list) or not all(isinstance(part, (str, Image)) for part in parts):
        raise TypeError(
            f"the content of a {message.role} message is text, or a list of text and Image, "
            f"not {parts!r:.80}"
        )


def _from_dict(item: Mapping[str, Any]) -> Message:
    if "tool_result" in item or "provider_data" in item:
        return _checked_message(Message.from_dict(item))
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
            return _tool_answer(item, Message(Role.TOOL, content))
    raise ValueError(f"unknown role {role!r}: expected one of {_ROLE_NAMES}")


def _tool_answer(item: Mapping[str, Any], message: Message) -> Message:
    call_id = item.get("tool_call_id")
    if not call_id:
        raise ValueError("a tool message needs the tool_call_id that it answers")
    result = ToolResult(str(call_id), str(item.get("name") or ""), message.text)
    return replace(message, tool_result=result)


def _content(content: Any) -> Content:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise TypeError(f"content must be text or a list of parts, not {content!r:.80}")
    parts = [_part(part) for part in content]
    if any(isinstance(part, Image) for part in parts):
        return parts
    return "".join(part for part in parts if isinstance(part, str))


def _part(part: Any) -> str | Image:
    match part:
        case str() | Image():
            return part
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return Image.from_url(url)
        case {"type": "image"}:
            return Image.from_dict(part)
    raise ValueError(
        f"this content part is not known here: {part!r:.80}; a part is text or an image_url"
    )


def _call(call: Any) -> ToolCall:
    """In OpenAI's form, or in that of `ToolCall.to_dict`."""
    match call:
        case {"function": Mapping() as function}:
            return tool_call(call.get("id"), function.get("name"), function.get("arguments"))
        case {"id": _, "name": _, "arguments": _}:
            return ToolCall.from_dict(call)
    raise TypeError(
        'a tool call in a message is {"id": ..., "function": {"name": ..., "arguments": ...}}, '
        f"not {call!r:.80}"
    )
