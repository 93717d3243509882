"""The table of the audit log, in the database of a store but apart from its schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    MetaData,
    SmallInteger,
    Table,
    delete,
    inspect,
    select,
)
from sqlalchemy.sql.elements import ColumnElement

from pywrapai_monitor.db import codec
from pywrapai_monitor.db.base import Row, StoreError
from pywrapai_monitor.db.tables import BODY, KEY, ROW_ID
from pywrapai_monitor.db.transactions import TransactionalStore

audit_log = Table(
    "audit_log",
    MetaData(),
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("tenant_id", KEY, nullable=False),
    Column("user_id", KEY, nullable=False),
    Column("role", KEY, nullable=False),
    Column("request_id", KEY, nullable=False),
    Column("module_name", KEY, nullable=False),
    Column("module_version", KEY, nullable=False),
    Column("package_version", KEY, nullable=False),
    Column("model_id", KEY, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", BigInteger),  # in COST_UNITS to the dollar, as everywhere
    Column("latency_ms", BigInteger, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    Column("validated", Boolean, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("rules", BODY, nullable=False),
    Column("model_request_ids", BODY, nullable=False),
    Index("ix_audit_log_tenant", "tenant_id", "id"),
    Index("ix_audit_log_request", "tenant_id", "request_id", "id"),
    mysql_engine="InnoDB",
    mysql_charset="utf8mb4",
    mariadb_engine="InnoDB",
    mariadb_charset="utf8mb4",
)
_column = audit_log.c
_LAST_ID = 2**63 - 1
_AT_ONCE = 500  # are deleted: nobody waits for long


class AuditTable:
    """The table in one store's database; it is made if it is not there."""

    def __init__(self, store: TransactionalStore) -> None:
        self._store = store
        with store._errors(), store._for_schema() as conn:
            store._lock_schema(conn)
            _make(conn, store.location)

    def append(self, row: Row) -> int:
        """Keep a row, and say its id. The time is the store's."""
        row = {**row, "created_at": self._store._now()}
        return self._store._write(lambda conn: _insert(conn, row))

    def newest(
        self, tenant_id: str, wanted: dict[str, Any], before: int | None, limit: int
    ) -> list[Row]:
        """The rows of a tenant with these values, newest first, from below the id `before`."""
        which = _equal({"tenant_id": tenant_id, **wanted})
        found = select(audit_log).where(*which)
        if before is not None:
            found = found.where(_column.id < min(max(before, 0), _LAST_ID))
        with self._store._reading() as conn:
            rows = conn.execute(found.order_by(_column.id.desc()).limit(limit)).mappings().all()
        return [_from_row(dict(row)) for row in rows]

    def delete_of(self, wanted: dict[str, Any]) -> int:
        """Delete the rows with these values; says how many."""
        return self._delete(_equal(wanted))

    def delete_older(self, age_us: int) -> int:
        """Delete the rows of that age, of all tenants; says how many."""
        return self._delete([_column.created_at < max(0, self._store._now() - age_us)])

    def _delete(self, which: Sequence[ColumnElement[bool]]) -> int:
        gone = after = 0
        while ids := self._ids(which, after):
            gone += self._store._write(partial(_drop, ids=ids))
            after = ids[-1]
        return gone

    def _ids(self, which: Sequence[ColumnElement[bool]], after: int) -> Sequence[int]:
        found = select(_column.id).where(*which, _column.id > after).order_by(_column.id)
        with self._store._reading() as conn:
            return conn.execute(found.limit(_AT_ONCE)).scalars().all()


def _equal(wanted: dict[str, Any]) -> list[ColumnElement[bool]]:
    return [_column[name] == value for name, value in wanted.items()]


def _drop(conn: Connection, ids: Sequence[int]) -> int:
    return conn.execute(delete(audit_log).where(_column.id.in_(ids))).rowcount


def _make(conn: Connection, database: str) -> None:
    present = inspect(conn)
    if not present.has_table(audit_log.name):
        audit_log.create(conn)
        return
    if missing := sorted(_missing(column["name"] for column in present.get_columns("audit_log"))):
        raise StoreError(
            f"{database}: it has a table {audit_log.name} that this pywrapai did not make, for it "
            f"lacks {', '.join(missing)}: rename that table, or keep the audit log elsewhere"
        )
    for index in audit_log.indexes:  # a process may have ended before it made them
        index.create(conn, checkfirst=True)


def _missing(names: Iterable[str]) -> set[str]:
    return set(_column.keys()) - set(names)


def _insert(conn: Connection, row: Row) -> int:
    made: Sequence[Any] | None = conn.execute(audit_log.insert(), row).inserted_primary_key
    assert made is not None  # of one row there is one
    return int(made[0])


def _from_row(row: Row) -> Row:
    cost = row.pop("cost")
    row["cost_usd"] = None if cost is None else codec.cost_usd(cost)
    row["validated"] = bool(row["validated"])
    for name in ("started_at", "finished_at", "created_at"):
        row[name] = codec.iso_time(row[name])
    for name in ("rules", "model_request_ids"):
        row[name] = tuple(codec.from_json(row[name]))
    return row
