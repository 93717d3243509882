"""The store on SQLAlchemy Core: every method of BaseStore, for every SQL database alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from typing_extensions import override

from pywrapai_monitor.db import codec, prompts, queries, rows, sql_export
from pywrapai_monitor.db import feedback as feedback_table
from pywrapai_monitor.db.analytics import Analytics
from pywrapai_monitor.db.base import Entry, Feedback, MessageRecord, Row, TokenRecord
from pywrapai_monitor.db.batch import Batch
from pywrapai_monitor.db.days import MAX_DAYS, last_days, midnight, time_zone, today, whole_number
from pywrapai_monitor.db.deletion import DeletingStore
from pywrapai_monitor.db.sql_analytics import SQLAnalytics
from pywrapai_monitor.db.tables import conversations, token_records, tool_calls

if TYPE_CHECKING:
    from pywrapai import Message, ToolCall, ToolResult

_NEWEST = 2**31 - 1
_CLASHES = 5


class SQLStore(DeletingStore):
    """What PostgreSQL, MySQL and SQLite have in common, which is nearly everything."""

    def __init__(
        self, engine: Engine, *, name: str = "", clock: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(engine, name=name, clock=clock)
        self._prompts = prompts.Prompts(self._upsert)
        self._feedback = feedback_table.FeedbackTable(self._upsert)

    # Writes

    @override
    def write(self, entries: Sequence[Entry], *, replayed: bool = False) -> None:
        """All in one transaction. Entries that are there already are left out, `replayed` or not;
        with it they are looked for beforehand.
        """
        if (unit := self._unit()) is not None:
            fresh = self._unknown(entries) if replayed else entries
            _add(unit.batch, fresh)
            return
        with self._errors():
            self._keep_entries(self._unknown(entries) if replayed else entries)

    def _keep_entries(self, entries: Sequence[Entry]) -> None:
        """Save those that are not there. Others may replay the same ones at the same time."""
        for _ in range(_CLASHES):
            with suppress(IntegrityError):
                self._keep_batch(entries)
                return
            entries = self._unknown(entries)
        self._keep_batch(entries)

    def _keep_batch(self, entries: Sequence[Entry]) -> None:
        batch = self._new_batch()
        _add(batch, entries)
        if batch:
            self._keep(batch)

    def _unknown(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those whose calls are not there yet, each of them once."""
        calls = [codec.label_or_none(entry.token.call_id) for entry in entries]
        with self._reading() as conn:
            known = queries.known_calls(conn, [call for call in calls if call is not None])
        fresh = []
        for call, entry in zip(calls, entries, strict=True):
            if call is None or call not in known:
                fresh.append(entry)
            if call is not None:
                known.add(call)
        return fresh

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

    # Feedback

    @override
    def save_feedback(self, feedback: Feedback) -> None:
        row = feedback_table.to_row(feedback, self._now())
        self._write(lambda conn: self._feedback.save(conn, row))

    @override
    def get_feedback(self, user_id: str | None = None, session_id: str | None = None) -> list[Row]:
        user_id = _key_or_none("user_id", user_id)
        session_id = _key_or_none("session_id", session_id)
        with self._reading() as conn:
            return feedback_table.find(conn, user_id, session_id)

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
        prompts.check_names(name, version)
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
        if version == prompts.ACTIVE:
            raise ValueError(
                f"{version!r} is no version to pin to: unpin the user, who then has it"
            )
        at = self._now()
        self._write(lambda conn: self._prompts.pin(conn, user_id, name, version, at))

    @override
    def get_user_prompt_version(self, user_id: str, prompt_name: str) -> str | None:
        user_id, name = codec.key("user_id", user_id), codec.key("prompt_name", prompt_name)
        with self._reading() as conn:
            return prompts.pinned(conn, user_id, name)

    @override
    def unpin_user_prompt(self, user_id: str, prompt_name: str) -> None:
        user_id, name = codec.key("user_id", user_id), codec.key("prompt_name", prompt_name)
        self._write(lambda conn: prompts.unpin(conn, user_id, name))

    @override
    def list_prompts(self) -> list[Row]:
        with self._reading() as conn:
            return prompts.names(conn)

    @override
    def list_prompt_versions(self, name: str) -> list[Row]:
        with self._reading() as conn:
            return prompts.versions(conn, codec.key("name", name))

    @override
    def rollback_prompt(self, name: str) -> str:
        name = codec.key("name", name)
        return self._write(lambda conn: prompts.roll_back(conn, name))

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
        user_id = _key_or_none("user_id", user_id)
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
        user_id = _key_or_none("user_id", user_id)
        with self._reading() as conn:
            return queries.tool_usage(conn, user_id)

    @override
    def analytics(self) -> Analytics:
        return SQLAnalytics(self._reading, self._product_name, self._about)

    # Export

    @override
    def export_rows(
        self,
        table: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[Row]:
        sql_export.check(table)
        wanted = sql_export.Wanted(
            user_id=_key_or_none("user_id", user_id),
            session_id=_key_or_none("session_id", session_id),
            since=None if since is None else codec.micros("since", since),
            until=None if until is None else codec.micros("until", until),
        )
        return sql_export.read(self._reading, table, wanted)


def _add(batch: Batch, entries: Sequence[Entry]) -> None:
    for entry in entries:
        at = codec.moment(entry.at)
        for table, row in rows.entry_to_rows(entry):
            batch.add(table, row, at)


def _key_or_none(field: str, value: str | None) -> str | None:
    return None if value is None else codec.key(field, value)


def _ids(user_id: str, session_id: str) -> tuple[str, str]:
    return codec.key("user_id", user_id), codec.key("session_id", session_id)
