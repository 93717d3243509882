"""The table of a PGVectorStore: found or made, given its dimension and its index, and emptied.

Here and in pgvector_sql a statement always runs with parameters, if only (), so that a percent
sign in a name must be doubled, and is.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError

MOST_INDEXED = 4_000
_MOST_DIMENSIONS = 16_000
_MOST_INDEXED_WHOLE = 2_000  # beyond, an index takes nothing but halfvec
_PAGE = 8160  # bytes that a row may have in one page
_BESIDE_VECTOR = 500  # bytes of a row that stay in the page with its vector
_TOASTED_ABOVE = 2032  # bytes, where nothing else is said
_LOCKS = 0x70797772  # the first half of our advisory locks; the second is a table's, or 0
_NO_RIGHT = "42501"
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED;"  # others see nothing of whom they waited for

_COLUMNS = {
    "id": "text",
    "long_id": "text",
    "seq": "int8",
    "text": "text",
    "doc_id": "text",
    "metadata": "text",
    "tags": "_text",
    "starts": "int8",
    "ends": "int8",
    "embedded_by": "text",
    "embedding": "vector",
}

# The order of "C" is the fastest, and the same whatever the server's C library is updated to.
_CREATE = """
CREATE TABLE {table} (
    id text COLLATE "C" PRIMARY KEY,
    long_id text,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    text text NOT NULL,
    doc_id text NOT NULL,
    metadata text NOT NULL,
    tags text[] COLLATE "C" NOT NULL,
    starts bigint,
    ends bigint,
    embedded_by text,
    embedding {pgvector}.vector NOT NULL
);
CREATE INDEX ON {table} USING gin (tags)"""

_FIND_DATABASE = """
SELECT current_setting('server_encoding'),
    quote_ident(current_schema()) || '.' || quote_ident(%(name)s),
    quote_ident(n.nspname), e.extversion,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
FROM (SELECT) AS one
LEFT JOIN pg_extension AS e ON e.extname = 'vector'
LEFT JOIN pg_namespace AS n ON n.oid = e.extnamespace"""

_FIND_TABLE = """
SELECT format('%%I.%%I', n.nspname, c.relname), c.relkind IN ('r', 'p'), a.attname, t.typname
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type AS t ON t.oid = a.atttypid
WHERE c.oid = to_regclass(quote_ident(%(name)s))"""

STATE = """
SELECT a.atttypmod, EXISTS (
    SELECT FROM pg_index AS i JOIN pg_opclass AS o ON o.oid = i.indclass[0]
    JOIN pg_am AS m ON m.oid = o.opcmethod
    WHERE i.indrelid = a.attrelid AND i.indisvalid AND m.amname = 'hnsw'
    AND o.opcname IN ('vector_ip_ops', 'halfvec_ip_ops'))
FROM pg_attribute AS a WHERE a.attrelid = %(table)s::regclass AND a.attname = 'embedding'"""

_VECTOR_INDEXES = """
SELECT i.indexrelid::regclass::text
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS m ON m.oid = c.relam
WHERE i.indrelid = %(table)s::regclass AND m.amname IN ('hnsw', 'ivfflat')"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is there. Names are quoted, and tell the schema: no search_path matters."""

    name: str
    pgvector: str
    """The schema of the extension."""
    version: tuple[int, ...]
    """The extension's."""

    @property
    def sql(self) -> str:
        """The name as it stands in statements."""
        return in_sql(self.name)

    @property
    def lock(self) -> tuple[int, int]:
        """The advisory lock that adding shares, and that changing the table has alone."""
        return _LOCKS, zlib.crc32(self.name.encode()) - 2**31


@dataclass(frozen=True, slots=True)
class State:
    """What may change about a table while it is in use."""

    dimension: int | None
    indexed: bool

    @classmethod
    def fetched(cls, cursor: Any) -> State:
        """Out of what STATE found."""
        dimension, indexed = cursor.fetchone()
        return cls(None if dimension < 0 else dimension, indexed)


