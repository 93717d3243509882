"""What a call costs beside the raw openai SDK, against the same stub server on loopback.

Run: python -m benchmarks.calls [--rounds 15] [--json FILE]

Both sides ask the same server in the same process, taking turns round by round; each figure is
the median of the per-round ratios, so a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

MODEL = "gpt-4o-mini"
KEY = "sk-benchmark"
ONE = [{"role": "user", "content": "Say hello."}]
HUNDRED = [
    {"role": "user" if turn % 2 else "assistant", "content": f"Message {turn}: " + "words " * 80}
    for turn in range(1, 101)
]
GOALS = {"1 message": 0.75, "100 messages": 0.10}


def measure(
    ours: Callable[[], Any], theirs: Callable[[], Any], calls: int, rounds: int
) -> dict[str, float]:
    """Milliseconds a call on both sides, and the median ratio."""
    for _ in range(5):
        ours(), theirs()
    times: list[tuple[float, float]] = []
    for number in range(rounds):
        order = (ours, theirs) if number % 2 else (theirs, ours)
        spent = {side: _timed(side, calls) for side in order}
        times.append((spent[ours], spent[theirs]))
    return {
        "ours_ms": median(o for o, _ in times) * 1000,
        "sdk_ms": median(t for _, t in times) * 1000,
        "ratio": median(o / t for o, t in times),
    }


def _timed(call: Callable[[], Any], calls: int) -> float:
    started = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - started) / calls


def compare(base_url: str, rounds: int) -> dict[str, dict[str, float]]:
    """Every case of this benchmark."""
    import openai

    from pywrapai import LLM

    sdk = openai.OpenAI(api_key=KEY, base_url=base_url, max_retries=0)
    llm = LLM("openai", MODEL, api_key=KEY, base_url=base_url, max_retries=0)

    def both(messages: list[dict[str, str]], calls: int) -> dict[str, float]:
        return measure(
            lambda: llm.chat(messages),
            lambda: sdk.chat.completions.create(model=MODEL, messages=messages),
            calls,
            rounds,
        )

    return {"1 message": both(ONE, 30), "100 messages": both(HUNDRED, 8)}


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    # The server runs in a process of its own: in ours, it would share the interpreter's lock.
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"], stdout=subprocess.PIPE, text=True
    )
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    try:
        assert server.stdout is not None
        results = compare(server.stdout.readline().strip(), arguments.rounds)
    finally:
        server.terminate()
        server.wait()
    print(f"{'case':14} {'ours ms':>9} {'SDK ms':>9} {'ratio':>7} {'goal':>6}")
    for case, row in results.items():
        figures = f"{row['ours_ms']:9.3f} {row['sdk_ms']:9.3f} {row['ratio']:7.3f}"
        print(f"{case:14} {figures} {GOALS[case]:6.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    return int(any(row["ratio"] > GOALS[case] for case, row in results.items()))


if __name__ == "__main__":
    sys.exit(main())
