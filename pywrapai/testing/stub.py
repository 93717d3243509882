"""A provider that answers from a script."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from pywrapai.core.base import LLMResponse, Message, Request, StreamEnd, TokenUsage, ToolCall
from pywrapai.core.process import ProcessLock
from pywrapai.providers.base import BaseLLM

Reply: TypeAlias = str | LLMResponse | list[ToolCall] | BaseException
"""A text, a whole response, the tool calls of a turn, or an error to raise."""
Script: TypeAlias = Iterable[Reply] | Callable[[list[Message], list[dict[str, Any]] | None], Reply]


class StubProvider(BaseLLM):
    """Gives its replies one after another; `LLM(StubProvider(["Hello"]))` needs no network.

    Args:
        replies: the replies in order, or one function of (messages, tools) that makes each.
        model: what responses call the model.

    Usage is counted in words. A stream gives a text word by word. When the replies have run out,
    the next call is an AssertionError that says so.
    """

    name = "stub"
    default_model = "stub-model"

    def __init__(self, replies: Script = (), model: str | None = None) -> None:
        super().__init__(model)
        if isinstance(replies, str):
            raise TypeError(f"replies is a list: StubProvider([{replies!r}])")
        self._answer = replies if callable(replies) else None
        self._replies = [] if callable(replies) else list(replies)
        self._lock = ProcessLock()
        self.requests: list[Request] = []
        """What was asked, in order."""

    def chat(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        """The next reply."""
        reply = self._next(Request(self.model, tuple(messages), tools, tool_choice, settings))
        if isinstance(reply, BaseException):
            raise reply
        return self._response(reply, messages)

    async def achat(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        """The next reply."""
        return self.chat(messages, tools, tool_choice, **settings)

    def stream(self, messages: list[Message], **settings: Any) -> Iterator[str | StreamEnd]:
        """The next reply, word by word."""
        response = self.chat(messages, **settings)
        yield from re.findall(r"\s*\S+\s*$|\s*\S+", response.content) or [response.content]
        yield StreamEnd(response.usage, response.finish_reason or "stop", self.model)

    async def astream(
        self, messages: list[Message], **settings: Any
    ) -> AsyncIterator[str | StreamEnd]:
        """The next reply, word by word."""
        for piece in self.stream(messages, **settings):
            yield piece

    def _next(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            asked = len(self.requests)
            if self._answer is None:
                if not self._replies:
                    raise AssertionError(
                        f"StubProvider has no reply left for call {asked}: give it more, or a "
                        "function of (messages, tools)"
                    )
                return self._replies.pop(0)
        return self._answer(list(request.messages), request.tools)

    def _response(
        self, reply: str | LLMResponse | list[ToolCall], asked: list[Message]
    ) -> LLMResponse:
        if isinstance(reply, LLMResponse):
            return reply if reply.model else replace(reply, model=self.model)
        text, calls = (reply, None) if isinstance(reply, str) else ("", list(reply))
        words = sum(len(message.text.split()) for message in asked)
        return LLMResponse(
            text,
            calls,
            TokenUsage(words, len(text.split())),
            self.model,
            finish_reason="tool_calls" if calls else "stop",
        )
