"""Make the tables where there are none, and refuse a database that is not ours to write into."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, select

from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.tables import SCHEMA_VERSION, metadata, schema_info


def prepare(conn: Connection, database: str) -> None:
    """Bring an empty database to the current schema. The caller holds a lock on the schema.

    StoreError if the schema is newer than this code, or if there are tables that are not ours.
    """
    present = set(inspect(conn).get_table_names())
    if schema_info.name not in present:
        _refuse_foreign(present, database)
        metadata.create_all(conn, checkfirst=False)
        conn.execute(schema_info.insert(), {"id": 1, "version": SCHEMA_VERSION})
        return
    version = conn.execute(select(schema_info.c.version)).scalar_one()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{database}: its schema is version {version} and this pywrapai knows versions up to "
            f"{SCHEMA_VERSION}: upgrade pywrapai, or open another database"
        )


def _refuse_foreign(present: set[str], database: str) -> None:
    if clash := sorted(present & set(metadata.tables)):
        raise StoreError(
            f"{database}: it has tables {', '.join(clash)} that this pywrapai did not make: "
            f"give the store a database of its own"
        )
