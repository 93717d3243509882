"""The example that the reference of graphs and agents runs on, and how a call is looked at."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pywrapai.testing import StubServer
from pywrapai_graph import ToolRegistry, tool

_URLS = {
    "OPENAI_BASE_URL": "openai",
    "ANTHROPIC_BASE_URL": "anthropic",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "OLLAMA_HOST": "ollama",
}


def sent(server: StubServer, number: int = -1) -> list[tuple[str, str]]:
    """Role and text of each message of a request on OpenAI's wire."""
    messages = server.requests[number].json["messages"]
    return [(message["role"], message["content"]) for message in messages]


def parameters(function: Any) -> dict[str, Any]:
    """The parameters without a star, and their defaults."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.name != "self" and p.kind is not p.VAR_KEYWORD}


def point_providers_at(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variables of the environment alone, so that programs need no other settings."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-t3st")
    for name, wire in _URLS.items():
        monkeypatch.setenv(name, server.url(wire))


def weather_and_search() -> ToolRegistry:
    @tool
    def get_weather(city: str) -> str:
        """Get the current weather for a city."""
        return f"16°C, cloudy in {city}"

    @tool
    def search_docs(query: str, limit: int = 5) -> str:
        """Search internal documentation."""
        return f"Found {limit} results for: {query}"

    registry = ToolRegistry()
    registry.register(get_weather)
    registry.register(search_docs)
    return registry
