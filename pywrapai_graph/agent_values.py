"""What an agent is told, and what it tells: configuration, steps, results, errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX
from typing import Literal, TypeAlias, get_args

from pywrapai.core.base import (
    LLMResponse,
    Message,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.core.checks import at_least_1
from pywrapai.exceptions import PyWrapAIError

ErrorPolicy: TypeAlias = Literal["return_to_model", "raise", "skip"]
UnknownPolicy: TypeAlias = Literal["raise", "return_to_model"]


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One finished turn in which the model asked for tools."""

    turn_num: int
    """1 for the first turn."""
    tool_calls: list[ToolCall]
    """What the model asked for."""
    tool_results: list[ToolResult]
    """What it was answered, in the same order; a skipped call has none."""
    usage: TokenUsage
    """Of this turn's model call."""
    cost_usd: float
    durations_ms: list[float] = field(default_factory=list)
    """How long each call of `tool_calls` took."""
    response: LLMResponse | None = field(default=None, repr=False)
    """The model's whole response."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What a run came to."""

    content: str
    """The final answer's text; of a run that was cut short, the last text there was."""
    steps: list[AgentStep]
    """The turns with tools; the final answer is none."""
    total_turns: int
    """Model calls, the final answer's included."""
    total_usage: TokenUsage
    total_cost_usd: float
    messages: list[Message] = field(default_factory=list)
    """What the run added to the conversation: input, tool turns, final answer."""
    response: LLMResponse | None = field(default=None, repr=False)
    """The final answer's whole response."""


AgentEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCall | ToolResult | AgentStep | AgentResult
"""What a streamed run yields: text as it comes, each call and its result, each finished step, and
the result of the run last."""

StepCallback: TypeAlias = Callable[[AgentStep], Awaitable[None] | None]
Approval: TypeAlias = Callable[[ToolCall], Awaitable[bool] | bool]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent goes about it.

    Raises ValueError at once for a value that makes no sense.
    """

    max_turns: int = 10
    """The most model calls of one run."""
    tool_error_policy: ErrorPolicy = "return_to_model"
    """When a tool fails: tell the model, raise out of the run, or drop the call in silence."""
    on_step: StepCallback | None = None
    """Called with each finished step, before it is kept; may be async. What it raises ends the
    run."""
    tool_timeout: float | None = None
    """Seconds that one tool call may take; past them it has failed."""
    unknown_tool_policy: UnknownPolicy = "raise"
    """When the model asks for a tool that is not there: KeyError, or tell it."""
    approve: Approval | None = None
    """Asked for each call of a tool that requires approval, with the call itself; may be async."""

    def __post_init__(self) -> None:
        at_least_1("max_turns", self.max_turns)
        if self.tool_timeout is not None and not _is_duration(self.tool_timeout):
            raise ValueError(
                "tool_timeout is in seconds and must be above 0, or None for as long as it takes, "
                f"not {self.tool_timeout!r}"
            )
        for name in ("on_step", "approve"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ValueError(f"{name} is a function or None, not {given!r:.80}")
        _check_choice("tool_error_policy", self.tool_error_policy, get_args(ErrorPolicy))
        _check_choice("unknown_tool_policy", self.unknown_tool_policy, get_args(UnknownPolicy))


def _is_duration(value: object) -> bool:
    """Whether a thread can wait that long."""
    return isinstance(value, int | float) and 0 < value <= TIMEOUT_MAX


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {value!r}")


class AgentMaxTurnsError(PyWrapAIError):
    """A run used all its turns and has no final answer; `partial` has everything it did."""

    turns: int = 0
    partial: AgentResult


class ToolTimeoutError(PyWrapAIError, TimeoutError):
    """A tool call took longer than `tool_timeout`."""
