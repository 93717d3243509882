"""What every store does, whatever keeps its rows.

Subclass SQLStoreContract and give it a fixture `store`: empty, and made with the fixture `clock` as
its clock. Nothing here knows SQL, so a store on another kind of database can pass it, too. One that
leaves something out subclasses StoreContract and, of the others, those that it can pass.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import BaseStore, StoreError
from tests.contracts.store_analytics import AnalyticsContract
from tests.contracts.store_conversations import ConversationContract
from tests.contracts.store_deletion import DeletionContract
from tests.contracts.store_entries import EntryContract, KnownEntryContract
from tests.contracts.store_export import ExportContract
from tests.contracts.store_feedback import FeedbackContract
from tests.contracts.store_figures import FigureContract
from tests.contracts.store_prompts import PromptContract, PromptListContract
from tests.contracts.store_rows import (
    ROLES,
    Clock,
    assert_plain,
    call,
    message,
    save_turn,
    texts,
)
from tests.contracts.store_totals import TotalsContract


class StoreContract(ConversationContract, FigureContract, EntryContract, PromptContract):
    """The tests of a store that has the nineteen methods, and of BaseStore's `write` on them."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    # Token records

    def test_a_token_record_comes_back_whole(self, store: BaseStore, clock: Clock) -> None:
        record = call(
            provider="openai", kind="chat", input_tokens=1999, output_tokens=5,
            cache_read_tokens=1792, cache_write_tokens=3, reasoning_tokens=2, cost_usd=0.0001985,
            priced=True, cached=False, duration_ms=812.25, ttft_ms=99.5, status="error",
            error_type="RateLimitError", error_message="slow down", partial="so f",
            request_id="req_1", prompt_name="support", prompt_version="v2", call_id="call_1",
            finish_reason="stop", tags=("a", "b"), metadata={"n": 1},
        )  # fmt: skip
        store.save_token_record(record)
        store.save_token_record(call(priced=False, cached=True))

        first, second = store.get_session_token_records("alice", "s1")

        expected = {f.name: getattr(record, f.name) for f in fields(record)}
        expected["tags"] = ["a", "b"]
        assert {f.name: first[f.name] for f in fields(record)} == expected
        assert set(first) == {f.name for f in fields(record)} | {"id", "created_at"}
        assert first["created_at"] == clock.iso()
        assert first["id"] < second["id"]
        assert (second["priced"], second["cached"]) == (False, True)
        assert second["ttft_ms"] is None
        assert (second["call_id"], second["tags"], second["metadata"]) == (None, [], None)
        assert_plain([first, second])

    def test_a_cost_is_kept_to_a_ten_billionth_of_a_dollar(self, store: BaseStore) -> None:
        costs = [0.0, 1e-10, 0.0000125, 0.1, 0.3, 12.3456789012, 99_999.0]
        for cost in costs:
            store.save_token_record(call(cost_usd=cost))

        found = [row["cost_usd"] for row in store.get_session_token_records("alice", "s1")]

        assert found == pytest.approx(costs, abs=1e-10, rel=0)
        assert found[:5] == costs[:5]

    def test_numbers_that_are_none_are_stored_as_unknown(self, store: BaseStore) -> None:
        nan, infinite = float("nan"), float("inf")
        store.save_token_record(call(cost_usd=nan, duration_ms=nan, ttft_ms=infinite))
        store.save_token_record(call(cost_usd=infinite, input_tokens=10**30, output_tokens=-5))

        rows = store.get_session_token_records("alice", "s1")

        assert [(row["cost_usd"], row["priced"]) for row in rows] == [(0.0, False)] * 2
        assert store.get_overview()["unpriced_calls"] == 2
        json.dumps([rows, store.get_overview()], allow_nan=False)

    def test_the_newest_token_records_come_first(self, store: BaseStore) -> None:
        for i in range(25):
            store.save_token_record(call(session=f"s{i}"))

        assert [row["session_id"] for row in store.get_recent_queries(2)] == ["s24", "s23"]
        assert len(store.get_recent_queries()) == 20
        assert len(store.get_recent_queries(1000)) == 25

    @pytest.mark.parametrize("wrong", [0, -1, True, 1.0, "5", None])
    def test_a_wrong_number_is_refused_by_name(self, store: BaseStore, wrong: Any) -> None:
        with pytest.raises(ValueError, match="limit"):
            store.get_recent_queries(wrong)
        with pytest.raises(ValueError, match="days"):
            store.get_cost_over_time(wrong)
        with pytest.raises(ValueError, match="days"):
            store.purge_before(wrong)

    # Transactions

    def test_after_a_failed_transaction_the_next_one_works(self, store: BaseStore) -> None:
        def fail() -> None:
            with store.transaction():
                store.save_message(message("user", "q"))
                store.save_message(message("user", "q", user="u" * 192))

        with pytest.raises(ValueError, match="191"):
            fail()
        save_turn(store, "next", session="s2")

        assert texts(store, session="s2") == ["next", "re: next"]

    def test_a_transaction_reads_its_own_writes(self, store: BaseStore) -> None:
        with store.transaction():
            save_turn(store, "q0", cost_usd=0.5)
            assert texts(store) == ["q0", "re: q0"]
            assert store.get_overview()["cost_usd"] == 0.5
            save_turn(store, "q1", cost_usd=0.25)

        assert texts(store) == ["q0", "re: q0", "q1", "re: q1"]
        assert store.get_overview()["cost_usd"] == 0.75

    def test_eight_threads_write_every_turn_exactly_once(self, store: BaseStore) -> None:
        def work(worker: int) -> None:
            for i in range(100):
                save_turn(store, f"q{i}", f"u{worker % 4}", f"s{worker}", cost_usd=0.0001)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

        for worker in range(8):
            assert texts(store, f"u{worker % 4}", f"s{worker}", max_turns=None) == [
                text for i in range(100) for text in (f"q{i}", f"re: q{i}")
            ]
        overview = store.get_overview()
        assert (overview["calls"], overview["users"], overview["sessions"]) == (800, 4, 8)
        assert overview["cost_usd"] == 0.08

    def test_first_messages_of_one_new_session_may_come_at_once(self, store: BaseStore) -> None:
        start = threading.Barrier(10)

        def first(i: int) -> None:
            start.wait()
            save_turn(store, f"q{i}")

        with ThreadPoolExecutor(10) as pool:
            list(pool.map(first, range(10)))

        assert len(store.get_sessions()) == 1
        assert sorted(texts(store)) == sorted([f"{re}q{i}" for i in range(10) for _, re in ROLES])

    # Tools

    def test_tool_usage_counts_calls_successes_and_errors(self, store: BaseStore) -> None:
        calls = [ToolCall("1", "add", {"a": 1}), ToolCall("2", "add", {}), ToolCall("3", "div", {})]
        results = [
            ToolResult("3", "div", "Error: by zero", is_error=True),
            ToolResult("1", "add", "1"),
            ToolResult("2", "add", ""),
        ]
        store.save_tool_step("alice", "s1", 1, calls, results, [10.0, None, 5.0])
        store.save_tool_step("bob", "s1", 1, calls[:1], results[1:2], [20.0])

        usage = store.get_tool_usage()

        assert usage == [
            {"tool_name": "add", "calls": 3, "successes": 3, "errors": 0, "avg_duration_ms": 15.0},
            {"tool_name": "div", "calls": 1, "successes": 0, "errors": 1, "avg_duration_ms": 5.0},
        ]
        assert [row["calls"] for row in store.get_tool_usage("bob")] == [1]
        assert store.get_tool_usage("BOB") == []
        assert_plain(usage)

    def test_tool_calls_whose_ids_repeat_get_their_results_in_order(self, store: BaseStore) -> None:
        calls = [ToolCall("", "f", {}), ToolCall("", "f", {}), ToolCall("", "f", {})]
        results = [ToolResult("", "f", "ok"), ToolResult("", "f", "bad", is_error=True)]

        store.save_tool_step("alice", "s1", 1, calls, results)

        assert store.get_tool_usage()[0]["successes"] == 1  # the third has no result at all
        assert store.get_tool_usage()[0]["errors"] == 2

    def test_a_step_without_calls_is_nothing(self, store: BaseStore) -> None:
        store.save_tool_step("alice", "s1", 1, [], [])

        assert store.get_tool_usage() == []


