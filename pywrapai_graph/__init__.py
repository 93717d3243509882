"""Assemble the conversation around a model: system prompt, history, message, tools."""

from __future__ import annotations

from pywrapai_graph.agent import Agent
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
from pywrapai_graph.tools import MCPConnectionError, Tool, ToolArgumentsError, ToolRegistry, tool

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentEvent",
    "AgentMaxTurnsError",
    "AgentResult",
    "AgentStep",
    "Assembly",
    "GraphLLM",
    "MCPConnectionError",
    "PromptRegistry",
    "Tool",
    "ToolArgumentsError",
    "ToolRegistry",
    "ToolTimeoutError",
    "tool",
]
