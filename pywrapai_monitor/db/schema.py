"""Make the tables, bring old ones up to date, and refuse a database that is not ours to write into.

Nothing here relies on DDL being rolled back: what a killed process left half made is finished.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, select

from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.migrations import migrate
from pywrapai_monitor.db.recount import AddTotals, recount
from pywrapai_monitor.db.tables import SCHEMA_VERSION, metadata, schema_info

_BEGUN = 0
"""The version of a schema that is being made."""


def prepare(conn: Connection, database: str, add_totals: AddTotals) -> None:
    """Bring a database to the current schema. The caller holds a lock on the schema.

    StoreError if the schema is newer than this code, or if there are tables that are not ours.
    """
    present = set(inspect(conn).get_table_names())
    if schema_info.name not in present:
        _refuse_foreign(present, database)
        schema_info.create(conn)
    version = conn.execute(select(schema_info.c.version)).scalar()
    if version is None:
        conn.execute(schema_info.insert(), {"id": 1, "version": _BEGUN})
    if not version:
        _make_tables(conn)
    elif version < SCHEMA_VERSION:
        migrate(conn, version, SCHEMA_VERSION, database)
        recount(conn, add_totals)
    elif version > SCHEMA_VERSION:
        raise StoreError(
            f"{database}: its schema is version {version} and this pywrapai knows versions up to "
            f"{SCHEMA_VERSION}: upgrade pywrapai, or open another database"
        )
    if version != SCHEMA_VERSION:
        conn.execute(schema_info.update().values(version=SCHEMA_VERSION))


def _make_tables(conn: Connection) -> None:
    metadata.create_all(conn)
    for table in metadata.sorted_tables:
        for index in table.indexes:
            index.create(conn, checkfirst=True)  # create_all passes over a table that is there


def _refuse_foreign(present: set[str], database: str) -> None:
    if clash := sorted(present & set(metadata.tables)):
        raise StoreError(
            f"{database}: it has tables {', '.join(clash)} that this pywrapai did not make: "
            f"give the store a database of its own"
        )
