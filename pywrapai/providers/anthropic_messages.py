"""A conversation as the turns of Anthropic's Messages API, which takes no other order than its own.

Thinking blocks go back as the API signed them, and so do the blocks of its server tools. They ride
in `provider_data`, on every tool call that they stand before, or else on the response.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from pywrapai.core.base import Message, Role, ToolCall, ToolResult
from pywrapai.core.image import Image
from pywrapai.core.text import well_formed
from pywrapai.exceptions import InvalidRequestError

Block: TypeAlias = dict[str, Any]

_MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_THINKING = ("thinking", "redacted_thinking")
_TEXT: Block = {"type": "text"}
"""Among the blocks that are kept: where the message's own text stood."""
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def messages_to_wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The body's `messages`. A SYSTEM message keeps its place as text of the user, in a tag.

    Raises InvalidRequestError for what the API has no place for, and if nothing is left to answer.
    """
    plain = _plain_turns(messages)
    if plain is not None:
        return plain
    conversation = _Conversation()
    for message in messages:
        conversation.add(message)
    if not conversation.turns:
        raise InvalidRequestError("there is no text for the model to answer: add a USER message")
    role, blocks = conversation.turns[-1]
    if role == "assistant" and blocks[-1]["type"] == "text":  # to be continued by the model
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    return [_turn(role, blocks) for role, blocks in conversation.turns]


def _plain_turns(messages: Sequence[Message]) -> list[dict[str, Any]] | None:
    """What nearly every conversation is, user and assistant in turn, text alone; else None."""
    turns: list[dict[str, Any]] = []
    expected = Role.USER
    for message in messages:
        text = message.content
        if message.role != expected or type(text) is not str or not text or text.isspace():
            return None
        if message.tool_calls or message.tool_result or message.provider_data:
            return None
        turns.append({"role": expected.value, "content": well_formed(text)})
        expected = Role.ASSISTANT if expected is Role.USER else Role.USER
    return turns if turns and expected is Role.ASSISTANT else None


def _turn(role: str, blocks: list[Block]) -> dict[str, Any]:
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return {"role": role, "content": blocks[0]["text"]}
    return {"role": role, "content": blocks}


class _Conversation:
    """Turns that the API takes: no two of one role in a row, results first, nothing empty.

    It also wants every tool_use id to be unique in the whole conversation, of letters that not
    every server's ids keep to, so calls get new ids here where they must, and results follow.
    """

    def __init__(self) -> None:
        self.turns: list[tuple[str, list[Block]]] = []
        self._used: set[str] = set()
        self._names: dict[str, Iterator[str]] = {}
        """What further calls of one id can be called; it goes on where the last one stopped."""
        self._waiting: dict[str, list[str]] = {}
        """The wire's ids of calls without a result yet, by the id that the caller knows."""

    def add(self, message: Message) -> None:
        """The next message of the conversation."""
        if message.tool_result is not None:
            self._result(message.tool_result, message.images)
        elif message.role == Role.ASSISTANT:
            self._extend("assistant", self._answer(message))
        elif message.role == Role.SYSTEM:
            text = system_text(message)
            self._extend("user", _text_blocks(text and f"<system>\n{text}\n</system>"))
        else:
            self._extend("user", _content(message))

    def _extend(self, role: str, blocks: list[Block]) -> None:
        if blocks and self.turns and self.turns[-1][0] == role:
            self.turns[-1][1].extend(blocks)
        elif blocks:
            self.turns.append((role, blocks))

    def _result(self, result: ToolResult, images: list[Image]) -> None:
        self._extend("user", [_result_block(result, images, self._id_of(result))])
        turn = self.turns[-1][1]
        if len(turn) > 1 and turn[-2]["type"] != "tool_result":
            turn.sort(key=lambda block: block["type"] != "tool_result")

    def _answer(self, message: Message) -> list[Block]:
        blocks = kept_blocks(message.provider_data)
        for call in message.tool_calls or ():
            blocks += [block for block in kept_blocks(call.provider_data) if block not in blocks]
            blocks.append(self._call(call))
        blocks = _with_text(blocks, message)
        while blocks and blocks[-1]["type"] in _THINKING:  # neither the last one nor all there is
            blocks.pop()
        return blocks

    def _call(self, call: ToolCall) -> Block:
        legal = _legal_id(call.id)
        names = self._names.setdefault(legal, _numbered(legal))
        unique = next(name for name in names if name not in self._used)
        self._used.add(unique)
        self._waiting.setdefault(call.id, []).append(unique)
        return {"type": "tool_use", "id": unique, "name": call.name, "input": _input(call)}

    def _id_of(self, result: ToolResult) -> str:
        waiting = self._waiting.get(result.tool_call_id)
        return waiting.pop(0) if waiting else _legal_id(result.tool_call_id)


