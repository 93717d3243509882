"""What a tool returned or raised, as the text that the model reads."""

from __future__ import annotations

import json
from typing import Any

from pywrapai.core.base import ToolCall, ToolResult

MAX_ERROR_LENGTH = 4_000
"""Of an error's message; some hold a whole page."""


def to_text(value: Any) -> str:
    """A string as it is, anything else as JSON; never empty.

    Nothing at all has a text too: None is `null`, an empty list `[]`, and a string without a
    visible character is written as JSON does, `""`.
    """
    if type(value) is str and value and not value.isspace():
        return value
    from pywrapai_graph.tools.values import plain  # decimal and uuid, when they are needed

    written = plain(value)
    if isinstance(written, str) and written.strip():
        return written
    return json.dumps(written, ensure_ascii=False)


def succeeded(call: ToolCall, value: Any) -> ToolResult:
    """The result of a call that returned `value`."""
    return ToolResult(call.id, call.name, to_text(value))


def failed(call: ToolCall, error: BaseException) -> ToolResult:
    """The result of a call that raised."""
    return ToolResult(call.id, call.name, f"Error: {reason(error)}", is_error=True)


def reason(error: BaseException) -> str:
    """An error's message, or its type where it has none; of a group, those of its members."""
    if isinstance(error, BaseExceptionGroup):
        text = "; ".join(reason(member) for member in error.exceptions)
    else:
        text = str(error) or type(error).__name__
    return text if len(text) <= MAX_ERROR_LENGTH else f"{text[:MAX_ERROR_LENGTH]}..."
