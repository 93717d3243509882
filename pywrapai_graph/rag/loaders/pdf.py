"""PDF: the text of each page."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pywrapai.core.extras import needs
from pywrapai_graph.rag.loaders import File, Part, UnreadableError
from pywrapai_graph.rag.loaders.prose import clean

if TYPE_CHECKING:
    from pypdf import PdfReader

# pypdf logs what it mends in a PDF: for a program that logs, not for everybody's stderr.
logging.getLogger("pypdf").addHandler(logging.NullHandler())


def read_pdf(file: File) -> Iterator[Part]:
    """Each page that can be read, with the file's title; then an error that names the others."""
    reader = _opened(file.content)
    title, failed, blank = _title(reader), [], True
    for number in range(1, len(reader.pages) + 1):
        try:
            text = clean(reader.pages[number - 1].extract_text())
        except Exception as error:  # pypdf may fail in any way on a page that is broken
            failed.append(f"{number} ({type(error).__name__})")
            continue
        blank = blank and not text
        yield Part(text, title=title, page=number)
    if failed:
        raise UnreadableError(f"{len(failed)} of its pages cannot be read: {', '.join(failed[:5])}")
    if blank:
        raise UnreadableError("no text in it: it may be a scan; run OCR first")


def _opened(content: bytes) -> PdfReader:
    with needs("loaders"):
        from pypdf import PdfReader
    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("it has a password: save a copy without one")
    return reader


def _title(reader: PdfReader) -> str | None:
    with suppress(Exception):  # a broken title is no reason to leave the pages out
        return str(reader.metadata.title or "") if reader.metadata else None
    return None
