"""From one version of the schema to the next, in place, by Alembic's operations.

A step is a function of `Changes` that says what the next version has beside the one before. Each of
its changes is left out where it has been made: a database that cannot roll back DDL may have been
left in the middle of a step. A step speaks of its own version alone, whatever tables.py says today,
and not of the running totals, which are made anew after all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Boolean, Column, Connection, Double, column, inspect, table, text
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


_WITH_PARTIAL = ("sqlite", "postgresql")


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

    def add_index(
        self, name: str, table: str, *columns: str, unique: bool = False, where: str | None = None
    ) -> None:
        """Build an index, in the place of one of that name that has other columns.

        `where` leaves rows out for which it does not hold, on a database that can.
        """
        if (found := self._indexes(table).get(name)) == list(columns):
            return
        if found is not None:
            self._operations.drop_index(name, table)
        only = {} if where is None else {f"{d}_where": text(where) for d in _WITH_PARTIAL}
        options: dict[str, Any] = {"unique": unique, **only}
        self._operations.create_index(name, table, list(columns), **options)

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

    def _indexes(self, table: str) -> dict[str | None, list[str | None]]:
        return {i["name"]: i["column_names"] for i in inspect(self.conn).get_indexes(table)}

    def _columns(self, table: str) -> set[str]:
        return {found["name"] for found in inspect(self.conn).get_columns(table)}


def _to_5(changes: Changes) -> None:
    """Calls have ids of our own, feedback goes by them, promotions have an order, and lists of
    calls have indexes.
    """
    changes.add_column("conversations", "call_id", KEY)
    changes.add_column("token_records", "call_id", KEY)
    changes.add_column("token_records", "finish_reason", WORD)
    changes.add_column("token_records", "tags", BODY)
    changes.add_column("token_records", "metadata", BODY)
    changes.add_index("uq_token_records_call", "token_records", "call_id", unique=True)
    _index_calls(changes)
    changes.add_column("tool_calls", "model_call_id", KEY)
    changes.add_index("ix_tool_calls_model_call", "tool_calls", "model_call_id", "id")
    changes.add_index("ix_user_settings_prompt", "user_settings", "prompt_name", "user_id")
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


def _index_calls(changes: Changes) -> None:
    """For lists of calls, newest first."""
    changes.add_index(
        "ix_token_records_session", "token_records", "user_id", "session_id", "created_at", "id"
    )
    changes.add_index("ix_token_records_user", "token_records", "user_id", "created_at", "id")
    changes.add_index("ix_token_records_time", "token_records", "created_at", "id")
    changes.add_index(
        "ix_token_records_status", "token_records", "status", "created_at", "id",
        where="status <> 'ok'",
    )  # fmt: skip
    changes.add_index(
        "ix_token_records_prompt", "token_records", "prompt_name", "prompt_version", "created_at",
        "id", "kind", "cached", "duration_ms", where="prompt_name IS NOT NULL",
    )  # fmt: skip


_STEPS: dict[int, Callable[[Changes], None]] = {4: _to_5}
"""By the version that a step starts from."""
