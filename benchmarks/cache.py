"""What a cache hit costs beside the least that a cache could do: canonical JSON and SHA-256.

Run: python -m benchmarks.cache
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.measuring import Figure, compare, report
from pywrapai import LLM
from pywrapai.testing import StubProvider


def conversation(words: str) -> list[dict[str, str]]:
    """A hundred messages of some 500 characters."""
    return [
        {"role": "user" if turn % 2 else "assistant", "content": f"Message {turn}: {words * 80}"}
        for turn in range(1, 101)
    ]


def hits(name: str, given: list[dict[str, str]], rounds: int) -> Iterator[Figure]:
    """A hit for messages as dicts, which are recalled, and for Message objects, which are read."""
    llm = LLM(StubProvider(["kept"]), cache=True)
    messages = list(llm.request(given).messages)
    assert not llm.chat(given).cached
    assert llm.chat(given).cached
    assert llm.chat(messages).cached

    def floor() -> str:
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()

    for form, asked in (("dicts", given), ("Message", messages)):
        case = f"cache hit, {name}, {form}"
        yield compare(case, partial(llm.chat, asked), floor, calls=50, rounds=rounds, goal=0.30)


def main() -> int:
    """Print the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    texts = {"ASCII": "words ", "accented": "wörds "}
    return report(
        [f for name, words in texts.items() for f in hits(name, conversation(words), rounds)]
    )


if __name__ == "__main__":
    sys.exit(main())
