"""Text that can be sent."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The text as UTF-8 can hold it: halves of a character are joined, or replaced by U+FFFD.

    Python strings may hold such halves (lone surrogates), from a broken JSON escape for instance.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
