"""What a server sent, checked before it is kept: a reply may have any shape at all.

What is needed and wrong raises a TypeError or ValueError, as reading into a wrong shape does too;
a provider makes one error of them all. What is only nice to have is left out instead.
"""

from __future__ import annotations

import json
from typing import Any


def parsed(content: str | bytes) -> Any:
    """The JSON in it. ValueError if there is none, or if it is nested too deeply to be read."""
    if isinstance(content, bytes):
        content = content.decode()  # given bytes, json guesses their encoding first
    try:
        return json.loads(content.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def text(value: Any) -> str:
    """A piece of text, empty where there is none. TypeError for what must not pass for text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise TypeError(f"text was expected, not {value!r:.80}")


def fields(value: Any) -> dict[str, Any]:
    """An object that is only nice to have; without any fields where it is none."""
    return value if isinstance(value, dict) else {}


def name(value: Any) -> str | None:
    """An id, the name of a model or a reason; None for what is none."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
