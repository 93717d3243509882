"""GraphLLM: the whole conversation in the right order, in front of every call."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from pywrapai.cache import BaseCache
from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, Message, Request, StreamEvent
from pywrapai.core.checks import at_least_1
from pywrapai.core.flow import Flow, StreamFlow
from pywrapai.core.stream import (
    AsyncEventStream,
    AsyncTextStream,
    EventStream,
    StreamRecord,
    TextStream,
)
from pywrapai.llm import LLM, refuse_tools
from pywrapai.tokens import TokenTracker
from pywrapai_graph.assembly import Assembly, GraphInput, assemble
from pywrapai_graph.prompts import PromptRegistry

if TYPE_CHECKING:
    from pywrapai_graph.rag.retriever import BaseRetriever


class GraphLLM:
    """An LLM with a system prompt, a history and retrieved context around each message.

    Keeps no conversation of its own: history comes with the call, and goes back with the caller.
    Whatever takes an input also takes what `assemble` gave, and sends it as it is. May be shared by
    threads and by tasks.

    Args:
        llm: the model to call.
        enable_system_prompt_versioning: load the system prompt from `prompt_file`.
        prompt_file: a file name inside `prompts_dir`; needed when versioning is on.
        prompts_dir: where prompt files are; best given as an absolute path.
        retriever: what finds context for each message; none by default. What it finds stands in
            the message that goes out, never in the caller's history.
        rag_k: how many chunks it is asked for.

    Raises:
        ValueError: versioning without a `prompt_file`, or `rag_k` under 1.
        FileNotFoundError: no such prompt file.
    """

    def __init__(
        self,
        llm: LLM,
        enable_system_prompt_versioning: bool = False,
        prompt_file: str | None = None,
        prompts_dir: str | os.PathLike[str] = "system_prompts_registry",
        retriever: BaseRetriever | None = None,
        rag_k: int = 4,
    ) -> None:
        if not isinstance(llm, LLM):
            raise TypeError(f"GraphLLM takes an LLM, not {llm!r:.80}")
        if retriever is not None and not callable(getattr(retriever, "retrieve_flow", None)):
            raise TypeError(f"retriever is a BaseRetriever or None, not {retriever!r:.80}")
        self.llm = llm
        self.retriever = retriever
        self.rag_k = at_least_1("rag_k", rag_k)
        self.system_prompt: str | None = None
        if enable_system_prompt_versioning:
            if not prompt_file:
                raise ValueError(
                    "enable_system_prompt_versioning=True needs prompt_file=, the name of a file "
                    f"in {os.fspath(prompts_dir)!r}"
                )
            self.system_prompt = PromptRegistry(prompts_dir).load(prompt_file) or None

    @property
    def tokens(self) -> TokenTracker:
        """The LLM's tracker."""
        return self.llm.tokens

    @property
    def cache(self) -> BaseCache | None:
        """The LLM's cache, if it has one."""
        return self.llm.cache

    @property
    def model(self) -> str:
        """The LLM's model."""
        return self.llm.model

    @property
    def provider(self) -> str:
        """The LLM's provider."""
        return self.llm.provider

    def with_system_prompt(self, text: str) -> Self:
        """A copy with another system prompt, none if it is empty; the LLM is shared."""
        twin = copy.copy(self)
        twin.system_prompt = text or None
        return twin

    def assemble(
        self, input: GraphInput, history: Sequence[Message] | None = None, rag: bool = True
    ) -> Assembly:
        """What a call would send; asks the retriever, if there is one and `rag` is true.

        Changes nothing, and neither history nor input. Raises ValueError for an empty user
        message, and what the retriever raises.
        """
        return flow.run(self.assembly_flow(input, history, rag))

    async def aassemble(
        self, input: GraphInput, history: Sequence[Message] | None = None, rag: bool = True
    ) -> Assembly:
        """`assemble`, awaited."""
        return await flow.arun(self.assembly_flow(input, history, rag))

    def assembly_flow(
        self, input: GraphInput, history: Sequence[Message] | None, rag: bool
    ) -> Flow[Assembly]:
        """`assemble` as a flow, for a layer above that adds to it."""
        plain = assemble(input, history, self.system_prompt)
        return self._with_context(plain, rag and plain is not input)

    def _with_context(self, plain: Assembly, rag: bool) -> Flow[Assembly]:
        if self.retriever is None or not rag or not plain.asks:
            return plain
        chunks = yield from self.retriever.retrieve_flow(plain.query, self.rag_k)
        return plain.with_context(chunks[: self.rag_k])

    def chat(
        self,
        input: GraphInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> LLMResponse:
        """Assemble and ask; `tools`, `tool_choice` and `overrides` go to `LLM.chat`."""
        messages = self.assemble(input, history, rag).messages
        return self.llm.chat(messages, tools, tool_choice, **overrides)

    async def achat(
        self,
        input: GraphInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> LLMResponse:
        """`chat`, awaited."""
        messages = (await self.aassemble(input, history, rag)).messages
        return await self.llm.achat(messages, tools, tool_choice, **overrides)

    def stream(
        self,
        input: GraphInput,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> TextStream:
        """Assemble and stream the answer's text; ValueError for `tools=`, as in `LLM.stream`.

        What is wrong with the input is raised here; the retriever is asked when reading begins.
        """
        refuse_tools(overrides)
        events, record = self._events(input, history, rag, overrides)
        return TextStream(flow.stream(events), record)

    def astream(
        self,
        input: GraphInput,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> AsyncTextStream:
        """`stream`, for `async for`."""
        refuse_tools(overrides)
        events, record = self._events(input, history, rag, overrides)
        return AsyncTextStream(flow.astream(events), record)

    def stream_events(
        self,
        input: GraphInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> EventStream:
        """Assemble and stream everything in the answer, as `LLM.stream_events` does."""
        overrides.update(tools=tools, tool_choice=tool_choice)
        events, record = self._events(input, history, rag, overrides)
        return EventStream(flow.stream(events), record)

    def astream_events(
        self,
        input: GraphInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> AsyncEventStream:
        """`stream_events`, for `async for`."""
        overrides.update(tools=tools, tool_choice=tool_choice)
        events, record = self._events(input, history, rag, overrides)
        return AsyncEventStream(flow.astream(events), record)

    def _events(
        self,
        input: GraphInput,
        history: Sequence[Message] | None,
        rag: bool,
        overrides: dict[str, Any],
    ) -> tuple[StreamFlow[StreamEvent, None], StreamRecord]:
        """A stream that was checked and has not begun, and what it will leave behind."""
        plain = assemble(input, history, self.system_prompt)
        request, record = self.llm.request(plain.messages, **overrides), StreamRecord()
        rag = rag and plain is not input
        return self._events_flow(plain, request, rag, overrides, record), record

    def _events_flow(
        self,
        plain: Assembly,
        request: Request,
        rag: bool,
        overrides: dict[str, Any],
        record: StreamRecord,
    ) -> StreamFlow[StreamEvent, None]:
        assembly = yield from self._with_context(plain, rag)
        if assembly is not plain:
            request = self.llm.request(assembly.messages, **overrides)
        yield from self.llm.events_flow(request, record)

    def chat_structured(
        self,
        input: GraphInput,
        schema: Any,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> Any:
        """Assemble and ask for an answer that fits a schema, as `LLM.chat_structured` does."""
        messages = self.assemble(input, history, rag).messages
        return self.llm.chat_structured(messages, schema, **overrides)

    async def achat_structured(
        self,
        input: GraphInput,
        schema: Any,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> Any:
        """`chat_structured`, awaited."""
        messages = (await self.aassemble(input, history, rag)).messages
        return await self.llm.achat_structured(messages, schema, **overrides)

    def __repr__(self) -> str:
        return f"GraphLLM({self.llm!r})"
