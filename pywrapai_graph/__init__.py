"""Assemble the conversation around a model: system prompt, history, message, tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy
from pywrapai_graph.agent import Agent
from pywrapai_graph.agent_stream import AgentStream, AsyncAgentStream
from pywrapai_graph.agent_values import (
    AgentConfig,
    AgentEvent,
    AgentMaxTurnsError,
    AgentResult,
    AgentStep,
    ToolTimeoutError,
)
from pywrapai_graph.assembly import Assembly
from pywrapai_graph.graph import GraphLLM
from pywrapai_graph.prompts import PromptRegistry
from pywrapai_graph.rag import (
    BaseRetriever,
    BM25Retriever,
    Chunk,
    Chunker,
    DimensionMismatchError,
    Document,
    HybridRetriever,
    LoadError,
    LoadWarning,
    RetrievalReport,
    ScoredChunk,
    VectorRetriever,
    VectorStoreError,
    aevaluate_retrieval,
    evaluate_retrieval,
    load_documents,
    retrieval_tool,
)
from pywrapai_graph.tools import MCPConnectionError, Tool, ToolArgumentsError, ToolRegistry, tool

if TYPE_CHECKING:
    from pywrapai_graph.rag import (
        BaseVectorStore,
        ChromaVectorStore,
        FAISSVectorStore,
        InMemoryVectorStore,
        PGVectorStore,
        QdrantVectorStore,
        SQLiteVectorStore,
    )

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentEvent",
    "AgentMaxTurnsError",
    "AgentResult",
    "AgentStep",
    "AgentStream",
    "Assembly",
    "AsyncAgentStream",
    "BM25Retriever",
    "BaseRetriever",
    "BaseVectorStore",
    "ChromaVectorStore",
    "Chunk",
    "Chunker",
    "DimensionMismatchError",
    "Document",
    "FAISSVectorStore",
    "GraphLLM",
    "HybridRetriever",
    "InMemoryVectorStore",
    "LoadError",
    "LoadWarning",
    "MCPConnectionError",
    "PGVectorStore",
    "PromptRegistry",
    "QdrantVectorStore",
    "RetrievalReport",
    "SQLiteVectorStore",
    "ScoredChunk",
    "Tool",
    "ToolArgumentsError",
    "ToolRegistry",
    "ToolTimeoutError",
    "VectorRetriever",
    "VectorStoreError",
    "aevaluate_retrieval",
    "evaluate_retrieval",
    "load_documents",
    "retrieval_tool",
    "tool",
]

_STORES = (
    "BaseVectorStore",
    "ChromaVectorStore",
    "FAISSVectorStore",
    "InMemoryVectorStore",
    "PGVectorStore",
    "QdrantVectorStore",
    "SQLiteVectorStore",
)
__getattr__ = lazy(__name__, dict.fromkeys(_STORES, "pywrapai_graph.rag"))
