"""Plain text and Markdown, as they are, and how bytes become text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from pywrapai_graph.rag.loaders import File, Part, UnreadableError

# The level 1 heading that a Markdown file begins with, perhaps after front matter.
_HEADING = re.compile(r"(?:---\r?\n.*?\n---\r?\n)?\s*# +(.+?)[ #]*(?:[\r\n]|\Z)", re.DOTALL)
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_text(file: File) -> Iterator[Part]:
    """The whole file, newlines included."""
    yield Part(decoded(file.content, file.encoding))


def read_markdown(file: File) -> Iterator[Part]:
    """The same; its title is the heading that it begins with."""
    text = decoded(file.content, file.encoding)
    heading = _HEADING.match(text)
    yield Part(text, title=heading[1] if heading else None)


def decoded(content: bytes, encoding: str | None) -> str:
    """The text of bytes: by their byte order mark, else by `encoding`, else as UTF-8.

    UnreadableError if they are something else.
    """
    marked = (name for mark, name in _BOMS.items() if content.startswith(mark))
    name = next(marked, encoding or "utf-8")
    try:
        text = content.decode(name)
    except UnicodeError as error:
        raise UnreadableError(
            f"its text is not {name} ({error}); give its encoding='...'"
        ) from error
    if "\0" in text:
        raise UnreadableError("it has NUL characters: it is no text, or needs encoding='utf-16-le'")
    return text
