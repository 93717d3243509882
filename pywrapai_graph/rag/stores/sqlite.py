"""Chunks in one SQLite file, or in memory: nothing to install and nothing to run.

The file keeps them. A search is exact: all vectors are in memory, in a matrix that is read at the
first search and later only told what changed.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pywrapai_graph.rag.batch import Batch, check_size
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.matrix import Matrix
from pywrapai_graph.rag.metadata import Where, metadata_from_json, metadata_to_json
from pywrapai_graph.rag.store import VectorStore
from pywrapai_graph.rag.stores.sqlite_file import SQLiteFile
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

_FORMAT = 1
_REGISTRY = "pywrapai_vector_tables"
_KEPT = 'id, doc_id, text, metadata, start, "end", embedded_by'
_COLUMNS = ["seq", *_KEPT.replace('"', "").split(", "), "embedding"]
_DIMENSION = f"SELECT dimension FROM {_REGISTRY} WHERE table_name = ?"
_MOST_PARAMETERS = 500  # of a statement; every SQLite takes so many
_LOADED_AT_ONCE = 2048
_TRIES = 3

_Kept: TypeAlias = str | bytes
_Row: TypeAlias = tuple[int, _Kept, str, bytes]
"""seq, id, metadata and embedding."""


class SQLiteVectorStore(VectorStore):
    """Chunks in a table of an SQLite file; search is exact.

    Any number of threads and processes may use one file at once, and each finds what the others
    stored. What `add` has stored stays, whatever happens to the process. A file that may only be
    read can be searched. From the first search on the vectors are in memory too, 4 bytes a number:
    100,000 chunks of 1,536 dimensions are 0.6 GB.

    Args:
        db_path: a file, which is made if there is none, or ":memory:". It may hold other tables.
        table_name: any name; each table is a store of its own.

    Raises:
        VectorStoreError: the file cannot be used, or its table of that name is somebody else's.
    """

    def __init__(self, db_path: str | os.PathLike[str], table_name: str = "vector_chunks") -> None:
        self._name = _checked_name(table_name)
        self._table = '"' + table_name.replace('"', '""') + '"'
        self._file = SQLiteFile(db_path)
        self._version: tuple[int, int, int] | None = None
        self._mirror = _Mirror(None, self._file.generation)
        with self._file.reading() as connection:
            there = self._is_there(connection)
        if not there:
            self._create()

    def _create(self) -> None:
        with self._file.writing() as connection:
            if self._is_there(connection):  # another process was first
                return
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_REGISTRY} (table_name TEXT PRIMARY KEY "
                "COLLATE NOCASE, format INTEGER NOT NULL, dimension INTEGER)"
            )
            connection.execute(
                f"CREATE TABLE {self._table} (seq INTEGER PRIMARY KEY AUTOINCREMENT, "
                "id TEXT NOT NULL UNIQUE, doc_id TEXT NOT NULL, text TEXT NOT NULL, "
                'metadata TEXT NOT NULL, start INTEGER, "end" INTEGER, embedded_by TEXT, '
                "embedding BLOB NOT NULL)"
            )
            connection.execute(
                f"INSERT OR REPLACE INTO {_REGISTRY} VALUES (?, ?, NULL)", (self._name, _FORMAT)
            )

    def _is_there(self, connection: sqlite3.Connection) -> bool:
        columns, registered = _columns_of(connection, self._name), None
        if _columns_of(connection, _REGISTRY):
            query = f"SELECT format FROM {_REGISTRY} WHERE table_name = ?"
            registered = connection.execute(query, (self._name,)).fetchone()
        if registered is not None and registered[0] > _FORMAT:
            raise VectorStoreError(
                f"{self._file.path}: table {self._name!r} has the format {registered[0]}, and "
                f"this pywrapai knows {_FORMAT}: upgrade pywrapai"
            )
        if columns and (registered is None or columns != _COLUMNS):
            raise VectorStoreError(
                f"{self._file.path}: table {self._name!r} was not made by this store: give "
                "another table_name or db_path"
            )
        return bool(columns)

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until the first chunk was added."""
        return self._dimension_in(self._file.read(_DIMENSION, (self._name,)))

    def _dimension(self, connection: sqlite3.Connection) -> int | None:
        return self._dimension_in(connection.execute(_DIMENSION, (self._name,)).fetchall())

    def _dimension_in(self, rows: list[tuple[int | None]]) -> int | None:
        if not rows:
            raise VectorStoreError(
                f"{self._file.path}: table {self._name!r} is not in {_REGISTRY} any more; "
                "put the row back, or restore a copy of the file"
            )
        return rows[0][0]

    def _settle(self, connection: sqlite3.Connection, dimension: int | None) -> None:
        query = f"UPDATE {_REGISTRY} SET dimension = ? WHERE table_name = ?"
        connection.execute(query, (dimension, self._name))

    def __len__(self) -> int:
        [(count,)] = self._file.read(f"SELECT count(*) FROM {self._table}")
        return int(count)

    def clear(self) -> None:
        """Remove all chunks; those that follow may have another dimension."""
        with self._file.writing() as connection:
            connection.execute(f"DELETE FROM {self._table}")
            self._settle(connection, None)

    def close(self) -> None:
        """Close the file, and free the memory; the store cannot be used any more."""
        self._file.close()
        with self._file.refreshing:
            self._forget()

    def _put(self, batch: Batch) -> None:
        marks = ", ".join("?" * len(_COLUMNS[1:]))
        insert = f"INSERT OR REPLACE INTO {self._table} ({_KEPT}, embedding) VALUES ({marks})"
        with self._file.writing() as connection:
            dimension = self._dimension(connection)
            check_size(batch.dimension, dimension, "the batch")
            if dimension is None:
                self._settle(connection, batch.dimension)
            connection.executemany(insert, _rows_of(batch))

    def _remove(self, ids: list[str]) -> None:
        delete = f"DELETE FROM {self._table} WHERE id = ?"
        with self._file.writing() as connection:
            connection.executemany(delete, ((_to_kept(id),) for id in ids))

    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        rows = self._rows("embedding", "id", [_to_kept(id) for id in ids])
        found = (_chunk_of(row, np.frombuffer(row[-1], "<f4").tolist()) for row in rows)
        return {chunk.id: chunk for chunk in found}

    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        for _ in range(_TRIES):
            found = self._hits(query, k, where)
            if None not in found:
                break
        else:
            with self._file.still():
                found = self._hits(query, k, where)
        return [one for one in found if one is not None]

    def _hits(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk | None]:
        """None stands for a chunk that was removed before it was read."""
        try:
            nearest = self._matrix().nearest(query, k, where)
        except _Unread:
            nearest = self._nearest_with_metadata(query, k, where)
        rows = self._rows("seq", "seq", [seq for seq, _ in nearest])
        chunks = {row[-1]: _chunk_of(row) for row in rows}
        return [
            ScoredChunk(chunks[seq], score) if seq in chunks else None for seq, score in nearest
        ]

    def _rows(self, last: str, key: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What is kept of the chunks whose `key` has one of the values, and the column `last`."""
        if len(values) <= _MOST_PARAMETERS:
            return self._file.read(self._select(last, key, len(values)), values)
        rows = []
        with self._file.reading() as connection:
            for start in range(0, len(values), _MOST_PARAMETERS):
                some = values[start : start + _MOST_PARAMETERS]
                rows += connection.execute(self._select(last, key, len(some)), some).fetchall()
        return rows

    def _select(self, last: str, key: str, count: int) -> str:
        marks = ",".join("?" * count)
        return f"SELECT {_KEPT}, {last} FROM {self._table} WHERE {key} IN ({marks})"

    # The matrix

    def _matrix(self) -> Matrix[int]:
        """The vectors as they are now. Only what changed since the last time is read."""
        with self._file.refreshing:
            version = self._file.version()
            if version != self._version:
                with self._file.reading() as connection:
                    self._refresh(connection)
                self._version = version
            return self._mirror.matrix

    def _nearest_with_metadata(
        self, query: Array, k: int, where: Where | None
    ) -> list[tuple[int, float]]:
        """For a filter by a key that the matrix has not sorted its chunks by."""
        with self._file.refreshing, self._file.reading() as connection:
            self._refresh(connection)
            found = connection.execute(f"SELECT seq, metadata FROM {self._table}").fetchall()
            with self._mirror.showing(dict(found)):
                return self._mirror.matrix.nearest(query, k, where)

    def _forget(self) -> None:
        self._version = None
        self._mirror = _Mirror(None, self._file.generation)

    def _refresh(self, connection: sqlite3.Connection) -> None:
        try:
            if not self._is_followed(connection):
                self._load(connection)
        except BaseException:
            self._forget()
            raise

    def _is_followed(self, connection: sqlite3.Connection) -> bool:
        """Whether the mirror could be told the changes; else all is to be read."""
        mirror, state = self._mirror, (self._dimension(connection), self._file.generation)
        if (mirror.dimension, mirror.generation) != state:
            return False
        if not 0 < mirror.last <= self._last_given(connection):
            return False  # nothing was read yet, or the file was put back to an earlier state
        newer = self._newer(connection, mirror.last).fetchall()
        new = {_from_kept(id) for _, id, _, _ in newer}
        known = len(mirror.seq_of) + sum(id not in mirror.seq_of for id in new)
        [(count,)] = connection.execute(f"SELECT count(*) FROM {self._table}")
        gone = mirror.not_among(self._seqs(connection), new) if count != known else []
        if known - len(gone) != count:
            return False  # put back, and written since
        mirror.follow(newer, gone)
        return True

    def _last_given(self, connection: sqlite3.Connection) -> int:
        """The highest seq that there ever was."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = ? COLLATE NOCASE"
        found = connection.execute(query, (self._name,)).fetchone()
        return int(found[0]) if found else 0

    def _load(self, connection: sqlite3.Connection) -> None:
        """A mirror of everything, made in portions: there is no second copy of the vectors."""
        mirror = _Mirror(self._dimension(connection), self._file.generation)
        rows = self._newer(connection, 0)
        while some := rows.fetchmany(_LOADED_AT_ONCE):
            mirror.follow(some, [])
        self._mirror = mirror

    def _newer(self, connection: sqlite3.Connection, last: int) -> sqlite3.Cursor:
        query = f"SELECT seq, id, metadata, embedding FROM {self._table} WHERE seq > ? ORDER BY seq"
        return connection.execute(query, (last,))

    def _seqs(self, connection: sqlite3.Connection) -> set[int]:
        return {seq for (seq,) in connection.execute(f"SELECT seq FROM {self._table}")}


class _Unread(Exception):
    """The matrix asks for metadata, and this thread has none at hand."""


class _Mirror:
    """The vectors of a table in memory, as of the last look at it."""

    def __init__(self, dimension: int | None, generation: int) -> None:
        self.dimension = dimension
        self.generation = generation
        self.seq_of: dict[str, int] = {}
        self.last = 0
        self._shown = shown = _Shown()
        self.matrix: Matrix[int] = Matrix(shown.metadata_of)

    def follow(self, newer: Sequence[_Row], gone: Iterable[str]) -> None:
        """Take chunks in, all at one moment, and others out."""
        if newer:
            seqs, kept_ids, metadata, vectors = zip(*newer, strict=True)
            ids = [_from_kept(id) for id in kept_ids]
            with self.showing(dict(zip(seqs, metadata, strict=True))):
                self.matrix.put(ids, self._array(vectors), seqs)
            self.seq_of.update(zip(ids, seqs, strict=True))
            self.last = seqs[-1]
        self.matrix.discard(gone)
        for id in gone:
            del self.seq_of[id]

    def not_among(self, seqs: set[int], new: set[str]) -> list[str]:
        """The ids whose chunks are gone, and did not come back."""
        return [id for id, seq in self.seq_of.items() if seq not in seqs and id not in new]

    @contextmanager
    def showing(self, metadata: dict[int, str]) -> Iterator[None]:
        """Metadata by seq, for what this thread asks of the matrix meanwhile."""
        self._shown.metadata = metadata
        try:
            yield
        finally:
            self._shown.metadata = None

    def _array(self, vectors: Sequence[bytes]) -> Array:
        if {len(vector) for vector in vectors} != {4 * (self.dimension or 0)}:
            raise VectorStoreError(
                f"the table has vectors that are not of {self.dimension} numbers, which this store "
                "did not write: delete those rows, or restore a copy of the file"
            )
        return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)


