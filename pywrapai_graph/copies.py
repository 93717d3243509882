"""Copies of JSON values, so that nobody changes what another still reads."""

from __future__ import annotations

from typing import Any


def copied(value: Any) -> Any:
    """A copy of a JSON value; what is in it and is none stays what it is."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
