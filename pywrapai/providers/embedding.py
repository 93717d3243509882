"""What a provider does to turn texts into vectors; `Embedder` does everything around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from pywrapai.core.flow import Flow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """The vectors of one request, in the order of its texts."""

    vectors: npt.NDArray[np.float32] | Sequence[Sequence[float]]
    """Shape (texts, dimensions)."""
    input_tokens: int | None = None
    """None where the provider does not say; `Embedder` then estimates."""
    model: str = ""
    request_id: str | None = None


class EmbeddingProvider(Protocol):
    """A provider class that `Embedder` can use: made like an LLM's, asked through a flow."""

    name: str
    model: str
    default_embedding_model: ClassVar[str]
    max_texts: ClassVar[int]
    """The most texts that one request may hold."""

    def embed_flow(
        self, texts: Sequence[str], *, dimensions: int | None, timeout: float
    ) -> Flow[EmbeddingReply]:
        """One request. Raises our errors; retries, batches and counting are the caller's."""

    def close(self) -> None:
        """Give back what is held open."""
