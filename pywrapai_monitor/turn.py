"""From a call to the rows that record it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pywrapai.core.base import LLMResponse
from pywrapai.exceptions import ProviderError
from pywrapai_graph import Assembly, ScoredChunk
from pywrapai_monitor.db.base import MessageRecord, Status, TokenRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call of a conversation: who asked, and what was sent."""

    user_id: str
    session_id: str
    model: str
    provider: str
    assembly: Assembly
    prompt_name: str | None = None
    prompt_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How it ended. `response` is None where nothing was answered."""

    response: LLMResponse | None
    status: Status = "ok"
    error: BaseException | None = None
    duration_ms: float = 0.0
    ttft_ms: float | None = None


def message_rows(turn: Turn, outcome: Outcome) -> list[MessageRecord]:
    """The user row and the assistant row; none where there is no answer to keep.

    An answer that asks for tools is no answer yet: the turn is kept when the text has come.
    """
    response = outcome.response
    if response is None or outcome.status in ("error", "cancelled") or response.tool_calls:
        return []
    asked = MessageRecord(
        user_id=turn.user_id,
        session_id=turn.session_id,
        role="user",
        content=turn.assembly.query,
        rag_context=[_chunk(found) for found in turn.assembly.rag_chunks] or None,
        system_prompt=turn.assembly.system_prompt,
        history_count=turn.assembly.history_count,
    )
    answered = MessageRecord(
        user_id=turn.user_id,
        session_id=turn.session_id,
        role="assistant",
        content=response.content,
        status=outcome.status,
    )
    return [asked, answered]


def _chunk(found: ScoredChunk) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "id": chunk.id,
        "doc_id": chunk.doc_id,
        "text": chunk.text,
        "score": found.score,
        "metadata": chunk.metadata,
    }


def token_row(turn: Turn, outcome: Outcome) -> TokenRecord:
    """The record of the call itself, whatever became of it."""
    response, error = outcome.response, outcome.error
    broken = outcome.status in ("error", "cancelled")
    return TokenRecord(
        user_id=turn.user_id,
        session_id=turn.session_id,
        duration_ms=outcome.duration_ms,
        ttft_ms=outcome.ttft_ms,
        status=outcome.status,
        error_type=type(error).__name__ if error else None,
        error_message=str(error) if error else None,
        partial=response.content if response and broken else None,
        prompt_name=turn.prompt_name,
        prompt_version=turn.prompt_version,
        **_answered(response) if response else _unanswered(turn, error),
    )


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
    }


def _unanswered(turn: Turn, error: BaseException | None) -> dict[str, Any]:
    request_id = error.request_id if isinstance(error, ProviderError) else None
    return {"model": turn.model, "provider": turn.provider, "request_id": request_id}
