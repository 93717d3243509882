"""What the stores on vector databases share: a chunk as a record of text, scores and their order.

A database keeps the text of a chunk, which people may read there, and beside it a record: JSON in
ASCII, which none refuses. What the text cannot be there (a NUL byte, half a character) is in the
record, too, so that every chunk comes back as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pywrapai.core.process import ProcessLock
from pywrapai_graph.rag.batch import NOISE, Batch
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

_DEFAULTS: dict[str, Any] = {
    "doc_id": "",
    "metadata": {},
    "start": None,
    "end": None,
    "embedded_by": None,
}
OPTIONAL_FIELDS = tuple(_DEFAULTS)
"""What a chunk may have beside its id and its text."""


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk out of a database."""

    chunk: Chunk
    inserted: int
    """Greater than the numbers of all chunks that were inserted before."""
    score: float = 0.0


class Insertions:
    """Numbers for chunks in the order of their insertion, by one process or by many.

    They follow the clock, so that those of a store that is opened later are greater.
    """

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._next = 0

    def take(self, count: int) -> int:
        """The first of so many numbers."""
        with self._lock:
            first = max(self._next, time.time_ns())
            self._next = first + count
        return first


def readable(text: str) -> str:
    """The text, where every database can keep it; else what is left of it for people to read."""
    if "\0" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.replace("\0", "").encode(errors="replace").decode()


def record_of(chunk: Chunk, inserted: int) -> str:
    """All of a chunk but its embedding, and its text where that is readable as it is."""
    told: dict[str, Any] = {"id": chunk.id, "inserted": inserted}
    if readable(chunk.text) != chunk.text:
        told["text"] = chunk.text
    told |= optional_fields_of(chunk)
    return json.dumps(told, separators=(",", ":"))


def optional_fields_of(chunk: Chunk) -> dict[str, Any]:
    """The optional fields in which a chunk has something."""
    given = ((name, getattr(chunk, name)) for name in OPTIONAL_FIELDS)
    return {name: value for name, value in given if value != _DEFAULTS[name]}


def found_of(text: Any, record: Any, score: float, key: Any) -> Found:
    """The chunk of a readable text and a record, which a database has under a key.

    VectorStoreError where somebody else wrote them.
    """
    try:
        told = json.loads(record)
        inserted = told.pop("inserted")
        return Found(Chunk(**{"text": text} | told), inserted, score)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise VectorStoreError(
            f"the record {key!r} was not written by pywrapai: give a collection that has no "
            "records of others"
        ) from error


def score_of(cosine: float) -> float:
    """From 0 to 1."""
    return 0.0 if cosine < NOISE else min(cosine, 1.0)


def scored_by_vectors(found: list[Found], vectors: Array, query: Array) -> list[Found]:
    """With scores by a product of each vector with a unit query: equal vectors get equal ones."""
    cosines = (vectors * query).sum(axis=1, dtype=np.float64).tolist()
    return [replace(one, score=score_of(c)) for one, c in zip(found, cosines, strict=True)]


def in_order(found: list[Found], k: int) -> list[ScoredChunk]:
    """The k nearest; ties in the order of insertion."""
    ordered = sorted(found, key=lambda one: (-one.score, one.inserted))
    return [ScoredChunk(one.chunk, one.score) for one in ordered[:k]]


def parts_of(batch: Batch, most_chunks: int, most_bytes: float) -> Iterator[Batch]:
    """A batch in parts of at most so many chunks, and bytes on the wire where one has not more."""
    start, held = 0, 0
    for place, chunk in enumerate(batch.chunks):
        # A number of a vector takes up to 22 characters in JSON, and 1 of a text up to 6.
        size = 22 * batch.dimension + 6 * len(chunk.text) + 1000
        if place > start and (place - start == most_chunks or held + size > most_bytes):
            yield Batch(batch.chunks[start:place], batch.vectors[start:place])
            start, held = place, 0
        held += size
    yield Batch(batch.chunks[start:], batch.vectors[start:])
