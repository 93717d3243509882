"""How long writers wait while nine tenths of a monitor's database are purged.

Run: python -m benchmarks.monitor_purge [--db URL] [--calls 1000000] [--keep 10] [--processes]

Four writers save a turn after another, with a short pause between two, before the purge and during
it. They are threads of the purging process or, with `--processes`, processes of their own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.monitor_data import DAYS, fill, open_store, turn

WRITERS = 4
PAUSE_S = 0.005
GOAL_MS = 100.0


def write_until(
    stop: Any, ready: Any, url: str, store: Any, waits: Callable[[list[float]], Any]
) -> None:
    """Save turns until told to stop; hand over how long each took, in seconds."""
    store = store or open_store(url)
    spent = []
    ready.wait()
    while not stop.is_set():
        entry = turn("writer", uuid4().hex[:2], uuid4().hex, time.time_ns() // 1000)
        started = time.perf_counter()
        store.write([entry])
        spent.append(time.perf_counter() - started)
        time.sleep(PAUSE_S)
    waits(spent)


def measured(url: str, store: Any, processes: bool, work: Callable[[], Any]) -> tuple[float, str]:
    """The longest wait in ms, and all figures, while `work` is done."""
    context: Any = get_context("spawn") if processes else threading
    stop, ready = context.Event(), context.Barrier(WRITERS + 1)
    found: list[list[float]] = []
    queue = context.SimpleQueue() if processes else None
    give = queue.put if processes else found.append
    kind = context.Process if processes else threading.Thread
    arguments = (stop, ready, url, None if processes else store, give)
    writers = [kind(target=write_until, args=arguments) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    ready.wait()
    started = time.perf_counter()
    work()
    spent = time.perf_counter() - started
    stop.set()
    if processes:
        found = [queue.get() for _ in writers]
    for writer in writers:
        writer.join()
    waits = sorted(wait * 1000 for some in found for wait in some)
    middle, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    text = f"{spent:7.1f} s  {len(waits):7} writes, median {middle:6.2f} ms, p99 {late:6.2f} ms"
    return waits[-1], f"{text}, longest {waits[-1]:6.1f} ms"


def main() -> int:
    """Print the waits; 1 if one was longer than the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", help="a path or a URL; by default a file of its own")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--filled", action="store_true", help="the database has the calls already")
    parser.add_argument("--keep", type=int, default=DAYS // 10, help=f"of {DAYS} days")
    parser.add_argument("--processes", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        url = options.db or str(Path(name) / "purge.db")
        store = open_store(url)
        if not options.filled:
            fill(store, options.calls)
        _, text = measured(url, store, options.processes, lambda: time.sleep(5))
        print("before the purge", text)
        gone: list[int] = []
        longest, text = measured(
            url, store, options.processes, lambda: gone.append(store.purge_before(options.keep))
        )
        print("during the purge", text, f"of {gone[0]} rows")
        store.close()
    return int(longest > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
