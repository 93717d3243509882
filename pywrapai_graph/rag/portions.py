"""Documents into chunks, a portion at a time, for whoever has to store them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from uuid import UUID

from pywrapai.core.progress import progress
from pywrapai_graph.copies import copied
from pywrapai_graph.rag.types import Chunk, Document

T = TypeVar("T")

PORTION = 500
"""Chunks that are embedded and stored at once."""


class Splitter(Protocol):
    """What cuts a document into chunks: a Chunker, or anything with its `split`."""

    def split(self, document: Document, /) -> Iterable[Chunk]:
        """The chunks of a document, in order."""


@dataclass(slots=True)
class Portion:
    """Chunks to write at once, by id, and the documents that are complete with them."""

    chunks: dict[str, Chunk] = field(default_factory=dict)
    ended: dict[str, list[str]] = field(default_factory=dict)
    """For the id of a document, the ids of all its chunks, also of those in earlier portions."""


def portions(docs: Iterable[Document], chunker: Splitter | None, size: int) -> Iterator[Portion]:
    """At most `size` chunks at once. Of two documents with one id the later one stays.

    TypeError for what is no Document, and for what a chunker made that is no Chunk.
    """
    portion = Portion()
    for doc in documents(docs):
        pieces = pieces_of(doc, chunker)
        for replaced in portion.ended.pop(doc.id, ()):
            portion.chunks.pop(replaced, None)
        for chunk in pieces:
            if len(portion.chunks) == size:
                yield portion
                portion = Portion()
            portion.chunks[chunk.id] = chunk
        portion.ended[doc.id] = [chunk.id for chunk in pieces]
        if len(portion.ended) == size:
            yield portion
            portion = Portion()
    if portion.chunks or portion.ended:
        yield portion


def documents(docs: Iterable[Document]) -> Iterator[Document]:
    """One by one. TypeError for what is no Document."""
    if isinstance(docs, (str, Document)):
        raise TypeError("add_documents takes a list of Documents, also of one: [Document(text)]")
    for place, doc in enumerate(docs):
        if not isinstance(doc, Document):
            raise TypeError(
                f"docs[{place}] is {type(doc).__name__}; expected a Document: wrap a text as "
                "Document(text)"
            )
        yield doc


def pieces_of(doc: Document, chunker: Splitter | None) -> list[Chunk]:
    """The chunks of a document, each with an id that it has the next time too.

    A random UUID, which is what a Chunk gets without an id, gives way to the id of the document
    and a number, as Chunker makes them.
    """
    if chunker is None:
        whole = Chunk(doc.text, doc.id, doc.metadata, f"{doc.id}:0", start=0, end=len(doc.text))
        return [without_vector(whole)]
    pieces = [_named(piece, doc, number) for number, piece in enumerate(chunker.split(doc))]
    if len({piece.id for piece in pieces}) < len(pieces):
        raise ValueError(f"{chunker!r:.80} made two chunks with one id of document {doc.id!r:.80}")
    return pieces


def _named(piece: Chunk, doc: Document, number: int) -> Chunk:
    if not isinstance(piece, Chunk):
        raise TypeError(f"a chunker's split gives Chunks, not {type(piece).__name__}")
    made = without_vector(piece)
    made.doc_id = made.doc_id or doc.id
    if _is_random(made.id):
        made.id = f"{doc.id}:{number}"
    return made


def _is_random(id: object) -> bool:
    try:
        return isinstance(id, str) and UUID(id).version == 4
    except ValueError:
        return False


def without_vector(chunk: Chunk) -> Chunk:
    """A chunk that shares nothing with this one, without its embedding."""
    metadata = copied(chunk.metadata)
    return Chunk(chunk.text, chunk.doc_id, metadata, chunk.id, None, chunk.start, chunk.end)


def next_of(items: Iterator[T]) -> T | None:
    """None where there are no more."""
    return next(items, None)


def document_progress(
    docs: Iterable[Document], show_progress: bool | None
) -> AbstractContextManager[Callable[[int], object]]:
    """What to call with a number of documents that are done. None: a bar on a terminal alone."""
    if show_progress is None:
        show_progress = sys.stderr is not None and sys.stderr.isatty()
    total = len(docs) if isinstance(docs, Sized) else 0
    return progress(total, "document", shown=show_progress)
