"""Two sides take turns on the same work; what counts is the ratio in each round."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Figure:
    """Milliseconds a piece of work on both sides (medians), and the median of the ratios."""

    case: str
    ours_ms: float
    theirs_ms: float
    ratio: float
    goal: float | None = None

    @property
    def missed(self) -> bool:
        """Whether there is a goal, and it was not reached."""
        return self.goal is not None and self.ratio > self.goal


def compare(
    case: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    calls: int,
    rounds: int,
    per: int = 1,
    goal: float | None = None,
) -> Figure:
    """Time `calls` calls of each side a round, turn and turn about; `per` pieces of work a call."""
    for side in (ours, theirs):
        for _ in range(3):
            side()
    spent: list[tuple[float, float]] = []
    for number in range(rounds):
        order = (ours, theirs) if number % 2 else (theirs, ours)
        times = {side: _timed(side, calls) / per for side in order}
        spent.append((times[ours], times[theirs]))
    return Figure(
        case,
        median(o for o, _ in spent) * 1000,
        median(t for _, t in spent) * 1000,
        median(o / t for o, t in spent),
        goal,
    )


def _timed(call: Callable[[], Any], calls: int) -> float:
    started = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - started) / calls


@contextmanager
def cheap_server() -> Iterator[str]:
    """The address of benchmarks.server, in a process and on a core of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"], stdout=subprocess.PIPE, text=True
    )
    cores = os.sched_getaffinity(0)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        os.sched_setaffinity(0, sorted(cores)[:1])
        yield address
    finally:
        os.sched_setaffinity(0, cores)
        process.terminate()
        process.wait()


def report(figures: list[Figure]) -> int:
    """Print the table; 1 if a goal was missed."""
    print(f"{'case':34} {'ours ms':>9} {'theirs ms':>9} {'ratio':>7} {'goal':>6}")
    for f in figures:
        goal = "" if f.goal is None else f"{f.goal:6.2f}{'  MISSED' if f.missed else ''}"
        print(f"{f.case:34} {f.ours_ms:9.4f} {f.theirs_ms:9.4f} {f.ratio:7.3f} {goal}")
    return int(any(figure.missed for figure in figures))
