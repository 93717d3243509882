"""The store on Qdrant: in memory, in a folder, or on a server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, UUID

import numpy as np

from pywrapai.core.checks import at_least_1, timeout_seconds
from pywrapai_graph.rag.batch import NOISE, Batch, check_size
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.metadata import Where, tags_of
from pywrapai_graph.rag.stores.qdrant_access import (
    Access,
    LocalAccess,
    MissingCollection,
    ServerAccess,
)
from pywrapai_graph.rag.stores.records import (
    Found,
    Insertions,
    found_of,
    in_order,
    parts_of,
    readable,
    record_of,
    score_of,
    scored_by_vectors,
)
from pywrapai_graph.rag.stores.shared import SharedVectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from qdrant_client import models

    from pywrapai.core.vectors import Array


_TEXT, _TAGS, _RECORD = "text", "tags", "pywrapai"
_AT_ONCE = 1000
"""So many ids are asked for, or removed, in one request."""
_MOST_TIED = 10_000
"""So many chunks are looked at to see where a tie ends."""
_MANY = 1000
"""A k beyond this is first compared with how many chunks there are."""


class QdrantVectorStore(SharedVectorStore):
    """Chunks in a collection of Qdrant: in memory, in a folder, or on a server.

    In memory and in a folder Qdrant is Python that searches exactly, made for some 20,000 chunks at
    most; above that it warns. One thread is in it at a time. A filter looks at every chunk. A
    folder writes chunk by chunk (10,000 take 15 to 90 seconds), loads all when it is opened, and
    belongs to one store at a time; with `close()` it is free again. Opening a folder unpickles what
    is in it, which can run any code: never open one that a stranger gave you.

    A server searches small collections exactly and large ones by an HNSW index. Of more than
    10,000 chunks that are equally near, those that are found may be others than the first inserted.

    An add to a folder that is killed leaves a part of its chunks there, each of them whole. On a
    server it is sent in parts of some 8 MB, each of which is stored whole or not at all.

    The payload has "text", "tags" to filter by, and "pywrapai" with the rest of the chunk. Points
    have UUIDs made of the ids.

    Args:
        collection: its name; made with the first chunk, or at once if `dimension` is given.
        location: ":memory:", or a folder, made if it is not there. Either this or `url`.
        url: of a server, such as "http://localhost:6333", which is the port where none is told.
        api_key: of that server.
        dimension: how many numbers a vector has; if left out, it is the collection's, or that of
            the first chunk.
        exact: whether a server searches without its index: slower, and nothing is missed.
        timeout: seconds to wait for each answer of the server, rounded up.

    Raises:
        ValueError: both or none of `location` and `url` are given.
        DimensionMismatchError: the collection has vectors of another size than `dimension`.
        VectorStoreError: folder or server cannot be opened, or the collection has several vectors
            a point, or another distance than Cosine or Dot. So do all methods raise for what
            fails.
    """

    def __init__(
        self,
        collection: str,
        location: str | os.PathLike[str] | None = None,
        url: str | None = None,
        api_key: str | None = None,
        dimension: int | None = None,
        *,
        exact: bool = False,
        timeout: float = 30.0,
    ) -> None:
        if (location is None) == (url is None):
            raise ValueError("give either location, ':memory:' or a folder, or url, of a server")
        self._name = collection
        self._exact = exact
        self._given = None if dimension is None else at_least_1("dimension", dimension)
        self._known: int | None = None
        self._insertions = Insertions()
        self._access: Access = (
            LocalAccess(os.fspath(location))
            if location is not None
            else ServerAccess(str(url), api_key, timeout_seconds(timeout))
        )
        try:
            self._look()
            if dimension is not None and self._known is None:
                self._make(dimension)
        except BaseException:
            self._access.close()
            raise

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until that is settled."""
        if self._known is None or self._access.closed:
            self._look()
        return self._known

    def __len__(self) -> int:
        return self._count(None)

    def clear(self) -> None:
        """Remove the collection; the next chunks may have another dimension, if none was given."""
        self._ask("delete_collection")
        self._known = None
        if self._given is not None:
            self._make(self._given)

    def close(self) -> None:
        """Free the folder or the memory, or close the connections."""
        self._access.close()

    def _look_again(self) -> None:
        self._look()

    def _look(self) -> None:
        """See whether the collection is there, is one for cosines, and of which size."""
        try:
            info = self._ask("get_collection")
        except MissingCollection:
            self._known = None
            return
        size = _size_of(info.config.params.vectors, self._name)
        if self._given is not None:
            check_size(self._given, size, "a vector of the dimension given")
        self._known = size

    def _make(self, dimension: int) -> None:
        from qdrant_client import models

        # Our vectors have length 1, so that both are the same; but in local mode Cosine brings all
        # vectors to length 1 in each search: that takes most of the time, and changes last bits.
        kind = models.Distance.COSINE if self._access.is_server else models.Distance.DOT
        params = models.VectorParams(size=dimension, distance=kind)
        try:
            self._ask("create_collection", vectors_config=params)
            if self._access.is_server:
                self._ask("create_payload_index", field_name=_TAGS, field_schema="keyword")
        except VectorStoreError:
            self._look()
            if self._known is None:  # else somebody else made it meanwhile
                raise
        self._look()

    def _put(self, batch: Batch) -> None:
        if self._known is None:
            self._make(batch.dimension)
            check_size(batch.dimension, self._known, "the embeddings")
        first = self._insertions.take(len(batch.chunks))
        for part in parts_of(batch, self._access.most_chunks, self._access.most_bytes):
            points = list(_points(part, first))
            try:
                self._ask("upsert", points=points)
            except MissingCollection:
                self._make(batch.dimension)
                self._ask("upsert", points=points)
            first += len(part.chunks)

    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        if where is not None and not all(tags for _, tags in where.wanted):
            return []
        try:
            return in_order(self._candidates(query, k, _filter(where)), k)
        except MissingCollection:
            return []

    def _candidates(self, query: Array, k: int, filter: models.Filter | None) -> list[Found]:
        """Chunks among which are the k nearest, and whatever is as near as the last of them."""
        wanted = k if k <= _MANY else min(k, self._count(filter) or 1)
        asked = wanted + 1
        points = self._query(query, asked, filter)
        while len(points) == asked < _MOST_TIED + wanted and _tied(points[wanted - 1], points[-1]):
            asked = min(4 * asked + 64, _MOST_TIED + wanted)
            points = self._query(query, asked, filter)
        found = [_found_in(point) for point in points]
        if self._access.is_server or not found:
            return found
        # A product of a whole matrix differs in the last bits by where a row stands.
        return scored_by_vectors(found, _vectors(points), query)

    def _query(self, query: Array, most: int, filter: models.Filter | None) -> list[Any]:
        from qdrant_client import models

        params = models.SearchParams(exact=True) if self._exact else None
        given = self._ask(
            "query_points",
            query=query.tolist(),
            query_filter=filter,
            search_params=params if self._access.is_server else None,
            limit=most,
            with_vectors=not self._access.is_server,
        )
        return list(given.points)

    def _count(self, filter: models.Filter | None) -> int:
        try:
            return int(self._ask("count", count_filter=filter, exact=True).count)
        except MissingCollection:
            return 0

    def _remove(self, ids: list[str]) -> None:
        from qdrant_client import models

        for keys in _keys_of(ids):
            try:
                self._ask("delete", points_selector=models.PointIdsList(points=keys))
            except MissingCollection:
                return

    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        chunks: dict[str, Chunk] = {}
        for keys in _keys_of(ids):
            try:
                points = self._ask("retrieve", ids=keys, with_vectors=True)
            except MissingCollection:
                return {}
            for point in points:
                chunk = _found_in(point).chunk
                chunk.embedding = _vectors([point])[0].tolist()
                chunks[chunk.id] = chunk
        return chunks

    def _ask(self, method: str, **options: Any) -> Any:
        return self._access.ask(method, collection_name=self._name, **options)


