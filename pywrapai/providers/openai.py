"""OpenAI's chat completions wire, which every OpenAI-compatible server speaks too.

Source: https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pywrapai.core.base import LLMResponse, Message, Request, Role, ToolCall
from pywrapai.core.image import Image
from pywrapai.core.messages import is_thinking_alone
from pywrapai.core.schema import parameters_of
from pywrapai.core.structured import with_instruction
from pywrapai.core.text import well_formed
from pywrapai.core.thinking import Splitter, ThinkTags
from pywrapai.providers.openai_embeddings import OpenAIEmbeddings
from pywrapai.providers.openai_replies import REASONING_FIELDS, StreamDecoder, from_wire
from pywrapai.providers.wire import Decoder

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
        if not is_thinking_alone(message)
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
        kept = (message.tool_calls[0].provider_data or {}).get(provider) or {}
        wire.update({key: kept[key] for key in REASONING_FIELDS if key in kept})
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


def api_root(base_url: str | None) -> str | None:
    """The base URL with `/v1` where the user gave a bare host; None is OpenAI's own."""
    if base_url is None:
        return None
    root = base_url.strip().rstrip("/")
    return root if urlsplit(root).path else f"{root}/v1"


def _told_in_words(request: Request, schema: dict[str, Any]) -> Request:
    """The request with its schema in the prompt, and held to JSON alone."""
    told = tuple(with_instruction(request.messages, schema))
    settings = {"response_format": {"type": "json_object"}, **request.settings}
    return replace(request, messages=told, settings=settings, schema=None)


class OpenAIProvider(OpenAIEmbeddings):
    """OpenAI, and with `base_url` every server that speaks its wire."""

    name = "openai"
    sdk = "openai"
    clients = ("OpenAI", "AsyncOpenAI")
    default_model = "gpt-4o-mini"
    default_base_url: ClassVar[str | None] = None
    """None is where the SDK looks."""
    holds_schema: ClassVar[bool] = True
    """Whether the server takes `json_schema` as a response format."""
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
        if request.schema is not None and not self.holds_schema:
            request = _told_in_words(request, request.schema)
        return to_wire(request, stream=stream, official=self.official, provider=self.name)

    def from_wire(self, body: Any) -> LLMResponse:
        """The response in a chat completion."""
        return from_wire(body, splitter=self.splitter(), provider=self.name)

    def decoder(self, request: Request) -> Decoder:
        """What reads one stream of chunks."""
        return StreamDecoder(self.splitter(), self.name)


__all__ = ["OpenAIProvider", "StreamDecoder", "api_root", "from_wire", "to_wire"]
