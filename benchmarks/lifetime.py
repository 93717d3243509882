"""What it costs to start, to make an LLM, and to keep calling it.

Run: python -m benchmarks.lifetime [--calls 20000]
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.calls import KEY, ONE
from benchmarks.measuring import cheap_server

OURS = """
from pywrapai import LLM
LLM("openai", "gpt-4o-mini", api_key="k", base_url={url!r}).chat("Say hello.")
"""
THEIRS = """
import openai
client = openai.OpenAI(api_key="k", base_url={url!r})
client.chat.completions.create(
    model="gpt-4o-mini", messages=[{{"role": "user", "content": "Say hello."}}]
)
"""


def first_answer(url: str, rounds: int = 9) -> tuple[float, float, float]:
    """Milliseconds from process start to the first answer, ours and the SDK's, and the ratio."""
    times = [(_run(OURS.format(url=url)), _run(THEIRS.format(url=url))) for _ in range(rounds)]
    ours, theirs = (median(side) * 1000 for side in zip(*times, strict=True))
    return ours, theirs, median(o / t for o, t in times)


def _run(code: str) -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return perf_counter() - started


def making(url: str) -> tuple[float, float]:
    """Milliseconds to make a second LLM, and to make one and get its first answer."""
    from pywrapai import LLM

    def make() -> Any:
        return LLM("openai", "gpt-4o-mini", api_key=KEY, base_url=url)

    make().chat(ONE)
    made, answered = [], []
    for _ in range(30):
        started = perf_counter()
        llm = make()
        made.append(perf_counter() - started)
        llm.chat(ONE)
        answered.append(perf_counter() - started)
    return median(made) * 1000, median(answered) * 1000


def growth(url: str, calls: int) -> list[tuple[int, float]]:
    """Resident megabytes after so many calls, past a warm-up that fills the tracker's window."""
    from pywrapai import LLM

    llm = LLM("openai", "gpt-4o-mini", api_key=KEY, base_url=url)
    for _ in range(11_000):
        llm.chat(ONE)
    sizes = [(0, _resident_mb())]
    for quarter in range(1, 5):
        for _ in range(calls // 4):
            llm.chat(ONE)
        sizes.append((quarter * calls // 4, _resident_mb()))
    return sizes


def _resident_mb() -> float:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Print the figures; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    calls = parser.parse_args().calls
    with cheap_server() as address:
        url = f"{address}/v1"
        ours, theirs, ratio = first_answer(url)
        made, answered = making(url)
        sizes = growth(url, calls)
    grown = sizes[-1][1] - sizes[0][1]
    print(f"start to first answer: {ours:.0f} ms, SDK {theirs:.0f} ms, {ratio:.3f} (goal 1.05)")
    print(f"LLM(...): {made:.3f} ms (goal 1); with its first answer {answered:.2f} ms")
    print("memory after calls: " + ", ".join(f"{n}: {mb:.1f} MB" for n, mb in sizes))
    print(f"grown by {grown:.2f} MB (goal 2)")
    return int(ratio > 1.05 or made > 1 or grown > 2)


if __name__ == "__main__":
    sys.exit(main())
