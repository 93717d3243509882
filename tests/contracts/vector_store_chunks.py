"""Chunks for the tests of vector stores, and what a search should find, worked out plainly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pywrapai_graph.rag.types import Chunk, ScoredChunk

X, Y, Z = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
ZERO = [0.0, 0.0, 0.0]
NAN, INFINITY = float("nan"), float("inf")

ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\\u0000",
    "\\x00",
    "\ud800 half a character",
    "half a character \udfff",
    "👩‍👩‍👧 e\u0301 \u202e",
    "'; DROP TABLE vector_chunks; --",
    "\"quoted\" 'quoted' `quoted`",
    "%s %(name)s ? :name $1 {} \\",
    "line\nline\r\nline\ttab\x1f\x7f\x85\u2028",
    "[1]",
    "{}",
    "null",
    "None",
    "\ufeffbom",
    "text" * 2_500,
    "ä漢" * 5_000,
]


def chunk(id: str, vector: Any = X, text: str | None = None, **fields: Any) -> Chunk:
    """A chunk whose text is that of its id, where none is given."""
    return Chunk(f"text of {id}" if text is None else text, id=id, embedding=vector, **fields)


def chunks(prefix: str, count: int, vector: Any = X, **fields: Any) -> list[Chunk]:
    """So many chunks of one vector, `prefix0` and on."""
    return [chunk(f"{prefix}{i}", vector, **fields) for i in range(count)]


def ids(found: Iterable[ScoredChunk] | Iterable[Chunk]) -> list[str]:
    return [one.chunk.id if isinstance(one, ScoredChunk) else one.id for one in found]


def scores(found: Iterable[ScoredChunk]) -> list[float]:
    return [one.score for one in found]


def unit(vector: Iterable[float]) -> list[float]:
    """The vector at length 1; a zero vector stays zero."""
    numbers = [float(number) for number in vector]
    length = math.hypot(*numbers) or 1.0
    return [number / length for number in numbers]


def cosine(one: Iterable[float], other: Iterable[float]) -> float:
    """Clamped to 0..1, and what a float32 cannot tell from 0 is 0."""
    found = math.fsum(a * b for a, b in zip(unit(one), unit(other), strict=True))
    return 0.0 if found < 2e-6 else min(found, 1.0)


def nearest(stored: Sequence[Chunk], query: Iterable[float], k: int) -> list[tuple[str, float]]:
    """Ids and scores of the k nearest, by brute force; `stored` is in the order of insertion."""
    query = list(query)
    scored = [(one.id, cosine(one.embedding or (), query)) for one in stored]
    return sorted(scored, key=lambda pair: -pair[1])[:k]
