"""The store on SQLAlchemy Core: the nineteen methods, for every SQL database alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Engine, Table
from typing_extensions import override

from pywrapai_monitor.db import codec, prompts, purge, queries, rows
from pywrapai_monitor.db.base import MessageRecord, Row, TokenRecord
from pywrapai_monitor.db.batch import ROW_TABLES
from pywrapai_monitor.db.days import MAX_DAYS, last_days, midnight, time_zone, today, whole_number
from pywrapai_monitor.db.tables import conversations, token_records, tool_calls
from pywrapai_monitor.db.transactions import TransactionalStore

if TYPE_CHECKING:
    from pywrapai import Message, ToolCall, ToolResult

_DAY_US = 24 * 60 * 60 * 1_000_000
_NEWEST = 2**31 - 1


class SQLStore(TransactionalStore):
    """What PostgreSQL, MySQL and SQLite have in common, which is nearly everything."""

    def __init__(
        self, engine: Engine, *, name: str = "", clock: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(engine, name=name, clock=clock)
        self._prompts = prompts.Prompts(self._upsert)

    # Writes

    @override
    def save_message(self, record: MessageRecord) -> None:
        self._save(conversations, [rows.message_to_row(record)])

    @override
    def save_token_record(self, record: TokenRecord) -> None:
        self._save(token_records, [rows.record_to_row(record)])

    @override
    def save_tool_step(
        self,
        user_id: str,
        session_id: str,
        turn_num: int,
        calls: Sequence[ToolCall],
        results: Sequence[ToolResult],
        durations_ms: Sequence[float | None] = (),
    ) -> None:
        step = rows.tool_step_to_rows(user_id, session_id, turn_num, calls, results, durations_ms)
        self._save(tool_calls, list(step))

    # Reads

    @override
    def load_history(
        self, user_id: str, session_id: str, max_turns: int | None = 20
    ) -> list[Message]:
        if max_turns == 0 and max_turns is not False:
            return []
        turns = None if max_turns is None else whole_number("max_turns", max_turns, _NEWEST)
        user_id, session_id = _ids(user_id, session_id)
        with self._reading() as conn:
            return queries.history(conn, user_id, session_id, turns)

    @override
    def get_session_token_records(self, user_id: str, session_id: str) -> list[Row]:
        user_id, session_id = _ids(user_id, session_id)
        with self._reading() as conn:
            return queries.session_records(conn, user_id, session_id)

    # Prompt registry

    @override
    def save_prompt(
        self, name: str, version: str, text: str | None = None, is_active: bool = False
    ) -> None:
        name, version = codec.key("name", name), codec.key("version", version)
        if version == prompts.ACTIVE:
            raise ValueError(
                f"{version!r} names the promoted version: call this one something else"
            )
        text = codec.readable_or_none(text)
        at = self._now()
        self._write(lambda conn: self._prompts.save(conn, name, version, text, is_active, at))

    @override
    def get_prompt(self, name: str, version: str = prompts.ACTIVE) -> str:
        with self._reading() as conn:
            return prompts.require(conn, codec.key("name", name), codec.key("version", version))

    @override
    def active_prompt_version(self, name: str) -> str:
        with self._reading() as conn:
            return prompts.active_version(conn, codec.key("name", name))

    @override
    def set_user_prompt(self, user_id: str, prompt_name: str, prompt_version: str) -> None:
        user_id, name = codec.key("user_id", user_id), codec.key("prompt_name", prompt_name)
        version = codec.key("prompt_version", prompt_version)
        at = self._now()
        self._write(lambda conn: self._prompts.pin(conn, user_id, name, version, at))

    @override
    def get_user_prompt_version(self, user_id: str, prompt_name: str) -> str | None:
        user_id, name = codec.key("user_id", user_id), codec.key("prompt_name", prompt_name)
        with self._reading() as conn:
            return prompts.pinned(conn, user_id, name)

    # Dashboard queries

    @override
    def get_overview(self) -> Row:
        with self._reading() as conn:
            return queries.overview(conn)

    @override
    def get_today(self, tz: str = "UTC") -> Row:
        zone = time_zone(tz)
        since = midnight(today(self._now(), zone), zone)
        with self._reading() as conn:
            return queries.overview(conn, since)

    @override
    def get_cost_over_time(self, days: int = 7, tz: str = "UTC") -> list[Row]:
        whole_number("days", days, MAX_DAYS)
        zone = time_zone(tz)
        dates = last_days(self._now(), days, zone)
        with self._reading() as conn:
            return queries.cost_over_time(conn, dates, zone)

    @override
    def get_model_usage(self) -> list[Row]:
        with self._reading() as conn:
            return queries.model_usage(conn)

    @override
    def get_users(self) -> list[Row]:
        with self._reading() as conn:
            return queries.users(conn)

    @override
    def get_sessions(self, user_id: str | None = None) -> list[Row]:
        user_id = None if user_id is None else codec.key("user_id", user_id)
        with self._reading() as conn:
            return queries.sessions(conn, user_id)

    @override
    def get_recent_queries(self, limit: int = 20) -> list[Row]:
        whole_number("limit", limit, _NEWEST)
        with self._reading() as conn:
            return queries.recent_records(conn, limit)

    @override
    def get_conversation(self, user_id: str, session_id: str) -> list[Row]:
        user_id, session_id = _ids(user_id, session_id)
        with self._reading() as conn:
            return queries.conversation(conn, user_id, session_id)

    @override
    def get_tool_usage(self, user_id: str | None = None) -> list[Row]:
        user_id = None if user_id is None else codec.key("user_id", user_id)
        with self._reading() as conn:
            return queries.tool_usage(conn, user_id)

    # Maintenance

    @override
    def purge_before(self, days: int) -> int:
        """Some rows per transaction: nobody waits for long, and a crash leaves true totals."""
        cutoff = max(0, self._now() - whole_number("days", days) * _DAY_US)
        gone = sum(self._purge(table, cutoff) for table in ROW_TABLES)
        self._write(lambda conn: purge.tidy_totals(conn, cutoff))
        return gone

    def _purge(self, table: Table, cutoff: int) -> int:
        gone = 0
        while True:
            some = self._write(lambda conn: purge.purge_some(conn, table, cutoff, self._writer))
            gone += some
            if some < purge.BATCH_ROWS:
                return gone


def _ids(user_id: str, session_id: str) -> tuple[str, str]:
    return codec.key("user_id", user_id), codec.key("session_id", session_id)