class _Shown(threading.local):
    """What each thread has at hand, read in one go with the vectors that it is of."""

    metadata: dict[int, str] | None = None

    def metadata_of(self, seqs: Sequence[int]) -> Iterable[dict[str, Any]]:
        if (metadata := self.metadata) is None:
            raise _Unread
        return (metadata_from_json(metadata.get(seq, "{}")) for seq in seqs)


def _checked_name(table_name: str) -> str:
    if not isinstance(table_name, str):
        raise TypeError(f"table_name is of type str, not {type(table_name).__name__}")
    is_text = isinstance(_to_kept(table_name), str) and "\0" not in table_name
    if not table_name or not is_text or table_name.lower() == _REGISTRY:
        raise ValueError(
            f"table_name is {table_name!r}; expected a name without NUL and halves of characters, "
            f"other than {_REGISTRY!r}"
        )
    return table_name


def _columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    query = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return [name for (name,) in connection.execute(query, (table,))]


def _rows_of(batch: Batch) -> Iterator[tuple[Any, ...]]:
    for chunk, vector in zip(batch.chunks, batch.vectors.astype("<f4", copy=False), strict=True):
        yield (
            _to_kept(chunk.id),
            _to_kept(chunk.doc_id),
            _to_kept(chunk.text),
            metadata_to_json(chunk.metadata),
            chunk.start,
            chunk.end,
            None if chunk.embedded_by is None else _to_kept(chunk.embedded_by),
            vector.tobytes(),
        )


def _chunk_of(row: Sequence[Any], embedding: list[float] | None = None) -> Chunk:
    id, doc_id, text, metadata, start, end, embedded_by, _ = row
    return Chunk(
        _from_kept(text),
        _from_kept(doc_id),
        metadata_from_json(metadata),
        _from_kept(id),
        embedding,
        start,
        end,
        None if embedded_by is None else _from_kept(embedded_by),
    )


def _to_kept(text: str) -> _Kept:
    """A text as SQLite takes it: one with halves of characters, which has no UTF-8, as bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _from_kept(kept: _Kept) -> str:
    return kept if isinstance(kept, str) else kept.decode("utf-8", "surrogatepass")
