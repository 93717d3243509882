"""From one version of the schema to the next, in place, by Alembic's operations.

A step is a function of `Changes` that says what the next version has beside the one before. Each of
its changes is left out where it has been made: a database that cannot roll back DDL may have been
left in the middle of a step. A step speaks of its own version alone, whatever tables.py says today.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Boolean, Column, Connection, Double, column, inspect, table
from sqlalchemy.types import TypeEngine

from pywrapai.core.extras import needs
from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.tables import BODY, KEY, ROW_ID, WORD

if TYPE_CHECKING:
    from alembic.operations import Operations


def migrate(conn: Connection, version: int, target: int, database: str) -> None:
    """Make the changes from `version` up to `target`; who calls notes down the new version.

    StoreError if there is no way from there.
    """
    if version not in _STEPS:
        raise StoreError(
            f"{database}: its schema is version {version}, from which there is no way to version "
            f"{target}: give the store a new database, or a copy from before that"
        )
    for old in range(version, target):
        _STEPS[old](Changes(conn, database))


class Changes:
    """What a step may do. Each is done once, however often the step runs."""

    def __init__(self, conn: Connection, database: str) -> None:
        self.conn = conn
        self._database = database

    @cached_property
    def _operations(self) -> Operations:
        with needs("monitor"):
            from alembic.operations import Operations
            from alembic.runtime.migration import MigrationContext
        return Operations(MigrationContext.configure(self.conn))

    def add_column(self, table: str, name: str, of_type: TypeEngine[Any]) -> None:
        """Append a column that may be empty, which no database copies the table for."""
        if name not in self._columns(table):
            self._operations.add_column(table, Column(name, of_type))

    def add_index(self, name: str, table: str, *columns: str, unique: bool = False) -> None:
        """Build an index."""
        if name not in {index["name"] for index in inspect(self.conn).get_indexes(table)}:
            self._operations.create_index(name, table, list(columns), unique=unique)

    def add_table(self, name: str, *columns: Column[Any]) -> None:
        """Make a table. StoreError if there is one of that name that is not ours."""
        if not inspect(self.conn).has_table(name):
            options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}
            options |= {"mariadb_engine": "InnoDB", "mariadb_charset": "utf8mb4"}
            self._operations.create_table(name, *columns, **options)
        elif missing := {c.name for c in columns} - self._columns(name):
            raise StoreError(
                f"{self._database}: it has a table {name} that this pywrapai did not make, for it "
                f"lacks {', '.join(sorted(missing))}: rename that table, or move ours elsewhere"
            )

    def _columns(self, table: str) -> set[str]:
        return {found["name"] for found in inspect(self.conn).get_columns(table)}


def _to_5(changes: Changes) -> None:
    """Calls have ids of our own, feedback goes by them, and promotions have an order."""
    changes.add_column("conversations", "call_id", KEY)
    changes.add_column("token_records", "call_id", KEY)
    changes.add_column("token_records", "finish_reason", WORD)
    changes.add_column("token_records", "tags", BODY)
    changes.add_column("token_records", "metadata", BODY)
    changes.add_index("uq_token_records_call", "token_records", "call_id", unique=True)
    changes.add_column("tool_calls", "model_call_id", KEY)
    changes.add_table(
        "feedback",
        Column("id", ROW_ID, primary_key=True, autoincrement=True),
        Column("call_id", KEY, nullable=False),
        Column("score", Double, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("comment", BODY),
    )
    changes.add_index("uq_feedback_call", "feedback", "call_id", unique=True)
    changes.add_index("ix_feedback_time", "feedback", "created_at")
    changes.add_column("system_prompts", "activated_at", BigInteger())
    prompts = table(
        "system_prompts", column("is_active", Boolean), column("activated_at"), column("updated_at")
    )
    changes.conn.execute(
        prompts.update()
        .where(prompts.c.is_active, prompts.c.activated_at.is_(None))
        .values(activated_at=prompts.c.updated_at)
    )


_STEPS: dict[int, Callable[[Changes], None]] = {4: _to_5}
"""By the version that a step starts from."""
