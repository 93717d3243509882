"""Figures of any time, of a model, a user, a tool, a prompt's version: those of its records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.analytics import Analytics, CallFilter, Page, SessionFilter, Span
from pywrapai_monitor.db.base import BaseStore, Row, TokenRecord
from pywrapai_monitor.db.days import midnight
from pywrapai_monitor.db.latency import GROWTH
from tests.contracts.store_pages import pages
from tests.contracts.store_rows import NOON, Clock, assert_plain, call, micros

TOKENS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip
SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
MINUTE = 60 * 10**6
QUARTER = 15 * MINUTE


class AnalyticsFiguresContract:
    """Part of AnalyticsContract."""

    sums_of_a_time = True
    """Figures of all time have every column, and tools are told of a time."""

    @pytest.fixture
    def ask(self, store: BaseStore) -> Analytics:
        return store.analytics()

    def test_an_empty_store_has_nothing_to_tell(self, ask: Analytics) -> None:
        span = Span(since=0, until=micros())

        figures = ask.figures(span)

        assert figures == expected_figures([]) | {"users": 0, "sessions": 0}
        assert ask.series([0, QUARTER, 2 * QUARTER]) == [expected_figures([]) | {"models": []}] * 2
        assert ask.models(span) == []
        for page in (
            ask.users(span, 5),
            ask.calls(CallFilter(), 5),
            ask.calls(CallFilter(model="m", span=span), 5),
            ask.sessions(SessionFilter(), 5),
            ask.sessions(SessionFilter(text="word", span=span), 5),
        ):
            assert page == Page(rows=[])
        assert ask.prompt_versions("support", span) == []

    def test_figures_of_any_time_are_those_of_its_records(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        written: list[tuple[int, TokenRecord]] = []

        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(RECORDS, max_size=12), SPANS)
        def check(batch: list[tuple[int, TokenRecord]], span: Span) -> None:
            for minutes, record in batch:
                clock.now = NOON - timedelta(minutes=minutes)
                store.save_token_record(record)
                written.append((micros(clock.now), record))
            clock.now = NOON
            inside = [w for w in written if is_in(span, w[0])]
            records = [record for _, record in inside]
            assert_figures(ask.figures(span), records)
            assert ask.figures(span)["users"] == len({r.user_id for r in records})
            assert_models(ask.models(span), records)
            assert_users(ask, span, records)

        check()

    @pytest.mark.parametrize(
        ("zone", "first", "days"),
        [
            ("UTC", date(2026, 11, 20), 10),
            ("Europe/Brussels", date(2026, 3, 26), 8),
            ("Europe/Brussels", date(2026, 10, 22), 8),
            ("Asia/Kolkata", date(2026, 11, 20), 10),
            ("Pacific/Chatham", date(2026, 4, 2), 8),
            ("Pacific/Auckland", date(2026, 9, 24), 8),
            ("Pacific/Auckland", date(2026, 4, 2), 8),
            ("America/Los_Angeles", date(2026, 10, 30), 5),
        ],
    )
    def test_each_day_of_a_series_has_its_own_records_whatever_the_zone(
        self, store: BaseStore, ask: Analytics, clock: Clock, zone: str, first: date, days: int
    ) -> None:
        dates = [first + timedelta(days=number) for number in range(days + 1)]
        bounds = [midnight(each, ZoneInfo(zone)) for each in dates]
        written = around(bounds)
        for at, record in written:
            clock.now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
            store.save_token_record(record)

        series = ask.series(bounds)

        assert len(series) == days
        for step, (since, until) in zip(series, pairwise(bounds), strict=True):
            records = [record for at, record in written if since <= at < until]
            assert_figures(step, records)
            assert_models_of_step(step["models"], records)
            assert_figures(ask.figures(Span(since=since, until=until)), records)
            assert_users(ask, Span(since=since, until=until), records)

    def test_a_year_is_365_days(self, store: BaseStore, ask: Analytics, clock: Clock) -> None:
        dates = [date(2026, 1, 1) + timedelta(days=number) for number in range(366)]
        bounds = [midnight(each, ZoneInfo("Asia/Kolkata")) for each in dates]
        ends = [bounds[0], bounds[100] - 1, bounds[100], bounds[299] - 1, bounds[365] - 1]
        for at in ends:
            clock.now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
            store.save_token_record(call(duration_ms=1000.0))

        series = ask.series(bounds)

        assert {n: step["calls"] for n, step in enumerate(series) if step["calls"]} == {
            0: 1, 99: 1, 100: 1, 298: 1, 364: 1,
        }  # fmt: skip
        assert {n for n, step in enumerate(series) if step["p50_ms"]} == {0, 99, 100, 298, 364}
        assert ask.figures(Span(since=bounds[0], until=bounds[365]))["calls"] == 5

    @pytest.mark.parametrize("step", [QUARTER, 4 * QUARTER, 7 * 24 * 4 * QUARTER, 5 * QUARTER])
    def test_steps_may_be_of_any_length(
        self, store: BaseStore, ask: Analytics, clock: Clock, step: int
    ) -> None:
        start = micros(NOON - timedelta(days=40)) // step * step + 3 * QUARTER
        bounds = [start + number * step for number in range(6)]
        written = around(bounds)
        for at, record in written:
            clock.now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
            store.save_token_record(record)

        for each, (since, until) in zip(ask.series(bounds), pairwise(bounds), strict=True):
            assert_figures(each, [record for at, record in written if since <= at < until])

    def test_a_step_without_calls_has_no_latency_and_no_models(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        now = micros()
        store.save_token_record(call(cached=True, duration_ms=2.0))
        store.save_token_record(call(kind="embedding", model="e", duration_ms=9.0, cost_usd=0.5))

        before, cached = ask.series([now - 2 * QUARTER, now, now + QUARTER])

        assert (before["calls"], before["avg_duration_ms"], before["p95_ms"]) == (0, None, None)
        assert before["models"] == []
        assert (cached["calls"], cached["cached_calls"], cached["embeddings"]) == (1, 1, 1)
        assert (cached["avg_duration_ms"], cached["p50_ms"]) == (None, None)
        assert [(m["model"], m["calls"], m["cost_usd"]) for m in cached["models"]] == [
            ("e", 0, 0.5),
            ("gpt-4o-mini", 1, 0.0),
        ]

    def test_late_records_a_purge_and_deletions_are_in_the_figures(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for age in (40, 20, 0):
            clock.now = NOON - timedelta(days=age)
            store.save_token_record(call(f"u{age}", duration_ms=100.0, cost_usd=0.5))
        clock.now = NOON
        span = Span(since=micros(NOON - timedelta(days=60)), until=micros() + QUARTER)
        assert (ask.figures(span)["calls"], ask.figures(span)["users"]) == (3, 3)

        store.purge_before(30)

        figures = ask.figures(span)
        assert (figures["calls"], figures["cost_usd"], figures["users"]) == (2, 1.0, 2)
        assert [row["user_id"] for row in ask.users(span, 9).rows] == ["u0", "u20"]
        assert ask.models(Span(until=micros(NOON - timedelta(days=30)))) == []

    def test_figures_of_all_time_are_the_same_without_ends(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        records = [
            call(f"u{i % 3}", f"s{i % 4}", cost_usd=0.25, input_tokens=i, duration_ms=9.0)
            for i in range(7)
        ]
        for record in records:
            store.save_token_record(record)

        figures = ask.figures(Span())

        assert (figures["calls"], figures["cost_usd"], figures["total_tokens"]) == (7, 1.75, 21)
        assert (figures["users"], figures["sessions"]) == (3, 7)
        assert [row["calls"] for row in ask.models(Span())] == [7]
        assert len(ask.users(Span(), 9).rows) == 3
        if self.sums_of_a_time:
            assert_figures(figures, records)
            assert_models(ask.models(Span()), records)
        assert_plain([figures, ask.models(Span()), ask.users(Span(), 9).rows])

    def test_a_session_is_in_the_times_in_which_it_had_calls(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for day in (1, 3, 9):
            clock.now = NOON - timedelta(days=day)
            store.save_token_record(call("alice", "long"))
        clock.now = NOON - timedelta(days=5)
        store.save_token_record(call("bob", "short"))
        clock.now = NOON

        def counted(newest: int, oldest: int) -> tuple[int, int]:
            since, until = (micros(NOON - timedelta(days=d)) for d in (oldest, newest))
            figures = ask.figures(Span(since=since, until=until))
            return figures["users"], figures["sessions"]

        assert counted(0, 2) == (1, 1)
        assert counted(2, 4) == (1, 1)
        assert counted(4, 6) == (1, 1)
        assert counted(6, 8) == (0, 0)
        assert counted(8, 20) == (1, 1)
        assert counted(0, 20) == (2, 2)

    def test_tools_are_told_of_all_time_and_of_a_time(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for age, name, failed in ((30, "add", False), (1, "add", True), (1, "div", False)):
            clock.now = NOON - timedelta(days=age)
            results = [ToolResult("1", name, "x", is_error=failed)]
            store.save_tool_step("alice", "s1", 1, [ToolCall("1", name, {})], results, [10.0 * age])
        clock.now = NOON

        assert ask.tools(Span()) == store.get_tool_usage()
        span = Span(since=micros(NOON - timedelta(days=2)), until=micros())
        if not self.sums_of_a_time:
            with pytest.raises(NotImplementedError):
                ask.tools(span)
            return
        row = {"calls": 1, "avg_duration_ms": 10.0}
        assert ask.tools(span) == [
            {"tool_name": "add", "successes": 0, "errors": 1, **row},
            {"tool_name": "div", "successes": 1, "errors": 0, **row},
        ]
        assert ask.tools(Span(until=0)) == []
        assert_plain(ask.tools(span))

    def test_versions_of_a_prompt_are_told_by_their_calls(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for age, version, duration in ((9, "v1", 900.0), (1, "v1", 100.0), (1, "v2", 300.0)):
            clock.now = NOON - timedelta(days=age)
            of = {"prompt_name": "support", "prompt_version": version}
            store.save_token_record(call(**of, duration_ms=duration, cost_usd=0.5))
            store.save_token_record(call(**of, duration_ms=1.0, cached=True, status="error"))
        clock.now = NOON
        store.save_token_record(call(prompt_name="other", prompt_version="v1"))
        store.save_token_record(call(prompt_name="support", duration_ms=7.0))
        span = Span(since=micros(NOON - timedelta(days=2)), until=micros() + QUARTER)

        rows = ask.prompt_versions("support", span)

        sums = {"calls": 2, "errors": 1, "cost_usd": 0.5}
        assert rows == [
            {"version": "", "calls": 1, "errors": 0, "cost_usd": 0.0, "avg_duration_ms": 7.0,
             "p95_ms": 7.0},
            {"version": "v1", **sums, "avg_duration_ms": 100.0, "p95_ms": 100.0},
            {"version": "v2", **sums, "avg_duration_ms": 300.0, "p95_ms": 300.0},
        ]  # fmt: skip
        of_all_time = {
            row["version"]: row["calls"] for row in ask.prompt_versions("support", Span())
        }
        assert of_all_time == {"": 1, "v1": 4, "v2": 2}
        assert ask.prompt_versions("none", span) == []
        assert_plain(rows)


RECORDS = st.tuples(
    st.integers(0, 20 * 24 * 60),
    st.builds(
        TokenRecord,
        user_id=st.sampled_from(["alice", "bob", "a_%"]),
        session_id=st.sampled_from(["s1", "s2"]),
        model=st.sampled_from(["m1", "m2"]),
        provider=st.sampled_from(["openai", "ollama"]),
        kind=st.sampled_from(["chat", "chat", "embedding"]),
        input_tokens=st.integers(0, 10**6),
        output_tokens=st.integers(0, 10**4),
        cache_read_tokens=st.integers(0, 10**4),
        cache_write_tokens=st.integers(0, 10**4),
        reasoning_tokens=st.integers(0, 10**4),
        cost_usd=st.integers(0, 10**9).map(lambda units: units / 10**8),
        priced=st.booleans(),
        cached=st.booleans(),
        duration_ms=st.integers(1, 10**6).map(float),
        status=st.sampled_from(["ok", "error", "interrupted", "cancelled"]),
    ),
)
_ENDS = st.integers(0, 21 * 24 * 4).map(lambda quarters: micros() + QUARTER - quarters * QUARTER)
SPANS = st.tuples(_ENDS, _ENDS).map(lambda ends: Span(since=min(ends), until=max(ends)))


def is_in(span: Span, at: int) -> bool:
    return (span.since is None or span.since <= at) and (span.until is None or at < span.until)


def around(bounds: Sequence[int]) -> list[tuple[int, TokenRecord]]:
    """A record just before, at and after each bound, and some between."""
    times = [at + by for at in bounds for by in (-1, 0, 1, 100 * MINUTE)]
    return [
        (at, call(f"u{i % 3}", model=f"m{i % 2}", cost_usd=i / 8, duration_ms=100.0 + 37 * i))
        for i, at in enumerate(times)
    ]


def expected_figures(records: Sequence[TokenRecord]) -> Row:
    chats = [record for record in records if record.kind == "chat"]
    durations = sorted(record.duration_ms for record in chats if not record.cached)
    tokens = {name: sum(getattr(r, name) for r in records) for name in TOKENS}
    return {
        "calls": len(chats),
        "errors": sum(r.status == "error" for r in chats),
        "cached_calls": sum(r.cached for r in chats),
        "unpriced_calls": sum(not r.priced for r in chats),
        "embeddings": len(records) - len(chats),
        "cost_usd": float(sum(r.cost_usd for r in records)),
        **tokens,
        "total_tokens": tokens["input_tokens"] + tokens["output_tokens"],
        "avg_duration_ms": sum(durations) / len(durations) if durations else None,
        **{name: durations[int(s * (len(durations) - 1))] if durations else None
           for name, s in SHARES.items()},
    }  # fmt: skip


def assert_figures(row: Row, records: Sequence[TokenRecord]) -> None:
    """Percentiles to the width of a bin, between the two values that they lie between."""
    durations = sorted(r.duration_ms for r in records if r.kind == "chat" and not r.cached)
    for name, value in expected_figures(records).items():
        if name in SHARES and durations:
            place = SHARES[name] * (len(durations) - 1)
            low, high = durations[int(place)], durations[min(int(place) + 1, len(durations) - 1)]
            assert low / GROWTH * 0.999 <= row[name] <= high * GROWTH * 1.001, name
        else:
            assert row[name] == close(value), name


def close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


def assert_models(rows: list[Row], records: Sequence[TokenRecord]) -> None:
    assert len(rows) == len({(r.model, r.provider, r.kind) for r in records})
    assert [r["cost_usd"] for r in rows] == sorted((r["cost_usd"] for r in rows), reverse=True)
    for row in rows:
        names = ("model", "provider", "kind")
        mine = [r for r in records if all(getattr(r, n) == row[n] for n in names)]
        timed = [r.duration_ms for r in mine if not r.cached]
        expected = {
            "calls": len(mine),
            "errors": sum(r.status == "error" for r in mine),
            "unpriced_calls": sum(not r.priced for r in mine),
            "cached_calls": sum(r.cached for r in mine),
            **{name: sum(getattr(r, name) for r in mine) for name in TOKENS},
            "cost_usd": float(sum(r.cost_usd for r in mine)),
            "avg_duration_ms": sum(timed) / len(timed) if timed else None,
        }
        assert {name: row[name] for name in expected} == {n: close(v) for n, v in expected.items()}


def assert_models_of_step(rows: list[Row], records: Sequence[TokenRecord]) -> None:
    assert len(rows) == len({(r.model, r.provider) for r in records})
    for row in rows:
        mine = [r for r in records if (r.model, r.provider) == (row["model"], row["provider"])]
        assert row["calls"] == sum(r.kind == "chat" for r in mine)
        assert row["cost_usd"] == close(float(sum(r.cost_usd for r in mine)))


def assert_users(ask: Analytics, span: Span, records: Sequence[TokenRecord]) -> None:
    rows = pages(lambda cursor: ask.users(span, 2, cursor))
    assert len(rows) == len({r.user_id for r in records})
    for row in rows:
        mine = [r for r in records if r.user_id == row["user_id"]]
        chats = [r for r in mine if r.kind == "chat"]
        assert row == {
            "user_id": row["user_id"],
            "calls": len(chats),
            "errors": sum(r.status == "error" for r in chats),
            "total_tokens": sum(r.input_tokens + r.output_tokens for r in mine),
            "cost_usd": close(float(sum(r.cost_usd for r in mine))),
        }
