"""What 100 vectors of 1,536 numbers cost, from the call to the float32 array, over loopback.

Run: python -m benchmarks.embeddings [--rounds 15]

Beside httpx2 and numpy by hand, which is the least that it can cost, and beside the openai SDK.
All ask the same server for the same base64 reply.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks import server
from benchmarks.measuring import Figure, compare, report

KEY = "sk-benchmark"
MODEL = "text-embedding-3-small"
TEXTS = [f"Text {number}: " + "some words of a document, in a row. " * 8 for number in range(100)]
DIMENSIONS = 1536
CALLS = 8


def _reply() -> bytes:
    vectors = np.random.default_rng(7).standard_normal((len(TEXTS), DIMENSIONS), dtype=np.float32)
    data = [
        {"object": "embedding", "index": at, "embedding": base64.b64encode(row.tobytes()).decode()}
        for at, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 9000, "total_tokens": 9000}
    body = json.dumps({"object": "list", "data": data, "model": MODEL, "usage": usage}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def serve() -> None:
    """The cheap server, with embeddings among its answers."""
    server.ANSWERS[b"/embeddings"] = (_reply(), b"")
    server.main()


@contextmanager
def embeddings_server() -> Iterator[str]:
    """The address of `serve`, in a process and on a core of its own."""
    command = [sys.executable, "-c", "from benchmarks.embeddings import serve; serve()"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        yield address
    finally:
        process.terminate()
        process.wait()


def by_hand(url: str) -> Callable[[], Any]:
    """The least that a program does for an array."""
    import httpx2

    client = httpx2.Client(headers={"authorization": f"Bearer {KEY}"})

    def ask() -> Any:
        body = {"model": MODEL, "input": TEXTS, "encoding_format": "base64"}
        data = json.loads(client.post(f"{url}/embeddings", json=body).content)["data"]
        rows = [base64.b64decode(item["embedding"]) for item in data]
        return np.stack([np.frombuffer(row, dtype=np.float32) for row in rows])

    return ask


def with_the_sdk(url: str) -> Callable[[], Any]:
    """The SDK's own way, which ends in lists of numbers."""
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=url, max_retries=0)
    return lambda: client.embeddings.create(model=MODEL, input=TEXTS)


def figures(address: str, rounds: int) -> Iterator[Figure]:
    """Every case of this benchmark."""
    from pywrapai import Embedder

    url = f"{address}/v1"
    embedder = Embedder("openai", MODEL, api_key=KEY, base_url=url, max_retries=0)
    least = by_hand(url)
    np.testing.assert_array_equal(embedder.embed_array(TEXTS), least())

    def case(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], goal: float) -> Figure:
        return compare(name, ours, theirs, calls=CALLS, rounds=rounds, goal=goal)

    def array() -> Any:
        return embedder.embed_array(TEXTS)

    yield case("array, beside httpx2 and numpy", array, least, 1.15)
    yield case("array, beside the SDK's create", array, with_the_sdk(url), 0.60)
    yield case(
        "lists, beside the SDK's create", lambda: embedder.embed(TEXTS), with_the_sdk(url), 1
    )


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with embeddings_server() as address:
        return report(list(figures(address, rounds)))


if __name__ == "__main__":
    sys.exit(main())
