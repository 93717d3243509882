"""An embedder without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from pywrapai.core.flow import Flow
from pywrapai.embedder import Embedder
from pywrapai.providers.embedding import EmbeddingReply
from pywrapai.testing.wires.vectors import word_vector


class StubEmbedder(Embedder):
    """An Embedder whose vectors come from the words of a text: no network, no packages.

    The same text has the same vector in every run, of length 1; texts that share words are near
    each other, whatever their case and punctuation. Tokens are counted in words, at no cost.

    Args:
        dimension: how many numbers a vector has. With few of them, other words may meet in one.
        batch_size: as for Embedder.
        track_tokens: as for Embedder.
    """

    def __init__(
        self, dimension: int = 64, *, batch_size: int = 100, track_tokens: bool = True
    ) -> None:
        self._words = _Words()
        super().__init__(
            self._words, dimensions=dimension, batch_size=batch_size, track_tokens=track_tokens
        )

    @property
    def requests(self) -> list[list[str]]:
        """The texts of each request so far, in order."""
        return [list(texts) for texts in self._words.requests]


class _Words:
    name = "stub"
    model = "stub-embedding"
    default_embedding_model: ClassVar[str] = model
    max_texts: ClassVar[int] = 10_000

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    def embed_flow(
        self, texts: Sequence[str], *, dimensions: int | None, timeout: float
    ) -> Flow[EmbeddingReply]:
        yield from ()  # no I/O
        self.requests.append(list(texts))
        words = [re.findall(r"\w+", text.casefold()) for text in texts]
        vectors = [word_vector(found, dimensions or 64) for found in words]
        return EmbeddingReply(vectors, sum(map(len, words)), self.model)

    def close(self) -> None:
        """Nothing is held open."""
