"""Stands in for a Recorder: writes down how each entry came, and puts it into the store at once."""

from __future__ import annotations

import threading

from pywrapai import LLM, LLMResponse, TokenUsage
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import MonitoredGraph, SQLiteStore
from pywrapai_monitor.conversation import Conversation


class Notebook:
    uses_disk = False

    def __init__(self, store: SQLiteStore | None = None) -> None:
        self.store = store or SQLiteStore(":memory:")
        self.entries = []
        self.ways = []
        self.settled = []

    def write(self, entry) -> None:
        self._note("write", entry)

    def enqueue(self, entry) -> None:
        self._note("enqueue", entry)

    def settle(self, user_id: str, session_id: str) -> None:
        self.settled.append((user_id, session_id, threading.get_ident()))

    def _note(self, way: str, entry) -> None:
        self.ways.append(way)
        self.entries.append(entry)
        self.store.write([entry])

    @property
    def tokens(self):
        return [entry.token for entry in self.entries]

    @property
    def statuses(self) -> list[str]:
        return [token.status for token in self.tokens]

    def said(self) -> list[tuple[str, str, str]]:
        return [(m.role, m.content, m.status) for entry in self.entries for m in entry.messages]

    def conversation(self, **more) -> Conversation:
        return Conversation(
            store=self.store, recorder=self, **{"user_id": "u", "session_id": "s", **more}
        )


def tracked_of(*replies, notebook: Notebook | None = None, llm=None, retriever=None, **more):
    """A monitored graph on a scripted provider, what it wrote, and the provider."""
    notebook = notebook or Notebook()
    provider = StubProvider(replies[0] if replies and callable(replies[0]) else list(replies))
    graph = GraphLLM(llm or LLM(provider, max_retries=0), retriever=retriever)
    return MonitoredGraph(graph, notebook.conversation(**more)), notebook, provider


def priced(content: str, cost: float) -> LLMResponse:
    """A reply that cost so many USD."""
    return LLMResponse(content, usage=TokenUsage(10, 5), cost_usd=cost, model="m")
