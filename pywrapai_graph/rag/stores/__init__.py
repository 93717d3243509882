"""Vector stores that keep what they are given: one file each, which imports its own driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy

if TYPE_CHECKING:
    from pywrapai_graph.rag.stores.chroma import ChromaVectorStore
    from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
    from pywrapai_graph.rag.stores.pgvector import PGVectorStore
    from pywrapai_graph.rag.stores.qdrant import QdrantVectorStore
    from pywrapai_graph.rag.stores.sqlite import SQLiteVectorStore

__all__ = [
    "ChromaVectorStore",
    "FAISSVectorStore",
    "PGVectorStore",
    "QdrantVectorStore",
    "SQLiteVectorStore",
]

__getattr__ = lazy(
    __name__,
    {
        "ChromaVectorStore": "pywrapai_graph.rag.stores.chroma",
        "FAISSVectorStore": "pywrapai_graph.rag.stores.faiss",
        "PGVectorStore": "pywrapai_graph.rag.stores.pgvector",
        "QdrantVectorStore": "pywrapai_graph.rag.stores.qdrant",
        "SQLiteVectorStore": "pywrapai_graph.rag.stores.sqlite",
    },
    extra="rag",
)
