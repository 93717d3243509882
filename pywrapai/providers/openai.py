"""OpenAI's chat completions wire, which every OpenAI-compatible server speaks too.

Source: https://platform.openai.com/docs/api-reference/chat. What compatible servers send beside
it (null choices, usage in odd places, no finish reason) is read as what they mean.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pywrapai.core.base import (
    FinishReason,
    LLMResponse,
    Message,
    Request,
    Role,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.image import Image
from pywrapai.core.schema import parameters_of
from pywrapai.core.sse import SSEDecoder
from pywrapai.core.text import well_formed
from pywrapai.core.thinking import Delta, Splitter, ThinkTags, split
from pywrapai.core.tools import tool_call, with_unique_ids
from pywrapai.exceptions import (
    ContentFilterError,
    ProviderConnectionError,
    ProviderError,
    ServerError,
)
from pywrapai.providers.errors import from_status
from pywrapai.providers.stainless import StainlessProvider
from pywrapai.providers.wire import Decoder

_FINISH: dict[Any, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
# These models take only the newer name; compatible servers often know only the older one.
_COMPLETION_TOKENS = re.compile(r"(.*/)?(o\d|gpt-[5-9])")


def to_wire(
    request: Request, *, stream: bool, official: bool = False, provider: str = "openai"
) -> dict[str, Any]:
    """The request as the JSON body of POST /chat/completions.

    `official` says that the server is OpenAI's own, where `max_tokens` is deprecated. Without a
    model the key is left out: servers of a single model take that one. The setting `system_role`
    is the role under which SYSTEM messages are sent, "system" or "developer".
    """
    settings = dict(request.settings)
    system = settings.pop("system_role", "system")
    body: dict[str, Any] = {"model": request.model} if request.model else {}
    body["messages"] = [
        _message_to_wire(message, system, provider)
        for message in request.messages
        if _says_something(message)
    ]
    if request.tools:
        body["tools"] = [_tool_to_wire(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _tool_choice(request.tool_choice)
    else:
        settings.pop("parallel_tool_calls", None)
    if request.schema is not None:
        answer = {"name": "answer", "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": answer}
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    body.update(settings)
    if "max_tokens" in body and (official or _COMPLETION_TOKENS.match(request.model)):
        body["max_completion_tokens"] = body.pop("max_tokens")
    return body


def _says_something(message: Message) -> bool:
    """Not so an answer that was thinking alone, which no server takes back as a message."""
    return message.role != Role.ASSISTANT or bool(message.content or message.tool_calls)


def _message_to_wire(message: Message, system: str, provider: str) -> dict[str, Any]:
    if message.tool_result is not None:
        result = message.tool_result
        said = well_formed(result.content or "")
        return {"role": "tool", "tool_call_id": result.tool_call_id, "content": said}
    role = system if message.role == Role.SYSTEM else str(message.role)
    wire: dict[str, Any] = {"role": role, "content": _content_to_wire(message)}
    if message.tool_calls:
        wire["tool_calls"] = [_call_to_wire(call) for call in message.tool_calls]
        wire["content"] = wire["content"] or None
        for call in message.tool_calls:
            wire.update((call.provider_data or {}).get(provider) or {})
    return wire


def _content_to_wire(message: Message) -> str | list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return well_formed(content)
    return [_part_to_wire(part) for part in content if part] or ""


def _part_to_wire(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": well_formed(part)}
    return {"type": "image_url", "image_url": {"url": part.as_url}}


def _tool_to_wire(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {**tool, "parameters": parameters_of(tool)}}


def _call_to_wire(call: ToolCall) -> dict[str, Any]:
    arguments = call.raw_arguments
    if arguments is None:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": well_formed(arguments)},
    }


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("auto", "required", "none"):
        return choice
    return {"type": "function", "function": {"name": choice}}


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
    thinking, text = _reasoning(message), _text(message.get("content"))
    calls = _with_reasoning(_calls_from_wire(message.get("tool_calls") or []), message, provider)
    if splitter is not None:
        thought, text = split(text, splitter)
        thinking += thought
    response = LLMResponse(
        text,
        calls or None,
        usage_from_wire(body.get("usage")),
        body.get("model") or "",
        finish_reason=_finish(choice.get("finish_reason"), bool(calls)),
        request_id=body.get("id"),
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
    return content or ""


_REASONING = ("reasoning_content", "reasoning")


def _reasoning(message: dict[str, Any]) -> str:
    """The thinking that a server keeps apart: in a field, or as parts of the content."""
    content = message.get("content")
    fields = [message[key] for key in _REASONING if isinstance(message.get(key), str)]
    parts = _text(content, "thinking") if isinstance(content, list) else ""
    return next((field for field in fields if field), "") + parts


def _with_reasoning(
    calls: Sequence[ToolCall], message: dict[str, Any], provider: str
) -> list[ToolCall]:
    """The calls, and on the first one the reasoning that led to them, by the server's own key.

    DeepSeek refuses the tools' results without it, and other models answer better with it.
    """
    fields = {key: message[key] for key in _REASONING if isinstance(message.get(key), str)}
    return [
        replace(call, provider_data={provider: fields})
        if at == 0 and any(fields.values())
        else call
        for at, call in enumerate(calls)
    ]


def _finish(reason: Any, calls: bool) -> FinishReason:
    if reason is None or reason == "stop":
        return "tool_calls" if calls else "stop"
    return _FINISH.get(reason, "stop")


def _calls_from_wire(calls: list[dict[str, Any]]) -> list[ToolCall]:
    functions = [(call.get("id"), call.get("function") or {}) for call in calls]
    return with_unique_ids(tool_call(i, f.get("name"), f.get("arguments")) for i, f in functions)


def usage_from_wire(usage: Any) -> TokenUsage:
    """The `usage` object; anything in it may be missing or null. Cached input is part of input."""
    if not isinstance(usage, dict):
        return TokenUsage()
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return TokenUsage(
        usage.get("prompt_tokens") or 0,
        usage.get("completion_tokens") or 0,
        cache_read_tokens=prompt.get("cached_tokens") or 0,
        reasoning_tokens=completion.get("reasoning_tokens") or 0,
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
        self._reasoning: dict[str, str] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: TokenUsage | None = None
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
            tool_call(part["id"], part["name"], part["arguments"]) for part in parts
        )
        self._whole = _with_reasoning(calls, self._reasoning, self._provider)
        _unless_refused(self.response(), "".join(self._refusal) or None)
        yield from self._whole

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
        chunk = json.loads(payload)
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise _stream_error(chunk)
        if usage := chunk.get("usage"):
            self._usage = usage_from_wire(usage)
        self._model = self._model or chunk.get("model") or ""
        self._id = self._id or chunk.get("id")
        for choice in chunk.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            if delta := choice.get("delta"):
                yield from self._delta(delta)

    def _delta(self, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        if thinking := _reasoning(delta):
            yield from self._kept((ThinkingDelta(thinking),))
            for key in _REASONING:
                if isinstance(delta.get(key), str):
                    self._reasoning[key] = self._reasoning.get(key, "") + delta[key]
        if text := _text(delta.get("content")):
            found = (TextDelta(text),) if self._splitter is None else self._splitter.feed(text)
            yield from self._kept(found)
        if refusal := delta.get("refusal"):
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
            position if index is None else index, {"id": None, "name": None, "arguments": ""}
        )
        function = part.get("function") or {}
        call["id"] = call["id"] or part.get("id")
        call["name"] = call["name"] or function.get("name")
        call["arguments"] += function.get("arguments") or ""


def _stream_error(chunk: Any) -> ProviderError:
    error = chunk.get("error") if isinstance(chunk, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 200
    return from_status(status, chunk)


def api_root(base_url: str | None) -> str | None:
    """The base URL with `/v1` where the user gave a bare host; None is OpenAI's own."""
    if base_url is None:
        return None
    root = base_url.strip().rstrip("/")
    return root if urlsplit(root).path else f"{root}/v1"


