"""Typed workflows: a request goes in; an output that was checked comes out, or a human is asked."""

from __future__ import annotations

from pywrapai.lmstudio import ChatRequest, ChatResult, LLMClient, LMStudioClient
from pywrapai_graph.workflows.evaluation import EvaluationReport, Labelled, evaluate
from pywrapai_graph.workflows.types import Actor, Client, ModuleMeta, Reason, WorkflowResult
from pywrapai_graph.workflows.validators import (
    CitationNotInRetrieval,
    OutputRejectedError,
    check_citations,
    check_cited,
    check_contained,
    check_supported,
)
from pywrapai_graph.workflows.workflow import Workflow

__all__ = [
    "Actor",
    "ChatRequest",
    "ChatResult",
    "CitationNotInRetrieval",
    "Client",
    "EvaluationReport",
    "LLMClient",
    "LMStudioClient",
    "Labelled",
    "ModuleMeta",
    "OutputRejectedError",
    "Reason",
    "Workflow",
    "WorkflowResult",
    "check_citations",
    "check_cited",
    "check_contained",
    "check_supported",
    "evaluate",
]
