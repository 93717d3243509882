"""What a cache hit costs beside the least that a cache could do: canonical JSON and SHA-256.

Run: python -m benchmarks.cache
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys

from benchmarks.measuring import compare, report
from pywrapai import LLM
from pywrapai.testing import StubProvider

MESSAGES = [
    {"role": "user" if turn % 2 else "assistant", "content": f"Message {turn}: " + "wörds " * 80}
    for turn in range(1, 101)
]


def main() -> int:
    """Print the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    llm = LLM(StubProvider(["kept"]), cache=True)
    assert not llm.chat(MESSAGES).cached
    assert llm.chat(MESSAGES).cached

    def floor() -> str:
        return hashlib.sha256(json.dumps(MESSAGES, sort_keys=True).encode()).hexdigest()

    size = len(json.dumps(MESSAGES, ensure_ascii=False)) // 1000
    case = f"cache hit, {len(MESSAGES)} messages, {size} KB"
    hit = lambda: llm.chat(MESSAGES)  # noqa: E731
    return report([compare(case, hit, floor, calls=50, rounds=rounds, goal=0.30)])


if __name__ == "__main__":
    sys.exit(main())