class OpenAIProvider(StainlessProvider):
    """OpenAI, and with `base_url` every server that speaks its wire."""

    name = "openai"
    sdk = "openai"
    clients = ("OpenAI", "AsyncOpenAI")
    default_model = "gpt-4o-mini"
    default_base_url: ClassVar[str | None] = None
    """None is where the SDK looks."""
    key_env: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        root = api_root(base_url or self.default_base_url)
        super().__init__(model, api_key=api_key, base_url=root, timeout=timeout)

    @property
    def official(self) -> bool:
        """Whether the server is OpenAI's own."""
        elsewhere = self.base_url or os.environ.get("OPENAI_BASE_URL")
        return self.name == OpenAIProvider.name and not elsewhere

    def splitter(self) -> Splitter | None:
        """What finds thinking in an answer's text; OpenAI itself leaves none there."""
        return None if self.official else ThinkTags()

    def path(self, request: Request, *, stream: bool) -> str:
        """One path for all."""
        return "/chat/completions"

    def to_wire(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """The JSON body; `max_tokens` by the name that the server knows."""
        return to_wire(request, stream=stream, official=self.official, provider=self.name)

    def from_wire(self, body: Any) -> LLMResponse:
        """The response in a chat completion."""
        return from_wire(body, splitter=self.splitter(), provider=self.name)

    def decoder(self) -> Decoder:
        """What reads one stream of chunks."""
        return StreamDecoder(self.splitter(), self.name)
