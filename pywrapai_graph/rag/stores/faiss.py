"""FAISSVectorStore: exact search by a flat FAISS index, kept in two files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from pywrapai.core.checks import at_least_1
from pywrapai.core.extras import needs
from pywrapai.core.process import ProcessLock
from pywrapai_graph.rag.batch import Batch, check_size
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.store import VectorStore, copy_of
from pywrapai_graph.rag.stores.faiss_files import UNREAD, Files, News
from pywrapai_graph.rag.stores.faiss_meta import Save
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array
    from pywrapai_graph.rag.stores.faiss_rows import Rows


class FAISSVectorStore(VectorStore):
    """Chunks in two files, an index that `faiss.read_index` reads and its metadata; exact search.

    All is in memory too: 4 bytes a number beside the texts. An add writes and flushes to the disk
    what it adds, to both files, and has happened in both or in none, whoever is killed. Rows of
    chunks that were replaced or deleted stay in the index until they are more than the others;
    then both files are written anew.

    Many processes may have the files open. They write one after another, and see at the next call
    what others wrote. A store may be used after a fork; searches in the child use one thread.

    The metadata is JSON whatever the name of its file. A pickle that another library left there is
    read if it is plain data: a list of dicts with the keys "id", "text" and other fields of a
    Chunk, one for each row of a flat index. Nothing in it is ever run. The first change replaces
    it by ours.

    Args:
        index_path: the index; made by the first add.
        meta_path: the metadata; made by the first add. Back up both together.
        dimension: how many numbers a vector has; the first add settles it if left out.

    Raises:
        DimensionMismatchError: the files have another dimension.
        VectorStoreError: a file is missing, damaged, or not of the same store as the other one.
    """

    def __init__(
        self,
        index_path: str | os.PathLike[str],
        meta_path: str | os.PathLike[str],
        dimension: int | None = None,
    ) -> None:
        with needs("faiss"):
            from pywrapai_graph.rag.stores.faiss_rows import Rows, rows_after
        self._rows_after = rows_after
        self._rows: Rows | None = Rows.empty()
        self._given = None if dimension is None else at_least_1("dimension", dimension)
        self._files = Files(index_path, meta_path)
        self._changing = ProcessLock()
        self._place = UNREAD
        self._refresh()

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until the first chunk was added, if not given."""
        rows = self._current()
        return self._given or rows.dimension

    def __len__(self) -> int:
        return len(self._current())

    def clear(self) -> None:
        """Remove all chunks; those that follow may have another dimension, if none was given."""
        with self._saving() as rows:
            if rows.dimension is not None:
                place = self._files.write(self._place, None, Save([], []), [])
                self._take(News(place, [], anew=True))

    def close(self) -> None:
        """Give the memory back; all is in the files already."""
        with self._changing:
            self._rows = None

    def _put(self, batch: Batch) -> None:
        save = Save([], [copy_of(chunk) for chunk in batch.chunks])
        with self._saving() as rows:
            check_size(batch.dimension, rows.dimension, "the embeddings")
            if rows.dimension is None:
                place = self._files.write(self._place, batch.dimension, save, [batch.vectors])
                self._take(News(place, [save], batch.dimension, batch.vectors, anew=True))
            else:
                self._append(rows, save, batch.vectors)

    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        return self._open().nearest(query, k, where)  # they are current: `search` asked just now

    def _remove(self, ids: list[str]) -> None:
        with self._saving() as rows:
            if gone := [id for id in ids if id in rows]:
                self._append(rows, Save(gone, []), np.empty((0, 0), np.float32))

    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        return {chunk.id: chunk for chunk in self._current().get(ids)}

    def _open(self) -> Rows:
        if (rows := self._rows) is None:
            raise VectorStoreError("this FAISSVectorStore is closed: make another one")
        return rows

    def _current(self) -> Rows:
        """The rows, with what others saved before this call."""
        self._open()
        with _explaining("read", self._files.index):
            unchanged = self._place.seen == self._files.seen()
        if not unchanged:
            self._refresh()
        return self._open()

    def _refresh(self) -> None:
        with (
            self._changing,
            _explaining("read", self._files.index),
            self._files.lock(shared=True),
        ):
            self._catch_up()

    @contextmanager
    def _saving(self) -> Iterator[Rows]:
        """Alone among threads and processes, with the rows as all others left them."""
        with (
            self._changing,
            _explaining("write", self._files.index),
            self._files.lock(shared=False),
        ):
            self._catch_up()
            yield self._open()

    def _catch_up(self) -> None:
        self._open()
        if self._place.seen != self._files.seen():
            self._take(self._files.read(self._place))

    def _append(self, rows: Rows, save: Save, vectors: Array) -> None:
        if rows.is_wasteful or self._place.made is None:
            living = Save([], rows.living())
            self._files.write(self._place, rows.dimension, living, rows.blocks())
            self._catch_up()
        place = self._files.append(self._place, save, vectors)
        self._take(News(place, [save], rows.dimension, vectors))

    def _take(self, news: News) -> None:
        """Bring memory to where the files are. Where that fails, all is read again."""
        rows, self._place = self._open(), UNREAD
        rows = self._rows_after(rows, news, self._files.index)
        if self._given is not None:
            check_size(self._given, rows.dimension, "a vector of the dimension given")
        self._rows = rows
        self._place = news.place  # last, so that whoever sees it finds the rows


@contextmanager
def _explaining(doing: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VectorStoreError(
            f"cannot {doing} {error.filename or path}: {error.strerror or error}"
        ) from error
