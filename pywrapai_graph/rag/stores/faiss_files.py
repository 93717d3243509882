"""The two files of a FAISSVectorStore, which change together or not at all.

The index is a file that `faiss.read_index` reads: a head of 45 bytes, then the rows. What the
metadata is, faiss_meta.py says.

A save costs what it adds: its rows are appended to the index, behind those that the head counts,
and its chunks to the metadata, and both are flushed to the disk. Then the head of the index is
written again, with the new count of rows and with number and key of the save. By this one write of
45 bytes the save is there. Who is killed before it leaves bytes behind the end, which nobody reads
and the next save cuts off.

To write both anew, without the rows of chunks that are gone, each is written beside its place, as
`.new`. The index is put in its place first. Who is killed then leaves an index whose key is in
`.new` of the metadata, and there it is found.

Writers, and readers where something changed, hold the lock of a third file, `.lock`, meanwhile.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from io import FileIO
from itertools import chain
from typing import TYPE_CHECKING, Self

import numpy as np

from pywrapai.core.filelock import file_lock
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.faiss_meta import (
    Opening,
    Save,
    WrongFile,
    chunks_of_pickle,
    opening_line,
    read_opening,
    read_saves,
    save_lines,
    saved_line,
)

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

_HEAD = struct.Struct("<4siqQQBiQ")
_FLAT_IP, _UNUSED = b"IxFI", 1 << 20
_NEW = ".new"


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of an index of inner products, as faiss has them.

    Faiss reads over two of the numbers, and writes 2**20 there; we keep `number` and `key` in them.
    """

    dimension: int
    rows: int
    number: int
    """How many saves there were."""
    key: int
    """Random, and the same in the metadata."""

    def packed(self) -> bytes:
        """As it is in the file."""
        numbers = self.rows * self.dimension
        counts = self.dimension, self.rows, self.number, self.key
        return _HEAD.pack(_FLAT_IP, *counts, 1, 0, numbers)

    @classmethod
    def of(cls, packed: bytes) -> Self | None:
        """None for the head of an index that we did not write."""
        if len(packed) < _HEAD.size:
            return None
        kind, *counts, trained, metric, numbers = _HEAD.unpack(packed)
        head = cls(*counts)
        if (kind, trained, metric, numbers) != (_FLAT_IP, 1, 0, head.rows * head.dimension):
            return None
        return None if head.number == head.key == _UNUSED else head


@dataclass(frozen=True, slots=True)
class Place:
    """Up to where the files were read."""

    seen: bytes
    """The first bytes of the index; none where there are no files yet."""
    made: str | None = None
    """Of the metadata; None where another library wrote it."""
    end: int = 0
    """Where the last save ends in the metadata."""
    pending: bool = False
    """Whether the metadata is still beside its place."""


NOWHERE = Place(b"")
UNREAD = Place(b"unread")


@dataclass(frozen=True, slots=True)
class News:
    """What was saved, up to a place."""

    place: Place
    saves: list[Save]
    dimension: int | None = None
    vectors: Array | None = None
    """Of the chunks in `saves`; None where the index is to be read."""
    anew: bool = False
    """Whether that is all there is, and what was read before is void."""


