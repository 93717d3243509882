"""The store in PostgreSQL with pgvector: for many processes and machines at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pywrapai.core.checks import at_least_1
from pywrapai_graph.rag.batch import Batch
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.stores import pgvector_sql as sql
from pywrapai_graph.rag.stores.pgvector_copy import chunk_of, numbers_of
from pywrapai_graph.rag.stores.pgvector_pool import Connections
from pywrapai_graph.rag.stores.pgvector_table import check_dimension, clear, open_table, state_of
from pywrapai_graph.rag.stores.shared import SharedVectorStore
from pywrapai_graph.rag.types import Chunk, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

T = TypeVar("T")

_LONGEST_NAME = 63  # bytes; PostgreSQL cuts what is longer, and two tables would be one


class PGVectorStore(SharedVectorStore):
    """Chunks in a table of a PostgreSQL database that has pgvector. May be shared by threads.

    Extension and table are made where they are missing. An add is one transaction. Each call has a
    connection to itself; one that was dropped is made again within the call. A process that was
    forked makes its own.

    Search is exact. With `index="hnsw"` it is approximate and stays fast with millions of chunks;
    where the index gives too few (a filter that admits hardly anything, or hundreds of chunks that
    are equally near), the search is an exact one. Whoever opens the same table without `index`
    searches exactly, and keeps the index up to date when adding. pgvector's own hnsw.ef_search,
    of which we ask for 100 or more, trades time for what is found: more of it can be set for the
    database, or in the connection string by "?options=-c%20hnsw.ef_search%3D400".

    Args:
        connection_string: such as "postgresql://user:password@host:5432/database", or what else
            libpq takes; its defaults and environment variables hold.
        table_name: one name, whatever characters are in it; so no schema with a dot. The table is
            found on the search_path, or made in its first schema.
        dimension: how many numbers a vector has, at most 16,000. None leaves it to the table, or
            to the first chunk; then `clear` frees the table from it, too.
        index: "hnsw" to have such an index, which is built now if it is not there: writers wait
            until it is, less long if the server has much maintenance_work_mem. At most 4,000
            dimensions; above 2,000 the index rounds to 16 bits, and the scores do not.
        max_connections: so many calls at once; others wait their turn.

    Raises:
        DimensionMismatchError: the table holds vectors of another size than `dimension`.
        VectorStoreError: there is no such server, or no pgvector in it, or this user may not make
            what is missing, or the table is somebody else's. So do all methods raise for what
            fails.
    """

    def __init__(
        self,
        connection_string: str,
        table_name: str = "vector_chunks",
        dimension: int | None = None,
        *,
        index: Literal["hnsw"] | None = None,
        max_connections: int = 8,
    ) -> None:
        if index not in (None, "hnsw"):
            raise ValueError(f"index is {index!r}; expected None for exact search, or 'hnsw'")
        at_least_1("max_connections", max_connections)
        _check_name(table_name)
        self._indexed = index == "hnsw"
        if dimension is not None:
            check_dimension(dimension, indexed=self._indexed)
        self._given = self._known = dimension
        self._connections = Connections(connection_string, max_connections, type(self).__name__)
        self._table = self._run(open_table, table_name, dimension, indexed=self._indexed)

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None until the first chunk was added."""
        self._connections.check_open()
        if self._known is None:
            self._known = self._run(state_of, self._table).dimension
        return self._known

    def __len__(self) -> int:
        return self._run(sql.count, self._table)

    def clear(self) -> None:
        """Remove all chunks. Without `dimension` the next ones may have another size, and indexes
        on the vectors are dropped until there are some.
        """
        self._run(clear, self._table, keep_dimension=self._given is not None)
        self._known = self._given

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _look_again(self) -> None:
        self._known = self._given

    def _put(self, batch: Batch) -> None:
        self._connections.run(
            lambda cursor, attempt: sql.add(
                cursor, self._table, batch, indexed=self._indexed, alone=attempt > 0
            )
        )
        self._known = batch.dimension

    def _nearest(self, query: Array, k: int, where: Where | None) -> list[ScoredChunk]:
        rows = None
        if self._indexed:
            rows = self._run(sql.nearest_by_index, self._table, query, k, where)
        if rows is None:
            rows = self._run(sql.nearest, self._table, query, k, where)
        return [ScoredChunk(chunk_of(row), row[-1]) for row in rows]

    def _remove(self, ids: list[str]) -> None:
        self._run(sql.remove, self._table, ids)

    def _fetch(self, ids: list[str]) -> dict[str, Chunk]:
        rows = self._run(sql.fetch, self._table, ids)
        found = [chunk_of(row, numbers_of(row[-1])) for row in rows]
        return {chunk.id: chunk for chunk in found}

    def _run(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        return self._connections.run(lambda cursor, _attempt: work(cursor, *args, **options))


def _check_name(table_name: str) -> None:
    if not isinstance(table_name, str):
        raise TypeError(f"table_name is a str, not {type(table_name).__name__}")
    try:
        length = len(table_name.encode())
    except UnicodeEncodeError:
        length = 0
    if not 1 <= length <= _LONGEST_NAME or "\0" in table_name:
        raise ValueError(
            f"table_name is {table_name!r}; expected 1 to {_LONGEST_NAME} bytes of UTF-8 "
            "without NUL"
        )