def _numbered(name: str) -> Iterator[str]:
    return (name if number == 1 else f"{name}_{number}" for number in count(1))


def _legal_id(call_id: str) -> str:
    return _NOT_IN_AN_ID.sub("_", call_id) or "call"


def _input(call: ToolCall) -> dict[str, Any]:
    """The arguments; what was no JSON object goes back inside of one."""
    raw = call.raw_arguments
    arguments = call.arguments if raw is None else {"INVALID_JSON": raw}
    text = json.dumps(arguments, ensure_ascii=False)
    sendable = well_formed(text)
    return arguments if sendable is text else dict(json.loads(sendable))


def _with_text(blocks: list[Block], message: Message) -> list[Block]:
    """The blocks with the message's text where it stood, or before the first call."""
    if message.images:
        raise InvalidRequestError(
            "Claude takes images from the user alone: move the image of the ASSISTANT message "
            "into a USER message"
        )
    if _TEXT not in blocks:
        calls = (at for at, block in enumerate(blocks) if block["type"] == "tool_use")
        blocks.insert(next(calls, len(blocks)), _TEXT)
    text = _text_blocks(message.text)
    return [block for kept in blocks for block in (text if kept == _TEXT else [kept])]


def _result_block(result: ToolResult, images: list[Image], call_id: str) -> Block:
    said = well_formed(result.content or "")
    text = said if said.strip() else "(empty)"
    content: str | list[Block] = text
    if images:
        content = [*_text_blocks(text), *map(_image_block, images)]
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if result.is_error else block


def system_text(message: Message) -> str:
    """The text of a SYSTEM message. Raises InvalidRequestError for one with an image."""
    if message.images:
        raise InvalidRequestError(
            "a SYSTEM message holds no images on Claude: move the image into a USER message"
        )
    return well_formed(message.text)


def _content(message: Message) -> list[Block]:
    if isinstance(message.content, str):
        return _text_blocks(message.content)
    blocks: list[Block] = []
    for part in message.content:
        blocks += [_image_block(part)] if isinstance(part, Image) else _text_blocks(part)
    return blocks


def _text_blocks(text: str) -> list[Block]:
    """One block, or none: the API refuses text that is nothing but white space."""
    return [{"type": "text", "text": well_formed(text)}] if text.strip() else []


def _image_block(image: Image) -> Block:
    if image.data is None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    if image.media_type not in _MEDIA_TYPES:
        raise InvalidRequestError(
            f"Claude takes no {image.media_type} images: convert it to PNG, JPEG, GIF or WebP"
        )
    source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
    return {"type": "image", "source": source}


def kept_blocks(data: Mapping[str, Any] | None) -> list[Block]:
    """The blocks in a `provider_data` that go back to the API; another provider's are none."""
    ours = (data or {}).get("anthropic") or {}
    return [block for block in ours.get("blocks") or () if _goes_back(block)]


def _goes_back(block: Block) -> bool:
    """Thoughts without a signature are refused; a stream that broke or another server left them."""
    return block["type"] != "thinking" or bool(block.get("signature"))


def to_keep(blocks: Iterable[Block]) -> dict[str, Any] | None:
    """The `provider_data` for these blocks; None if they are nothing but text and calls."""
    kept: list[Block] = []
    for block in blocks:
        if block["type"] == "text":
            if block.get("text") and _TEXT not in kept:
                kept.append(dict(_TEXT))
        elif block["type"] != "tool_use" and _goes_back(block):
            kept.append(block)
    return {"anthropic": {"blocks": kept}} if any(block != _TEXT for block in kept) else None
