"""Thirty days of a support desk, made up: what the dashboard is looked at and tested with.

    python -m tests.monitor.dashboard_data --port 8080    # and look at it

The same `calls` and `now` give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import (
    BaseStore,
    Entry,
    Feedback,
    MessageRecord,
    TokenRecord,
    ToolStep,
)
from tests.contracts.store_rows import Clock
from tests.monitor import dashboard_texts as texts
from tests.monitor.dashboard_calls import (
    MODELS,
    Talk,
    call,
    chunk,
    chunks,
    embedding,
    micros,
    tool_step,
)

DAYS = 30
QUIET_DAY = 11  # so many days ago nothing ran: a gap, where charts must not draw a zero
BATCH = 400
USER_WEIGHTS = [1 / (place + 2) for place in range(len(texts.USERS))]


def fill(
    store: BaseStore, calls: int = 6000, now: datetime | None = None, clock: Clock | None = None
) -> None:
    """Write about so many calls of the last thirty days, with prompts, pins and feedback.

    `clock` is the store's, if the prompts are to be as old as their calls; it ends at `now`.
    """
    now = (now or datetime.now(UTC)).replace(microsecond=0)
    random = Random(20261130)
    _save_prompts(store, now, clock or Clock())
    entries: list[Entry] = [*_showcase(now), *_long_log(now)]
    while len(entries) < calls:
        entries.extend(_session(random, now))
    entries.sort(key=lambda entry: entry.at)
    write(store, entries)
    with suppress(NotImplementedError):
        for entry in random.sample(entries, len(entries) // 25):
            if entry.token.kind == "chat" and entry.token.status == "ok":
                comment = random.choice(texts.COMMENTS) or None
                score = random.choice((1.0, 1.0, 1.0, 0.0))
                call_id = str(entry.token.call_id)
                store.save_feedback(Feedback(call_id=call_id, score=score, comment=comment))


def hostile(store: BaseStore, now: datetime | None = None) -> None:
    """Write what would run as code or break a page wherever it was shown unescaped."""
    now = now or datetime.now(UTC)
    for number, text in enumerate(texts.HOSTILE):
        store.save_prompt(text, text, f"{text}\n{text}", is_active=True)
        store.save_prompt(text, f"{text}2", text)
        store.set_user_prompt(text, text, text)
        entry = _hostile_entry(text, number, now)
        write(store, [entry])
        with suppress(NotImplementedError):
            call_id = str(entry.token.call_id)
            store.save_feedback(Feedback(call_id=call_id, score=0.0, comment=text))


def write(store: BaseStore, entries: Sequence[Entry]) -> None:
    """In batches, as a recorder does."""
    for start in range(0, len(entries), BATCH):
        store.write(entries[start : start + BATCH])


def _save_prompts(store: BaseStore, now: datetime, clock: Clock) -> None:
    for name, versions in texts.PROMPTS.items():
        for number, (text, age) in enumerate(zip(versions, texts.PROMPT_AGES, strict=False), 1):
            clock.now = now - timedelta(days=age)
            store.save_prompt(name, f"v{number}", text, is_active=True)
    for days, user in enumerate(texts.USERS[1:8]):
        clock.now = now - timedelta(days=5, hours=-7 * days)
        store.set_user_prompt(user, "support-agent", "v2")
    store.set_user_prompt("alice", "ticket-summary", "v1")
    clock.now = now


def _session(random: Random, now: datetime) -> Iterator[Entry]:
    """One session with all of its calls, at a time of day when people call."""
    talk = _new_talk(random, now)
    if talk is None:
        return
    length = random.choices((1, 2, 3, 5, 8, 14, 30), (20, 25, 22, 16, 10, 5, 2))[0]
    at, history = talk.start, 0
    for number in range(length):
        if at > now:
            return
        question, answer = texts.TURNS[random.randrange(len(texts.TURNS))]
        made = [*_turn(random, talk, at, question, answer, history)]
        yield from made
        history += made[-1].token.status in ("ok", "interrupted")
        at += timedelta(seconds=random.expovariate(1 / 95) + 8)
        talk = replace(talk, start=at) if number % 5 == 4 else talk


def _new_talk(random: Random, now: datetime) -> Talk | None:
    days_ago = random.randrange(DAYS)
    hour = min(23, max(0, int(random.gauss(14, 4.2))))
    start = (now - timedelta(days=days_ago)).replace(hour=hour, minute=random.randrange(60))
    start = start.replace(second=random.randrange(60))
    weekend = start.weekday() >= 5
    growth = 1 - days_ago / DAYS * 0.45
    if days_ago == QUIET_DAY or start > now or random.random() > growth * (0.45 if weekend else 1):
        return None
    provider, model, _, pace = random.choices(MODELS, [row[2] for row in MODELS])[0]
    prompt = random.choices(tuple(texts.PROMPTS), (78, 14, 8))[0]
    versions = len(texts.PROMPTS[prompt])
    version = min(versions - 1, sum(days_ago <= age for age in texts.PROMPT_AGES[1:]))
    user = random.choices(texts.USERS, USER_WEIGHTS)[0]
    session = _session_id(random)
    return Talk(
        user=user,
        session=session,
        start=start,
        now=now,
        provider=provider,
        model=model,
        pace_ms=pace,
        prompt=prompt,
        version=version,
        agent=prompt == "support-agent" and random.random() < 0.3,
    )


def _session_id(random: Random) -> str:
    if random.random() < 0.6:
        return f"chat-{random.getrandbits(24):06x}"
    return str(UUID(int=random.getrandbits(128), version=4))


def _turn(
    random: Random, talk: Talk, at: datetime, question: str, answer: str, history: int
) -> Iterator[Entry]:
    """The calls of one question: its embedding, the steps of an agent, the answer."""
    retrieves = talk.prompt == "support-agent" and not talk.agent
    if retrieves:
        yield embedding(random, talk, at)
    if talk.agent:
        for step in range(random.choice((1, 1, 2))):
            yield tool_step(random, talk, at, step + 1, random.choices(texts.TOOLS, k=1))
            at += timedelta(seconds=3)
    found = chunks(random) if retrieves else None
    yield call(random, talk, at, question, answer, history, found)


def _showcase(now: datetime) -> Iterator[Entry]:
    """The one session that shows everything: `maria.lopez` / `router-red-light`."""
    random = Random(7)
    talk = Talk(
        user="maria.lopez",
        session="router-red-light",
        start=now - timedelta(minutes=38),
        now=now,
        provider="anthropic",
        model="claude-sonnet-4-5",
        pace_ms=2400.0,
        prompt="support-agent",
        version=2,
    )
    chunks = [chunk(*texts.CHUNKS[0], 0.873), chunk(*texts.CHUNKS[1], 0.714)]
    chunks.append(chunk(*texts.CHUNKS[4], 0.382))
    at, turns = talk.start, texts.TURNS
    yield embedding(random, talk, at)
    yield call(random, talk, at, *turns[0], 0, chunks, "ok")
    at += timedelta(minutes=7)
    line_test, booking, search = texts.TOOLS[0], texts.TOOLS[2], texts.TOOLS[3]
    yield tool_step(random, talk, at, 1, (line_test, search), ())
    yield tool_step(random, talk, at + timedelta(seconds=9), 2, (booking,), ("book_technician",))
    yield call(random, talk, at + timedelta(seconds=12), *turns[1], 1, status="ok")
    yield call(random, talk, at + timedelta(minutes=1), *turns[10], 2, status="error")
    yield call(random, talk, at + timedelta(minutes=2), *turns[10], 2, chunks[:2], "ok")
    yield call(random, talk, at + timedelta(minutes=3), *turns[13], 3, status="interrupted")
    yield call(random, talk, at + timedelta(minutes=5), *turns[9], 4, status="ok")


def _long_log(now: datetime) -> Iterator[Entry]:
    """One message of 200 KB."""
    random = Random(8)
    talk = Talk(
        user="eval-nightly",
        session="router-log",
        start=now - timedelta(hours=5),
        now=now,
        provider="gemini",
        model="gemini-2.5-flash",
        pace_ms=900.0,
        prompt="ticket-summary",
        version=1,
    )
    lines = (
        f"{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d} dsl0: sync lost, retrain {n}"
        for n in range(5000)
    )
    yield call(random, talk, talk.start, "\n".join(lines), texts.TURNS[10][1], 0, status="ok")


def _hostile_entry(text: str, number: int, now: datetime) -> Entry:
    """One whole call whose every text is `text`."""
    shared: dict[str, Any] = {"user_id": text, "session_id": text, "call_id": f"{text}-{number}"}
    status: Any = "error" if number % 2 else "ok"
    token = TokenRecord(
        model=text,
        provider=text,
        status=status,
        error_type=text,
        error_message=text,
        partial=text,
        request_id=text,
        prompt_name=text,
        prompt_version=text,
        finish_reason=text,
        tags=(text,),
        metadata={text: text},
        input_tokens=10,
        output_tokens=5,
        duration_ms=100.0,
        **shared,
    )
    chunk = {"text": text, "score": 0.5, "doc_id": text, "metadata": {text: text}}
    asks = (ToolCall(text, text, {text: text}), ToolCall(f"{text}2", text, {}, raw_arguments=text))
    told = (ToolResult(text, text, text), ToolResult(f"{text}2", text, text, True))
    messages = (
        MessageRecord(role="tool_call", content=text, **shared),
        MessageRecord(role="tool_result", content=text, **shared),
        MessageRecord(role="user", content=text, system_prompt=text, rag_context=[chunk], **shared),
        MessageRecord(role="assistant", content=text, **shared),
    )
    step = ToolStep(user_id=text, session_id=text, turn_num=1, calls=asks, results=told)
    at = now - timedelta(minutes=number)
    return Entry(token=token, messages=messages, tools=step, at=micros(at))


def main() -> None:
    """Serve the made-up data."""
    import argparse
    import tempfile

    from pywrapai_monitor import SQLiteStore
    from pywrapai_monitor.dashboard.server import serve

    parser = argparse.ArgumentParser(description="Serve the dashboard over made-up data.")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--calls", type=int, default=6000)
    parser.add_argument("--hostile", action="store_true", help="also what tries to break pages")
    options = parser.parse_args()
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(now)
        store = SQLiteStore(f"{folder}/made-up.db", clock=clock)
        fill(store, options.calls, now, clock)
        if options.hostile:
            hostile(store, now)
        serve(store, port=options.port)


if __name__ == "__main__":
    main()
