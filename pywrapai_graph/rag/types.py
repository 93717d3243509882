"""What retrieval works on: a document, the chunks it is cut into, and a chunk that was found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4


@dataclass(slots=True)
class Document:
    """A text before it is cut into chunks.

    Without an `id` it gets a UUID made from text and metadata, so that the same document made
    again, in another process too, is the same document: a store that has it replaces it. Give an
    `id` of your own where a text may change and is to replace its older version.
    """

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"the text of a Document is {type(self.text).__name__}; expected a str")
        self.id = self.id or _uuid_of(self.text, self.metadata)
        if not isinstance(self.id, str):
            raise TypeError(f"the id of a Document is {self.id!r:.80}; expected a str")


@dataclass(slots=True)
class Chunk:
    """A piece of a document: what is embedded, stored and found."""

    text: str
    doc_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid4()))
    embedding: Sequence[float] | None = field(default=None, compare=False, repr=False)
    """A list of floats or a float32 array; None until it is embedded."""
    start: int | None = None
    """Where the text begins in the document, in characters; None where nobody cut it."""
    end: int | None = None
    embedded_by: str | None = None
    """Which model made the embedding, and of what size; None where that is not known."""


@dataclass(slots=True)
class ScoredChunk:
    """A chunk that was found, and how near it is.

    Out of a vector store, `score` is the cosine similarity from 0 to 1. Other retrievers score in
    their own way; higher is always nearer.
    """

    chunk: Chunk
    score: float


def _uuid_of(text: str, metadata: dict[str, Any]) -> str:
    told = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    if metadata:
        told = hashlib.sha256(
            told.digest() + json.dumps(metadata, sort_keys=True, default=repr).encode()
        )
    return str(UUID(bytes=told.digest()[:16], version=5))
