"""Names of tools, such that every provider takes them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Any

MAX_LENGTH = 64

_LEGAL = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LENGTH}}}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")


def checked_name(name: str) -> str:
    """The name, if providers take it. ValueError that shows one like it if not."""
    if isinstance(name, str) and _LEGAL.fullmatch(name):
        return name
    legal = sanitised(name) if isinstance(name, str) else ""
    raise ValueError(
        f"{name!r:.100} cannot be a tool's name: it takes 1 to {MAX_LENGTH} of A-Z, a-z, 0-9, "
        f"_ and -, such as {legal or 'get_weather'!r}"
    )


def name_of(fn: Callable[..., Any]) -> str:
    """The name for a tool made of this callable.

    That of the function, of what a partial calls, or of a callable object's class. ValueError if
    there is none, as for a lambda.
    """
    if isinstance(fn, partial):
        return name_of(fn.func)
    given = getattr(fn, "__name__", type(fn).__name__)
    name = sanitised(given) if given != "<lambda>" else ""
    if not name:
        raise ValueError(f"there is no name in {given!r:.100} for a tool: pass name=")
    return name


def sanitised(text: str) -> str:
    """The nearest legal name, at most 64 characters; empty if nothing legal is in the text."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _ILLEGAL.sub("_", ascii_text)[:MAX_LENGTH].strip("_") if ascii_text else ""
