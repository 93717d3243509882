"""The store in PostgreSQL: for many processes and machines at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, PoolProxiedConnection, Table, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import Insert
from typing_extensions import override

from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.batch import Merge, Statement
from pywrapai_monitor.db.server import (
    CONNECT_TIMEOUT_S,
    LOCK_TIMEOUT_S,
    STATEMENT_TIMEOUT_S,
    Product,
    ServerStore,
)

_SESSION = {
    "TimeZone": "UTC",
    "default_transaction_isolation": "read committed",
    "extra_float_digits": "3",  # before version 12, floats were rounded without it
    # What takes milliseconds is over before it is compiled, or other processes have begun.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    "statement_timeout": f"{STATEMENT_TIMEOUT_S}s",
}
_SET_SESSION = "SELECT " + ", ".join(
    f"set_config('{k}', '{v}', false)" for k, v in _SESSION.items()
)
# A server that vanished without a word is noticed within a minute.
_LIBPQ = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * STATEMENT_TIMEOUT_S,
    "fallback_application_name": "pywrapai",
    "client_encoding": "UTF8",
}
_SCHEMA_LOCK = 0x70797772_61706169  # any number, as long as it is nobody else's: "pywrapai"
# Connection, transaction rollback, resources, operator intervention, the system, authorisation.
_AWAY_CLASSES = ("08", "28", "40", "53", "57", "58")
# Catalogue gone; read-only; timeouts of transactions; privileges; lock not available.
_AWAY = frozenset({"3D000", "25006", "25P03", "25P04", "42501", "55P03"})
_LOST = frozenset({"25P03", "25P04", "57P01", "57P02", "57P03", "57P05"})


_PRODUCT = Product(
    schemes=("postgresql", "postgres"),
    dialect="postgresql",
    driver="psycopg2",
    extra="postgres",
    port=5432,
    connect_args={"psycopg2": _LIBPQ, "psycopg": _LIBPQ},
    passing=frozenset({"40001", "40P01", "55P03"}),
    advice={
        "25006": "this server is read-only: connect to the primary",
        "42501": "grant this user what is missing, or connect as the owner of the tables",
        "42P01": "somebody dropped the table: open the store again, which makes it",
        "53100": "the disk of the server is full: free some space",
        "53300": "give the server more max_connections, or the stores fewer",
        "55P03": "another session holds a lock on these tables: end it, or wait",
        "57014": "it took too long, or an administrator ended it",
    },
)


class PostgresStore(ServerStore):
    """A store in PostgreSQL 12 or newer, given as "postgresql://user:password@host:5432/database".

    The driver is psycopg2 unless the URL names another one ("postgresql+psycopg://...").

    Args:
        url: as above, with libpq's parameters behind a ?; the tables are made in the first schema
            of the search_path.
        max_connections: so many calls at once; others wait their turn.
        clock: nanoseconds since 1970.

    Raises:
        ValueError: that is no such URL.
        StoreError: there is no such database, or its tables cannot be made or are somebody
            else's. So do all methods raise for what fails.
    """

    _product = _PRODUCT
    _product_name = "PostgreSQL"
    _about = "SELECT current_setting('server_version'), pg_database_size(current_database())"

    @override
    def _configure(self, connection: Any, _record: Any) -> None:
        if self._url.get_driver_name() == "psycopg2":
            connection.cursor_factory = _discreet_cursor()
        cursor = connection.cursor()
        cursor.execute(_SET_SESSION)
        cursor.close()
        connection.commit()

    @override
    def _upsert(self, table: Table, keys: Sequence[str], merge: Merge) -> Insert:
        statement = insert(table)
        merged = merge(dict(table.c), dict(statement.excluded))
        return statement.on_conflict_do_update(index_elements=keys, set_=merged)

    @override
    def _lock_schema(self, conn: Connection) -> None:
        encoding = conn.execute(text("SHOW server_encoding")).scalar()
        if encoding != "UTF8":
            raise StoreError(
                f"{self._name}: this database is encoded in {encoding}, which has not every "
                f"character: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0 makes another"
            )
        # Whoever migrates a large table takes long, and the others wait for that. But nobody can
        # write while the one who migrates waits for a reader.
        for setting in ("statement_timeout = 0", "lock_timeout = 0"):
            conn.execute(text(f"SET LOCAL {setting}"))
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SCHEMA_LOCK})
        conn.execute(text(f"SET LOCAL lock_timeout = '{STATEMENT_TIMEOUT_S}s'"))

    # psycopg2 sends BEGIN and COMMIT by themselves, and every row, too. Several statements sent as
    # one are a transaction anyhow, and then what all writers add to is locked for no round trip.

    @contextmanager
    @override
    def _connect(self) -> Iterator[Connection]:
        with super()._connect() as conn:
            pooled = conn.connection
            self._commit_at_once(pooled, True)
            try:
                yield conn
            finally:
                self._commit_at_once(pooled, False)

    @override
    def _take(self) -> PoolProxiedConnection:
        connection = super()._take()
        self._commit_at_once(connection, True)
        return connection

    @override
    def _give_back(self, connection: PoolProxiedConnection) -> None:
        self._commit_at_once(connection, False)
        super()._give_back(connection)

    def _commit_at_once(self, pooled: PoolProxiedConnection, on: bool) -> None:
        connection: Any = pooled.dbapi_connection
        if self._engine.driver == "psycopg2" and connection is not None and not connection.closed:
            connection.autocommit = on

    @override
    def _run(self, cursor: Any, statements: Sequence[Statement]) -> None:
        if self._engine.driver == "psycopg2":
            inserts = [cursor.mogrify(text, row) for text, rows in statements for row in rows]
            cursor.execute(b";".join(inserts))
        else:
            super()._run(cursor, statements)

    @override
    def _code(self, error: Any) -> str | None:
        return getattr(error, "pgcode", None) or getattr(error, "sqlstate", None)

    @override
    def _means_away(self, code: str) -> bool:
        return code in _AWAY or code.startswith(_AWAY_CLASSES)

    @override
    def _is_lost(self, error: Any) -> bool:
        code = self._code(error)
        if code is None:  # not said by the server, so it is the connection
            return isinstance(error, (self._driver.OperationalError, self._driver.InterfaceError))
        return code in _LOST or code.startswith("08")


@cache
def _discreet_cursor() -> type:
    """A cursor whose errors do not repeat what users wrote.

    libpq adds the line of the statement that failed, and psycopg2 has put the values in there; the
    server adds the whole row where a constraint refuses it.
    """
    from psycopg2 import Error
    from psycopg2.extensions import cursor

    @contextmanager
    def discreetly() -> Iterator[None]:
        try:
            yield
        except Error as exc:
            if exc.diag.message_primary is not None:
                exc.args = (exc.diag.message_primary,)
            raise

    class Discreet(cursor):  # type: ignore[misc]  # psycopg2 ships no types
        def execute(self, query: Any, vars: Any = None) -> None:
            with discreetly():
                super().execute(query, vars)

        def executemany(self, query: Any, vars_list: Any) -> None:
            with discreetly():
                super().executemany(query, vars_list)

    return Discreet
