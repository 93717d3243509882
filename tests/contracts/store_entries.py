"""What every store does with entries: all rows of a call at once, at its time, and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import BaseStore, StoreError, ToolStep
from tests.contracts.store_rows import (
    NOON,
    Clock,
    call,
    entry,
    message,
    micros,
    save_turn,
    texts,
)

STEP = ToolStep(
    user_id="alice",
    session_id="s1",
    turn_num=1,
    calls=(ToolCall("provider's", "add", {"a": 1}),),
    results=(ToolResult("provider's", "add", "2"),),
    durations_ms=(3.0,),
)


class EntryContract:
    """Part of StoreContract. A store that leaves `write` to BaseStore saves again what is replayed,
    and at the time of the writing.
    """

    def test_an_entry_is_all_rows_of_a_call(self, store: BaseStore) -> None:
        store.write([replace(entry("q", "c1", cost_usd=0.5), tools=STEP)])

        assert texts(store) == ["q", "re: q"]
        (record,) = store.get_session_token_records("alice", "s1")
        assert (record["call_id"], record["cost_usd"]) == ("c1", 0.5)
        assert [row["calls"] for row in store.get_tool_usage()] == [1]
        (session,) = store.get_sessions()
        assert (session["turns"], session["calls"], session["cost_usd"]) == (1, 1, 0.5)

    def test_entries_are_saved_in_their_order(self, store: BaseStore) -> None:
        store.write([entry(f"q{i}", f"c{i}", at=NOON - timedelta(hours=i)) for i in range(5)])
        store.write([])
        store.write([entry("last", "c5")])

        assert texts(store)[::2] == ["q0", "q1", "q2", "q3", "q4", "last"]
        records = store.get_session_token_records("alice", "s1")
        assert [row["call_id"] for row in records] == [f"c{i}" for i in range(6)]

    def test_entries_without_messages_or_without_a_call_id_are_saved_too(
        self, store: BaseStore
    ) -> None:
        store.write([replace(entry("q", "c1", status="error"), messages=()), entry("r", None)])
        store.write([entry("s", None)], replayed=True)

        assert texts(store)[::2] == ["r", "s"]
        assert store.get_overview()["calls"] == 3

    @pytest.mark.parametrize("at", [-1, -(2**70), 2**70])
    def test_a_time_that_cannot_be_is_one_that_can(self, store: BaseStore, at: int) -> None:
        store.write([replace(entry("q", "c1"), at=at)])

        (session,) = store.get_sessions()
        datetime.fromisoformat(session["first_at"])
        assert store.get_overview()["calls"] == 1
        assert [row["calls"] for row in store.get_model_usage()] == [1]

    def test_tags_and_metadata_come_back_as_json(self, store: BaseStore) -> None:
        metadata: dict[str, Any] = {"n": 2**60, "é": [None, True, {"x": ""}], "nan": float("nan")}
        store.write(
            [
                entry("q", "c1", tags=("a", "b,c", "é\x00"), metadata=metadata),
                entry("q", "c2", metadata={}),
                entry("q", "c3", finish_reason="content_filter" * 4),
            ]
        )

        first, second, third = store.get_session_token_records("alice", "s1")
        assert first["tags"] == ["a", "b,c", "é␀"]
        assert first["metadata"] == {**metadata, "nan": "NaN"}
        assert (second["tags"], second["metadata"]) == ([], {})
        assert third["metadata"] is None
        assert third["finish_reason"].startswith("content_filter")


class KnownEntryContract:
    """Part of SQLStoreContract: a store that knows the entries that it has."""

    def test_every_row_of_an_entry_has_its_call_and_its_time(self, store: BaseStore) -> None:
        then = NOON - timedelta(days=3, microseconds=7)
        own = message("tool_call", "[]", call_id="of its own")
        written = replace(entry("q", "c1", at=then), tools=STEP)
        store.write([replace(written, messages=(*written.messages, own))])

        rows = store.get_conversation("alice", "s1")
        rows += store.get_session_token_records("alice", "s1")
        assert [row["call_id"] for row in rows] == ["c1", "c1", "of its own", "c1"]
        assert {row["created_at"] for row in rows} == {Clock(then).iso()}
        assert store.get_overview()["first_at"] == Clock(then).iso()
        assert store.get_today()["calls"] == 0

    def test_replayed_entries_that_are_there_are_left_out(self, store: BaseStore) -> None:
        store.write([entry(f"q{i}", f"c{i}", cost_usd=0.25) for i in range(3)])

        store.write([entry(f"q{i}", f"c{i}", cost_usd=0.25) for i in range(1, 6)], replayed=True)
        store.write([entry(f"q{i}", f"c{i}", cost_usd=0.25) for i in range(6)], replayed=True)

        assert texts(store)[::2] == [f"q{i}" for i in range(6)]
        overview = store.get_overview()
        assert (overview["calls"], overview["cost_usd"]) == (6, 1.5)

    def test_a_batch_larger_than_a_statement_may_be_replayed(self, store: BaseStore) -> None:
        entries = [entry("q", f"c{i}") for i in range(1200)]
        store.write(entries[::2])

        store.write(entries, replayed=True)

        assert store.get_overview()["calls"] == 1200

    @pytest.mark.parametrize("replayed", [False, True])
    def test_what_is_twice_in_a_batch_is_saved_once(self, store: BaseStore, replayed: bool) -> None:
        store.write(
            [entry("q0", "same"), entry("q1", "other"), entry("q2", "same")], replayed=replayed
        )

        assert texts(store)[::2] == ["q0", "q1"]

    def test_what_is_there_already_is_left_out_though_nobody_said_replayed(
        self, store: BaseStore
    ) -> None:
        store.write([entry("q0", "c0")])

        store.write([entry("q0", "c0"), entry("q1", "c1")])

        assert texts(store)[::2] == ["q0", "q1"]

    def test_many_may_replay_the_same_entries_at_once(self, store: BaseStore) -> None:
        entries = [entry(f"q{i}", f"c{i}", cost_usd=0.5) for i in range(40)]

        def replay(_: int) -> None:
            for start in range(0, 40, 8):
                store.write(entries[start : start + 8], replayed=True)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(replay, range(6)))

        assert store.get_overview()["calls"] == 40
        assert store.get_overview()["cost_usd"] == 20.0
        assert sorted(texts(store, max_turns=None)[::2]) == sorted(f"q{i}" for i in range(40))

    def test_one_entry_that_is_refused_refuses_the_batch(self, store: BaseStore) -> None:
        with pytest.raises(ValueError, match="191"):
            store.write([entry("q0", "c0"), entry("q1", "c1", user="u" * 192)])

        assert store.get_overview()["calls"] == 0
        store.write([entry("q0", "c0")])
        assert texts(store) == ["q0", "re: q0"]

    def test_entries_may_be_part_of_a_transaction(self, store: BaseStore) -> None:
        def fail() -> None:
            with store.transaction():
                store.write([entry("q0", "c0")])
                raise RuntimeError("boom")

        with pytest.raises(RuntimeError, match="boom"):
            fail()
        with store.transaction():
            save_turn(store, "q1")
            store.write([entry("q2", "c2")])
            store.write([entry("q2", "c2"), entry("q3", "c3")], replayed=True)

        assert texts(store)[::2] == ["q1", "q2", "q3"]

    def test_a_call_id_of_any_length_and_make_serves(self, store: BaseStore) -> None:
        odd = ["x" * 500 + "1", "x" * 500 + "2", "", "a\x00b", "\ud83d", "A", "a", "a "]
        entries = [entry("q", call_id) for call_id in odd]

        store.write(entries)
        store.write(entries, replayed=True)

        assert store.get_overview()["calls"] == len(odd)

    def test_the_same_call_id_cannot_be_saved_twice_by_itself(self, store: BaseStore) -> None:
        store.save_token_record(call(call_id="c1"))

        with pytest.raises(StoreError) as caught:
            store.save_token_record(call(call_id="c1"))

        assert not caught.value.retryable
        store.save_token_record(call())
        store.save_token_record(call())
        assert store.get_overview()["calls"] == 3

    def test_an_entry_is_kept_at_the_microsecond(self, store: BaseStore) -> None:
        at = NOON.replace(microsecond=123_457)
        store.write([entry("q", "c1", at=at)])

        (record,) = store.get_session_token_records("alice", "s1")
        assert micros(datetime.fromisoformat(record["created_at"])) == micros(at)
