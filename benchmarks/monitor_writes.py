"""What a sync turn costs beside sqlite3 writing the same three rows in one transaction, and peers.

Run: python -m benchmarks.monitor_writes [--rounds 15] [--calls 200]

A turn is the user's row, the answer's row and the token record; ours also adds to the running
totals. All files are in WAL mode with synchronous=NORMAL but for the peers', who do as they do.
sqlite3 by hand writes into plain tables with two indexes and, once more, into tables like ours.
Peers are measured where they can be imported; they write the two messages alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any
from uuid import uuid4

from benchmarks.monitor_data import ANSWER, QUESTION, turn
from pywrapai_monitor.db import SQLiteStore
from pywrapai_monitor.db.base import Entry

GOAL = 5.0
PLAIN = """
CREATE TABLE conversations (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, user_id TEXT NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL);
CREATE TABLE token_records (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL,
  user_id TEXT NOT NULL, session_id TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost REAL NOT NULL,
  duration_ms REAL NOT NULL, status TEXT NOT NULL);
CREATE INDEX ix_conversations ON conversations (session_id, id);
CREATE INDEX ix_token_records ON token_records (created_at);
"""
MESSAGE = (
    "INSERT INTO conversations (user_id, session_id, role, content, created_at) "
    "VALUES (?, ?, ?, ?, ?)"
)
RECORD = (
    "INSERT INTO token_records (created_at, user_id, session_id, provider, model, input_tokens, "
    "output_tokens, cost, duration_ms, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'ok')"
)
FULL_MESSAGE = (
    "INSERT INTO conversations (user_id, session_id, role, content, created_at, status, "
    "call_id, system_prompt) VALUES (?, ?, ?, ?, ?, 'ok', ?, ?)"
)
FULL_RECORD = (
    "INSERT INTO token_records (created_at, user_id, session_id, provider, model, input_tokens, "
    "output_tokens, cost, duration_ms, status, kind, cache_read_tokens, cache_write_tokens, "
    "reasoning_tokens, priced, cached, call_id, finish_reason) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'ok', 'chat', 0, 0, 0, 1, 0, ?, 'stop')"
)


def next_turn(number: int) -> Entry:
    now = time.time_ns() // 1000
    return turn(f"user{number % 50}", f"session{number % 500}", uuid4().hex, now, number)


def connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def by_hand(path: Path) -> Callable[[int], None]:
    connection = connected(path)
    connection.executescript(PLAIN)
    execute = connection.execute

    def write(number: int) -> None:
        user, session = f"user{number % 50}", f"session{number % 500}"
        now = time.time_ns() // 1000
        execute("BEGIN IMMEDIATE")
        execute(MESSAGE, (user, session, "user", QUESTION, now))
        execute(MESSAGE, (user, session, "assistant", ANSWER, now))
        execute(RECORD, (now, user, session, "openai", "gpt-4o", 120, 300, 0.000198, 812.0))
        execute("COMMIT")

    return write


def by_hand_into_ours(path: Path) -> Callable[[int], None]:
    SQLiteStore(path).close()
    connection = connected(path)
    execute = connection.execute

    def write(number: int) -> None:
        user, session = f"user{number % 50}", f"session{number % 500}"
        now, call = time.time_ns() // 1000, uuid4().hex
        execute("BEGIN IMMEDIATE")
        execute(FULL_MESSAGE, (user, session, "user", QUESTION, now, call, "You are helpful."))
        execute(FULL_MESSAGE, (user, session, "assistant", ANSWER, now, call, None))
        execute(
            FULL_RECORD, (now, user, session, "openai", "gpt-4o", 120, 300, 1980000, 812.0, call)
        )
        execute("COMMIT")

    return write


def ours(path: Path) -> Callable[[int], None]:
    store = SQLiteStore(path)
    return lambda number: store.write([next_turn(number)])


def ours_one_by_one(path: Path) -> Callable[[int], None]:
    store = SQLiteStore(path)

    def write(number: int) -> None:
        entry = next_turn(number)
        with store.transaction():
            for message in entry.messages:
                store.save_message(message)
            store.save_token_record(entry.token)

    return write


def with_orm(path: Path) -> Callable[[int], None]:
    from sqlalchemy import Column, Engine, create_engine, event
    from sqlalchemy.orm import declarative_base, sessionmaker

    from pywrapai_monitor.db.tables import conversations, token_records

    engine: Engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA journal_mode=WAL"))
    event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA synchronous=NORMAL"))
    base: Any = declarative_base()
    kinds = []
    for table in (conversations, token_records):
        columns = [Column(c.name, c.type, primary_key=c.primary_key) for c in table.columns]
        names = {f"{c.name}_": c for c in columns}  # "metadata" is taken
        kinds.append(type(table.name, (base,), {"__tablename__": table.name, **names}))
    base.metadata.create_all(engine)
    message, record = kinds
    session_of = sessionmaker(engine)

    def write(number: int) -> None:
        user, session = f"user{number % 50}", f"session{number % 500}"
        now = time.time_ns() // 1000
        shared = {"user_id_": user, "session_id_": session, "created_at_": now, "status_": "ok"}
        with session_of.begin() as open_session:
            open_session.add(message(**shared, role_="user", content_=QUESTION))
            open_session.add(message(**shared, role_="assistant", content_=ANSWER))
            open_session.add(
                record(**shared, provider_="openai", model_="gpt-4o", input_tokens_=120, cost_=198)
            )

    return write


def openai_agents(path: Path) -> Callable[[int], None]:
    from agents import SQLiteSession  # type: ignore[import-not-found, unused-ignore]

    loop = asyncio.new_event_loop()
    sessions = [SQLiteSession(f"session{i}", path) for i in range(20)]
    items = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    return lambda number: loop.run_until_complete(sessions[number % 20].add_items(items))


def langchain(path: Path) -> Callable[[int], None]:
    from langchain_community.chat_message_histories import (  # type: ignore[import-not-found, unused-ignore]
        SQLChatMessageHistory,
    )
    from langchain_core.messages import (  # type: ignore[import-not-found, unused-ignore]
        AIMessage,
        HumanMessage,
    )
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{path}")
    sessions = [SQLChatMessageHistory(f"session{i}", connection=engine) for i in range(20)]
    return lambda number: sessions[number % 20].add_messages(
        [HumanMessage(QUESTION), AIMessage(ANSWER)]
    )


SIDES = {
    "sqlite3 by hand": by_hand,
    "sqlite3 by hand, tables like ours": by_hand_into_ours,
    "SQLiteStore.write": ours,
    "SQLiteStore.save_*, one transaction": ours_one_by_one,
    "SQLAlchemy ORM, tables like ours": with_orm,
    "openai-agents SQLiteSession": openai_agents,
    "langchain SQLChatMessageHistory": langchain,
}


def timed(write: Callable[[int], None], numbers: range) -> list[float]:
    spent = []
    for number in numbers:
        started = time.perf_counter()
        write(number)
        spent.append((time.perf_counter() - started) * 1e6)
    return spent


def batches(directory: Path, size: int) -> float:
    """Microseconds a turn, written many at a time as by the background thread."""
    store = SQLiteStore(directory / "batches.db")
    spent = []
    for start in range(0, 20 * size, size):
        entries = [next_turn(number) for number in range(start, start + size)]
        started = time.perf_counter()
        store.write(entries)
        spent.append((time.perf_counter() - started) / size * 1e6)
    store.close()
    return median(spent)


def main() -> int:
    """Print the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sides: dict[str, Callable[[int], None]] = {}
        for side, make in SIDES.items():
            try:
                sides[side] = make(Path(name) / f"{len(sides)}.db")
            except ImportError:
                print(f"{side}: not installed")
        rounds: dict[str, list[list[float]]] = {side: [] for side in sides}
        for number in range(options.rounds):
            numbers = range(number * options.calls, (number + 1) * options.calls)
            for side in sorted(sides, reverse=bool(number % 2)):
                rounds[side].append(timed(sides[side], numbers))
        hand = rounds["sqlite3 by hand"]
        alike = rounds["sqlite3 by hand, tables like ours"]
        print(f"{'':38} {'median us':>9} {'mean us':>9} {'x by hand':>9} {'x alike':>8}")
        for side, found in rounds.items():
            flat = [one for some in found for one in some]
            ratio = median(median(a) / median(b) for a, b in zip(found, hand, strict=True))
            like = median(median(a) / median(b) for a, b in zip(found, alike, strict=True))
            print(f"{side:38} {median(flat):9.1f} {mean(flat):9.1f} {ratio:9.2f} {like:8.2f}")
            if side == "SQLiteStore.write":
                missed = like > GOAL
        print(f"{'SQLiteStore.write of 256 turns':38} {batches(Path(name), 256):9.1f} a turn")
    print(f"goal: SQLiteStore.write at most {GOAL} x alike{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
