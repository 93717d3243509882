"""Chunks as PostgreSQL's binary COPY takes them, and out of its rows again.

PostgreSQL refuses texts with a NUL byte or half a character in them, and indexes no text that is
long. Such texts are kept escaped, and long ids by their hash, so that everything comes back as it
was and everything else is kept as it is.
"""

from __future__ import annotations

import hashlib
import marshal
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pywrapai_graph.rag.batch import Batch
from pywrapai_graph.rag.metadata import metadata_from_json, metadata_to_json, tags_of
from pywrapai_graph.rag.types import Chunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

WRITTEN = "id, long_id, text, doc_id, metadata, tags, starts, ends, embedded_by, embedding"
READ = "id, long_id, text, doc_id, metadata, starts, ends, embedded_by"

_MARK = "\x01"
_ESCAPED = f"{_MARK}escaped:"
_HASHED = f"{_MARK}sha256:"
_LONGEST_KEY = 500  # bytes; a btree takes some 2,700
_PIECE = 1 << 17  # bytes
_NULL = b"\xff\xff\xff\xff"
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_FIELDS = struct.pack(">h", len(WRITTEN.split(",")))
_TEXT_OID = 25
_NO_TAGS = struct.pack(">iiiI", 12, 0, 0, _TEXT_OID)
_length = struct.Struct(">i").pack
_tags_header = struct.Struct(">iiiIii").pack
_integer = struct.Struct(">iq").pack


class CopyStream:
    """A batch as the file that COPY ... FROM STDIN (FORMAT binary) reads.

    It is encoded piece by piece while the server works on the piece before.
    """

    def __init__(self, batch: Batch) -> None:
        self._pieces = _pieces(batch)
        self.error: BaseException | None = None
        """What went wrong here, of which the driver tells the text alone."""

    def read(self, _size: int) -> bytes:
        """The next piece, of whichever size, which the driver does not mind; at the end none."""
        try:
            return next(self._pieces, b"")
        except BaseException as error:  # a KeyboardInterrupt too
            self.error = error
            raise


def _pieces(batch: Batch) -> Iterator[bytes]:
    yield _HEADER
    rows = max(1, _PIECE // (4 * batch.dimension + 1000))
    told: dict[bytes, bytes] = {}
    for start in range(0, len(batch.chunks), rows):
        vectors = _vectors(batch.vectors[start : start + rows])
        parts: list[bytes | memoryview] = []
        for chunk, vector in zip(batch.chunks[start : start + rows], vectors, strict=True):
            parts += _row(chunk, told)
            parts.append(vector)
        yield b"".join(parts)
    yield _TRAILER


def _row(chunk: Chunk, told: dict[bytes, bytes]) -> tuple[bytes, ...]:
    """The fields before the vector: each a length and what it is the length of."""
    key, long_id = _key(chunk.id)
    text, doc_id = _bytes(chunk.text), _bytes(chunk.doc_id)
    return (
        _FIELDS,
        _length(len(key)),
        key,
        _optional(long_id),
        _length(len(text)),
        text,
        _length(len(doc_id)),
        doc_id,
        _metadata(chunk.metadata, told),
        _place(chunk.start),
        _place(chunk.end),
        _optional(None if chunk.embedded_by is None else _bytes(chunk.embedded_by)),
    )


def _metadata(metadata: dict[str, Any], told: dict[bytes, bytes]) -> bytes:
    """Metadata and tags. Chunks of one document have the same, which are written once: `told` has
    them by what marshal makes of them in a tenth of the time, exact to the type.
    """
    try:
        same = marshal.dumps(metadata, 2)
    except ValueError:  # a subclass of str or int, say
        return _written(metadata)
    if (known := told.get(same)) is None:
        known = told[same] = _written(metadata)
    return known


def _written(metadata: dict[str, Any]) -> bytes:
    data = metadata_to_json(metadata).encode()
    return _length(len(data)) + data + _tags(metadata)


def _optional(data: bytes | None) -> bytes:
    return _NULL if data is None else _length(len(data)) + data


def _place(place: int | None) -> bytes:
    try:
        return _NULL if place is None else _integer(8, place)
    except struct.error as error:
        raise ValueError(f"start or end of a chunk is {place}; expected under 2**63") from error


def _tags(metadata: dict[str, Any]) -> bytes:
    if not (tags := [tag.encode() for tag in tags_of(metadata)]):
        return _NO_TAGS
    items = b"".join([_length(len(tag)) + tag for tag in tags])
    return _tags_header(20 + len(items), 1, 0, _TEXT_OID, len(tags), 1) + items


def _vectors(vectors: Array) -> list[memoryview]:
    """Each as its length in bytes, how many numbers, two bytes of nothing, and the numbers."""
    count, dimension = vectors.shape
    kind = [("bytes", ">i4"), ("size", ">i2"), ("unused", ">i2"), ("numbers", ">f4", (dimension,))]
    fields = np.zeros(count, dtype=kind)
    fields["bytes"], fields["size"], fields["numbers"] = 4 + 4 * dimension, dimension, vectors
    data, width = memoryview(fields.view(np.uint8)), fields.itemsize  # type: ignore[arg-type]
    return [data[start : start + width] for start in range(0, len(data), width)]


def _bytes(text: str) -> bytes:
    if "\0" not in text and not text.startswith(_MARK):
        try:
            return text.encode()
        except UnicodeEncodeError:
            pass
    return _ESCAPED.encode() + text.encode("unicode_escape")


def _text(kept: str) -> str:
    if not kept.startswith(_ESCAPED):
        return kept
    return kept[len(_ESCAPED) :].encode("ascii").decode("unicode_escape")


def _key(id: str) -> tuple[bytes, bytes | None]:
    """What an id is found by, and the whole of it where that is something else."""
    kept = _bytes(id)
    if len(kept) <= _LONGEST_KEY:
        return kept, None
    return f"{_HASHED}{hashlib.sha256(kept).hexdigest()}".encode(), kept


def keys_of(ids: Iterable[str]) -> str:
    """The keys of ids, as the literal of a text[], which the server reads fastest."""
    return array_of(_key(id)[0].decode() for id in ids)


def array_of(texts: Iterable[str]) -> str:
    """The literal of a text[]."""
    return "{" + ",".join([_quoted(text) for text in texts]) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def vector_of(query: Array) -> str:
    """The literal of a vector; nine digits are enough for every float32."""
    return ("[" + "%.9g," * (len(query) - 1) + "%.9g]") % tuple(query.tolist())


def chunk_of(row: tuple[Any, ...], embedding: list[float] | None = None) -> Chunk:
    """The chunk in a row whose first columns are READ."""
    key, long_id, text, doc_id, metadata, start, end, embedded_by = row[:8]
    return Chunk(
        _text(text),
        _text(doc_id),
        metadata_from_json(metadata),
        _text(key if long_id is None else long_id),
        embedding,
        start,
        end,
        None if embedded_by is None else _text(embedded_by),
    )


def numbers_of(sent: memoryview) -> list[float]:
    """The numbers in what vector_send() gives."""
    numbers: list[float] = np.frombuffer(sent, dtype=">f4", offset=4).tolist()
    return numbers
