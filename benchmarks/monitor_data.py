"""A monitor's database with as many calls as one likes, and a choice of where it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from uuid import UUID

from pywrapai import ToolCall, ToolResult
from pywrapai_monitor.db import BaseStore, MessageRecord, SQLiteStore, TokenRecord
from pywrapai_monitor.db.base import Entry, ToolStep

QUESTION = "How do I reset my password? " * 4
ANSWER = "Open the settings, choose security, press reset. " * 8
MODELS = (("openai", "gpt-4o-mini"), ("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5"))
DASHBOARD_MODELS = (
    ("openai", "gpt-4o-mini", 0.15), ("openai", "gpt-4o", 2.5), ("openai", "gpt-5", 1.25),
    ("anthropic", "claude-sonnet-4-5", 3.0), ("anthropic", "claude-haiku-4-5", 1.0),
    ("gemini", "gemini-2.5-flash", 0.3), ("ollama", "llama3.2", 0.0),
    ("openai", "house-model", 0.0),
)  # fmt: skip
DASHBOARD_SHARES = (30, 15, 10, 15, 10, 10, 7, 3)
DAY_US = 24 * 60 * 60 * 1_000_000
DAYS = 100


def open_store(url: str) -> BaseStore:
    """A path, or the URL of a server's database."""
    if "://" not in url:
        return SQLiteStore(url)
    from pywrapai_monitor.db.urls import store_from_url

    return store_from_url(url)


def turn(user_id: str, session_id: str, call_id: str, at: int, which: int = 0) -> Entry:
    """A question, its answer and the record of the call."""
    provider, model = MODELS[which % len(MODELS)]
    return Entry(
        token=TokenRecord(
            user_id=user_id,
            session_id=session_id,
            model=model,
            provider=provider,
            input_tokens=120,
            output_tokens=300,
            cost_usd=0.000198,
            duration_ms=812.0,
            finish_reason="stop",
            call_id=call_id,
        ),
        messages=(
            MessageRecord(
                user_id=user_id,
                session_id=session_id,
                role="user",
                content=QUESTION,
                system_prompt="You are helpful.",
                history_count=which % 20,
            ),
            MessageRecord(user_id=user_id, session_id=session_id, role="assistant", content=ANSWER),
        ),
        at=at,
    )


def turns(number: int) -> Iterator[Entry]:
    """Calls of 1000 users in sessions of about 30 turns, one after another over DAYS days."""
    random = Random(7)
    now = time.time_ns() // 1000
    for i in range(number):
        user = min(int(random.expovariate(1 / 100)), 999)
        yield turn(
            f"user{user}",
            f"session-{user}-{i // 33_000}",
            UUID(int=random.getrandbits(128)).hex,
            now - DAYS * DAY_US + DAYS * DAY_US * i // number,
            i,
        )


def fill(store: BaseStore, number: int) -> None:
    """Write that many calls."""
    write_all(store, turns(number))


@dataclass(slots=True)
class _Session:
    id: str
    last_at: int
    turns: int = 0


class Traffic:
    """A season of a company's calls: eight models, a thousand users, sessions of about ten turns,
    embeddings, an agent's tools, errors, cached answers, prompts in three versions.
    """

    def __init__(self, number: int, days: int = 90, now: int | None = None) -> None:
        self._random = Random(11)
        self._number, self._days = number, days
        self._now = time.time_ns() // 1000 if now is None else now
        self._sessions: dict[int, _Session] = {}

    def __iter__(self) -> Iterator[Entry]:
        """In the order of time."""
        length = self._days * DAY_US
        for i in range(self._number):
            at = self._now - length + length * i // self._number
            yield self._embedding(at) if self._random.random() < 0.05 else self._chat(at)

    def _user(self) -> int:
        return min(int(self._random.expovariate(1 / 150)), 999)

    def _call_id(self) -> str:
        return UUID(int=self._random.getrandbits(128)).hex

    def _session(self, user: int, at: int) -> _Session:
        found = self._sessions.get(user)
        if found is None or at - found.last_at > 4 * 3600 * 10**6 or self._random.random() < 0.1:
            found = self._sessions[user] = _Session(f"session-{self._random.getrandbits(48):x}", at)
        found.last_at, found.turns = at, found.turns + 1
        return found

    def _embedding(self, at: int) -> Entry:
        user = self._user()
        return Entry(
            token=TokenRecord(
                user_id=f"user{user}",
                session_id=self._session(user, at).id,
                model="text-embedding-3-small",
                provider="openai",
                kind="embedding",
                input_tokens=300,
                cost_usd=0.000006,
                duration_ms=self._random.lognormvariate(4.5, 0.4),
                call_id=self._call_id(),
            ),
            at=at,
        )

    def _chat(self, at: int) -> Entry:
        random, user = self._random, self._user()
        provider, model, price = random.choices(DASHBOARD_MODELS, DASHBOARD_SHARES)[0]
        session, chance = self._session(user, at), random.random()
        cached, failed = chance < 0.05, chance > 0.98
        tokens_in, tokens_out = random.randrange(50, 4000), random.randrange(20, 900)
        prompted, call_id = random.random() < 0.5, self._call_id()
        token = TokenRecord(
            user_id=f"user{user}",
            session_id=session.id,
            model=model,
            provider=provider,
            input_tokens=tokens_in,
            output_tokens=0 if failed else tokens_out,
            cache_read_tokens=tokens_in // 3,
            reasoning_tokens=tokens_out // 4,
            cost_usd=0.0 if cached or failed else price * (tokens_in + 4 * tokens_out) / 10**6,
            priced=model != "house-model",
            cached=cached,
            duration_ms=2.0 if cached else random.lognormvariate(7.2, 0.8),
            status="error" if failed else "ok",
            error_type="RateLimitError" if failed else None,
            error_message="slow down " * 20 if failed else None,
            prompt_name="support" if prompted else None,
            prompt_version=f"v{random.randrange(1, 4)}" if prompted else None,
            finish_reason=None if failed else "stop",
            tags=("web",) if random.random() < 0.3 else (),
            call_id=call_id,
        )
        messages = () if failed else self._messages(token, session)
        tools = self._tools(token, session) if random.random() < 0.1 else None
        return Entry(token=token, messages=messages, tools=tools, at=at)

    def _messages(self, token: TokenRecord, session: _Session) -> tuple[MessageRecord, ...]:
        of = {"user_id": token.user_id, "session_id": token.session_id, "call_id": token.call_id}
        question, answer = "How do I reset my password? ", "Open the settings, press reset. "
        return (
            MessageRecord(
                **of, role="user", content=question * 4, system_prompt="You are helpful.",
                history_count=min(session.turns - 1, 20),
            ),
            MessageRecord(**of, role="assistant", content=answer * 12),
        )  # fmt: skip

    def _tools(self, token: TokenRecord, session: _Session) -> ToolStep:
        name = f"tool{self._random.randrange(10)}"
        failed = self._random.random() < 0.1
        return ToolStep(
            user_id=token.user_id,
            session_id=token.session_id,
            turn_num=session.turns,
            calls=(ToolCall("1", name, {"query": "password"}),),
            results=(ToolResult("1", name, "found nothing", is_error=failed),),
            durations_ms=(self._random.lognormvariate(5, 0.5),),
        )


def write_all(
    store: BaseStore, entries: Iterator[Entry], at_once: int = 2000, writers: int = 1
) -> None:
    """Write entries, some thousands at a time, among which each of `writers` has its share: on a
    server, several fill the lanes of each total.
    """
    while some := list(islice(entries, at_once)):
        for number in range(writers):
            store.write(some[number::writers])
