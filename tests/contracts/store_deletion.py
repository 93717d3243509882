"""What a store that deletes sessions and users leaves: nothing of them, and all of the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import BaseStore, Feedback, Row
from tests.contracts.store_rows import NOON, Clock, call, entry, message, texts

TABLES = ("conversations", "token_records", "tool_calls", "feedback")


class DeletionContract:
    """Part of SQLStoreContract."""

    def test_a_deleted_session_is_gone_with_its_totals_and_feedback(self, store: BaseStore) -> None:
        kept = [write_all(store, "alice", "kept"), write_all(store, "bob", "s1")]
        before = everything(store)
        rows = write_all(store, "alice", "s1")

        gone = store.delete_session("alice", "s1")

        assert gone == rows
        assert everything(store) == before
        assert store.load_history("alice", "s1") == []
        assert store.get_conversation("alice", "s1") == []
        assert store.delete_session("alice", "s1") == 0
        assert kept == [rows, rows]

    def test_a_deleted_user_is_gone_with_totals_feedback_and_pins(self, store: BaseStore) -> None:
        store.save_prompt("support", "v1", "text", is_active=True)
        for user in ("bob", "ALICE", "alice "):
            write_all(store, user, "s1")
            store.set_user_prompt(user, "support", "v1")
        before = everything(store)
        rows = sum(write_all(store, "alice", f"s{i}") for i in range(3))
        store.set_user_prompt("alice", "support", "v1")

        gone = store.delete_user("alice")

        assert gone == rows + 1
        assert everything(store) == before
        assert store.get_user_prompt_version("alice", "support") is None
        assert store.get_user_prompt_version("bob", "support") == "v1"
        assert store.get_prompt("support") == "text"
        assert store.delete_user("alice") == 0

    def test_a_deleted_session_may_begin_again(self, store: BaseStore, clock: Clock) -> None:
        store.write([entry("old", "c1", at=NOON - timedelta(days=9))])
        store.delete_session("alice", "s1")

        store.write([entry("new", "c1")])

        (session,) = store.get_sessions()
        assert (session["turns"], session["first_at"]) == (1, clock.iso())
        assert texts(store) == ["new", "re: new"]

    def test_a_session_of_many_rows_is_deleted_whole(self, store: BaseStore) -> None:
        with store.transaction():
            for i in range(1300):
                store.save_message(message("user", str(i)))
                store.save_token_record(call(cost_usd=0.1, duration_ms=0.3))
        store.write([entry("q", "c1", "bob", cost_usd=0.25)])

        assert store.delete_session("alice", "s1") == 2600

        overview = store.get_overview()
        assert (overview["calls"], overview["cost_usd"], overview["sessions"]) == (1, 0.25, 1)

    def test_a_deletion_may_be_part_of_a_transaction(self, store: BaseStore) -> None:
        write_all(store, "alice", "s1")
        before = everything(store)

        def fail() -> None:
            with store.transaction():
                assert store.delete_user("alice") > 0
                assert store.load_history("alice", "s1") == []
                raise RuntimeError("boom")

        with pytest.raises(RuntimeError, match="boom"):
            fail()

        assert everything(store) == before

    def test_a_purge_takes_feedback_and_tools_along(self, store: BaseStore, clock: Clock) -> None:
        clock.now = NOON - timedelta(days=40)
        rows = write_all(store, "alice", "old")
        store.save_feedback(Feedback(call_id="of no call", score=1.0))
        clock.now = NOON - timedelta(days=10)
        store.save_feedback(Feedback(call_id="call of alice in old", score=0.0, comment="late"))
        store.save_feedback(Feedback(call_id="of no call yet", score=1.0))
        write_all(store, "alice", "new")
        clock.now = NOON

        gone = store.purge_before(30)

        assert gone == rows + 1
        assert [row["call_id"] for row in store.get_feedback()] == [
            "call of alice in new",
            "of no call yet",
        ]
        assert [row["calls"] for row in store.get_tool_usage()] == [1]
        assert [row["session_id"] for row in store.get_sessions()] == ["new"]

    def test_the_days_that_were_purged_are_empty_and_may_be_written_to_again(
        self, store: BaseStore
    ) -> None:
        then = NOON - timedelta(days=40)
        for i in range(30):
            store.write([entry("q", f"c{i}", at=then + timedelta(minutes=i), cost_usd=0.25)])

        store.purge_before(30)
        assert not any(day["calls"] or day["cost_usd"] for day in store.get_cost_over_time(60))
        store.write([entry("q", "late", at=then, cost_usd=0.5)])

        days = {day["date"]: day["cost_usd"] for day in store.get_cost_over_time(60)}
        assert days[then.date().isoformat()] == sum(days.values()) == 0.5
        store.purge_before(30)
        assert store.get_cost_over_time(60) == [
            {"date": day, "calls": 0, "cost_usd": 0.0, "input_tokens": 0, "output_tokens": 0}
            for day in days
        ]

    def test_a_session_begins_with_what_a_purge_left(self, store: BaseStore, clock: Clock) -> None:
        ages = (40, 31, 29, 3)
        for age in ages:
            for i in range(3):
                at = NOON - timedelta(days=age)
                store.write([entry("q", f"{age} {i}", session=f"s{i}", at=at)])
        store.write([entry("q", "gone", session="gone", at=NOON - timedelta(days=35))])

        store.purge_before(30)

        first = Clock(NOON - timedelta(days=29)).iso()
        assert {row["session_id"]: row["first_at"] for row in store.get_sessions()} == {
            f"s{i}": first for i in range(3)
        }
        assert store.get_overview()["first_at"] == first

    def test_a_session_that_was_purged_may_begin_again(
        self, store: BaseStore, clock: Clock
    ) -> None:
        store.write([entry("old", "c1", at=NOON - timedelta(days=40))])
        store.purge_before(30)

        store.write([entry("new", "c2")])

        assert [row["first_at"] for row in store.get_sessions()] == [clock.iso()]
        assert texts(store) == ["new", "re: new"]


def write_all(store: BaseStore, user: str, session: str) -> int:
    """A row of every kind; says how many."""
    call_id = f"call of {user} in {session}"
    with store.transaction():
        store.save_message(message("user", "q", user, session))
        store.save_message(message("assistant", "a", user, session))
        store.save_token_record(call(user, session, call_id=call_id, cost_usd=0.5))
        store.save_token_record(call(user, session, kind="embedding", model="e", cost_usd=0.25))
        store.save_tool_step(
            user, session, 1, [ToolCall("1", "add", {})], [ToolResult("1", "add", "2")], [5.0]
        )
    store.save_feedback(Feedback(call_id=call_id, score=1.0, comment="good"))
    return 6


def everything(store: BaseStore) -> list[Any]:
    """All figures and all rows."""
    rows: list[Row] = [row for table in TABLES for row in store.export_rows(table)]
    return [
        store.get_overview(),
        store.get_today(),
        store.get_cost_over_time(60),
        store.get_model_usage(),
        store.get_users(),
        store.get_sessions(),
        store.get_tool_usage(),
        store.get_feedback(),
        rows,
    ]