def _size_of(vectors: Any, name: str) -> int:
    from qdrant_client import models

    if not isinstance(vectors, models.VectorParams) or vectors.multivector_config is not None:
        raise VectorStoreError(
            f"the Qdrant collection {name!r} has named, several or no vectors a point; expected "
            "one without a name: give another collection"
        )
    if vectors.distance not in (models.Distance.COSINE, models.Distance.DOT):
        raise VectorStoreError(
            f"the Qdrant collection {name!r} measures nearness by {vectors.distance.value}, and "
            "scores need Cosine, or Dot: give another collection"
        )
    return int(vectors.size)


def _key(id: str) -> str:
    """A UUID of version 5, as uuid.uuid5 makes it of texts that are UTF-8."""
    told = hashlib.sha1(NAMESPACE_OID.bytes + id.encode("utf-8", "surrogatepass")).digest()
    return str(UUID(bytes=told[:16], version=5))


def _keys_of(ids: list[str]) -> Iterator[list[Any]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield [_key(id) for id in ids[start : start + _AT_ONCE]]


def _points(part: Batch, first: int) -> Iterator[models.PointStruct]:
    from qdrant_client import models

    vectors = part.vectors.tolist()
    for place, (chunk, vector) in enumerate(zip(part.chunks, vectors, strict=True)):
        payload = {
            _TEXT: readable(chunk.text),
            _TAGS: tags_of(chunk.metadata),
            _RECORD: record_of(chunk, first + place),
        }
        yield models.PointStruct(id=_key(chunk.id), vector=vector, payload=payload)


def _filter(where: Where | None) -> models.Filter | None:
    from qdrant_client import models

    if where is None:
        return None
    return models.Filter(
        must=[
            models.FieldCondition(key=_TAGS, match=models.MatchAny(any=sorted(tags)))
            for _, tags in where.wanted
        ]
    )


def _tied(one: Any, other: Any) -> bool:
    return score_of(one.score) - score_of(other.score) <= NOISE


def _vectors(points: list[Any]) -> Array:
    vectors: Array = np.asarray([point.vector for point in points], dtype=np.float32)
    return vectors


def _found_in(point: Any) -> Found:
    payload = point.payload or {}
    score = score_of(getattr(point, "score", 0.0))
    return found_of(payload.get(_TEXT), payload.get(_RECORD), score, point.id)
