"""What a caller hands to a store, checked once and the same way for every store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.metadata import check_metadata
from pywrapai_graph.rag.types import Chunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

NOISE = 2e-6
"""More than float32 errs in a product of unit vectors; what is nearer to 0 counts as 0."""
_LEAST_LENGTH, _MOST_LENGTH = 1e-12, 1e12
"""Of a vector whose squares float32 can add up."""

_TYPES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("id", (str,)),
    ("text", (str,)),
    ("doc_id", (str,)),
    ("start", (int, type(None))),
    ("end", (int, type(None))),
    ("embedded_by", (str, type(None))),
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks with one id each, and their vectors in the same order."""

    chunks: list[Chunk]
    """The caller's own objects: to be read only."""
    vectors: Array
    """float32 of shape (chunks, dimension), each row of length 1, or all zeros."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.vectors.shape[1])

    @property
    def ids(self) -> list[str]:
        """The ids of the chunks."""
        return [chunk.id for chunk in self.chunks]


def batch_of(chunks: Iterable[Chunk], dimension: int | None) -> Batch | None:
    """A batch to store, or None of no chunks. Of two with one id, the later one stays.

    Raises:
        TypeError: for what is no Chunk, a field of another type, and metadata that stores cannot
            keep.
        DimensionMismatchError: a vector has not `dimension` numbers (where that is given), or not
            as many as the first.
        ValueError: a chunk has no embedding, or one with NaN, infinity or no numbers in it.
    """
    newest: dict[str, Chunk] = {}
    for chunk in chunks:
        _check_chunk(chunk)
        newest.pop(chunk.id, None)
        newest[chunk.id] = chunk
    if not newest:
        return None
    kept = list(newest.values())
    return Batch(kept, _unit(_matrix(kept, dimension)))


def unit_query(vector: Sequence[float], dimension: int | None) -> Array:
    """A query as float32 of length 1. Raises what `batch_of` raises for a vector."""
    row = _row(vector, "the query vector")
    check_size(len(row), dimension, "the query vector")
    with _huge_is_infinite():
        length = math.sqrt(row @ row)
    if _LEAST_LENGTH < length < _MOST_LENGTH:
        quick: Array = row / np.float32(length)
        return quick
    _check_finite(row, "the query vector")
    unit: Array = _unit(row[np.newaxis].copy())[0]
    return unit


def _check_chunk(chunk: Any) -> None:
    if not isinstance(chunk, Chunk):
        raise TypeError(f"a store takes Chunks, not {type(chunk).__name__}")
    check_fields(chunk)
    if chunk.embedding is None:
        raise ValueError(
            f"chunk {chunk.id!r} has no embedding: embed it first, or let "
            "VectorRetriever.add_documents do both"
        )


def check_fields(chunk: Chunk) -> None:
    """TypeError or ValueError for what a store cannot keep of a chunk, the embedding aside."""
    for name, expected in _TYPES:
        if not isinstance(value := getattr(chunk, name), expected):
            raise TypeError(
                f"{name} of {chunk!r:.120} is {value!r:.80}; expected {_told(expected)}"
            )
    if chunk.metadata != {}:
        check_metadata(chunk.metadata, f"chunk {chunk.id!r}")


def _told(types: tuple[type, ...]) -> str:
    return " or ".join("None" if one is type(None) else one.__name__ for one in types)


def _matrix(chunks: list[Chunk], dimension: int | None) -> Array:
    size = len(_row(chunks[0].embedding, _name(chunks[0]))) if dimension is None else dimension
    matrix: Array = np.empty((len(chunks), size), dtype=np.float32)
    try:
        with _huge_is_infinite():
            for row, chunk in zip(matrix, chunks, strict=True):
                if len(chunk.embedding) != size:  # type: ignore[arg-type]  # None was refused
                    raise ValueError("of another size, which assignment would repeat or refuse")
                row[:] = chunk.embedding
        sound = bool(np.isfinite(matrix).all())
    except (TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        _find_fault(chunks, size)
    return matrix


def _find_fault(chunks: list[Chunk], size: int) -> None:
    """Raise for the chunk that is at fault."""
    for chunk in chunks:
        row = _row(chunk.embedding, _name(chunk))
        check_size(len(row), size, _name(chunk))
        _check_finite(row, _name(chunk))
    raise ValueError("the embeddings are no lists of numbers")  # of a type that changed meanwhile


def _name(chunk: Chunk) -> str:
    return f"the embedding of chunk {chunk.id!r}"


def _row(vector: Any, owner: str) -> Array:
    try:
        with _huge_is_infinite():
            row: Array = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{owner} is no list of numbers: {error}") from error
    if row.ndim != 1 or not len(row):
        raise ValueError(f"{owner} has the shape {row.shape}; expected a flat list of numbers")
    return row


def check_size(given: int, dimension: int | None, owner: str = "the vector") -> None:
    """DimensionMismatchError unless this is the store's number of dimensions, where it has one."""
    if dimension is not None and given != dimension:
        raise DimensionMismatchError(
            f"{owner} has {given} dimensions, and the store {dimension}: use the embedding model "
            "that the store was filled with, or clear() the store"
        )


def _check_finite(row: Array, owner: str) -> None:
    if not np.isfinite(row).all():
        raise ValueError(f"{owner} has NaN or infinity in it (or a number too large for float32)")


def _huge_is_infinite() -> np.errstate:
    """A number that float32 cannot hold becomes infinity, and is told as that."""
    return np.errstate(over="ignore")


def _unit(matrix: Array) -> Array:
    """The same array, its rows brought to length 1; rows of zeros stay."""
    with _huge_is_infinite():
        lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    odd = np.flatnonzero(~((lengths > _LEAST_LENGTH) & (lengths < _MOST_LENGTH)))
    lengths[odd] = 1
    np.divide(matrix, lengths[:, np.newaxis], out=matrix)
    if len(odd):
        exact = matrix[odd].astype(np.float64)
        length = np.linalg.norm(exact, axis=1, keepdims=True)
        matrix[odd] = exact / np.where(length == 0, 1, length)
    return matrix
