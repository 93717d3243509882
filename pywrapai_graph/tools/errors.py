"""What can go wrong with a call of a tool, other than the tool itself."""

from __future__ import annotations

import json

from pywrapai.core.base import ToolCall
from pywrapai.exceptions import PyWrapAIError

MAX_RAW_LENGTH = 500
"""Of broken arguments that are shown again."""


class ToolArgumentsError(ValueError):
    """A model's arguments do not fit the tool; the message names each one that does not."""


class MCPConnectionError(PyWrapAIError, ConnectionError):
    """An MCP server cannot be started or reached, speaks something else, or has ended."""


def broken_arguments(call: ToolCall) -> ToolArgumentsError:
    """For a call whose arguments came as something else than a JSON object."""
    raw = call.raw_arguments or ""
    shown = raw if len(raw) <= MAX_RAW_LENGTH else f"{raw[:MAX_RAW_LENGTH]}..."
    return ToolArgumentsError(
        f"the arguments of {call.name} were {_fault(raw)}, and nothing was run. Send them again as "
        f"one JSON object. They were: {shown}"
    )


def _fault(raw: str) -> str:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return f"no JSON ({error})"
    return f"JSON of the kind {type(value).__name__}"
