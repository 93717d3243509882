"""A folder of documents that can be asked: by meaning and by words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pywrapai import Embedder
from pywrapai_graph import (
    BM25Retriever,
    Chunker,
    HybridRetriever,
    InMemoryVectorStore,
    ScoredChunk,
    VectorRetriever,
    load_documents,
)

CHUNK_SIZE, OVERLAP = 400, 40  # characters


def read_folder(folder: Path) -> tuple[HybridRetriever, int]:
    """A retriever over all files of the folder that can be read, and how many chunks it has."""
    retriever = HybridRetriever(
        [VectorRetriever(Embedder("local"), InMemoryVectorStore()), BM25Retriever()]
    )
    documents = load_documents(folder)
    return retriever, retriever.add_documents(documents, chunker=Chunker(CHUNK_SIZE, OVERLAP))


def source_of(found: ScoredChunk, folder: Path) -> dict[str, Any]:
    """What the page shows of a chunk."""
    chunk = found.chunk
    path = Path(chunk.metadata["source"])
    return {
        "file": str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name,
        "page": chunk.metadata.get("page"),
        "start": chunk.start,
        "score": round(found.score, 3),
        "text": chunk.text,
    }
