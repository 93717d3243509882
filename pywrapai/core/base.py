"""The neutral values of the engine: messages, requests, responses, stream events.

Every provider translates these to and from its own wire; nobody else knows a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Self, TypeAlias

from pywrapai.core.image import Image

Content: TypeAlias = str | list[str | Image]
"""Text, or a list of text and images in the order in which they are read."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error"]


class Role(StrEnum):
    """Who speaks in a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    __hash__ = str.__hash__  # an Enum's own is written in Python, and roles are looked up a lot


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call one function."""

    id: str
    name: str
    arguments: dict[str, Any]
    raw_arguments: str | None = None
    """What the model sent, kept only when it is not a JSON object; `arguments` is then empty."""
    provider_data: dict[str, Any] | None = None
    """What the provider wants back untouched on the next turn, such as a thought signature.

    JSON values by the provider's name, so that another provider leaves them alone.
    """

    def to_dict(self) -> dict[str, Any]:
        """JSON values that `from_dict` reads."""
        return _without_nones(
            id=self.id,
            name=self.name,
            arguments=self.arguments,
            raw_arguments=self.raw_arguments,
            provider_data=self.provider_data,
        )

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(**value)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a function returned, as the text that the model reads."""

    tool_call_id: str
    name: str
    content: str
    is_error: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON values that `from_dict` reads."""
        return {
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "content": self.content,
            "is_error": self.is_error,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(**value)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. A TOOL message carries its `tool_result`."""

    role: Role
    content: Content
    tool_calls: list[ToolCall] | None = None
    tool_result: ToolResult | None = None
    provider_data: dict[str, Any] | None = None
    """What the provider wants back untouched, such as signed thinking blocks."""

    @property
    def text(self) -> str:
        """The text alone, without images."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part for part in self.content if isinstance(part, str))

    @property
    def images(self) -> list[Image]:
        """The images alone."""
        if isinstance(self.content, str):
            return []
        return [part for part in self.content if isinstance(part, Image)]

    def to_dict(self) -> dict[str, Any]:
        """JSON values that `from_dict` reads; nothing that a provider wants back is lost."""
        content = self.content
        return _without_nones(
            role=str(self.role),
            content=content if isinstance(content, str) else [_part_to_dict(p) for p in content],
            tool_calls=self.tool_calls and [call.to_dict() for call in self.tool_calls],
            tool_result=self.tool_result and self.tool_result.to_dict(),
            provider_data=self.provider_data,
        )

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        content, calls, result = (value.get(k) for k in ("content", "tool_calls", "tool_result"))
        return cls(
            Role(value["role"]),
            content if isinstance(content, str) else [_part_from_dict(p) for p in content or ()],
            [ToolCall.from_dict(call) for call in calls] if calls else None,
            ToolResult.from_dict(result) if result else None,
            value.get("provider_data"),
        )


def _part_to_dict(part: str | Image) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else part.to_dict()


def _part_from_dict(part: dict[str, Any]) -> str | Image:
    return str(part["text"]) if part["type"] == "text" else Image.from_dict(part)


def _without_nones(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call as the provider counted them.

    `input_tokens` counts all input, cached included; `output_tokens` all output, reasoning
    included; the other three say how much of those was what.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def prompt_tokens(self) -> int:
        """`input_tokens`, by the name that OpenAI's wire has for them."""
        return self.input_tokens

    @property
    def completion_tokens(self) -> int:
        """`output_tokens`, by the name that OpenAI's wire has for them."""
        return self.output_tokens

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """A model's answer and what it took to get it."""

    content: str
    tool_calls: list[ToolCall] | None = None
    usage: TokenUsage = TokenUsage()
    model: str = ""
    provider: str = ""
    finish_reason: FinishReason | None = "stop"
    """None on the `.response` of a stream that was left or broke before its end."""
    request_id: str | None = None
    duration_ms: float = 0.0
    cost_usd: float = 0.0
    priced: bool = True
    """False when no price is known for the model; `cost_usd` is then 0 and means "unknown"."""
    cached: bool = False
    thinking: str | None = None
    provider_data: dict[str, Any] | None = None
    raw: Any = field(default=None, repr=False, compare=False)
    """The provider's own reply as JSON values; None for streams."""
    call_id: str | None = field(default=None, compare=False)
    """Under which a monitor keeps the call, so that feedback may be given to it; else None."""
    earlier: tuple[Exception, ...] = field(default=(), repr=False, compare=False)
    """Why the models that were asked before this one, a fallback, gave no answer."""

    @property
    def message(self) -> Message:
        """This answer as the ASSISTANT message that goes into the history."""
        return Message(
            Role.ASSISTANT, self.content, self.tool_calls, provider_data=self.provider_data
        )


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of a streamed answer's text; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of a streamed answer's visible reasoning; never empty."""

    text: str


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCall | LLMResponse
"""What a stream yields: deltas as they come, each tool call once it is whole, the response last."""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The last item that a provider's text stream may yield, for what the text does not say."""

    usage: TokenUsage = TokenUsage()
    finish_reason: FinishReason = "stop"
    model: str = ""
    request_id: str | None = None
    cost_usd: float = 0.0
    """What it cost, where the provider itself knows; else the price table says."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call, ready for a provider. Shared by sync and async, and never changed."""

    model: str
    messages: tuple[Message, ...]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`temperature` and `max_tokens` where set, and whatever else goes to the provider as it is."""
    timeout: float | None = None
    """Seconds to wait for the first byte and between two chunks."""
    schema: dict[str, Any] | None = None
    """The JSON Schema that the answer must fit, for a provider that can hold a model to one."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """What of `settings` was given for this call alone; a fallback honours it too."""
