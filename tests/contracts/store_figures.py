"""What every store tells the dashboard: sums that are those of the records, days, purges."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai.core.base import ToolCall
from pywrapai_monitor.db.base import BaseStore, MessageRecord, Row, TokenRecord
from tests.contracts.store_rows import (
    NOON,
    ROLES,
    Clock,
    assert_plain,
    call,
    message,
    save_turn,
    texts,
)

OVERVIEW = {
    "calls", "errors", "unpriced_calls", "embeddings", "cost_usd", "input_tokens",
    "output_tokens", "total_tokens", "users", "sessions", "avg_duration_ms", "first_at", "last_at",
}  # fmt: skip
DAY = {"date", "calls", "cost_usd", "input_tokens", "output_tokens"}
MODEL = {
    "model", "provider", "kind", "calls", "errors", "input_tokens", "output_tokens", "cost_usd",
    "avg_duration_ms", "unpriced_calls",
}  # fmt: skip
USER = {"user_id", "sessions", "calls", "errors", "total_tokens", "cost_usd", "last_at"}
SESSION = {
    "user_id", "session_id", "calls", "errors", "turns", "total_tokens", "cost_usd", "first_at",
    "last_at",
}  # fmt: skip
TOOL = {"tool_name", "calls", "successes", "errors", "avg_duration_ms"}


class FigureContract:
    """Part of SQLStoreContract."""

    # Dashboard

    def test_an_empty_store_has_zeros_and_not_nulls(self, store: BaseStore, clock: Clock) -> None:
        zeros = {**dict.fromkeys(OVERVIEW, 0), "first_at": None, "last_at": None}

        assert store.get_overview() == zeros
        assert store.get_today() == zeros
        assert store.get_cost_over_time(2) == [
            {**dict.fromkeys(DAY, 0), "date": day} for day in ("2026-11-29", "2026-11-30")
        ]
        for rows in (store.get_model_usage(), store.get_users(), store.get_sessions()):
            assert rows == []

    def test_an_embedding_is_counted_beside_the_calls(self, store: BaseStore) -> None:
        store.save_token_record(call(duration_ms=100.0, cost_usd=0.5, input_tokens=10))
        store.save_token_record(
            call(kind="embedding", model="embed", duration_ms=900.0, cost_usd=0.25, input_tokens=7)
        )

        overview = store.get_overview()

        assert (overview["calls"], overview["embeddings"]) == (1, 1)
        assert overview["cost_usd"] == 0.75
        assert overview["total_tokens"] == 17
        assert overview["avg_duration_ms"] == 100.0
        assert store.get_cost_over_time(1)[0]["calls"] == 1
        assert [(r["model"], r["kind"], r["calls"]) for r in store.get_model_usage()] == [
            ("gpt-4o-mini", "chat", 1),
            ("embed", "embedding", 1),
        ]

    def test_a_session_counts_its_turns_and_its_calls(self, store: BaseStore) -> None:
        save_turn(store, "q0")
        store.save_token_record(call(status="error", error_type="ServerError"))
        store.save_token_record(call(status="interrupted"))
        store.save_message(message("tool_call", "[]"))

        (session,) = store.get_sessions()

        assert (session["turns"], session["calls"], session["errors"]) == (1, 3, 1)

    def test_the_newest_session_comes_first_and_the_dearest_user(
        self, store: BaseStore, clock: Clock
    ) -> None:
        for user, session, cost in (("a", "1", 0.1), ("b", "2", 0.3), ("a", "3", 0.1)):
            save_turn(store, "q", user, session, cost_usd=cost)
            clock.now += timedelta(minutes=1)

        assert [row["session_id"] for row in store.get_sessions()] == ["3", "2", "1"]
        assert [row["session_id"] for row in store.get_sessions("a")] == ["3", "1"]
        assert [row["user_id"] for row in store.get_users()] == ["b", "a"]

    def test_every_figure_equals_a_sum_over_the_records(
        self, store: BaseStore, clock: Clock
    ) -> None:
        written: list[tuple[datetime, TokenRecord]] = []

        @settings(max_examples=20, deadline=None)
        @given(st.lists(RECORDS, max_size=12))
        def check(batch: list[tuple[int, TokenRecord]]) -> None:
            for minutes, record in batch:
                clock.now = NOON - timedelta(minutes=minutes)
                store.save_token_record(record)
                written.append((clock.now, record))
            clock.now = NOON
            assert_figures(store, written)

        check()

    def test_the_figures_bear_their_documented_names_and_plain_types(
        self, store: BaseStore
    ) -> None:
        save_turn(store, "q", cost_usd=0.1, duration_ms=5.0, input_tokens=3)
        store.save_tool_step("alice", "s1", 1, [ToolCall("1", "add", {})], [], [3.0])

        for rows, names in (
            ([store.get_overview()], OVERVIEW),
            ([store.get_today()], OVERVIEW),
            (store.get_cost_over_time(), DAY),
            (store.get_model_usage(), MODEL),
            (store.get_users(), USER),
            (store.get_sessions(), SESSION),
            (store.get_tool_usage(), TOOL),
        ):
            assert all(set(row) == names for row in rows)
            assert_plain(rows)
        message_names = {f.name for f in fields(MessageRecord)} | {"id", "created_at"}
        assert set(store.get_conversation("alice", "s1")[0]) == message_names

    # Days

    def test_a_day_begins_at_midnight_in_the_time_zone_asked_for(
        self, store: BaseStore, clock: Clock
    ) -> None:
        for moment in (datetime(2026, 11, 29, 23, 30), datetime(2026, 11, 30, 0, 30)):
            clock.now = moment.replace(tzinfo=UTC)
            store.save_token_record(call(cost_usd=0.5))

        def calls(tz: str) -> list[tuple[str, int, float]]:
            days = store.get_cost_over_time(2, tz)
            return [(day["date"], day["calls"], day["cost_usd"]) for day in days]

        assert calls("UTC") == [("2026-11-29", 1, 0.5), ("2026-11-30", 1, 0.5)]
        assert calls("Asia/Kolkata") == [("2026-11-29", 0, 0.0), ("2026-11-30", 2, 1.0)]
        assert calls("America/Phoenix") == [("2026-11-28", 0, 0.0), ("2026-11-29", 2, 1.0)]
        assert store.get_today("UTC")["calls"] == 1
        assert store.get_today("Asia/Kolkata")["calls"] == 2
        assert store.get_today("America/Phoenix")["calls"] == 2

    @pytest.mark.parametrize(
        ("change", "hours"), [(datetime(2026, 3, 29), 23), (datetime(2026, 10, 25), 25)]
    )
    def test_a_day_on_which_clocks_change_has_all_its_hours(
        self, store: BaseStore, clock: Clock, change: datetime, hours: int
    ) -> None:
        clock.now = change.replace(tzinfo=UTC) - timedelta(hours=30)
        with_half_hours = [clock.now + timedelta(minutes=30 * i) for i in range(2 * 80)]
        for moment in with_half_hours:
            clock.now = moment
            store.save_token_record(call())

        days = {day["date"]: day["calls"] for day in store.get_cost_over_time(7, "Europe/Brussels")}

        assert days[change.date().isoformat()] == 2 * hours
        assert days[(change + timedelta(days=1)).date().isoformat()] == 48
        assert sum(days.values()) == 160

    @pytest.mark.parametrize(
        "wrong", ["Mars/Olympus", "", "../etc/passwd", "Europe", "/etc", 3, None, "x" * 5000]
    )
    def test_an_unknown_time_zone_is_refused(self, store: BaseStore, wrong: Any) -> None:
        with pytest.raises(ValueError, match="time zone"):
            store.get_today(wrong)
        with pytest.raises(ValueError, match="time zone"):
            store.get_cost_over_time(7, wrong)

    # Maintenance

    def test_a_purge_removes_what_is_old_and_the_figures_follow(
        self, store: BaseStore, clock: Clock
    ) -> None:
        records = []
        for age in (40, 31, 30, 29, 0):
            clock.now = NOON - timedelta(days=age)
            save_turn(store, f"{age} days", session="long", cost_usd=0.1, model=f"m{age % 2}")
            save_turn(store, f"{age} days", session=f"s{age}", cost_usd=0.2)
            store.save_tool_step("alice", "long", 1, [ToolCall("1", f"t{age % 2}", {})], [])
            records += [(clock.now, call(session="long", cost_usd=0.1, model=f"m{age % 2}"))]
            records += [(clock.now, call(session=f"s{age}", cost_usd=0.2))]

        gone = store.purge_before(30)

        assert gone == 2 * 7
        kept = ["30 days", "29 days", "0 days"]
        assert texts(store, session="long") == [f"{re}{q}" for q in kept for _, re in ROLES]
        assert texts(store, session="s31") == []
        assert {row["session_id"]: row["turns"] for row in store.get_sessions()} == {
            "long": 3, "s30": 1, "s29": 1, "s0": 1,
        }  # fmt: skip
        assert_figures(store, [(at, r) for at, r in records if at >= NOON - timedelta(days=30)])
        assert store.purge_before(30) == 0

    def test_a_purge_of_everything_leaves_an_empty_store(
        self, store: BaseStore, clock: Clock
    ) -> None:
        with store.transaction():
            for i in range(1200):
                store.save_token_record(call(session=f"s{i % 7}", cost_usd=0.1, duration_ms=0.3))
        store.save_prompt("support", "v1", "stays", is_active=True)
        clock.now += timedelta(days=2)

        assert store.purge_before(1) == 1200

        assert store.get_overview()["calls"] == 0
        assert store.get_overview()["cost_usd"] == 0.0
        assert store.get_users() == store.get_sessions() == store.get_model_usage() == []
        assert store.get_prompt("support") == "stays"

    def test_a_purge_of_more_days_than_there_are_removes_nothing(self, store: BaseStore) -> None:
        save_turn(store, "q")

        assert store.purge_before(10**12) == 0
        assert texts(store) == ["q", "re: q"]

    def test_writers_may_go_on_during_a_purge(self, store: BaseStore, clock: Clock) -> None:
        with store.transaction():
            for _ in range(3000):
                store.save_token_record(call(cost_usd=0.1))
        clock.now += timedelta(days=2)

        with ThreadPoolExecutor(3) as pool:
            purge = pool.submit(store.purge_before, 1)
            writes = [pool.submit(save_turn, store, f"q{i}", cost_usd=0.25) for i in range(40)]
        for write in writes:
            write.result()

        assert purge.result() == 3000
        assert store.get_overview()["calls"] == 40
        assert store.get_overview()["cost_usd"] == 10.0
        assert store.get_sessions()[0]["calls"] == 40


RECORDS = st.tuples(
    st.integers(0, 3 * 24 * 60),
    st.builds(
        TokenRecord,
        user_id=st.sampled_from(["alice", "bob"]),
        session_id=st.sampled_from(["s1", "s2"]),
        model=st.sampled_from(["m1", "m2"]),
        provider=st.sampled_from(["openai", "ollama"]),
        kind=st.sampled_from(["chat", "chat", "embedding"]),
        input_tokens=st.integers(0, 10**6),
        output_tokens=st.integers(0, 10**4),
        cost_usd=st.integers(0, 10**9).map(lambda units: units / 10**8),
        priced=st.booleans(),
        duration_ms=st.integers(0, 10**6).map(float),
        status=st.sampled_from(["ok", "error", "interrupted", "cancelled"]),
    ),
)


def assert_figures(store: BaseStore, written: list[tuple[datetime, TokenRecord]]) -> None:
    """Compare every figure at NOON with what adding up the records gives."""
    records = [record for _, record in written]
    midnight = NOON.replace(hour=0)
    assert_row(store.get_overview(), expected_overview(written))
    assert_row(store.get_today(), expected_overview([w for w in written if w[0] >= midnight]))
    for back, day in enumerate(reversed(store.get_cost_over_time(5))):
        start = midnight - timedelta(days=back)
        of_day = [r for at, r in written if start <= at < start + timedelta(days=1)]
        assert_row(day, {"date": start.date().isoformat(), **sums(of_day, DAY)})
    for row in store.get_model_usage():
        names = ("model", "provider", "kind")
        mine = [r for r in records if all(getattr(r, n) == row[n] for n in names)]
        assert_row(row, {**sums(mine, MODEL), "calls": len(mine), **failures(mine)})
    assert_grouped(store.get_users(), written, ("user_id",), USER)
    assert_grouped(store.get_sessions(), written, ("user_id", "session_id"), SESSION - {"turns"})


def assert_grouped(
    rows: list[Row],
    written: list[tuple[datetime, TokenRecord]],
    by: tuple[str, ...],
    names: set[str],
) -> None:
    assert len(rows) == len({tuple(getattr(r, n) for n in by) for _, r in written})
    for row in rows:
        mine = [w for w in written if all(getattr(w[1], n) == row[n] for n in by)]
        overview = expected_overview(mine)
        assert_row(row, {name: overview[name] for name in names & set(overview)})


def expected_overview(written: list[tuple[datetime, TokenRecord]]) -> Row:
    records = [record for _, record in written]
    chats = [record for record in records if record.kind == "chat"]
    times = sorted(Clock(at).iso() for at, _ in written)
    return {
        **sums(records, {"calls", "cost_usd", "input_tokens", "output_tokens", "total_tokens"}),
        **failures(chats),
        "embeddings": len(records) - len(chats),
        "users": len({r.user_id for r in records}),
        "sessions": len({(r.user_id, r.session_id) for r in records}),
        "first_at": times[0] if times else None,
        "last_at": times[-1] if times else None,
    }


def sums(records: list[TokenRecord], names: set[str]) -> Row:
    tokens_in, tokens_out = (
        sum(r.input_tokens for r in records),
        sum(r.output_tokens for r in records),
    )
    found = {
        "calls": sum(r.kind == "chat" for r in records),
        "cost_usd": sum(r.cost_usd for r in records),
        "input_tokens": tokens_in,
        "output_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }
    return {name: value for name, value in found.items() if name in names}


def failures(records: list[TokenRecord]) -> Row:
    durations = [r.duration_ms for r in records]
    return {
        "errors": sum(r.status == "error" for r in records),
        "unpriced_calls": sum(not r.priced for r in records),
        "avg_duration_ms": sum(durations) / len(durations) if durations else 0.0,
    }


def assert_row(row: Row, expected: Row) -> None:
    for name, value in expected.items():
        close = pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value
        assert row[name] == close, name
