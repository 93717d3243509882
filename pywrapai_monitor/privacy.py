"""What of a record may be kept: every stored text passes here, before queue, spool and database.

Ids are kept as they are (user, session, model, prompt and tool names, the ids of calls), and so are
numbers of ours: tokens, money, times, scores. Pure, but for the user's own mask.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_graph.tools.values import plain
from pywrapai_monitor.db.base import Entry, Feedback, MessageRecord, TokenRecord, ToolStep

log = logging.getLogger(__name__)

Mask: TypeAlias = Callable[[str], str]
"""Gives a text as it may be kept. Called for each text alone, from any thread."""

MASK_FAILED = "[mask failed]"
_IDS = ("id", "name", "tool_call_id", "is_error")


@dataclass(frozen=True, slots=True)
class Privacy:
    """What is kept of texts.

    Raises TypeError for a mask that is no plain function, and a `store_content` that is no bool.
    """

    mask: Mask | None = None
    """Every text passes it; where it raises, "[mask failed]" is kept."""
    store_content: bool = True
    """False keeps numbers and ids alone: no texts, no arguments, no tags, no metadata."""

    def __post_init__(self) -> None:
        mask = self.mask
        if mask is not None and (not callable(mask) or inspect.iscoroutinefunction(mask)):
            raise TypeError(f"mask is a plain function of a text, not {mask!r:.80}")
        if not isinstance(self.store_content, bool):  # "no" and "False" are true
            raise TypeError(f"store_content is True or False, not {self.store_content!r:.80}")

    def entry(self, entry: Entry) -> Entry:
        """The entry as it may be kept."""
        if self.store_content and self.mask is None:
            return entry
        return replace(
            entry,
            token=self._token(entry.token),
            messages=tuple(self._message(message) for message in entry.messages),
            tools=None if entry.tools is None else self._tools(entry.tools),
        )

    def feedback(self, feedback: Feedback) -> Feedback:
        """Feedback as it may be kept."""
        return replace(feedback, comment=self._optional(feedback.comment))

    def text(self, text: str) -> str:
        """A text as it may be kept."""
        if not self.store_content:
            return ""
        if self.mask is None or not text:
            return text
        try:
            masked = self.mask(text)
        except Exception as error:  # its own message may hold the text
            log.warning("mask raised %s: %s is kept instead", type(error).__name__, MASK_FAILED)
            return MASK_FAILED
        if isinstance(masked, str):
            return masked
        log.warning("mask returned %s, not a str", type(masked).__name__)
        return MASK_FAILED

    def value(self, value: Any) -> Any:
        """JSON values with each text in them, keys too, as it may be kept.

        A number counts as a text where the mask changes it: there are card numbers.
        """
        match value:
            case str():
                return self.text(value)
            case None | bool():
                return value
            case int() | float():
                shown = json.dumps(value)
                masked = self.text(shown)
                return value if masked == shown else masked
            case list() | tuple():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(str(name)): self.value(item) for name, item in value.items()}
        return self.value(plain(value))

    def _optional(self, text: str | None) -> str | None:
        return self.text(text) if text is not None and self.store_content else None

    def _message(self, record: MessageRecord) -> MessageRecord:
        if not self.store_content:
            return replace(record, content="", rag_context=None, system_prompt=None)
        of_tools = record.role in ("tool_call", "tool_result")
        chunks = record.rag_context
        return replace(
            record,
            content=self._json(record.content) if of_tools else self.text(record.content),
            rag_context=None if chunks is None else [self._chunk(chunk) for chunk in chunks],
            system_prompt=self._optional(record.system_prompt),
        )

    def _token(self, record: TokenRecord) -> TokenRecord:
        kept = self.store_content
        return replace(
            record,
            error_message=self._optional(record.error_message),
            partial=self._optional(record.partial),
            tags=tuple(self.text(tag) for tag in record.tags) if kept else (),
            metadata=self.value(record.metadata) if kept else None,
        )

    def _tools(self, step: ToolStep) -> ToolStep:
        return replace(
            step,
            calls=tuple(self._call(call) for call in step.calls),
            results=tuple(self._result(result) for result in step.results),
        )

    def _call(self, call: ToolCall) -> ToolCall:
        if not self.store_content:
            return ToolCall(call.id, call.name, {})
        raw = self._optional(call.raw_arguments)
        return ToolCall(call.id, call.name, self.value(call.arguments), raw)

    def _result(self, result: ToolResult) -> ToolResult:
        return replace(result, content=self.text(result.content))

    def _chunk(self, chunk: dict[str, Any]) -> dict[str, Any]:
        return {
            name: found if name == "score" else self.value(found) for name, found in chunk.items()
        }

    def _json(self, content: str) -> str:
        """The content of a tool row: a list of calls or of results."""
        told = [
            {name: it if name in _IDS else self.value(it) for name, it in part.items()}
            for part in json.loads(content)
        ]
        return json.dumps(told, ensure_ascii=False)
