"""How one call of the dashboard's made-up data comes to be: its tokens, time, tools and end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai.tokens import price_call
from pywrapai_monitor.db.base import Entry, MessageRecord, TokenRecord, ToolStep
from tests.monitor import dashboard_texts as texts

MAX_TURNS = 10
UNPRICED = "ft:nordlicht-tone-3"
MODELS = (
    ("anthropic", "claude-sonnet-4-5", 30, 2600.0),
    ("openai", "gpt-5-mini", 24, 1500.0),
    ("gemini", "gemini-2.5-flash", 18, 900.0),
    ("anthropic", "claude-haiku-4-5", 13, 780.0),
    ("ollama", "llama3.1:8b", 10, 5200.0),
    ("openai", UNPRICED, 5, 1900.0),
)
EMBEDDER = ("openai", "text-embedding-3-small")


INCIDENT_DAY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One session while it is being made up."""

    user: str
    session: str
    start: datetime
    now: datetime
    provider: str
    model: str
    pace_ms: float
    prompt: str
    version: int
    agent: bool = False

    @property
    def days_ago(self) -> int:
        return (self.now.date() - self.start.date()).days

    @property
    def system_prompt(self) -> str:
        return texts.PROMPTS[self.prompt][self.version]

    @property
    def incident(self) -> bool:
        return self.days_ago == INCIDENT_DAY and 13 <= self.start.hour < 17


