"""The store on Chroma: in a folder of one process, or on a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from pywrapai.core.checks import timeout_seconds
from pywrapai_graph.rag.batch import Batch, check_size
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.stores.chroma_client import Access, FolderAccess, ServerAccess, explaining
from pywrapai_graph.rag.stores.chroma_fields import (
    Row,
    conditions_of,
    fields_of,
    found_in,
    key_of,
)
from pywrapai_graph.rag.stores.records import (
    Found,
    Insertions,
    in_order,
    parts_of,
    readable,
    score_of,
    scored_by_vectors,
)
from pywrapai_graph.rag.stores.shared import SharedVectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array


# More neighbours and a wider search than Chroma's own 16, 100 and 100: of 10,000 random vectors of
# 384 numbers the 10 nearest are found to 94 %, not to 53 %, and adding takes a third longer.
_CANDIDATES = 200
_INDEX = {
    "space": "cosine",
    "max_neighbors": 32,
    "ef_construction": _CANDIDATES,
    "ef_search": _CANDIDATES,
}
_MOST_TIED = 10_000
"""So many chunks are looked at to see where a tie ends."""
_MANY = 1000
"""A k beyond this is first compared with how many chunks there are."""
_ATTEMPTS = 3
_REMOVED = "Error finding id"


class ChromaVectorStore(SharedVectorStore):
    """Chunks in a collection of Chroma: a folder on this machine, or a server.

    Search is approximate, by an HNSW index of cosines that keeps 200 candidates; of up to 200
    chunks nothing is missed. Where the index gives too few, because a filter admits hardly anything
    or k is nearly the number of chunks, the search is an exact one. Of more than 10,000 chunks that
    are equally near, those that are found may be others than the first inserted.

    A folder belongs to one process at a time, in which many stores may open it; others get an
    error, because two of them would damage its index. Do not open it with another client meanwhile.
    A process that was forked cannot use Chroma in a folder, if its parent did; it says so.

    An add of as many chunks as Chroma takes at once (5,461; on a server also some 16 MB) is stored
    whole or not at all; a larger one is stored part by part. In a folder, what a completed add
    stored is there after the process was killed, as far as Chroma can open its files: it could
    after each of 180 kills, but others have seen it fail, so keep the documents.

    The text is Chroma's document, and "pywrapai" in its metadata the rest of the chunk. Records
    that others wrote are found, too, with document and metadata as they are; filters do not see
    their metadata.

    Args:
        path: a folder; made if it is not there. Either this or `url`.
        collection: its name, 3 to 512 of a-z, A-Z, 0-9, ".", "_" and "-"; made if it is not there.
        url: of a server, such as "http://localhost:8000".
        timeout: seconds to wait for each answer of the server.

    Raises:
        ValueError: both or none of `path` and `url` are given.
        VectorStoreError: folder, server or collection cannot be opened, or the collection is not
            one of cosines. So do all methods raise for what fails.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        collection: str = "vector_chunks",
        url: str | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        if (path is None) == (url is None):
            raise ValueError("give either path, of a folder, or url, of a server")
        self._name = collection
        self._closed = False
        self._insertions = Insertions()
        self._dimension: int | None = None
        self._many_at: int | None = None
        self._access: Access = (
            FolderAccess(path)
            if path is not None
            else ServerAccess(str(url), timeout_seconds(timeout))
        )
        try:
            self._refresh()
            with explaining(self._access.place):
                self._most = max(self._access.client().get_max_batch_size(), 1)
        except BaseException:
            self._access.close()
            raise

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until the first chunk was added."""
        self._check_open()
        if self._dimension is None:
            self._refresh()
        return self._dimension

    def __len__(self) -> int:
        return int(self._ask("count"))

    def clear(self) -> None:
        """Remove the collection and make it anew; its next chunks may have another dimension."""
        self._check_open()
        with self._access.turns.writing():
            with (
                explaining(self._access.place, self._check_open) as errors,
                suppress(errors.NotFoundError),
            ):
                self._access.client().delete_collection(self._name)
            self._refresh()

    def close(self) -> None:
        """Free the folder, or close the connections."""
        if not self._closed:
            self._closed = True
            self._access.close()

    def _look_again(self) -> None:
        self._refresh()

    def _put(self, batch: Batch) -> None:
        with self._access.turns.writing():
            first = self._insertions.take(len(batch.chunks))
            for part in parts_of(batch, self._most, self._access.most_bytes):
                try:
                    self._upsert(part, first)
                except VectorStoreError:
                    self._refresh()
                    check_size(batch.dimension, self._dimension, "the embeddings")
                    raise
                first += len(part.chunks)
        self._dimension = batch.dimension

    def _upsert(self, part: Batch, first: int) -> None:
        keys = [key_of(id) for id in part.ids]
        fields: dict[str, dict[str, Any]] = {
            key: fields_of(chunk, first + place)
            for place, (key, chunk) in enumerate(zip(keys, part.chunks, strict=True))
        }
        there = self._ask("get", ids=keys, include=["metadatas"])
        for key, old in zip(there["ids"], there["metadatas"], strict=True):
            # Chroma keeps the fields of a record that the new one does not have.
            fields[key] = dict.fromkeys(old or ()) | fields[key]
        self._ask(
            "upsert",
            ids=keys,
            embeddings=part.vectors,
            documents=[readable(chunk.text) for chunk in part.chunks],
            metadatas=list(fields.values()),
        )

    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        if where is not None and not all(tags for _, tags in where.wanted):
            return []
        with self._access.turns.lock.reading:
            return in_order(self._candidates(query, k, conditions_of(where)), k)

    def _candidates(self, query: Array, k: int, conditions: dict[str, Any] | None) -> list[Found]:
        """Chunks among which are the k nearest, and whatever is as near as the last of them."""
        if self._are_few():
            return self._among_few(query, k, conditions)
        wanted = k if k <= _MANY else min(k, self._count(conditions) or 1)
        asked = wanted + 1
        rows = self._query(query, asked, conditions)
        while len(rows) == asked < _MOST_TIED + wanted and rows[wanted - 1].score == rows[-1].score:
            asked = min(4 * asked + 64, _MOST_TIED + wanted)
            rows = self._query(query, asked, conditions)
        if len(rows) < asked and len(rows) != self._count(conditions):
            return self._all(query, conditions)
        if len(rows) == asked == wanted + 1:  # and the last one is farther
            rows.pop()
        return [found_in(row) for row in rows]

    def _are_few(self) -> bool:
        """Whether all chunks are candidates of a search; asked again after each change."""
        changes = self._access.turns.changes
        if self._many_at != changes and self._count(None) > _CANDIDATES:
            self._many_at = changes
        return self._many_at != changes

    def _among_few(self, query: Array, k: int, conditions: dict[str, Any] | None) -> list[Found]:
        """The same, where the index is to give all chunks: it loses some that replaced others."""
        if not (count := self._count(conditions)):
            return []
        given = self._ask(
            "query",
            query_embeddings=query[np.newaxis],
            n_results=count + 1,  # which others may have added meanwhile
            where=conditions,
            include=["distances"],
        )
        scores = [score_of(1 - distance) for distance in given["distances"][0]]
        if len(scores) != count:
            return self._all(query, conditions)
        least = sorted(scores)[-k] if k < count else 0.0
        near = {key: s for key, s in zip(given["ids"][0], scores, strict=True) if s >= least}
        kept = self._ask("get", ids=list(near), include=["metadatas", "documents"])
        columns = kept["ids"], kept["documents"], kept["metadatas"]
        rows = [Row(*row, near[row[0]]) for row in zip(*columns, strict=True)]
        return [found_in(row) for row in rows if row.is_there]

    def _query(self, query: Array, most: int, conditions: dict[str, Any] | None) -> list[Row]:
        """What the index gives, the nearest first."""
        given = self._ask(
            "query",
            query_embeddings=query[np.newaxis],
            n_results=most,
            where=conditions,
            include=["metadatas", "documents", "distances"],
        )
        scores = [score_of(1 - distance) for distance in given["distances"][0]]
        columns = given["ids"][0], given["documents"][0], given["metadatas"][0], scores
        return [row for row in map(Row, *columns) if row.is_there]

    def _count(self, conditions: dict[str, Any] | None) -> int:
        if conditions is None:
            return int(self._ask("count"))
        return len(self._ask("get", where=conditions, include=[])["ids"])

    def _all(self, query: Array, conditions: dict[str, Any] | None) -> list[Found]:
        found, vectors = self._get(where=conditions)
        return scored_by_vectors(found, vectors, query) if found else []

    def _get(self, **which: Any) -> tuple[list[Found], Array]:
        given = self._ask("get", include=["metadatas", "documents", "embeddings"], **which)
        rows = list(map(Row, given["ids"], given["documents"], given["metadatas"]))
        there = [place for place, row in enumerate(rows) if row.is_there]
        vectors: Array = np.asarray(given["embeddings"], dtype=np.float32)
        return [found_in(rows[place]) for place in there], vectors[there]

    def _remove(self, ids: list[str]) -> None:
        with self._access.turns.writing():
            for keys in self._keys_of(ids):
                self._ask("delete", ids=keys)

    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        chunks: dict[str, Chunk] = {}
        with self._access.turns.lock.reading:
            for keys in self._keys_of(ids):
                found, vectors = self._get(ids=keys)
                for one, vector in zip(found, vectors, strict=True):
                    one.chunk.embedding = vector.tolist()
                    chunks[one.chunk.id] = one.chunk
        return chunks

    def _keys_of(self, ids: list[str]) -> Iterator[list[str]]:
        for start in range(0, len(ids), self._most):
            yield [key_of(id) for id in ids[start : start + self._most]]

    def _check_open(self) -> None:
        if self._closed:
            raise VectorStoreError("this ChromaVectorStore is closed: make another one")

    def _ask(self, method: str, **options: Any) -> Any:
        """Call a method of the collection.

        Again, if somebody cleared it since; or removed, on a server, what this call had just found.
        """
        self._check_open()
        with explaining(self._access.place, self._check_open) as errors:
            if self._client is not self._access.client():
                self._refresh()
            for _ in range(_ATTEMPTS):
                try:
                    return getattr(self._collection, method)(**options)
                except errors.NotFoundError:
                    self._refresh()
                except errors.InternalError as error:
                    if _REMOVED not in str(error):
                        raise
            return getattr(self._collection, method)(**options)

    def _refresh(self) -> None:
        """Find the collection, or make it, and see how many dimensions it has."""
        with explaining(self._access.place, self._check_open) as errors:
            client = self._access.client()
            try:
                collection = client.get_collection(self._name, embedding_function=None)
            except errors.NotFoundError:
                collection = client.get_or_create_collection(
                    self._name, configuration={"hnsw": _INDEX}, embedding_function=None
                )
            _check_space(collection, self._name)
            self._client, self._collection = client, collection
            self._dimension = collection.get_model().dimension


def _check_space(collection: Any, name: str) -> None:
    configuration = collection.configuration_json
    index = configuration.get("hnsw") or configuration.get("spann") or {}
    if (space := index.get("space")) != "cosine":
        raise VectorStoreError(
            f"the Chroma collection {name!r} measures nearness by {space!r}, and scores need "
            "'cosine': give another collection, or remove this one and add its documents again"
        )
