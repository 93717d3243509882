"""What the Recorder adds to an async call, and to a sync one.

Run: python -m benchmarks.monitor_async [--rounds 5]

How long `enqueue` holds up an event loop: while the thread writes into SQLite, with 200 tasks on 20
sessions at a time, with long texts, and while the store is away; what `write` costs beside the
store's own; how fast the queue is written; and what an idle Recorder takes of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import mean, median, quantiles
from time import perf_counter

from benchmarks.measuring import compare
from pywrapai_monitor.db.base import Entry, MessageRecord, StoreError, TokenRecord
from pywrapai_monitor.db.sqlite import SQLiteStore
from pywrapai_monitor.recorder import Recorder

TASKS, SESSIONS, TURNS = 200, 20, 5
FEW_TASKS = 20  # whose long texts are no more than a database can keep up with
GOAL_MS = 0.1
NUMBERS = count()


class Away(SQLiteStore):
    """It never takes anything."""

    def write(self, *args: object, **more: object) -> None:
        raise StoreError("away", retryable=True)


def turn(characters: int = 200, session: str = "s") -> Entry:
    """A question, an answer and what they took."""
    call_id, at = f"call-{next(NUMBERS):012}", time.time_ns() // 1000
    who = {"user_id": "u", "session_id": session}
    text = "word " * (characters // 5)
    return Entry(
        token=TokenRecord(**who, model="m", provider="p", call_id=call_id, input_tokens=9),
        messages=(
            MessageRecord(**who, role="user", content=text, call_id=call_id),
            MessageRecord(**who, role="assistant", content=text, call_id=call_id),
        ),
        at=at,
    )


async def enqueued(recorder: Recorder, tasks: int, characters: int) -> list[float]:
    """Milliseconds of each `enqueue` of so many tasks, each of which asks a model in between."""
    times: list[float] = []

    async def task(number: int) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0.2)
            entry = turn(characters, f"s{number % SESSIONS}")
            began = perf_counter()
            recorder.enqueue(entry)
            times.append((perf_counter() - began) * 1000)

    await asyncio.gather(*(task(number) for number in range(tasks)))
    return times


def enqueueing(folder: Path, rounds: int) -> Iterator[tuple[str, list[float], float | None]]:
    cases: list[tuple[str, type[SQLiteStore], int, int, float | None]] = [
        ("enqueue", SQLiteStore, TASKS, 200, GOAL_MS),
        ("enqueue, texts of 100 KB", SQLiteStore, FEW_TASKS, 100_000, GOAL_MS),
        ("enqueue, the store is away", Away, TASKS, 200, None),
        ("enqueue, away, texts of 100 KB", Away, FEW_TASKS, 100_000, None),
    ]
    for number, (case, kind, tasks, characters, goal) in enumerate(cases):
        path = folder / f"{number}.db"
        store = kind(path)
        recorder = Recorder(store, f"{path}.spool")
        times: list[float] = []
        for _ in range(rounds):
            times += asyncio.run(enqueued(recorder, tasks, characters))
            recorder.flush()
        assert recorder.counts()["lost"] == 0
        recorder.close()
        store.close()
        yield case, times, goal


def writing(folder: Path, rounds: int) -> bool:
    """`write` beside the store's own, and the queue beside `write`."""
    store = SQLiteStore(folder / "sync.db")
    recorder = Recorder(store, folder / "spool")
    beside = compare(
        "write",
        lambda: recorder.write(turn()),
        lambda: store.write([turn()]),
        calls=500,
        rounds=rounds,
        goal=1.15,
    )
    print(
        f"write {beside.ours_ms:.3f} ms, the store alone {beside.theirs_ms:.3f} ms: "
        f"{beside.ratio:.2f} (goal {beside.goal})"
    )
    entries = [turn() for _ in range(5000)]
    began = perf_counter()
    for entry in entries:
        recorder.enqueue(entry)
    recorder.flush()
    print(f"enqueued and written: {len(entries) / (perf_counter() - began):,.0f} entries a second")
    recorder.close()
    store.close()
    return beside.missed


def idle(folder: Path, seconds: float = 3.0) -> float:
    """The share of one processor that a Recorder takes that has nothing to do."""
    store = SQLiteStore(folder / "idle.db")
    recorder = Recorder(store, folder / "spool")
    recorder.enqueue(turn())
    recorder.flush()
    began = time.process_time()
    time.sleep(seconds)
    share = (time.process_time() - began) / seconds
    recorder.close()
    store.close()
    return share


def shown(case: str, times: list[float], goal: float | None) -> bool:
    """Print a line; whether its goal was missed."""
    missed = goal is not None and median(times) > goal
    cuts = quantiles(times, n=100)
    told = "" if goal is None else f"  goal {goal} for the median{' MISSED' if missed else ''}"
    print(
        f"{case:32} median {median(times):.4f} mean {mean(times):.4f} p90 {cuts[89]:.4f} "
        f"p99 {cuts[98]:.4f} ms{told}"
    )
    return missed


def main() -> int:
    """Print the figures; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        missed = [shown(*figures) for figures in enqueueing(folder, rounds)]
        missed.append(writing(folder, rounds))
        share = idle(folder)
    print(f"idle: {share:.3%} of a processor (goal 1 %)")
    return int(any(missed) or share > 0.01)


if __name__ == "__main__":
    sys.exit(main())
