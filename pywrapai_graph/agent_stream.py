"""A run of an agent as its reader sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from pywrapai.core.stream import AsyncReader, SyncReader
from pywrapai_graph.agent_values import AgentEvent, AgentResult


class AgentStream(SyncReader[AgentEvent], Iterator[AgentEvent]):
    """The events of a run. Close it, which ends the run, or read it to its end.

    Raises what `Agent.run` raises, while it is read.
    """

    result: AgentResult | None = None
    """Once the run has come to its answer; it is the last event, too."""

    def __next__(self) -> AgentEvent:
        event = next(self._events)
        if type(event) is AgentResult:
            self.result = event
        return event


class AsyncAgentStream(AsyncReader[AgentEvent], AsyncIterator[AgentEvent]):
    """The async twin of AgentStream."""

    result: AgentResult | None = None
    """Once the run has come to its answer; it is the last event, too."""

    async def __anext__(self) -> AgentEvent:
        event = await anext(self._events)
        if type(event) is AgentResult:
            self.result = event
        return event
