"""What the monitor's reads cost in a small and in a large database.

Run: python -m benchmarks.monitor_reads [--small 10000] [--large 1000000] [--db URL] [--filled URL]

`--db` names an empty database of a server; by default it is a file. Filling it with a million calls
takes minutes; `--filled` names one that is filled already, to be measured alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.monitor_data import fill, open_store
from pywrapai_monitor.db import BaseStore

GOAL_MS = 10.0
HISTORY = "history of 20 turns"


def reads(store: BaseStore) -> dict[str, Callable[[], Any]]:
    """What is read often, each time of another session with at least 20 turns."""
    random = Random(3)
    long = [s for s in store.get_sessions() if s["turns"] >= 20]
    assert long, "there is no session of 20 turns: give it more calls"

    def session() -> tuple[str, str]:
        found = random.choice(long)
        return found["user_id"], found["session_id"]

    return {
        HISTORY: lambda: store.load_history(*session(), max_turns=20),
        "token records of a session": lambda: store.get_session_token_records(*session()),
        "conversation of a session": lambda: store.get_conversation(*session()),
        "20 newest token records": store.get_recent_queries,
        "overview": store.get_overview,
        "today": store.get_today,
        "cost over 7 days": store.get_cost_over_time,
        "usage by model": store.get_model_usage,
        "usage by tool": store.get_tool_usage,
        "users": store.get_users,
        "sessions of a user": lambda: store.get_sessions(session()[0]),
    }


def measured(store: BaseStore, rounds: int) -> dict[str, tuple[float, float]]:
    """Median and longest time of each, in milliseconds."""
    found = {}
    for name, read in reads(store).items():
        spent = []
        for _ in range(rounds):
            started = time.perf_counter()
            read()
            spent.append((time.perf_counter() - started) * 1000)
        found[name] = median(spent), max(spent)
    return found


def main() -> int:
    """Print the table; 1 if the history takes longer than its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--db", help="the URL of an empty database")
    parser.add_argument("--filled", help="the path or URL of one that is filled")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        store = open_store(options.filled or options.db or str(Path(name) / "reads.db"))
        columns = []
        if not options.filled:
            fill(store, options.small)
            columns.append(measured(store, options.rounds))
            fill(store, options.large - options.small)
        columns.append(measured(store, options.rounds))
        store.close()
    print(
        f"{'ms: median (longest)':28}" + "".join(f"{'small':>18}" for _ in columns[1:]) + " large"
    )
    for read in columns[-1]:
        print(f"{read:28}" + "".join(f"{c[read][0]:9.2f} ({c[read][1]:6.1f})" for c in columns))
    missed = columns[-1][HISTORY][0] > GOAL_MS
    print(f"goal: {HISTORY} in {GOAL_MS} ms{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
