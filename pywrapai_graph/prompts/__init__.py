"""System prompts kept as files."""

from __future__ import annotations

from pywrapai_graph.prompts.registry import PromptRegistry

__all__ = ["PromptRegistry"]
