"""What a PGVectorStore says to its table: add, remove, fetch, count and search."""

from __future__ import annotations

from typing import Any, TypeAlias

from pywrapai_graph.rag.batch import NOISE, Batch, check_size
from pywrapai_graph.rag.metadata import Where
from pywrapai_graph.rag.stores.pgvector_copy import (
    READ,
    WRITTEN,
    CopyStream,
    array_of,
    keys_of,
    vector_of,
)
from pywrapai_graph.rag.stores.pgvector_table import (
    BEGIN,
    STATE,
    State,
    Table,
    indexed_column,
    indexed_type,
    settle,
)

Row: TypeAlias = tuple[Any, ...]

_LEAST_EF_SEARCH, _MOST_EF_SEARCH = 100, 1000
_MOST_ASKED = 20_000  # rows of an index, which looks at no more of them (hnsw.max_scan_tuples)
_MOST_ROWS = 10**15  # more than a table can have
_NO_JIT = "SET LOCAL jit = off;"  # to compile a query costs more than it gains: the time goes
# into pgvector's own operator


def add(cursor: Any, table: Table, batch: Batch, *, indexed: bool, alone: bool) -> None:
    """Replace and add, in one transaction.

    Several may add at once. One that collides, or finds a table that is not settled, must do it
    `alone`: then nobody else adds.
    """
    state = _begin(cursor, table, batch, alone=alone)
    if state.dimension is None or indexed > state.indexed:
        if not alone:
            cursor.execute("ROLLBACK", ())
            add(cursor, table, batch, indexed=indexed, alone=True)
            return
        state = settle(cursor, table, batch.dimension, indexed=indexed)
    check_size(batch.dimension, state.dimension)
    _copy(cursor, table, batch)
    cursor.execute("COMMIT", ())


def _begin(cursor: Any, table: Table, batch: Batch, *, alone: bool) -> State:
    """Begin a transaction, and remove what is replaced, in one trip to the server."""
    shared = "" if alone else "_shared"
    locks, lock = table.lock
    cursor.execute(
        f"{BEGIN} SELECT pg_advisory_xact_lock{shared}(%(locks)s, %(lock)s);"
        f"DELETE FROM {table.sql} WHERE id = ANY (%(keys)s::text[]);{STATE}",
        {"locks": locks, "lock": lock, "keys": keys_of(batch.ids), "table": table.name},
    )
    return State.fetched(cursor)


def _copy(cursor: Any, table: Table, batch: Batch) -> None:
    stream = CopyStream(batch)
    statement = f"COPY {table.name} ({WRITTEN}) FROM STDIN (FORMAT binary)"  # takes no parameters
    try:
        cursor.copy_expert(statement, stream)
    except Exception:
        if stream.error is not None:
            raise stream.error from None
        raise


def remove(cursor: Any, table: Table, ids: list[str]) -> None:
    """Remove rows."""
    cursor.execute(
        f"{BEGIN} DELETE FROM {table.sql} WHERE id = ANY (%s::text[]); COMMIT", (keys_of(ids),)
    )


def fetch(cursor: Any, table: Table, ids: list[str]) -> list[Row]:
    """READ and the sent vector of the rows that are there."""
    cursor.execute(
        f"SELECT {READ}, {table.pgvector}.vector_send(embedding) FROM {table.sql} "
        "WHERE id = ANY (%s::text[])",
        (keys_of(ids),),
    )
    rows: list[Row] = cursor.fetchall()
    return rows


def count(cursor: Any, table: Table) -> int:
    """How many rows there are."""
    cursor.execute(f"SELECT count(*) FROM {table.sql}", ())
    return int(cursor.fetchone()[0])


def nearest(cursor: Any, table: Table, query: Any, k: int, where: Where | None) -> list[Row]:
    """READ and the score of the k best rows: of all of them, for no index has this order."""
    condition, values = _condition(where)
    cursor.execute(
        f"{_NO_JIT} SELECT {READ}, {_score(table)} AS score FROM {table.sql} {condition} "
        "ORDER BY score DESC, seq LIMIT %(k)s",
        {"query": vector_of(query), "k": min(k, _MOST_ROWS), **values},
    )
    return [(*row[:-1], _score_of(row[-1])) for row in cursor.fetchall()]


def nearest_by_index(
    cursor: Any, table: Table, query: Any, k: int, where: Where | None
) -> list[Row] | None:
    """The same by the index, which finds nearly all of them; None where it cannot tell.

    It is asked for more than k. Where it gives fewer, some may be missing; and where the last that
    it gives is as near as the k-th, so may others be that were inserted earlier.
    """
    if (asked := k + max(16, k // 4)) > _MOST_ASKED:
        return None
    condition, values = _condition(where)
    kind = indexed_type(len(query))
    cursor.execute(
        f"{index_settings(table, asked)} WITH near AS MATERIALIZED ("
        f"SELECT {READ}, seq, {_score(table)} AS score FROM {table.sql} {condition} "
        f"ORDER BY {indexed_column(table, len(query))} OPERATOR({table.pgvector}.<#>) "
        f"%(query)s::{table.pgvector}.{kind} LIMIT %(asked)s) "
        f"SELECT {READ}, score, min(score) OVER (), count(*) OVER () FROM near "
        "ORDER BY score DESC, seq LIMIT %(k)s",
        {"query": vector_of(query), "k": k, "asked": asked, **values},
    )
    rows = cursor.fetchall()
    if not rows or rows[-1][-1] < asked or rows[-1][-2] == rows[-1][-3]:
        return None
    return [(*row[:-3], _score_of(row[-3])) for row in rows]


def index_settings(table: Table, asked: int) -> str:
    """For so many rows; a higher ef_search, set for the connection or the database, stands."""
    ef_search = min(max(2 * asked, _LEAST_EF_SEARCH), _MOST_EF_SEARCH)
    settings = (
        f"{_NO_JIT} SELECT set_config('hnsw.ef_search', greatest({ef_search}, "
        "nullif(current_setting('hnsw.ef_search', true), '')::int)::text, true);"
    )
    if table.version >= (0, 8):  # relaxed: it gives all that it meets, and the statement sorts
        settings += "SET LOCAL hnsw.iterative_scan = relaxed_order;"
    return settings


def _score(table: Table) -> str:
    """The product of unit vectors is their cosine; and 0 where one is a zero vector."""
    query = f"%(query)s::{table.pgvector}.vector"
    return f"LEAST(GREATEST(-(embedding OPERATOR({table.pgvector}.<#>) {query}), {NOISE}), 1)"


def _score_of(score: float) -> float:
    return 0.0 if score <= NOISE else score


def _condition(where: Where | None) -> tuple[str, dict[str, str]]:
    if where is None:
        return "", {}
    values = {f"tags{i}": array_of(tags) for i, (_, tags) in enumerate(where.wanted)}
    return "WHERE " + " AND ".join(f"tags && %({name})s::text[]" for name in values), values