class TransactionContract:
    """Part of SQLStoreContract: what is written in a transaction is kept whole or not at all."""

    def test_a_transaction_that_fails_leaves_nothing(self, store: BaseStore) -> None:
        def fail() -> None:
            with store.transaction():
                save_turn(store, "q")
                store.save_tool_step("alice", "s1", 1, [ToolCall("1", "add", {})], [])
                store.save_prompt("p", "v1", "text")
                raise RuntimeError("boom")

        with pytest.raises(RuntimeError, match="boom"):
            fail()

        assert store.get_conversation("alice", "s1") == []
        assert store.get_overview()["calls"] == 0
        assert store.get_sessions() == []
        assert store.get_tool_usage() == []
        with pytest.raises(KeyError):
            store.get_prompt("p", "v1")

    def test_an_inner_transaction_joins_the_outer_one(self, store: BaseStore) -> None:
        def fail() -> None:
            with store.transaction():
                with store.transaction():
                    save_turn(store, "inner")
                raise RuntimeError("boom")

        with pytest.raises(RuntimeError, match="boom"):
            fail()

        assert texts(store) == []

    def test_an_inner_failure_cannot_be_swallowed(self, store: BaseStore) -> None:
        def inner() -> None:
            with store.transaction():
                save_turn(store, "half of")
                raise RuntimeError("boom")

        def outer(*after: str) -> None:
            with store.transaction():
                save_turn(store, "before")
                with suppress(RuntimeError):
                    inner()
                for question in after:
                    save_turn(store, question)

        with pytest.raises(StoreError, match="given up"):
            outer()
        with pytest.raises(StoreError, match="given up"):
            outer("after")

        assert texts(store) == []
        save_turn(store, "next")
        assert texts(store) == ["next", "re: next"]

    def test_a_transaction_is_that_of_its_thread(self, store: BaseStore) -> None:
        def fail() -> None:
            with store.transaction():
                save_turn(store, "mine")
                other = threading.Thread(target=save_turn, args=(store, "theirs"))
                other.start()
                other.join()
                raise RuntimeError("boom")

        with pytest.raises(RuntimeError, match="boom"):
            fail()

        assert texts(store) == ["theirs", "re: theirs"]

    def test_all_rows_of_a_transaction_are_of_one_time(
        self, store: BaseStore, clock: Clock
    ) -> None:
        with store.transaction():
            store.save_message(message("user", "q"))
            clock.now += timedelta(seconds=30)
            store.save_message(message("assistant", "a"))

        times = {row["created_at"] for row in store.get_conversation("alice", "s1")}
        assert len(times) == 1


class SQLStoreContract(
    StoreContract,
    TransactionContract,
    KnownEntryContract,
    FeedbackContract,
    PromptListContract,
    DeletionContract,
    ExportContract,
    TotalsContract,
    AnalyticsContract,
):
    """The tests of a store that leaves nothing out."""
