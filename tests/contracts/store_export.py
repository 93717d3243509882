"""What a store that exports gives: every row, in the order of writing, a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import BaseStore, Feedback, MessageRecord, TokenRecord, ToolStep
from tests.contracts.store_feedback import NAMES as FEEDBACK
from tests.contracts.store_rows import NOON, Clock, assert_plain, entry

TOOL_CALL = {
    "id", "created_at", "user_id", "session_id", "turn_num", "tool_name", "call_id",
    "model_call_id", "status", "duration_ms", "arguments", "result", "error",
}  # fmt: skip


class ExportContract:
    """Part of SQLStoreContract."""

    def test_every_table_gives_its_rows_in_the_order_of_writing(
        self, store: BaseStore, clock: Clock
    ) -> None:
        fill(store, clock, 3)

        conversations = list(store.export_rows("conversations"))
        records = list(store.export_rows("token_records"))
        tools = list(store.export_rows("tool_calls"))
        feedback = list(store.export_rows("feedback"))

        assert conversations[:4] == store.get_conversation("alice", "s0")
        assert [row["content"] for row in conversations][::2] == ["q0", "q1", "q2"] * 2
        assert records == list(reversed(store.get_recent_queries(6)))
        assert set(conversations[0]) == {f.name for f in fields(MessageRecord)} | {
            "id", "created_at",
        }  # fmt: skip
        assert set(records[0]) == {f.name for f in fields(TokenRecord)} | {"id", "created_at"}
        assert set(tools[0]) == TOOL_CALL
        assert (tools[0]["call_id"], tools[0]["model_call_id"]) == ("1", "alice 0")
        assert tools[0]["arguments"] == {"n": 0, "é": [1.5, None]}
        assert (tools[0]["result"], tools[0]["error"]) == ("ok", None)
        assert set(feedback[0]) == FEEDBACK | {"id"}
        assert [row["call_id"] for row in feedback][:2] == ["alice 0", "alice 1"]
        assert_plain([conversations, records, tools, feedback])

    @pytest.mark.parametrize("table", ["conversations", "token_records", "tool_calls", "feedback"])
    def test_rows_are_chosen_by_user_session_and_time(
        self, store: BaseStore, clock: Clock, table: str
    ) -> None:
        fill(store, clock, 4)
        whole = list(store.export_rows(table))

        def chosen(which: Callable[[dict[str, Any]], bool], **asked: str) -> bool:
            return list(store.export_rows(table, **asked)) == [row for row in whole if which(row)]

        noon = Clock(NOON - timedelta(hours=1)).iso()
        per_turn = len(whole) // 8
        assert chosen(lambda row: row["user_id"] == "bob", user_id="bob")
        assert chosen(lambda row: row["session_id"] == "s1", session_id="s1")
        assert chosen(
            lambda row: (row["user_id"], row["session_id"]) == ("bob", "s1"),
            user_id="bob",
            session_id="s1",
        )
        assert chosen(lambda row: row["created_at"] >= noon, since=noon)
        assert chosen(lambda row: row["created_at"] < noon, until=noon)
        assert list(store.export_rows(table, user_id="BOB")) == []
        assert list(store.export_rows(table, since="2027-01-01")) == []
        both = store.export_rows(table, since=noon, until="2026-11-30T13:00:00.000001+01:00")
        assert len(list(both)) == 2 * per_turn * 2

    def test_pages_follow_each_other_over_every_gap(self, store: BaseStore) -> None:
        for start in range(0, 1500, 500):
            store.write([entry(str(i), f"c{i}", f"u{i % 3}") for i in range(start, start + 500)])
        store.delete_user("u1")

        def questions(**asked: str) -> list[int]:
            rows = list(store.export_rows("conversations", **asked))
            return [int(row["content"]) for row in rows[::2]]

        assert questions() == [i for i in range(1500) if i % 3 != 1]
        assert questions(user_id="u2") == list(range(2, 1500, 3))
        assert len(list(store.export_rows("token_records"))) == 1000

    def test_what_is_written_meanwhile_does_not_wait_and_is_not_given(
        self, store: BaseStore
    ) -> None:
        store.write([entry(str(i), f"c{i}") for i in range(600)])
        rows = store.export_rows("token_records")
        first = list(islice(rows, 5))

        store.write([entry("meanwhile", "later")])

        assert [row["call_id"] for row in first] == [f"c{i}" for i in range(5)]
        assert [row["call_id"] for row in rows] == [f"c{i}" for i in range(5, 600)]

    def test_an_export_may_be_left_early_and_an_empty_store_gives_nothing(
        self, store: BaseStore
    ) -> None:
        assert list(store.export_rows("conversations")) == []
        store.write([entry(str(i), f"c{i}") for i in range(300)])

        for row in store.export_rows("conversations"):
            assert row["content"] == "0"
            break

        store.write([entry("next", "next")])

    @pytest.mark.parametrize(
        ("table", "asked", "named"),
        [
            ("system_prompts", {}, "conversations"),
            ("conversations; DROP", {}, "conversations"),
            ("conversations", {"since": "yesterday"}, "since"),
            ("conversations", {"until": ""}, "until"),
            ("conversations", {"until": 3}, "until"),
            ("conversations", {"user_id": "u" * 192}, "user_id"),
        ],
    )
    def test_what_cannot_be_asked_is_refused_at_once(
        self, store: BaseStore, table: str, asked: dict[str, Any], named: str
    ) -> None:
        with pytest.raises(ValueError, match=named):
            store.export_rows(table, **asked)


def fill(store: BaseStore, clock: Clock, turns: int) -> None:
    """Turns of two users in two sessions, an hour apart, each with a tool call and feedback."""
    for user in ("alice", "bob"):
        for i in range(turns):
            call_id, session = f"{user} {i}", f"s{i // 2}"
            step = ToolStep(
                user_id=user,
                session_id=session,
                turn_num=1,
                calls=(ToolCall("1", "add", {"n": i, "é": [1.5, None]}),),
                results=(ToolResult("1", "add", "ok"),),
            )
            at = NOON - timedelta(hours=turns - 1 - i)
            store.write([replace(entry(f"q{i}", call_id, user, session, at), tools=step)])
            clock.now = at
            store.save_feedback(Feedback(call_id=call_id, score=float(i)))