class Files:
    """The index and the metadata. Paths are resolved once; links are followed.

    OSErrors are left to the caller.
    """

    def __init__(self, index_path: str | os.PathLike[str], meta_path: str | os.PathLike[str]):
        self.index = os.path.realpath(os.fsdecode(index_path))
        self.meta = os.path.realpath(os.fsdecode(meta_path))
        if self.index == self.meta:
            raise ValueError(f"index_path and meta_path are both {self.index}; they are two files")
        for directory in (os.path.dirname(self.index), os.path.dirname(self.meta)):
            if not os.path.isdir(directory):
                raise VectorStoreError(f"there is no directory {directory}: make it first")

    def seen(self) -> bytes:
        """The first bytes of the index as they are now; none where there is no index."""
        try:  # each search asks, and by `open` it would take twice as long
            descriptor = os.open(self.index, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            return b""
        try:
            return os.read(descriptor, _HEAD.size)
        finally:
            os.close(descriptor)

    @contextmanager
    def lock(self, *, shared: bool) -> Iterator[None]:
        """Nobody else writes meanwhile; nor reads, unless `shared`."""
        path = f"{self.index}.lock"
        # Where there is nothing to read, or no file can be made, nobody needs to be kept out.
        needless = shared and not (os.path.exists(self.index) and _can_be(path))
        with nullcontext() if needless else file_lock(path, shared=shared):
            yield

    def read(self, place: Place) -> News:
        """What was saved after a place; all there is, where files were written anew since.

        Raises:
            VectorStoreError: a file is missing, is of another store, or cannot be read.
        """
        seen = self.seen()
        there = {path: os.path.exists(path) for path in (self.index, self.meta)}
        if not there[self.index] and place not in (NOWHERE, UNREAD):
            raise VectorStoreError(f"{self.index} is gone: put it back, and open the store again")
        if not any(there.values()):
            return News(NOWHERE, [], anew=True)
        if not there[self.index]:
            raise _missing(self.index, self.meta)
        try:
            if not there[self.meta]:
                raise _missing(self.meta, self.index)
            return self._read(self.meta, seen, place)
        except VectorStoreError:
            with suppress(VectorStoreError, FileNotFoundError):
                news = self._read(self.meta + _NEW, seen, UNREAD)
                return replace(news, place=replace(news.place, pending=True))
            raise

    def _read(self, path: str, seen: bytes, place: Place) -> News:
        with open(path, "rb") as file:
            opening = read_opening(first := file.readline(), path)
            if opening is None:
                if Head.of(seen) is not None:
                    raise WrongFile(f"{path} is not the file that {self.index} was saved with")
                chunks = chunks_of_pickle(first + file.read(), path)
                return News(Place(seen), [Save([], chunks)], anew=True)
            if (head := Head.of(seen)) is None:
                raise WrongFile(f"{self.index} is not the index that {path} was saved with")
            if known := opening.made == place.made:
                file.seek(place.end)
            saves, end = read_saves(file, head.number, head.key, index=self.index, path=path)
        count = sum(len(save.chunks) for save in saves)
        before = Head.of(place.seen) if known else None
        first_row = before.rows if before else 0
        if first_row + count != head.rows:
            raise VectorStoreError(
                f"{path} is damaged: it has {first_row + count} chunks, and {self.index} has "
                f"{head.rows} rows. Put both back from one backup"
            )
        vectors = self._vectors(head, first_row) if known else None
        now = Place(seen, opening.made, end)
        return News(now, saves, opening.dimension, vectors, anew=not known)

    def _vectors(self, head: Head, first_row: int) -> Array:
        """The rows of the index from one on."""
        size = (head.rows - first_row) * head.dimension
        start = _HEAD.size + 4 * first_row * head.dimension
        found: Array = np.fromfile(self.index, dtype="<f4", count=size, offset=start)
        if len(found) != size:
            raise VectorStoreError(f"{self.index} is cut off: put both files back from one backup")
        return found.reshape(-1, head.dimension)

    def append(self, place: Place, save: Save, vectors: Array) -> Place:
        """Save behind a place, which is where the files end. On failure they are as before."""
        old = Head.of(place.seen)
        assert old is not None
        new = replace(
            old, rows=old.rows + len(save.chunks), number=old.number + 1, key=_random_key()
        )
        content = b"".join([saved_line(old.number), *save_lines(new.number, new.key, save)])
        self._settle(place)
        with (
            open(self.index, "r+b", buffering=0) as index,
            open(self.meta, "r+b", buffering=0) as meta,
        ):
            try:
                if len(vectors):
                    _put(index, _end_of(old), np.ascontiguousarray(vectors).data)
                    os.fsync(index.fileno())
                meta.truncate(place.end)
                _put(meta, place.end, content)
                os.fsync(meta.fileno())
                _put(index, 0, new.packed())
                os.fsync(index.fileno())
            except BaseException:
                with suppress(OSError):
                    _put(index, 0, place.seen)
                    index.truncate(_end_of(old))
                    meta.truncate(place.end)
                    _put(meta, place.end, saved_line(old.number))
                raise
            with suppress(OSError):  # it is saved without; the next one writes this line too
                _put(meta, place.end + len(content), saved_line(new.number))
        return Place(new.packed(), place.made, place.end + len(content))

    def write(
        self, place: Place, dimension: int | None, save: Save, blocks: Iterable[Array]
    ) -> Place:
        """Write both files anew, with one save in them. On failure they are as before.

        Args:
            place: where the files end.
            dimension: None to leave it open for the next chunks; then there are none.
            save: the chunks.
            blocks: their vectors, some rows at a time.
        """
        old = Head.of(place.seen)
        number = old.number + 1 if old else 1
        new = Head(dimension or 1, len(save.chunks), number, _random_key())
        opening = Opening(dimension, f"{_random_key():016x}")
        lines = [opening_line(opening), *save_lines(new.number, new.key, save)]
        written = Place(new.packed(), opening.made, sum(map(len, lines)))
        self._settle(place)
        try:
            _write(self.index + _NEW, chain([written.seen], (block.data for block in blocks)))
            _write(self.meta + _NEW, [*lines, saved_line(number)])
            _replace(self.index)
            _replace(self.meta)
        except OSError:
            if self.seen() == written.seen:  # it is saved: the metadata is found beside its place
                return replace(written, pending=True)
            self._sweep()
            raise
        return written

    def _settle(self, place: Place) -> None:
        """End what another process was killed in."""
        if place.pending:
            _replace(self.meta)
        self._sweep()

    def _sweep(self) -> None:
        for path in (self.index + _NEW, self.meta + _NEW):
            with suppress(FileNotFoundError):
                os.remove(path)


def _missing(path: str, other: str) -> VectorStoreError:
    return VectorStoreError(
        f"{path} is missing, and {other} is there: put it back from the backup that has both, or "
        "remove the other one too and add the documents again"
    )


def _can_be(path: str) -> bool:
    return os.path.exists(path) or os.access(os.path.dirname(path), os.W_OK)


def _random_key() -> int:
    return secrets.randbits(64)


def _end_of(head: Head) -> int:
    return _HEAD.size + 4 * head.rows * head.dimension


def _put(file: FileIO, start: int, content: bytes | memoryview) -> None:
    """Write at a place, all of it."""
    file.seek(start)
    left = memoryview(content).cast("B")
    while left:
        left = left[file.write(left) :]


def _write(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Make a file, and flush it to the disk."""
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: str) -> None:
    """Put what is beside a path in its place, and flush that to the disk."""
    os.replace(path + _NEW, path)
    if os.name == "posix":
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            with suppress(OSError):  # file systems that cannot flush a directory need not be told
                os.fsync(directory)
        finally:
            os.close(directory)
