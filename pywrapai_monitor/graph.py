"""MonitoredGraph: a GraphLLM that remembers one conversation and records every call of it."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, StreamEvent
from pywrapai.core.flow import Flow, StreamClosed, StreamFlow, blocking
from pywrapai.core.messages import MessageInput
from pywrapai.core.stream import AsyncTextStream, StreamRecord, TextStream
from pywrapai.llm import refuse_tools
from pywrapai_graph import GraphLLM
from pywrapai_monitor.db.base import BaseStore, Status
from pywrapai_monitor.turn import Outcome, Turn, message_rows, token_row

log = logging.getLogger(__name__)


class MonitoredGraph:
    """Made by `Monitor.wrap`; called like the GraphLLM that it wraps, without `history`.

    Each call loads the newest turns of the conversation, asks, and saves the user message, the
    answer and the token record in one transaction. May be shared by threads and by tasks.

    Raises StoreError, before the model is called, when the history cannot be loaded. When the
    record of an answer cannot be saved, the answer is returned all the same and the loss logged.
    """

    def __init__(
        self,
        graph: GraphLLM,
        store: BaseStore,
        *,
        user_id: str,
        session_id: str,
        max_turns: int | None = 20,
        prompt_name: str | None = None,
        prompt_version: str | None = None,
    ) -> None:
        self.graph = graph
        self.user_id = user_id
        self.session_id = session_id
        self.max_turns = max_turns
        self.prompt_name = prompt_name
        self.prompt_version = prompt_version
        self._store = store

    def chat(
        self,
        input: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> LLMResponse:
        """Load the history, ask, save. Raises what GraphLLM.chat raises, and StoreError."""
        return flow.run(self._chat(input, tools, tool_choice, rag, overrides))

    async def achat(
        self,
        input: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> LLMResponse:
        """`chat`, awaited; the database is used in a thread."""
        return await flow.arun(self._chat(input, tools, tool_choice, rag, overrides))

    def stream(self, input: MessageInput, rag: bool = True, **overrides: Any) -> TextStream:
        """Load the history, stream the answer's text, save when it ends or its reader leaves."""
        record = self._stream_record(input, rag, overrides)
        return TextStream(flow.stream(self._stream(input, rag, overrides, record)), record)

    def astream(self, input: MessageInput, rag: bool = True, **overrides: Any) -> AsyncTextStream:
        """`stream`, for `async for`."""
        record = self._stream_record(input, rag, overrides)
        return AsyncTextStream(flow.astream(self._stream(input, rag, overrides, record)), record)

    def _stream_record(
        self, input: MessageInput, rag: bool, overrides: dict[str, Any]
    ) -> StreamRecord:
        """Checked at the call, not at the first chunk."""
        refuse_tools(overrides)
        self.graph.llm.request(self.graph.assemble(input, None, rag=False).messages, **overrides)
        return StreamRecord()

    def _chat(
        self,
        input: MessageInput,
        tools: list[dict[str, Any]] | None,
        tool_choice: str | None,
        rag: bool,
        overrides: dict[str, Any],
    ) -> Flow[LLMResponse]:
        turn = yield from self._begin(input, rag)
        llm = self.graph.llm
        request = llm.request(turn.assembly.messages, tools, tool_choice, **overrides)
        started = perf_counter()
        try:
            response = yield from llm.chat_flow(request)
        except BaseException as error:
            failed = Outcome(
                response=getattr(error, "response", None),
                status=_status(error),
                error=error,
                duration_ms=(perf_counter() - started) * 1000.0,
            )
            yield from self._save(turn, failed)
            raise
        yield from self._save(turn, Outcome(response=response, duration_ms=response.duration_ms))
        return response

    def _stream(
        self, input: MessageInput, rag: bool, overrides: dict[str, Any], record: StreamRecord
    ) -> StreamFlow[StreamEvent, None]:
        turn = yield from self._begin(input, rag)
        request = self.graph.llm.request(turn.assembly.messages, **overrides)
        failure: BaseException | None = None
        try:
            yield from self.graph.llm.stream_flow(request, record)
        except BaseException as error:
            failure = error
            raise
        finally:
            outcome = Outcome(
                response=record.response,
                status=_status(failure),
                error=None if isinstance(failure, StreamClosed) else failure,
                duration_ms=record.duration_ms,
                ttft_ms=record.ttft_ms,
            )
            yield from self._save(turn, outcome)

    def _begin(self, input: MessageInput, rag: bool) -> Flow[Turn]:
        self.graph.assemble(input, None, rag=False)  # bad input is refused before any I/O
        history = yield from blocking(
            self._store.load_history, self.user_id, self.session_id, self.max_turns
        )
        assembly = yield from self.graph.assembly_flow(input, history, rag)
        return Turn(
            user_id=self.user_id,
            session_id=self.session_id,
            model=self.graph.model,
            provider=self.graph.provider,
            assembly=assembly,
            prompt_name=self.prompt_name,
            prompt_version=self.prompt_version,
        )

    def _save(self, turn: Turn, outcome: Outcome) -> Flow[None]:
        return blocking(save_turn, self._store, turn, outcome)


def save_turn(store: BaseStore, turn: Turn, outcome: Outcome) -> None:
    """Write a turn's rows in one transaction. A failure is logged, never raised: the answer that
    was paid for must reach the caller.
    """
    try:
        with store.transaction():
            for message in message_rows(turn, outcome):
                store.save_message(message)
            store.save_token_record(token_row(turn, outcome))
    except Exception:  # a store of the user's own may raise anything
        log.exception("turn of %r in session %r was not recorded", turn.user_id, turn.session_id)


def _status(error: BaseException | None) -> Status:
    if error is None:
        return "ok"
    if isinstance(error, StreamClosed):
        return "interrupted"
    return "error" if isinstance(error, Exception) else "cancelled"
