"""Functions that a model may call."""

from __future__ import annotations

from pywrapai_graph.tools.errors import MCPConnectionError, ToolArgumentsError
from pywrapai_graph.tools.registry import ToolRegistry
from pywrapai_graph.tools.tool import Tool, tool

__all__ = ["MCPConnectionError", "Tool", "ToolArgumentsError", "ToolRegistry", "tool"]
