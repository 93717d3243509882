"""What comes back over OpenAI's chat completions wire: whole replies and streams.

What compatible servers send beside the documented form (null choices, usage in odd places, no
finish reason, reasoning in a field or in the text) is read as what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pywrapai.core import received
from pywrapai.core.base import (
    FinishReason,
    LLMResponse,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.sse import SSEDecoder
from pywrapai.core.thinking import Delta, Splitter, split_thinking
from pywrapai.core.tools import tool_call, with_unique_ids
from pywrapai.exceptions import (
    ContentFilterError,
    ProviderConnectionError,
    ServerError,
)
from pywrapai.providers.errors import from_event, from_status
from pywrapai.tokens.pricing import token_count

_FINISH: dict[Any, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where servers keep the thinking apart from the text."""


def from_wire(
    body: Any, *, splitter: Splitter | None = None, provider: str = "openai"
) -> LLMResponse:
    """The response in the body of a chat completion; `splitter` finds thinking in its text.

    Raises the mapped error for an error object that came with status 200, and ContentFilterError
    for a refusal.
    """
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise from_status(200, body)
    if not body["choices"]:
        raise ServerError("the reply holds no choices")
    choice = body["choices"][0]
    message = choice.get("message") or {}
    thinking, text = _thinking(message), _text(message.get("content"))
    calls = _calls_from_wire(message.get("tool_calls") or [])
    calls = _with_reasoning(calls, _reasoning(message), provider)
    if splitter is not None:
        thought, text = split_thinking(text, splitter)
        thinking += thought
    response = LLMResponse(
        text,
        calls or None,
        usage_from_wire(body.get("usage")),
        received.name(body.get("model")) or "",
        finish_reason=_finish(choice.get("finish_reason"), bool(calls)),
        request_id=received.name(body.get("id")),
        thinking=thinking or None,
        raw=body,
    )
    return _unless_refused(response, message.get("refusal"))


def _unless_refused(response: LLMResponse, refusal: str | None) -> LLMResponse:
    empty = not response.content and not response.tool_calls
    if empty and (refusal or response.finish_reason == "content_filter"):
        raise ContentFilterError(
            f"the model declined to answer: {refusal or 'no reason given'}",
            request_id=response.request_id,
            response=response,
        )
    return response


def _text(content: Any, kind: str = "text") -> str:
    if isinstance(content, list):
        return "".join(_text(part.get(kind)) for part in content if isinstance(part, dict))
    return received.text(content)


def _reasoning(message: dict[str, Any]) -> dict[str, str]:
    return {
        key: text for key in REASONING_FIELDS if isinstance(text := message.get(key), str) and text
    }


def _thinking(message: dict[str, Any]) -> str:
    """The thinking in a field, or in parts of the content."""
    content = message.get("content")
    parts = _text(content, "thinking") if isinstance(content, list) else ""
    return next(iter(_reasoning(message).values()), "") + parts


def _with_reasoning(
    calls: list[ToolCall], reasoning: dict[str, str], provider: str
) -> list[ToolCall]:
    """The calls, the first one with the reasoning that led to them, by the server's own key.

    DeepSeek refuses the tools' results without it, and other models answer better with it.
    """
    if not (calls and reasoning):
        return calls
    return [replace(calls[0], provider_data={provider: reasoning}), *calls[1:]]


def _finish(reason: Any, calls: bool) -> FinishReason:
    if reason is None or reason == "stop":
        return "tool_calls" if calls else "stop"
    return _FINISH.get(str(reason), "stop")


def _calls_from_wire(calls: list[dict[str, Any]]) -> list[ToolCall]:
    functions = [(call.get("id"), call.get("function") or {}) for call in calls]
    return with_unique_ids(tool_call(i, f.get("name"), f.get("arguments")) for i, f in functions)


def usage_from_wire(usage: Any) -> TokenUsage:
    """The `usage` object; anything in it may be missing or null. Cached input is part of input."""
    if not isinstance(usage, dict):
        return TokenUsage()
    prompt = received.fields(usage.get("prompt_tokens_details"))
    completion = received.fields(usage.get("completion_tokens_details"))
    return TokenUsage(
        token_count(usage.get("prompt_tokens")),
        token_count(usage.get("completion_tokens")),
        cache_read_tokens=token_count(prompt.get("cached_tokens")),
        reasoning_tokens=token_count(completion.get("reasoning_tokens")),
    )