def in_sql(name: str) -> str:
    """A quoted name as it stands in statements."""
    return name.replace("%", "%%")


def check_dimension(dimension: int, *, indexed: bool) -> None:
    """ValueError for what pgvector cannot hold, or cannot index."""
    if type(dimension) is not int or not 1 <= dimension <= _MOST_DIMENSIONS:
        raise ValueError(
            f"dimension is {dimension!r}; expected an int, and pgvector takes 1 to "
            f"{_MOST_DIMENSIONS:,}"
        )
    if indexed and dimension > MOST_INDEXED:
        raise ValueError(
            f"{dimension} dimensions; index='hnsw' takes at most {MOST_INDEXED:,}: leave index "
            "out, or ask the embedding model for fewer dimensions"
        )


def open_table(cursor: Any, name: str, dimension: int | None, *, indexed: bool) -> Table:
    """The table; made, and given a dimension and an index, where they are missing.

    Nothing is written where nothing is missing: users and servers that only read will do.

    Raises:
        DimensionMismatchError: it holds vectors of another size.
        VectorStoreError: it cannot be made, or is somebody else's.
    """
    table = _find(cursor, name) or _make(cursor, name)
    state = state_of(cursor, table)
    _check_same(table, state, dimension)
    known = state.dimension or dimension
    if known is not None and (state.dimension is None or indexed > state.indexed):
        begin_alone(cursor, table)
        state = settle(cursor, table, known, indexed=indexed)
        _check_same(table, state, dimension)
        cursor.execute("COMMIT", ())
    return table


def _check_same(table: Table, state: State, dimension: int | None) -> None:
    if dimension is not None and state.dimension not in (None, dimension):
        raise DimensionMismatchError(
            f"dimension is {dimension}, and the vectors in {table.name} have {state.dimension}: "
            "use the embedding model that they are from, or give another table_name"
        )


