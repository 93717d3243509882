"""The store in MySQL or MariaDB: for many processes and machines at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, Table, text
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.sql.dml import Insert
from typing_extensions import override

from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.batch import Merge, Statement
from pywrapai_monitor.db.schema import prepare
from pywrapai_monitor.db.server import (
    CONNECT_TIMEOUT_S,
    LOCK_TIMEOUT_S,
    STATEMENT_TIMEOUT_S,
    Product,
    ServerStore,
)

# In other modes, text that does not fit is cut in silence, "" may be NULL and 'a  ' be 'a'.
# Only MariaDB reads what is between /*M! and */, and only it can end a slow statement.
_SET_SESSION = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', "
    "group_concat_max_len = 1048576, "
    f"innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}, lock_wait_timeout = {STATEMENT_TIMEOUT_S} "
    f"/*M! , max_statement_time = {STATEMENT_TIMEOUT_S} */",
    # Not REPEATABLE READ, which also locks what is between the rows: a purge would stop writers.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_NO_HURRY = "SET SESSION wait_timeout = 86400 /*M! , max_statement_time = 0 */"
_LOCK = "CONCAT('pywrapai_', MD5(DATABASE()))"  # such names are of the whole server
_LOCK_WAIT_S = 3600
_TIMEOUTS = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    # The server's own limit comes first, if it has one.
    "read_timeout": STATEMENT_TIMEOUT_S + 10,
    "write_timeout": STATEMENT_TIMEOUT_S + 10,
}
_CHARSET = {"charset": "utf8mb4"}
_ENVELOPE_BYTES = 64 * 1024
"""More than is around the texts in an insert."""
_WIDEST = 8
"""Bytes of a character in a statement, at most: four, and a backslash would stand before each."""
# By number, for all of these may be an OperationalError, as what it cannot take also is.
_AWAY = frozenset({
    0, 2002, 2003, 2005, 2006, 2013, 2014, 2055, 4031, 1152, 1158, 1159, 1160, 1161,  # connection
    1040, 1203, 1226, 1129,  # too many connections
    1044, 1045, 1049, 1130, 1142, 1143, 1227,  # no access
    1053, 1317, 1927, 1969, 3024, 1047,  # going down, ended by somebody or by a limit, no quorum
    1180, 1205, 1206, 1213,  # locks, commit
    1004, 1021, 1026, 1030, 1037, 1038, 1041, 1114,  # no disk or memory left
    1290, 1792, 1836,  # read-only
})  # fmt: skip


_PRODUCT = Product(
    schemes=("mysql", "mariadb"),
    dialect="mysql",
    driver="pymysql",
    extra="mysql",
    port=3306,
    connect_args={"pymysql": _TIMEOUTS | _CHARSET, "mysqldb": _TIMEOUTS | _CHARSET},
    passing=frozenset({1205, 1213}),
    advice={
        1021: "the disk of the server is full: free some space",
        1040: "give the server more max_connections, or the stores fewer",
        1044: "grant this user the database",
        1045: "give the right user and password in the URL",
        1049: "make it with CREATE DATABASE, or name another one in the URL",
        1114: "the disk of the server is full: free some space",
        1142: "grant this user what is missing",
        1146: "somebody dropped the table: open the store again, which makes it",
        1205: "another session holds a lock on these rows: end it, or wait",
        1290: "this server is read-only: connect to the primary",
        1665: "set the server's binlog_format to ROW or MIXED",
        1836: "this server is read-only: connect to the primary",
    },
)


class MySQLStore(ServerStore):
    """A store in MySQL 8.0.17 or MariaDB 10.6, or newer, given as
    "mysql://user:password@host:3306/database".

    The driver is PyMySQL unless the URL names another one ("mysql+mysqldb://...").

    Args:
        url: as above, with the driver's parameters behind a ?. Text is utf8mb4 whatever is said
            there, and whatever the default of the database is.
        max_connections: so many calls at once; others wait their turn.
        clock: nanoseconds since 1970.

    Raises:
        ValueError: that is no such URL.
        StoreError: there is no such database, or its tables cannot be made or are somebody
            else's. So do all methods raise for what fails.
    """

    _product = _PRODUCT
    _product_name = "MySQL"
    _about = (
        "SELECT version(), (SELECT sum(data_length + index_length) "
        "FROM information_schema.tables WHERE table_schema = DATABASE())"
    )
    _packet_bytes = 2**63

    @override
    def _make_engine(self, url: URL, connect_args: Mapping[str, Any], **options: Any) -> Engine:
        if not url.database:
            raise ValueError("the URL names no database: write mysql://user:password@host/database")
        if url.get_driver_name() == "pymysql" and url.password:
            connect_args = {**connect_args, "password": url.password.encode()}  # not Latin 1
        return super()._make_engine(url.difference_update_query(_CHARSET), connect_args, **options)

    @override
    def _configure(self, connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for statement in _SET_SESSION:
            cursor.execute(statement)
        cursor.close()

    @override
    def _upsert(self, table: Table, keys: Sequence[str], merge: Merge) -> Insert:
        statement = insert(table)
        merged = merge(dict(table.c), dict(statement.inserted))
        return statement.on_duplicate_key_update(merged)

    @override
    def _open(self) -> None:
        with self._for_schema() as conn:
            self._lock_schema(conn)
            prepare(conn, self._name, self._write_totals)
            self._packet_bytes = int(conn.execute(text("SELECT @@max_allowed_packet")).scalar_one())

    @contextmanager
    @override
    def _for_schema(self) -> Iterator[Connection]:
        """A connection that may take its time, and takes its locks along when it closes."""
        self._engine.connect().close()  # now its dialect knows what it talks to
        name = "mariadb" if getattr(self._engine.dialect, "is_mariadb", False) else "mysql"
        driver = self._url.get_driver_name()
        connect_args = dict(self._product.connect_args.get(driver, {}))
        for limit in ("read_timeout", "write_timeout"):
            connect_args.pop(limit, None)
        url = self._url.set(drivername=f"{name}+{driver}")  # their collations differ
        engine = self._make_engine(url, connect_args, poolclass=NullPool)
        with engine.begin() as conn:
            conn.execute(text(_NO_HURRY))
            yield conn

    @override
    def _lock_schema(self, conn: Connection) -> None:
        # Each statement on the schema is a transaction here, so the lock is one of the connection.
        if conn.execute(text(f"SELECT GET_LOCK({_LOCK}, {_LOCK_WAIT_S})")).scalar() != 1:
            raise StoreError(
                f"{self._name}: another process has been changing the schema for an hour: "
                f"see SHOW PROCESSLIST",
                retryable=True,
            )

    @override
    def _run(self, cursor: Any, statements: Sequence[Statement]) -> None:
        fitting = [(text, [self._fitting(row) for row in rows]) for text, rows in statements]
        super()._run(cursor, fitting)

    def _fitting(self, row: Any) -> Any:
        """The row with its texts cut where the server would refuse it as too large a packet."""
        values = row.values() if isinstance(row, dict) else row
        if _WIDEST * sum(len(v) for v in values if type(v) is str) < self._packet_bytes:
            return row
        sizes = [_bytes_in_statement(v) if type(v) is str else 0 for v in values]
        limit = _share(sizes, self._packet_bytes - _ENVELOPE_BYTES)
        cut = [_cut(v, limit) if size > limit else v for v, size in zip(values, sizes, strict=True)]
        return dict(zip(row, cut, strict=True)) if isinstance(row, dict) else tuple(cut)

    @override
    def _code(self, error: Any) -> int | None:
        args = getattr(error, "args", ())
        return args[0] if args and type(args[0]) is int else None

    @override
    def _means_away(self, code: int) -> bool:
        return code in _AWAY


def _bytes_in_statement(value: str) -> int:
    return len(value.encode()) + sum(map(value.count, "\0\n\r\x1a\"'\\"))


def _share(sizes: Sequence[int], room: int) -> int:
    """What each may have at most so that all have room; the smaller ones leave theirs."""
    waiting = len(sizes)
    for size in sorted(sizes):
        if size * waiting > room:
            return max(room // waiting, 0)
        room -= size
        waiting -= 1
    return max(sizes)


def _cut(value: str, limit: int) -> str:
    """The beginning, which takes no more even if each of its bytes has to be escaped."""
    mark = f"… [cut: max_allowed_packet of the server has no room for {len(value):,} characters]"
    kept = value.encode()[: max(limit // 2 - len(mark.encode()), 0)]
    return kept.decode(errors="ignore") + mark
