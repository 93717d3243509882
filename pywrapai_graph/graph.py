"""GraphLLM: the whole conversation in the right order, in front of every call."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, Self

from pywrapai.cache import BaseCache
from pywrapai.core.base import LLMResponse, Message
from pywrapai.core.messages import MessageInput
from pywrapai.core.stream import AsyncEventStream, AsyncTextStream, EventStream, TextStream
from pywrapai.llm import LLM
from pywrapai.tokens import TokenTracker
from pywrapai_graph.assembly import Assembly, assemble
from pywrapai_graph.prompts import PromptRegistry


class GraphLLM:
    """An LLM with a system prompt and a history in front of each message.

    Keeps no conversation of its own: history comes with the call, and goes back with the caller.
    May be shared by threads and by tasks.

    Args:
        llm: the model to call.
        enable_system_prompt_versioning: load the system prompt from `prompt_file`.
        prompt_file: a file name inside `prompts_dir`; needed when versioning is on.
        prompts_dir: where prompt files are; best given as an absolute path.

    Raises:
        ValueError: versioning without a `prompt_file`.
        FileNotFoundError: no such prompt file.
    """

    def __init__(
        self,
        llm: LLM,
        enable_system_prompt_versioning: bool = False,
        prompt_file: str | None = None,
        prompts_dir: str | os.PathLike[str] = "system_prompts_registry",
    ) -> None:
        if not isinstance(llm, LLM):
            raise TypeError(f"GraphLLM takes an LLM, not {llm!r:.80}")
        self.llm = llm
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
        self, input: MessageInput, history: Sequence[Message] | None = None, rag: bool = True
    ) -> Assembly:
        """What a call would send. Changes nothing, and neither history nor input.

        Raises ValueError for an empty user message.
        """
        return assemble(input, history, self.system_prompt)

    def chat(
        self,
        input: MessageInput,
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
        input: MessageInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> LLMResponse:
        """`chat`, awaited."""
        messages = self.assemble(input, history, rag).messages
        return await self.llm.achat(messages, tools, tool_choice, **overrides)

    def stream(
        self,
        input: MessageInput,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> TextStream:
        """Assemble and stream the answer's text; ValueError for `tools=`, as in `LLM.stream`."""
        return self.llm.stream(self.assemble(input, history, rag).messages, **overrides)

    def astream(
        self,
        input: MessageInput,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> AsyncTextStream:
        """`stream`, for `async for`."""
        return self.llm.astream(self.assemble(input, history, rag).messages, **overrides)

    def stream_events(
        self,
        input: MessageInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> EventStream:
        """Assemble and stream everything in the answer, as `LLM.stream_events` does."""
        messages = self.assemble(input, history, rag).messages
        return self.llm.stream_events(messages, tools, tool_choice, **overrides)

    def astream_events(
        self,
        input: MessageInput,
        history: Sequence[Message] | None = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> AsyncEventStream:
        """`stream_events`, for `async for`."""
        messages = self.assemble(input, history, rag).messages
        return self.llm.astream_events(messages, tools, tool_choice, **overrides)

    def chat_structured(
        self,
        input: MessageInput,
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
        input: MessageInput,
        schema: Any,
        history: Sequence[Message] | None = None,
        rag: bool = True,
        **overrides: Any,
    ) -> Any:
        """`chat_structured`, awaited."""
        messages = self.assemble(input, history, rag).messages
        return await self.llm.achat_structured(messages, schema, **overrides)

    def __repr__(self) -> str:
        return f"GraphLLM({self.llm!r})"
