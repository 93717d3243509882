"""Retrieval: cut documents into chunks, store them by their vectors, find those that help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy
from pywrapai_graph.rag.bm25 import BM25Retriever, words
from pywrapai_graph.rag.chunker import Chunker
from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.evaluation import (
    QueryScore,
    RetrievalReport,
    aevaluate_retrieval,
    evaluate_retrieval,
)
from pywrapai_graph.rag.hybrid import HybridRetriever
from pywrapai_graph.rag.loading import LoadError, LoadWarning, load_documents
from pywrapai_graph.rag.retriever import BaseRetriever, VectorRetriever, retrieval_tool
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk

if TYPE_CHECKING:
    from pywrapai_graph.rag.store import BaseVectorStore, InMemoryVectorStore
    from pywrapai_graph.rag.stores import (
        ChromaVectorStore,
        FAISSVectorStore,
        PGVectorStore,
        QdrantVectorStore,
        SQLiteVectorStore,
    )

__all__ = [
    "BM25Retriever",
    "BaseRetriever",
    "BaseVectorStore",
    "ChromaVectorStore",
    "Chunk",
    "Chunker",
    "DimensionMismatchError",
    "Document",
    "FAISSVectorStore",
    "HybridRetriever",
    "InMemoryVectorStore",
    "LoadError",
    "LoadWarning",
    "PGVectorStore",
    "QdrantVectorStore",
    "QueryScore",
    "RetrievalReport",
    "SQLiteVectorStore",
    "ScoredChunk",
    "VectorRetriever",
    "VectorStoreError",
    "aevaluate_retrieval",
    "evaluate_retrieval",
    "load_documents",
    "retrieval_tool",
    "words",
]

# Stores need numpy, which takes a tenth of a second to import: it comes with the first one used.
__getattr__ = lazy(
    __name__,
    {
        "BaseVectorStore": "pywrapai_graph.rag.store",
        "InMemoryVectorStore": "pywrapai_graph.rag.store",
        "ChromaVectorStore": "pywrapai_graph.rag.stores",
        "FAISSVectorStore": "pywrapai_graph.rag.stores",
        "PGVectorStore": "pywrapai_graph.rag.stores",
        "QdrantVectorStore": "pywrapai_graph.rag.stores",
        "SQLiteVectorStore": "pywrapai_graph.rag.stores",
    },
    extra="rag",
)
