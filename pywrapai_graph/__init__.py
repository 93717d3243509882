"""Assemble the conversation around a model: system prompt, history, message."""

from __future__ import annotations

from pywrapai_graph.assembly import Assembly
from pywrapai_graph.graph import GraphLLM
from pywrapai_graph.prompts import PromptRegistry

__all__ = ["Assembly", "GraphLLM", "PromptRegistry"]
