"""From system prompt, history and input to the list of messages that the model gets.

Pure: nothing here does I/O, and nothing that is handed in is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pywrapai.core.base import Message, Role
from pywrapai.core.messages import MessageInput, to_messages


@dataclass(frozen=True, slots=True)
class Assembly:
    """One call's messages, and what they were put together from."""

    messages: list[Message]
    query: str
    """The text of the last USER message of the input: what retrieval asks, what history keeps."""
    rag_chunks: list[Any]
    """The retrieved chunks in the order sent; empty without retrieval."""
    system_prompt: str | None
    history_count: int
    """Turns of history in front of the input: its USER messages."""


def assemble(
    given: MessageInput, history: Sequence[Message] | None, system_prompt: str | None
) -> Assembly:
    """System prompt first, history oldest first, input last.

    With a system prompt, a SYSTEM message at the head of the input or in the history gives way
    to it. Raises ValueError for an empty user message.
    """
    turns = to_messages(given)
    _refuse_empty(turns)
    if system_prompt is not None and turns[0].role == Role.SYSTEM:
        turns = turns[1:]
    past = to_messages(history) if history else ()
    if system_prompt is not None:
        past = tuple(message for message in past if message.role != Role.SYSTEM)
    head = (Message(Role.SYSTEM, system_prompt),) if system_prompt is not None else ()
    return Assembly(
        messages=[*head, *past, *turns],
        query=next((m.text for m in reversed(turns) if m.role == Role.USER), ""),
        rag_chunks=[],
        system_prompt=system_prompt,
        history_count=sum(m.role == Role.USER for m in past),
    )


def _refuse_empty(turns: Sequence[Message]) -> None:
    if any(m.role == Role.USER and not (m.text.strip() or m.images) for m in turns):
        raise ValueError("the user message is empty: give the model some text to answer")
