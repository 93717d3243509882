"""What a reader is: it makes texts of a file's bytes. Each format has its reader in a module here.

A new format is a module beside these and a line in the table of `pywrapai_graph.rag.loading`. A
reader imports its package when it is called, under `needs("loaders")`. What it raises is told as
the reason why the file cannot be read: an UnreadableError in its own words, all else with its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pywrapai.exceptions import PyWrapAIError


@dataclass(frozen=True, slots=True)
class File:
    """What a reader is given: a file's bytes, and the options of `load_documents`."""

    content: bytes
    encoding: str | None
    """Of text without a byte order mark; None where the caller told none."""
    max_bytes: int
    """More than this must not be unpacked."""


@dataclass(frozen=True, slots=True)
class Part:
    """What becomes a Document, unless its text is blank: a whole file, or a page of it."""

    text: str
    title: str | None = None
    page: int | None = None
    """From 1; None where the text is the whole file's."""


Reader = Callable[[File], Iterator[Part]]


class UnreadableError(PyWrapAIError):
    """A file cannot be read; the message is the reason of its LoadError, in words for the user."""


def check_size(what: str, size: int, max_bytes: int) -> None:
    """Refuse more bytes than the caller allows. UnreadableError that tells both numbers."""
    if size > max_bytes:
        raise UnreadableError(f"{what} {size:,} bytes, more than max_bytes={max_bytes:,}")
