"""JSON that every reader understands: NaN is null, an integer past 2**53 a string."""

from __future__ import annotations

import json
import math
from typing import Any

from flask import Response

MAX_SAFE_INTEGER = 2**53 - 1
"""Beyond it a JavaScript number is rounded, so the JSON carries a string."""


def dumps(value: Any) -> str:
    """Strict JSON; what it has no type for is its text."""
    return json.dumps(
        _plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
    )


def encoded(text: str) -> bytes:
    """UTF-8. A lone surrogate has none: it is written as the escape that JSON and Python have."""
    return text.encode("utf-8", "backslashreplace")


def json_response(value: Any, status: int = 200) -> Response:
    """`value` as JSON, never to be stored by a browser or proxy."""
    return Response(
        encoded(dumps(value)),
        status,
        {"Cache-Control": "no-store"},
        content_type="application/json; charset=utf-8",
    )


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case int() if abs(value) > MAX_SAFE_INTEGER:
            return str(value)
        case _:
            return value
