"""OpenTelemetry spans of model calls, by the GenAI semantic conventions.

https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai/client-inference.md, as of
2026-11). The span's names and attributes are decided here; when a call begins and ends is not.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pywrapai.core.base import LLMResponse, Message, Request, Role
from pywrapai.core.extras import needs
from pywrapai.core.flow import Step
from pywrapai.core.image import Image
from pywrapai.core.text import well_formed
from pywrapai_graph.tools.values import plain
from pywrapai_monitor.privacy import Privacy
from pywrapai_monitor.turn import Outcome, Turn

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

Y = TypeVar("Y")

_PROVIDERS = {"gemini": "gcp.gemini"}  # where the conventions have another name than we
_SETTINGS = {
    "temperature": "gen_ai.request.temperature",
    "max_tokens": "gen_ai.request.max_tokens",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}


class Tracing:
    """Makes one span for each model call, as a child of the caller's current span.

    The steps of a call run within its span, so that the spans of an instrumented HTTP client are
    its children.

    Args:
        content: put messages and error texts into the spans, after the mask. Off, because spans
            leave this machine.
        tracer_provider: whose spans they are; by default the program's own provider.

    Raises:
        MissingDependencyError: OpenTelemetry is not installed.
    """

    def __init__(
        self, *, content: bool = False, tracer_provider: TracerProvider | None = None
    ) -> None:
        with needs("otel"):
            from opentelemetry import context, trace
        from pywrapai import __version__

        self._content = content
        self._trace = trace
        self._here = context.get_current
        self._tracer = trace.get_tracer("pywrapai", __version__, tracer_provider)

    def here(self) -> Context:
        """What a span of a call that is made here and now is a child of."""
        return self._here()

    def begin(self, call_id: str, turn: Turn, request: Request, *, streams: bool) -> CallSpan:
        """The span of a call that begins now."""
        span = self._tracer.start_span(
            f"chat {request.model}",
            context=turn.labels.parent,
            kind=self._trace.SpanKind.CLIENT,
            attributes=_given(call_id, turn, request, streams),
        )
        return CallSpan(self._trace, span, request if self._content else None)


class CallSpan:
    """The span of one call on its way."""

    def __init__(self, trace: ModuleType, span: Span, request: Request | None) -> None:
        self._trace = trace
        self._span = span
        self._request = request
        """What content is taken from; None where none may be."""

    def seen(self, item: Y) -> Generator[Any, Any, Y]:
        """An item of the call's flow; where it is a step, such that it runs within the span."""
        yield from ()
        if not isinstance(item, Step):
            return item
        inside: Any = Step(lambda: self._block(item), lambda: self._wait(item))
        return inside  # type: ignore[no-any-return]

    def end(self, outcome: Outcome, privacy: Privacy) -> None:
        """The call has ended, now."""
        span, failed = self._span, outcome.status in ("error", "cancelled")
        span.set_attributes(_came_of(outcome))
        told = self._request is not None and privacy.store_content
        if failed:
            span.set_attribute("error.type", type(outcome.error).__qualname__)
            why = well_formed(privacy.text(str(outcome.error))) if told else None
            span.set_status(self._trace.StatusCode.ERROR, why)
        if told and self._request is not None:
            span.set_attributes(_content(self._request, outcome.response, privacy))
        span.end()

    def _block(self, step: Step) -> Any:
        with self._current():
            return step.block()

    async def _wait(self, step: Step) -> Any:
        with self._current():
            return await step.wait()

    def _current(self) -> AbstractContextManager[Any]:
        quiet = {"record_exception": False, "set_status_on_exception": False}
        current: AbstractContextManager[Any] = self._trace.use_span(self._span, **quiet)
        return current


def _given(call_id: str, turn: Turn, request: Request, streams: bool) -> dict[str, Any]:
    settings = {
        name: request.settings[setting]
        for setting, name in _SETTINGS.items()
        if isinstance(request.settings.get(setting), int | float)
    }
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider(turn.provider),
        "gen_ai.request.model": request.model,
        "gen_ai.conversation.id": well_formed(turn.session_id),
        **({"gen_ai.request.stream": True} if streams else {}),
        **({"gen_ai.output.type": "json"} if request.schema is not None else {}),
        **_named(turn),
        **settings,
        "pywrapai.call_id": call_id,
    }


def _named(turn: Turn) -> dict[str, str]:
    name, version = turn.prompt_name, turn.prompt_version
    named = {"gen_ai.prompt.name": name, "gen_ai.prompt.version": version}
    return {key: well_formed(value) for key, value in named.items() if value}


def _came_of(outcome: Outcome) -> dict[str, Any]:
    response = outcome.response
    found: dict[str, Any] = {}
    if outcome.ttft_ms is not None:
        found["gen_ai.response.time_to_first_chunk"] = outcome.ttft_ms / 1000.0
    if response is None:
        return found
    usage = response.usage
    found |= {
        "gen_ai.provider.name": _provider(response.provider),  # a fallback may have answered
        "gen_ai.response.model": response.model,
        "gen_ai.response.finish_reasons": [response.finish_reason or "error"],
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if response.request_id:
        found["gen_ai.response.id"] = response.request_id
    if response.cached:
        found["pywrapai.cached"] = True
    parts = {
        "cache_read.input_tokens": usage.cache_read_tokens,
        "cache_write.input_tokens": usage.cache_write_tokens,
        "reasoning.output_tokens": usage.reasoning_tokens,
    }
    return found | {f"gen_ai.usage.{name}": count for name, count in parts.items() if count}


def _content(request: Request, response: LLMResponse | None, privacy: Privacy) -> dict[str, str]:
    system = [m for m in request.messages if m.role == Role.SYSTEM]
    asked = [_message(m, privacy) for m in request.messages if m.role != Role.SYSTEM]
    found: dict[str, Any] = {"gen_ai.input.messages": asked}
    if system:
        found["gen_ai.system_instructions"] = [p for m in system for p in _parts(m, privacy)]
    if response is not None:
        reason = response.finish_reason or "error"
        answer = {**_message(response.message, privacy), "finish_reason": reason}
        found["gen_ai.output.messages"] = [answer]
    return {
        name: well_formed(json.dumps(value, ensure_ascii=False)) for name, value in found.items()
    }


def _message(message: Message, privacy: Privacy) -> dict[str, Any]:
    return {"role": str(message.role), "parts": _parts(message, privacy)}


def _parts(message: Message, privacy: Privacy) -> list[Mapping[str, Any]]:
    if message.tool_result is not None:
        told = privacy.text(message.tool_result.content)
        id = message.tool_result.tool_call_id
        return [{"type": "tool_call_response", "id": id, "response": told}]
    content = [message.content] if isinstance(message.content, str) else message.content
    return [
        *(_part(part, privacy) for part in content if part),
        *(
            {
                "type": "tool_call",
                "id": call.id,
                "name": call.name,
                "arguments": privacy.value(plain(call.arguments)),
            }
            for call in message.tool_calls or ()
        ),
    ]


def _part(part: str | Image, privacy: Privacy) -> dict[str, Any]:
    shown = part if isinstance(part, str) else f"[image {part.fingerprint}]"
    return {"type": "text", "content": privacy.text(shown)}


def _provider(name: str) -> str:
    return _PROVIDERS.get(name, name)