class StreamDecoder:
    """Reads a stream of chat completion chunks; `splitter` finds thinking in its text."""

    def __init__(self, splitter: Splitter | None = None, provider: str = "openai") -> None:
        self._sse = SSEDecoder()
        self._splitter = splitter
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: TokenUsage | None = None
        self._choice: Any = None
        self._finish: Any = None
        self._done = False
        self._whole: list[ToolCall] | None = None
        self._model = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Text and thinking as they come; tool calls wait for `finish`."""
        for payload in self._sse.feed(chunk):
            yield from self._payload(payload)

    def finish(self) -> Iterator[StreamEvent]:
        """The whole tool calls. A stream that was cut off raises ProviderConnectionError."""
        for payload in self._sse.flush():
            yield from self._payload(payload)
        if not self._done and self._finish is None:
            raise ProviderConnectionError("the stream ended without its end mark")
        if self._splitter is not None:
            yield from self._kept(self._splitter.finish())
        parts = [self._calls[index] for index in sorted(self._calls)]
        calls = with_unique_ids(
            tool_call(part["id"], part["name"], _joined(part["arguments"])) for part in parts
        )
        reasoning = {key: "".join(pieces) for key, pieces in self._reasoning.items()}
        self._whole = _with_reasoning(calls, reasoning, self._provider)
        _unless_refused(self.response(), "".join(self._refusal) or None)
        yield from self._whole

    @property
    def ended(self) -> bool:
        """Whether the end mark has come."""
        return self._done

    def response(self) -> LLMResponse:
        """What has arrived, as a response."""
        whole = self._whole is not None
        return LLMResponse(
            "".join(self._text),
            self._whole or None,
            self._usage or TokenUsage(),
            self._model,
            finish_reason=_finish(self._finish, bool(self._whole)) if whole else None,
            request_id=self._id,
            thinking="".join(self._thinking) or None,
        )

    def _payload(self, payload: bytes) -> Iterator[StreamEvent]:
        if payload.startswith(b"[DONE]"):
            self._done = True
            return
        chunk = received.parsed(payload)
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise from_event(chunk)
        if usage := chunk.get("usage"):
            self._usage = usage_from_wire(usage)
        self._model = self._model or received.name(chunk.get("model")) or ""
        self._id = self._id or received.name(chunk.get("id"))
        for choice in chunk.get("choices") or ():
            index = choice.get("index")
            self._choice = index if self._choice is None else self._choice
            if index is not None and index != self._choice:
                continue  # of several, the first one is the answer, as it is in a whole reply
            self._finish = choice.get("finish_reason") or self._finish
            if delta := choice.get("delta"):
                yield from self._delta(delta)

    def _delta(self, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        if thinking := _thinking(delta):
            for key, piece in _reasoning(delta).items():
                self._reasoning.setdefault(key, []).append(piece)
            yield from self._kept((ThinkingDelta(thinking),))
        if text := _text(delta.get("content")):
            found = (TextDelta(text),) if self._splitter is None else self._splitter.feed(text)
            yield from self._kept(found)
        if refusal := received.text(delta.get("refusal")):
            self._refusal.append(refusal)
        for position, part in enumerate(delta.get("tool_calls") or ()):
            self._call_part(part, position)

    def _kept(self, found: Iterable[Delta]) -> Iterator[StreamEvent]:
        for delta in found:
            heard = self._text if isinstance(delta, TextDelta) else self._thinking
            heard.append(delta.text)
            yield delta

    def _call_part(self, part: dict[str, Any], position: int) -> None:
        index = part.get("index")
        call = self._calls.setdefault(
            position if index is None else index, {"id": None, "name": None, "arguments": []}
        )
        function = part.get("function") or {}
        call["id"] = call["id"] or part.get("id")
        call["name"] = call["name"] or function.get("name")
        if piece := function.get("arguments"):
            call["arguments"].append(piece)


def _joined(pieces: list[Any]) -> Any:
    """Arguments that came in pieces of text; in one piece some servers send them as an object."""
    return pieces[0] if len(pieces) == 1 else "".join(pieces)
