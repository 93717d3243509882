"""How long writers wait while twenty readers look at the dashboard again and again.

Run: python -m benchmarks.monitor_readers [--db URL] [--calls 10000] [--seconds 20] [--every 1]

Four processes save a turn after another, with a short pause between two: first alone, then while
twenty readers ask a dashboard, a process of its own, for its pages, each once in `--every` seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.monitor_data import fill, open_store
from benchmarks.monitor_purge import GOAL_MS, measured
from pywrapai_monitor.dashboard.server import serve

READERS = 20
PAGES = (
    "/?range=24h",
    "/?range=7d",
    "/?range=30d",
    "/calls",
    "/conversations",
    "/users",
    "/status",
)


def dashboard(url: str, told: Any, stop: Any) -> None:
    with serve(open_store(url), port=0, block=False) as server:
        told.put(server.url)
        stop.wait()


def read_until(stop: threading.Event, address: str, every: float, spent: list[float]) -> None:
    while not stop.wait(every):
        started = time.perf_counter()
        with urllib.request.urlopen(address) as answer:
            answer.read()
        spent.append(time.perf_counter() - started)


def read(address: str, seconds: float, every: float) -> list[float]:
    """How long each answer took, in seconds."""
    stop, spent = threading.Event(), []
    readers = [
        threading.Thread(
            target=read_until, args=(stop, address + PAGES[i % len(PAGES)], every, spent)
        )
        for i in range(READERS)
    ]
    for reader in readers:
        reader.start()
        time.sleep(every / READERS)
    time.sleep(seconds)
    stop.set()
    for reader in readers:
        reader.join()
    return sorted(spent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", help="a database's URL; a new SQLite file if not given")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--every", type=float, default=1.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.db or str(Path(folder) / "monitor.db")
        with closing(open_store(url)) as store:
            fill(store, options.calls)
        return measure(url, options)


def measure(url: str, options: argparse.Namespace) -> int:
    context = get_context("spawn")
    told, stop = context.SimpleQueue(), context.Event()
    server = context.Process(target=dashboard, args=(url, told, stop))
    server.start()
    address = told.get()
    _, alone = measured(url, None, True, lambda: time.sleep(options.seconds / 2))
    print(f"without readers  {alone}")
    answers: list[float] = []
    longest, text = measured(
        url, None, True, lambda: answers.extend(read(address, options.seconds, options.every))
    )
    print(f"with {READERS} readers  {text}")
    middle, late = answers[len(answers) // 2] * 1000, answers[-1] * 1000
    print(f"{len(answers)} answers, median {middle:.0f} ms, longest {late:.0f} ms")
    stop.set()
    server.join()
    return 0 if longest <= GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
