"""Between our values and the JSON of Ollama's POST /api/chat. Pure functions.

Source: https://docs.ollama.com/api/chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pywrapai.core import received
from pywrapai.core.base import (
    FinishReason,
    LLMResponse,
    Message,
    Request,
    StreamEvent,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.image import Image
from pywrapai.core.messages import is_thinking_alone
from pywrapai.core.schema import parameters_of
from pywrapai.core.sse import Lines
from pywrapai.core.thinking import Delta, ThinkTags, split_thinking
from pywrapai.core.tools import tool_call, with_unique_ids
from pywrapai.exceptions import InvalidRequestError, ProviderConnectionError
from pywrapai.providers.errors import from_status
from pywrapai.tokens.pricing import token_count

_NAME = "ollama"
# Everything else is an option of the model.
_TOP_LEVEL = frozenset(
    {"format", "keep_alive", "think", "truncate", "shift", "logprobs", "top_logprobs"}
)


def to_wire(request: Request, *, stream: bool) -> dict[str, Any]:
    """The request as the JSON body of POST /api/chat."""
    names = {call.id: call.name for m in request.messages for call in m.tool_calls or ()}
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [
            _message_to_wire(m, names) for m in request.messages if not is_thinking_alone(m)
        ],
        "stream": stream,
    }
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool_to_wire(tool) for tool in request.tools]
    if request.schema is not None:
        body["format"] = request.schema
    body.update({k: v for k, v in request.settings.items() if k in _TOP_LEVEL})
    if options := _options(request.settings):
        body["options"] = options
    return body


def _options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The model's options: `max_tokens` by Ollama's name, and all that it does not know apart."""
    left_out = (*_TOP_LEVEL, "options", "max_tokens", "parallel_tool_calls")
    options = {k: v for k, v in settings.items() if k not in left_out}
    options.update(settings.get("options") or {})
    if "max_tokens" in settings:
        options.setdefault("num_predict", settings["max_tokens"])
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    return options


def _message_to_wire(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    if message.tool_result is not None:
        result = message.tool_result
        name = result.name or names.get(result.tool_call_id, "")
        return {"role": "tool", "tool_name": name, "content": result.content or ""}
    wire: dict[str, Any] = {"role": str(message.role), "content": message.text}
    if message.images:
        wire["images"] = [_image_to_wire(image) for image in message.images]
    if message.tool_calls:
        kept = (message.tool_calls[0].provider_data or {}).get(_NAME) or {}
        if "thinking" in kept:
            wire["thinking"] = kept["thinking"]
        wire["tool_calls"] = [_call_to_wire(call) for call in message.tool_calls]
    return wire


def _image_to_wire(image: Image) -> str:
    if image.data is None:
        raise InvalidRequestError(
            "Ollama fetches no images: send the bytes of "
            f"{image.url} with Image.from_bytes or Image.from_path"
        )
    return image.base64


def _call_to_wire(call: ToolCall) -> dict[str, Any]:
    broken = call.raw_arguments
    arguments = call.arguments if broken is None else {"INVALID_JSON": broken}
    return {"function": {"name": call.name, "arguments": arguments}}


def _tool_to_wire(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {**tool, "parameters": parameters_of(tool)}}


def from_wire(body: Any) -> LLMResponse:
    """The response in a whole reply. Raises the mapped error for an error object."""
    message = body.get("message") if isinstance(body, dict) else None
    if not isinstance(message, dict) or body.get("error"):
        raise from_status(200, body)
    thinking = received.text(message.get("thinking"))
    thought, text = split_thinking(received.text(message.get("content")), ThinkTags())
    calls = _calls_from_wire(message.get("tool_calls") or (), thinking)
    return LLMResponse(
        text,
        calls or None,
        _usage(body),
        received.name(body.get("model")) or "",
        finish_reason=_finish(body.get("done_reason"), bool(calls)),
        thinking=(thinking + thought) or None,
        raw=body,
    )


def _calls_from_wire(calls: Iterable[dict[str, Any]], thinking: str) -> list[ToolCall]:
    """The calls with ids, of which Ollama sends none; the first one keeps the thinking for it."""
    kept = {_NAME: {"thinking": thinking}} if thinking else None
    functions = [(call.get("id"), call.get("function") or {}) for call in calls]
    return with_unique_ids(
        tool_call(i, f.get("name"), f.get("arguments"), provider_data=None if at else kept)
        for at, (i, f) in enumerate(functions)
    )


def _usage(body: Mapping[str, Any]) -> TokenUsage:
    """Older servers leave the prompt's count out when the prompt was cached."""
    read, written = body.get("prompt_eval_count"), body.get("eval_count")
    return TokenUsage(token_count(read), token_count(written))


def _finish(reason: Any, calls: bool) -> FinishReason:
    if reason == "length":
        return "length"
    return "tool_calls" if calls else "stop"  # "stop", and "load" or "unload" for no messages


class StreamDecoder:
    """Reads a stream of JSON lines. `"done": true` is its end mark."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._tags = ThinkTags()
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._apart: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {}
        self._whole: list[ToolCall] | None = None
        self._model = ""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Text and thinking as they come; tool calls wait for `finish`."""
        for line in self._lines.feed(chunk):
            if line.strip():
                yield from self._line(line)

    def finish(self) -> Iterator[StreamEvent]:
        """The whole tool calls. A stream that was cut off raises ProviderConnectionError."""
        yield from self.feed(b"\n")
        if not self.ended:
            raise ProviderConnectionError("the stream ended without its end mark")
        yield from self._kept(self._tags.finish())
        self._whole = _calls_from_wire(self._calls, "".join(self._apart))
        yield from self._whole

    @property
    def ended(self) -> bool:
        """Whether the end mark has come."""
        return bool(self._last)

    def response(self) -> LLMResponse:
        """What has arrived, as a response."""
        whole, reason = self._whole is not None, self._last.get("done_reason")
        return LLMResponse(
            "".join(self._text),
            self._whole or None,
            _usage(self._last),
            self._model,
            finish_reason=_finish(reason, bool(self._whole)) if whole else None,
            thinking="".join(self._thinking) or None,
        )

    def _line(self, line: bytes) -> Iterator[StreamEvent]:
        part = received.parsed(line)
        if not isinstance(part, dict) or part.get("error"):
            raise from_status(200, part)
        self._model = self._model or received.name(part.get("model")) or ""
        message = part.get("message") or {}
        if thinking := received.text(message.get("thinking")):
            self._apart.append(thinking)
            yield from self._kept((ThinkingDelta(thinking),))
        if text := received.text(message.get("content")):
            yield from self._kept(self._tags.feed(text))
        self._calls += message.get("tool_calls") or ()
        if part.get("done"):
            self._last = part

    def _kept(self, found: Iterable[Delta]) -> Iterator[StreamEvent]:
        for delta in found:
            heard = self._thinking if isinstance(delta, ThinkingDelta) else self._text
            heard.append(delta.text)
            yield delta