def _find(cursor: Any, name: str) -> Table | None:
    cursor.execute(_FIND_TABLE, {"name": name})
    rows = cursor.fetchall()
    cursor.execute(_FIND_DATABASE, {"name": name})  # after it: a table that is there has a type
    encoding, _, pgvector, version, _ = cursor.fetchone()
    if encoding not in ("UTF8", "SQL_ASCII"):
        raise VectorStoreError(
            f"the database's encoding is {encoding}, which does not hold every text: use one made "
            "with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )
    if not rows:
        return None
    quoted, is_table = rows[0][:2]
    columns = {column: kind for _, _, column, kind in rows}
    if not is_table or not _COLUMNS.items() <= columns.items():
        raise VectorStoreError(
            f"{quoted} is there, but is no table of a PGVectorStore: give another table_name"
        )
    return Table(quoted, in_sql(pgvector), _numbers(version))


def _make(cursor: Any, name: str) -> Table:
    """The table; of several that make it at once, one does, and the others find it."""
    cursor.execute(f"{BEGIN} SELECT pg_advisory_xact_lock(%s, 0)", (_LOCKS,))
    if (table := _find(cursor, name)) is None:
        pgvector = _extension(cursor)
        cursor.execute(_FIND_DATABASE, {"name": name})
        quoted = cursor.fetchone()[1]
        if quoted is None:
            raise VectorStoreError(
                "no schema of the search_path is there to make the table in: create one"
            )
        cursor.execute(_CREATE.format(table=in_sql(quoted), pgvector=pgvector), ())
        table = _find(cursor, name)
    cursor.execute("COMMIT", ())
    assert table is not None
    return table


def _extension(cursor: Any) -> str:
    """The schema of the extension, which is made where it is missing."""
    cursor.execute(_FIND_DATABASE, {"name": ""})
    _, _, pgvector, _, available = cursor.fetchone()
    if pgvector is not None:
        return in_sql(pgvector)
    if not available:
        raise VectorStoreError(
            "the server has no pgvector: install it there (on Debian postgresql-17-pgvector, for "
            "version 17), or run the image pgvector/pgvector"
        )
    try:
        cursor.execute("CREATE EXTENSION vector", ())
    except Exception as error:
        if getattr(error, "pgcode", None) != _NO_RIGHT:
            raise
        raise VectorStoreError(
            "this user may not make the extension: let an administrator run CREATE EXTENSION "
            "vector in this database, once"
        ) from error
    return _extension(cursor)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def state_of(cursor: Any, table: Table) -> State:
    """The dimension of a table, and whether it has an index."""
    cursor.execute(STATE, {"table": table.name})
    return State.fetched(cursor)


def begin_alone(cursor: Any, table: Table) -> None:
    """Begin a transaction once all that add have ended; others that add will wait for it."""
    cursor.execute(f"{BEGIN} SELECT pg_advisory_xact_lock(%s, %s)", table.lock)


def settle(cursor: Any, table: Table, dimension: int, *, indexed: bool) -> State:
    """Give the table what it lacks of a dimension and an index; after `begin_alone`."""
    state = state_of(cursor, table)
    if state.dimension is None:
        check_dimension(dimension, indexed=indexed)
        cursor.execute(_set_dimension(table, dimension), ())
        state = State(dimension, state.indexed)
    if indexed and not state.indexed and state.dimension is not None:
        check_dimension(state.dimension, indexed=True)
        _make_index(cursor, table, state.dimension)
    return state


def _set_dimension(table: Table, dimension: int) -> str:
    """Vectors stay in the page of their row where they fit, and texts give way: it halves the
    time of an exact search.
    """
    changes = [f"ALTER COLUMN embedding TYPE {table.pgvector}.vector({dimension})"]
    size = 8 + 4 * dimension + _BESIDE_VECTOR
    if size <= _PAGE:
        changes += [
            "ALTER COLUMN embedding SET STORAGE MAIN",
            f"SET (toast_tuple_target = {max(size, _TOASTED_ABOVE)})",
        ]
    return f"ALTER TABLE {table.sql} {', '.join(changes)}"


def indexed_type(dimension: int) -> str:
    """The type that an index holds."""
    return "vector" if dimension <= _MOST_INDEXED_WHOLE else f"halfvec({dimension})"


def indexed_column(table: Table, dimension: int) -> str:
    """The expression that an index is on."""
    kind = indexed_type(dimension)
    return "embedding" if kind == "vector" else f"(embedding::{table.pgvector}.{kind})"


def _make_index(cursor: Any, table: Table, dimension: int) -> None:
    """By inner products: for unit vectors the same as by cosine, and zero vectors are in it."""
    kind = indexed_type(dimension)
    least = (0, 5) if kind == "vector" else (0, 7)
    if table.version < least:
        raise VectorStoreError(
            f"index='hnsw' for {dimension} dimensions needs pgvector {_dotted(least)}, and this "
            f"database has {_dotted(table.version)}: install a newer one on the server, then run "
            "ALTER EXTENSION vector UPDATE"
        )
    operators = f"{table.pgvector}.{kind.partition('(')[0]}_ip_ops"
    cursor.execute(
        f"CREATE INDEX ON {table.sql} USING hnsw ({indexed_column(table, dimension)} {operators})",
        (),
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def clear(cursor: Any, table: Table, *, keep_dimension: bool) -> None:
    """Remove all rows and, unless it is to be kept, what holds the table to one dimension."""
    begin_alone(cursor, table)
    cursor.execute(f"TRUNCATE {table.sql}", ())
    if not keep_dimension:
        cursor.execute(_VECTOR_INDEXES, {"table": table.name})
        for (index,) in cursor.fetchall():
            cursor.execute(f"DROP INDEX {in_sql(index)}", ())
        cursor.execute(
            f"ALTER TABLE {table.sql} ALTER COLUMN embedding TYPE {table.pgvector}.vector", ()
        )
    cursor.execute("COMMIT", ())
