"""From a model call to the rows that record it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from pywrapai.core.base import LLMResponse, Message, Role, ToolCall, ToolResult
from pywrapai.core.flow import StreamClosed
from pywrapai.exceptions import ProviderError, ProviderTimeoutError
from pywrapai.tokens.pricing import is_free
from pywrapai_graph.assembly import Assembly
from pywrapai_graph.rag.types import ScoredChunk
from pywrapai_graph.tools.values import plain
from pywrapai_monitor.db.base import Entry, MessageRecord, Status, TokenRecord, ToolStep


@dataclass(frozen=True, slots=True)
class Labels:
    """What came with a call beside its input."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    """JSON values, the record's own."""
    parent: Any = None
    """The caller's span, where calls are traced."""

    @classmethod
    def of(
        cls, tags: Iterable[str] | None, metadata: Mapping[str, Any] | None, parent: Any = None
    ) -> Self:
        """As the caller wrote them, checked. TypeError for what is neither."""
        given = () if isinstance(tags, str) else tuple(tags or ())
        if isinstance(tags, str) or not all(isinstance(tag, str) for tag in given):
            raise TypeError(f"tags is a list of str, not {tags!r:.80}")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(f"metadata is a dict of JSON values, not {metadata!r:.80}")
        return cls(given, None if metadata is None else plain(metadata), parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One question of a conversation: who asked, what was sent, and what came with it."""

    user_id: str
    session_id: str
    model: str
    provider: str
    assembly: Assembly
    labels: Labels = Labels()
    prompt_name: str | None = None
    prompt_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one model call ended."""

    call_id: str
    at: int
    """When, in microseconds since 1970."""
    response: LLMResponse | None = None
    """None where nothing was answered; else it has the `call_id`."""
    status: Status = "ok"
    error: BaseException | None = None
    duration_ms: float = 0.0
    ttft_ms: float | None = None

    def failed(self, error: BaseException) -> Outcome:
        """The same call, whose answer was of no use."""
        return replace(self, status=status_of(error), error=error)


def status_of(error: BaseException | None) -> Status:
    """What an exception makes of a call."""
    if error is None:
        return "ok"
    if isinstance(error, StreamClosed):
        return "interrupted"
    return "error" if isinstance(error, Exception) else "cancelled"


def entry(
    turn: Turn,
    outcome: Outcome,
    messages: Sequence[MessageRecord] = (),
    tools: ToolStep | None = None,
) -> Entry:
    """All that is kept of a call."""
    token = token_row(turn, outcome)
    return Entry(token=token, messages=tuple(messages), tools=tools, at=outcome.at)


def dialogue(turn: Turn, outcome: Outcome) -> tuple[MessageRecord, ...]:
    """The user row and the assistant row; none where there is no answer to keep.

    An answer that asks for tools is no answer yet: the turn is kept when the text has come.
    """
    response = outcome.response
    if response is None or outcome.status in ("error", "cancelled") or response.tool_calls:
        return ()
    if outcome.status == "interrupted" and not response.content:
        return ()  # nothing was shown
    assembly = turn.assembly
    asked = _row(
        turn,
        outcome,
        "user",
        _asked(assembly),
        rag_context=[_chunk(found) for found in assembly.rag_chunks] or None,
        system_prompt=assembly.system_prompt,
        history_count=assembly.history_count,
    )
    answered = _row(turn, outcome, "assistant", response.content, status=outcome.status)
    return asked, answered


def tool_rows(
    turn: Turn, outcome: Outcome, calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> tuple[MessageRecord, MessageRecord]:
    """What the model asked for in one turn of an agent, and what it was told."""
    asked = [_told(call) for call in calls]
    told = [result.to_dict() for result in results]
    return (
        _row(turn, outcome, "tool_call", json.dumps(asked, ensure_ascii=False)),
        _row(turn, outcome, "tool_result", json.dumps(told, ensure_ascii=False)),
    )


def own_calls(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls as they are now, whatever becomes of their arguments, and without what only their
    provider can read.
    """
    return tuple(
        ToolCall(call.id, call.name, plain(call.arguments), call.raw_arguments) for call in calls
    )


def with_text(history: Iterable[Message]) -> list[Message]:
    """The history without the turns whose question was not kept: no model can do with those."""
    kept: list[Message] = []
    asked = True
    for message in history:
        if message.role == Role.USER:
            asked = bool(message.text.strip())
        if asked:
            kept.append(message)
    return kept


def token_row(turn: Turn, outcome: Outcome) -> TokenRecord:
    """The record of the call itself, whatever became of it."""
    response, error = outcome.response, outcome.error
    broken = outcome.status in ("error", "cancelled")
    told = error if broken else None  # a reader who leaves is no error
    return TokenRecord(
        user_id=turn.user_id,
        session_id=turn.session_id,
        duration_ms=outcome.duration_ms,
        ttft_ms=outcome.ttft_ms,
        status=outcome.status,
        error_type=type(told).__name__ if told else None,
        error_message=str(told) if told else None,
        partial=response.content if response and broken else None,
        prompt_name=turn.prompt_name,
        prompt_version=turn.prompt_version,
        call_id=outcome.call_id,
        tags=turn.labels.tags,
        metadata=turn.labels.metadata,
        **_answered(response) if response else _unanswered(turn, outcome),
    )


def _row(
    turn: Turn,
    outcome: Outcome,
    role: Literal["user", "assistant", "tool_call", "tool_result"],
    content: str,
    **more: Any,
) -> MessageRecord:
    return MessageRecord(
        user_id=turn.user_id,
        session_id=turn.session_id,
        role=role,
        content=content,
        call_id=outcome.call_id,
        **more,
    )


def _asked(assembly: Assembly) -> str:
    """The question as history keeps it: its text, and what stands for its images."""
    asked = next((m for m in reversed(assembly.messages) if m.role == Role.USER), None)
    images = [f"[image {image.fingerprint}]" for image in asked.images] if asked else []
    return "\n".join([assembly.query, *images] if assembly.query else images)


def _chunk(found: ScoredChunk) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "id": chunk.id,
        "doc_id": chunk.doc_id,
        "text": chunk.text,
        "score": found.score,
        "metadata": plain(chunk.metadata),
    }


def _told(call: ToolCall) -> dict[str, Any]:
    broken = {} if call.raw_arguments is None else {"raw_arguments": call.raw_arguments}
    return {"id": call.id, "name": call.name, "arguments": plain(call.arguments), **broken}


def _answered(response: LLMResponse) -> dict[str, Any]:
    usage = response.usage
    return {
        "model": response.model,
        "provider": response.provider,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_usd": response.cost_usd,
        "priced": response.priced,
        "cached": response.cached,
        "request_id": response.request_id,
        "finish_reason": response.finish_reason,
    }


def _unanswered(turn: Turn, outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    # Where nobody waited for the answer, the provider may have given one and want its money.
    unknown = outcome.status == "cancelled" or isinstance(error, ProviderTimeoutError)
    provider = getattr(error, "provider", None) or turn.provider  # it may be a fallback's
    return {
        "model": getattr(error, "model", None) or turn.model,
        "provider": provider,
        "priced": not unknown or is_free(provider),
        "request_id": error.request_id if isinstance(error, ProviderError) else None,
    }
