"""A monitor's database with as many calls as one likes, and a choice of where it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from random import Random
from uuid import UUID

from pywrapai_monitor.db import BaseStore, MessageRecord, SQLiteStore, TokenRecord
from pywrapai_monitor.db.base import Entry

QUESTION = "How do I reset my password? " * 4
ANSWER = "Open the settings, choose security, press reset. " * 8
MODELS = (("openai", "gpt-4o-mini"), ("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5"))
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
    source = turns(number)
    while some := list(islice(source, 2000)):
        store.write(some)
