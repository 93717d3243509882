"""What comes back over Gemini's wire: whole replies, and streams of pieces in the same form.

A thought signature must go back on the very part that it came with. It rides in `provider_data`:
on the tool call that it signs, or on the response together with the place of the signed text.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from pywrapai.core.tools import tool_call, with_unique_ids
from pywrapai.exceptions import ContentFilterError, ProviderConnectionError, ServerError
from pywrapai.providers.errors import from_event
from pywrapai.tokens.pricing import token_count

PROVIDER = "gemini"

_FINISH: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "ESCALATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}
_KEYS = {"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"}
"""At least one of them is in every reply."""
_BROKEN = ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL")
"""The model wrote what cannot be used; asked again, it mostly writes something else."""


def from_wire(body: Any) -> LLMResponse:
    """The response in the body of a reply to generateContent.

    Raises ContentFilterError for a prompt or an answer that was blocked, and ServerError for an
    answer that the model spoiled.
    """
    answer = _Answer()
    for _ in answer.add(body):
        pass
    if answer.finish is None and not body.get("candidates"):
        raise ServerError("the reply holds no candidates")
    answer.finish = answer.finish or "STOP"
    for _ in answer.complete():
        pass
    return replace(answer.response(), raw=body)


def usage_from_wire(usage: Any) -> TokenUsage:
    """The `usageMetadata`; anything in it may be missing or null.

    The API counts thoughts beside the answer and results of its own tools beside the prompt, but
    cached tokens in the prompt.
    """

    def count(name: str) -> int:
        return token_count((usage or {}).get(name))

    thoughts = count("thoughtsTokenCount")
    return TokenUsage(
        count("promptTokenCount") + count("toolUsePromptTokenCount"),
        count("candidatesTokenCount") + thoughts,
        cache_read_tokens=count("cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


class StreamDecoder:
    """Reads a stream of streamGenerateContent; its end mark is a finish reason."""

    def __init__(self) -> None:
        self._sse = SSEDecoder()
        self._answer = _Answer()

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Text and thinking as they come; tool calls wait for `finish`."""
        for payload in self._sse.feed(chunk):
            yield from self._answer.add(received.parsed(payload))

    def finish(self) -> Iterator[StreamEvent]:
        """The whole tool calls. A stream that was cut off raises ProviderConnectionError."""
        for payload in self._sse.flush():
            yield from self._answer.add(received.parsed(payload))
        if not self.ended:
            raise ProviderConnectionError("the stream ended without a finish reason")
        yield from self._answer.complete()

    @property
    def ended(self) -> bool:
        """Whether the end mark has come."""
        return self._answer.finish is not None

    def response(self) -> LLMResponse:
        """What has arrived, as a response."""
        return self._answer.response()


class _Answer:
    """What replies add up to, be it one or a stream of them."""

    def __init__(self) -> None:
        self.finish: str | None = None
        """The API's reason, also the one for which it blocked the prompt."""
        self._why: str | None = None
        self._text: list[str] = []
        self._length = 0
        self._thinking: list[str] = []
        self._signatures: list[dict[str, Any]] = []
        self._calls: list[ToolCall] = []
        self._whole: list[ToolCall] | None = None
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._id: str | None = None

    def add(self, body: Any) -> Iterator[StreamEvent]:
        """The text and the thinking in one more reply. Raises the error that it may carry."""
        if not isinstance(body, dict) or body.get("error") or not body.keys() & _KEYS:
            raise from_event(body)
        usage = received.fields(body.get("usageMetadata"))
        self._usage.update((key, value) for key, value in usage.items() if value is not None)
        self._model = received.name(body.get("modelVersion")) or self._model
        self._id = received.name(body.get("responseId")) or self._id
        for candidate in body.get("candidates") or ():
            if candidate.get("index"):  # of several, the first one is the answer
                continue
            self.finish = received.name(candidate.get("finishReason")) or self.finish
            self._why = received.name(candidate.get("finishMessage")) or self._why
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._part(part)
        if blocked := (body.get("promptFeedback") or {}).get("blockReason"):
            self.finish, self._why = "SAFETY", f"the prompt was blocked ({blocked})"

    def complete(self) -> Iterator[StreamEvent]:
        """The tool calls, once the answer is known to be whole and usable."""
        self._whole = with_unique_ids(self._calls)
        response = self.response()
        said = response.content or response.tool_calls
        if self.finish in _BROKEN or (not said and response.finish_reason == "error"):
            self._whole = []
            raise ServerError(
                f"the model's answer came to nothing: {self._reason()}; ask again",
                request_id=self._id,
                response=self.response(),
            )
        if not said and response.finish_reason == "content_filter":
            raise ContentFilterError(
                f"the model declined to answer: {self._reason()}",
                request_id=self._id,
                response=response,
            )
        yield from self._whole

    def response(self) -> LLMResponse:
        """What has arrived, as a response."""
        signatures = {PROVIDER: {"signatures": self._signatures}} if self._signatures else None
        return LLMResponse(
            "".join(self._text),
            self._whole or None,
            usage_from_wire(self._usage),
            self._model,
            finish_reason=None if self._whole is None else self._finish_reason(),
            request_id=self._id,
            thinking="".join(self._thinking) or None,
            provider_data=signatures,
        )

    def _finish_reason(self) -> FinishReason:
        reason = _FINISH.get(self.finish or "", "error")
        return "tool_calls" if reason == "stop" and self._whole else reason

    def _reason(self) -> str:
        return f"{self.finish}: {self._why}" if self._why else str(self.finish)

    def _part(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        signature = part.get("thoughtSignature")
        if call := part.get("functionCall"):
            kept = {PROVIDER: {"thoughtSignature": signature}} if signature else None
            self._calls.append(
                tool_call(call.get("id"), call.get("name"), call.get("args"), provider_data=kept)
            )
            return
        text, thought = received.text(part.get("text")), bool(part.get("thought"))
        if signature:
            start = self._length
            place = {"thought": text} if thought else {"start": start, "end": start + len(text)}
            self._signatures.append({**place, "thoughtSignature": signature})
        if text and thought:
            self._thinking.append(text)
            yield ThinkingDelta(text)
        elif text:
            self._text.append(text)
            self._length += len(text)
            yield TextDelta(text)