def call(
    random: Random,
    talk: Talk,
    at: datetime,
    question: str,
    answer: str,
    history: int,
    chunks: list[dict[str, Any]] | None = None,
    status: Any = None,
) -> Entry:
    sent = min(history, MAX_TURNS)
    status = status or _status(random, talk)
    token = _token(random, talk, 320 + 90 * sent + len(question) // 3, len(answer) // 3, status)
    if status == "interrupted":
        answer = answer[: len(answer) // 2]
    shared = {"user_id": talk.user, "session_id": talk.session, "call_id": token.call_id}
    messages = (
        MessageRecord(
            role="user",
            content=question,
            rag_context=chunks,
            system_prompt=talk.system_prompt,
            history_count=sent,
            **shared,
        ),
        MessageRecord(role="assistant", content=answer, status=status, **shared),
    )
    kept = messages if status in ("ok", "interrupted") else ()
    return Entry(token=token, messages=kept, at=micros(at))


def _status(random: Random, talk: Talk) -> Any:
    if talk.incident and talk.provider == "anthropic" and random.random() < 0.4:
        return "error"
    return random.choices(("ok", "error", "interrupted", "cancelled"), (970, 17, 9, 4))[0]


def _token(
    random: Random, talk: Talk, tokens_in: int, tokens_out: int, status: Any = "ok"
) -> TokenRecord:
    slow = 3.2 if talk.incident and talk.provider == "anthropic" else 1.0
    duration = talk.pace_ms * random.lognormvariate(0, 0.45) * slow + tokens_out * 4
    cached = status == "ok" and random.random() < 0.05
    failed = status in ("error", "cancelled")
    error = random.choices(texts.FAILURES, [row[2] for row in texts.FAILURES])[0]
    read = tokens_in * 6 // 10 if talk.provider == "anthropic" and random.random() < 0.5 else 0
    tokens_out = 0 if failed else max(8, int(tokens_out * random.uniform(0.8, 1.3)))
    tokens_in = 0 if failed else int(tokens_in * random.uniform(0.85, 1.2))
    return TokenRecord(
        user_id=talk.user,
        session_id=talk.session,
        model=talk.model,
        provider=talk.provider,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=0 if failed else read,
        cache_write_tokens=tokens_in // 8 if read and not failed and random.random() < 0.2 else 0,
        reasoning_tokens=tokens_out // 3 if talk.model == "gpt-5-mini" else 0,
        **_price(talk.provider, talk.model, tokens_in, tokens_out, read, cached),
        cached=cached,
        duration_ms=round(1.4 if cached else duration, 1),
        ttft_ms=None if cached or failed else round(duration * 0.22, 1),
        status=status,
        error_type=error[0] if status == "error" else None,
        error_message=error[1] if status == "error" else None,
        partial="A red light means that the router ca" if status == "error" else None,
        request_id=f"req_{random.getrandbits(48):012x}",
        prompt_name=talk.prompt,
        prompt_version=f"v{talk.version + 1}",
        call_id=str(UUID(int=random.getrandbits(128), version=4)),
        finish_reason=None if failed else "stop",
        tags=("web",) if random.random() < 0.6 else ("app", "beta"),
        metadata={"release": "2026.11", "line": "DE-50667-0012-B"},
    )


def _price(
    provider: str, model: str, tokens_in: int, tokens_out: int, read: int, cached: bool
) -> dict[str, Any]:
    if cached:
        return {"cost_usd": 0.0, "priced": True}
    if model == UNPRICED:  # asking for a price that is not known warns
        return {"cost_usd": 0.0, "priced": False}
    read = min(read, tokens_in)
    cost = price_call(model, tokens_in, tokens_out, cache_read_tokens=read, provider=provider)
    return {"cost_usd": cost.usd, "priced": cost.priced}


def embedding(random: Random, talk: Talk, at: datetime) -> Entry:
    tokens = random.randrange(8, 60)
    cost = price_call(EMBEDDER[1], tokens, 0, provider=EMBEDDER[0])
    token = TokenRecord(
        user_id=talk.user,
        session_id=talk.session,
        model=EMBEDDER[1],
        provider=EMBEDDER[0],
        kind="embedding",
        input_tokens=tokens,
        cost_usd=cost.usd,
        duration_ms=round(random.uniform(60, 180), 1),
        call_id=str(UUID(int=random.getrandbits(128), version=4)),
    )
    return Entry(token=token, at=micros(at))


def tool_step(
    random: Random, talk: Talk, at: datetime, turn: int, tools: Sequence[Any], fails: Any = None
) -> Entry:
    """A model call that asks for tools, with what came of them; `fails` names those that fail."""
    calls, results, durations = [], [], []
    for name, arguments, result, error, failing, pace in tools:
        bad = random.random() < failing if fails is None else name in fails
        call = ToolCall(f"call_{random.getrandbits(40):010x}", name, dict(arguments))
        calls.append(call)
        results.append(ToolResult(call.id, name, error if bad else result, bad))
        durations.append(round(pace * random.uniform(0.7, 1.5), 1))
    token = replace(_token(random, talk, 700 + 240 * turn, 60), finish_reason="tool_calls")
    shared = {"user_id": talk.user, "session_id": talk.session, "call_id": token.call_id}
    asked = json.dumps([call.to_dict() for call in calls], ensure_ascii=False)
    told = json.dumps([result.to_dict() for result in results], ensure_ascii=False)
    return Entry(
        token=token,
        messages=(
            MessageRecord(role="tool_call", content=asked, **shared),
            MessageRecord(role="tool_result", content=told, **shared),
        ),
        tools=ToolStep(
            user_id=talk.user,
            session_id=talk.session,
            turn_num=turn,
            calls=tuple(calls),
            results=tuple(results),
            durations_ms=tuple(durations),
        ),
        at=micros(at),
    )


def chunks(random: Random) -> list[dict[str, Any]]:
    found = random.sample(texts.CHUNKS, random.choice((2, 3, 4)))
    scores = sorted((random.uniform(0.31, 0.91) for _ in found), reverse=True)
    return [chunk(doc, text, score) for (doc, text), score in zip(found, scores, strict=True)]


def chunk(doc: str, text: str, score: float) -> dict[str, Any]:
    metadata = {"source": doc, "updated": "2026-10-02"}
    return {"id": doc, "doc_id": doc, "text": text, "score": round(score, 4), "metadata": metadata}


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
