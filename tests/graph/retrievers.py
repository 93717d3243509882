"""What tests of VectorRetriever share: a store and an embedder that are watched."""

from __future__ import annotations

from typing import Any

from pywrapai.testing import StubEmbedder
from pywrapai_graph.rag.store import InMemoryVectorStore
from pywrapai_graph.rag.types import ScoredChunk


class CountingStore(InMemoryVectorStore):
    """Notes the ids of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[str]] = []

    def add(self, chunks: Any) -> None:
        super().add(chunks)
        self.writes.append([chunk.id for chunk in chunks])


class OtherEmbedder(StubEmbedder):
    """The same size, of another model."""

    @property
    def model(self) -> str:
        return "another-model"


def texts(found: list[ScoredChunk]) -> list[str]:
    return [hit.chunk.text for hit in found]


def sent(embedder: StubEmbedder) -> list[str]:
    return [text for request in embedder.requests for text in request]
