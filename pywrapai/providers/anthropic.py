"""Anthropic's Messages wire, which llama.cpp and several gateways speak too.

Source: https://docs.anthropic.com/en/api/messages. What has no place of its own there:

- SYSTEM messages before all others are the `system` prompt. A later one keeps its place as text
  in a user turn, inside `<system>` tags: only some models take a system message there.
- `parallel_tool_calls=False`, as on OpenAI's wire, goes into `tool_choice`.
- A schema that the API cannot hold a model to is told in the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, ClassVar

from pywrapai.core import received
from pywrapai.core.base import (
    FinishReason,
    LLMResponse,
    Request,
    Role,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.sse import SSEDecoder
from pywrapai.core.structured import with_instruction
from pywrapai.core.tools import parse_arguments, tool_call, with_unique_ids
from pywrapai.exceptions import ContentFilterError, ProviderConnectionError
from pywrapai.providers.anthropic_messages import Block, messages_to_wire, system_text, to_keep
from pywrapai.providers.anthropic_schema import answer_format, tool_input
from pywrapai.providers.errors import from_event
from pywrapai.providers.stainless import StainlessProvider
from pywrapai.providers.wire import Decoder
from pywrapai.tokens.pricing import token_count

DEFAULT_MAX_TOKENS = 4096
"""Sent where the caller gives none, for the API wants one; every Claude model can write as much."""

_FINISH: dict[Any, FinishReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",  # not at its end: sent back as it is, the model goes on
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def to_wire(request: Request, *, stream: bool, official: bool = True) -> dict[str, Any]:
    """The request as the JSON body of POST /v1/messages.

    `official` says that the server is Anthropic's own: others may pass over `output_config`.
    Raises InvalidRequestError for what the API has no place for.
    """
    settings, messages = dict(request.settings), request.messages
    form = answer_format(request.schema) if request.schema else None
    if request.schema and not (form and official):
        messages = tuple(with_instruction(messages, request.schema))
    leading = list(takewhile(lambda message: message.role == Role.SYSTEM, messages))
    body: dict[str, Any] = {"model": request.model}
    if prompt := "\n\n".join(text for m in leading if (text := system_text(m)).strip()):
        body["system"] = prompt
    body["messages"] = messages_to_wire(messages[len(leading) :])
    tools = _tools(request, settings.pop("parallel_tool_calls", None))
    body |= {} if "tools" in settings else tools
    if stream:
        body["stream"] = True
    body |= settings
    if form:
        body["output_config"] = {"format": form, **(settings.get("output_config") or {})}
    if body.get("max_tokens") is None:
        body["max_tokens"] = DEFAULT_MAX_TOKENS + _thinking_budget(body)
    return body


def _thinking_budget(body: Mapping[str, Any]) -> int:
    """What thinking may take of max_tokens, which has to be more than that."""
    return int((body.get("thinking") or {}).get("budget_tokens") or 0)


def _tools(request: Request, parallel: bool | None) -> dict[str, Any]:
    """`tools` and `tool_choice`. Without tools, a history that used some still has to name them."""
    if request.tools:
        tools = [_tool_to_wire(tool) for tool in request.tools]
        choice = _tool_choice(request.tool_choice, parallel)
        return {"tools": tools, "tool_choice": choice} if choice else {"tools": tools}
    calls = [call.name for message in request.messages for call in message.tool_calls or ()]
    results = [m.tool_result.name for m in request.messages if m.tool_result]
    used = [name for name in dict.fromkeys([*calls, *results]) if name]
    if not used:
        return {}
    tools = [{"name": name, "input_schema": tool_input({})} for name in used]
    return {"tools": tools, "tool_choice": {"type": "none"}}


def _tool_to_wire(tool: dict[str, Any]) -> dict[str, Any]:
    if "parameters" not in tool and "type" in tool:  # one that Anthropic runs, such as web search
        return tool
    given = {key: value for key, value in tool.items() if key != "parameters" and value is not None}
    return {**given, "input_schema": tool_input(tool)}


def _tool_choice(choice: str | None, parallel: bool | None) -> dict[str, Any] | None:
    if choice is None and parallel is not False:
        return None
    kind = _CHOICES.get(choice or "auto")
    wire: dict[str, Any] = {"type": kind} if kind else {"type": "tool", "name": choice}
    if parallel is False and kind != "none":
        wire["disable_parallel_tool_use"] = True
    return wire


def from_wire(body: Any) -> LLMResponse:
    """The response in the body of a message.

    Raises the mapped error for an error object that came with status 200, and ContentFilterError
    for a refusal.
    """
    if not isinstance(body, dict) or "content" not in body:
        raise from_event(body)
    return _unless_refused(_response(body), body)


def _response(body: dict[str, Any]) -> LLMResponse:
    blocks = body["content"] or []
    calls = _calls(blocks)
    return LLMResponse(
        _joined(blocks, "text"),
        calls or None,
        usage_from_wire(body.get("usage")),
        received.name(body.get("model")) or "",
        finish_reason=_finish(body.get("stop_reason"), bool(calls)),
        request_id=received.name(body.get("id")),
        thinking=_joined(blocks, "thinking") or None,
        provider_data=None if calls else to_keep(blocks),
        raw=body,
    )


def _joined(blocks: list[Block], kind: str) -> str:
    return "".join(received.text(block.get(kind)) for block in blocks if block["type"] == kind)


def _calls(blocks: list[Block]) -> list[ToolCall]:
    """Each call with all that came before it, so that none is lost if another call is dropped."""
    return with_unique_ids(
        tool_call(
            block.get("id"),
            block.get("name"),
            block.get("input"),
            provider_data=to_keep(blocks[:at]),
        )
        for at, block in enumerate(blocks)
        if block["type"] == "tool_use"
    )


def _finish(reason: Any, calls: bool) -> FinishReason:
    return _FINISH.get(str(reason)) or ("tool_calls" if calls else "stop")


def _unless_refused(response: LLMResponse, body: Mapping[str, Any]) -> LLMResponse:
    empty = not response.content and not response.tool_calls
    if empty and response.finish_reason == "content_filter":
        details = body.get("stop_details") or {}
        why = details.get("explanation") or details.get("category") or "no reason given"
        raise ContentFilterError(
            f"the model declined to answer: {why}",
            request_id=response.request_id,
            response=response,
        )
    return response


def usage_from_wire(usage: Any) -> TokenUsage:
    """The `usage` object; anything in it may be missing or null.

    The wire's `input_tokens` leaves out what was read from the cache or written to it.
    """
    if not isinstance(usage, dict):
        return TokenUsage()
    read = token_count(usage.get("cache_read_input_tokens"))
    written = token_count(usage.get("cache_creation_input_tokens"))
    details = received.fields(usage.get("output_tokens_details"))
    return TokenUsage(
        token_count(usage.get("input_tokens")) + read + written,
        token_count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=token_count(details.get("thinking_tokens")),
    )


_KINDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
_IN_WORDS = ("text", "thinking")
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class _Block:
    """A content block as it grows: how it was announced, and what has come since."""

    __slots__ = ("kind", "pieces", "start")

    def __init__(self, start: Block) -> None:
        self.start = dict(start)
        self.kind = received.text(start["type"])
        self.pieces = [received.text(start.get(self.kind))] if self.kind in _IN_WORDS else []

    def whole(self) -> Block:
        """The block as it would stand in a message that is not streamed."""
        more = "".join(self.pieces)
        if self.kind in _IN_WORDS:
            return {**self.start, self.kind: more}
        if not more:  # a call without arguments, or a block that came in one piece
            return self.start
        # a broken call is told by its raw text; what goes back as it is must be an object
        called = self.kind == "tool_use"
        return {**self.start, "input": more if called else parse_arguments(more)[0]}


class StreamDecoder:
    """Reads a stream of message events into the body of a message."""

    def __init__(self) -> None:
        self._sse = SSEDecoder()
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._done = False
        self._whole: LLMResponse | None = None

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Text and thinking as they come; tool calls wait for `finish`."""
        for payload in self._sse.feed(chunk):
            yield from self._payload(payload)

    def finish(self) -> Iterator[StreamEvent]:
        """The whole tool calls. A stream that was cut off raises ProviderConnectionError."""
        for payload in self._sse.flush():
            yield from self._payload(payload)
        if not self._done:
            raise ProviderConnectionError("the stream ended without its end mark")
        body = self._body()
        self._whole = replace(_response(body), raw=None)
        _unless_refused(self._whole, body)
        yield from self._whole.tool_calls or ()

    @property
    def ended(self) -> bool:
        """Whether the end mark has come."""
        return self._done

    def response(self) -> LLMResponse:
        """What has arrived, as a response."""
        return self._whole or replace(
            _response(self._body()),
            tool_calls=None,
            finish_reason=None,
            provider_data=None,
            raw=None,
        )

    def _body(self) -> dict[str, Any]:
        blocks = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return {**self._message, "content": blocks, "usage": self._usage}

    def _payload(self, payload: bytes) -> Iterator[StreamEvent]:
        if self._done:  # some gateways add OpenAI's end mark to Anthropic's
            return
        event = received.parsed(payload)
        match event.get("type"):
            case "content_block_delta":
                yield from self._delta(int(event.get("index") or 0), event["delta"])
            case "content_block_start":
                yield from self._start(int(event.get("index") or 0), event["content_block"])
            case "message_start":
                self._message = dict(event.get("message") or {})
                self._count(self._message.get("usage"))
            case "message_delta":
                self._message.update(event.get("delta") or {})
                self._count(event.get("usage"))
            case "message_stop":
                self._done = True
            case _ if event.get("error"):
                raise from_event(event)

    def _start(self, index: int, start: Block) -> Iterator[StreamEvent]:
        block = self._blocks[index] = _Block(start)
        if piece := "".join(block.pieces):
            yield TextDelta(piece) if block.kind == "text" else ThinkingDelta(piece)

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        kind = delta["type"]
        if kind not in _KINDS:
            return
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block({"type": _KINDS[kind]})
        if kind == "signature_delta":
            block.start["signature"] = received.text(delta.get("signature"))
        elif piece := received.text(delta.get(_PIECES[kind])):
            block.pieces.append(piece)
            if kind == "text_delta":
                yield TextDelta(piece)
            elif kind == "thinking_delta":
                yield ThinkingDelta(piece)

    def _count(self, usage: dict[str, Any] | None) -> None:
        """The counts of every event are of the whole message so far, so the highest ones hold."""
        for key, value in (usage or {}).items():
            if isinstance(value, int):
                self._usage[key] = max(value, self._usage.get(key) or 0)
            elif value is not None:
                self._usage[key] = value


def api_root(base_url: str | None) -> str | None:
    """The base URL as the SDK wants it, which adds /v1 itself; None is Anthropic's own."""
    return None if base_url is None else base_url.strip().rstrip("/").removesuffix("/v1")


class AnthropicProvider(StainlessProvider):
    """Claude, and with `base_url` every server that speaks its wire."""

    name = "anthropic"
    sdk = "anthropic"
    clients = ("Anthropic", "AsyncAnthropic")
    default_model = "claude-haiku-4-5-20251001"
    models_path = "/v1/models"
    key_env: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        super().__init__(model, api_key=api_key, base_url=api_root(base_url), timeout=timeout)

    def path(self, request: Request, *, stream: bool) -> str:
        """One path for all."""
        return "/v1/messages"

    def to_wire(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """The JSON body."""
        return to_wire(request, stream=stream, official=self.base_url is None)

    def from_wire(self, body: Any) -> LLMResponse:
        """The response in a message."""
        return from_wire(body)

    def decoder(self, request: Request) -> Decoder:
        """What reads one stream of events."""
        return StreamDecoder()
