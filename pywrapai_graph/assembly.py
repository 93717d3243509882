"""From system prompt, history, retrieved context and input to the messages that the model gets.

Pure: nothing here does I/O, and nothing that is handed in is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pywrapai.core.base import Content, Message, Role
from pywrapai.core.messages import MessageInput, is_blank, to_messages
from pywrapai_graph.rag.types import ScoredChunk

_WITH_CONTEXT = """\
Use the following context to answer the question.

<context>
{context}
</context>

Question: {question}"""


@dataclass(frozen=True, slots=True)
class Assembly:
    """One call's messages, and what they were put together from."""

    messages: list[Message]
    query: str
    """The text of the last USER message of the input: what retrieval asks, what history keeps."""
    rag_chunks: list[ScoredChunk]
    """The retrieved chunks in the order sent; empty without retrieval."""
    system_prompt: str | None
    history_count: int
    """Turns of history in front of the input: its USER messages."""

    @property
    def asks(self) -> bool:
        """Whether there is a question that context could help with: not after a tool's result."""
        return bool(self.query.strip()) and self.messages[-1].role != Role.TOOL

    def with_context(self, chunks: Sequence[ScoredChunk]) -> Assembly:
        """The same call, with these chunks put before the question, in the question's message."""
        if not chunks:
            return self
        place = _last_user(self.messages)
        asked = self.messages[place]
        messages = list(self.messages)
        messages[place] = replace(asked, content=_in_context(asked, chunks))
        return replace(self, messages=messages, rag_chunks=list(chunks))


GraphInput: TypeAlias = MessageInput | Assembly
"""What a graph is asked: messages that are to be assembled, or what was assembled before."""


def assemble(
    given: GraphInput, history: Sequence[Message] | None, system_prompt: str | None
) -> Assembly:
    """System prompt first, history oldest first, input last.

    With a system prompt, a SYSTEM message at the head of the input or in the history gives way
    to it. Raises ValueError for an empty user message, or a history beside an Assembly.
    """
    if isinstance(given, Assembly):
        if history:
            raise ValueError("an Assembly has its history already: leave history= out")
        return given
    turns = to_messages(given)
    if any(turn.role == Role.USER and is_blank(turn) for turn in turns):
        raise ValueError("the user message is empty: give the model some text to answer")
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


def _last_user(messages: Sequence[Message]) -> int:
    return max(place for place, message in enumerate(messages) if message.role == Role.USER)


def _in_context(asked: Message, chunks: Sequence[ScoredChunk]) -> Content:
    context = "\n".join(f"[{n}] {found.chunk.text}" for n, found in enumerate(chunks, 1))
    text = _WITH_CONTEXT.format(context=context, question=asked.text)
    return text if isinstance(asked.content, str) else [text, *asked.images]
