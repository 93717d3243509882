"""What every store answers to the pages of the dashboard: exact sums, whole lists, cut texts.

A store without SQL passes it by PlainAnalytics, but for what the class attributes say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.analytics import Analytics, CallFilter, Page, SessionFilter, Span
from pywrapai_monitor.db.base import BaseStore, Entry, Feedback, Row, TokenRecord, ToolStep
from pywrapai_monitor.db.days import midnight
from pywrapai_monitor.db.latency import GROWTH
from tests.contracts.store_rows import NOON, Clock, assert_plain, call, entry, message, micros

TOKENS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip
SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
MINUTE = 60 * 10**6
QUARTER = 15 * MINUTE
UGLY = [
    "a_%", "ab1", "%", "_", "'", '"', "\\", "a/b", "..", " a", "a ", "A", "ä", "a\u0308", "é",
    "{}", "[1]", "/*", "--", ";", "用户", "👩‍💻", "x" * 191, "x" * 190 + "y", "None", "",
]  # fmt: skip


class AnalyticsContract:
    """Part of SQLStoreContract."""

    sums_of_a_time = True
    """Figures of all time have every column, and tools are told of a time."""
    lists_pins = True
    cuts_long_searches = True

    @pytest.fixture
    def ask(self, store: BaseStore) -> Analytics:
        return store.analytics()

    # Figures

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

    # Tools

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

    # Lists

    def test_pages_of_users_are_all_of_them_once_the_dearest_first(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        for number, user in enumerate(UGLY):
            store.save_token_record(call(user, cost_usd=number // 3 / 4))
        span = Span(since=0, until=micros() + QUARTER)

        for when in (span, Span()):
            rows = pages(lambda cursor, when=when: ask.users(when, 4, cursor))

            assert sorted(row["user_id"] for row in rows) == sorted(UGLY)
            assert [row["cost_usd"] for row in rows] == sorted(
                (row["cost_usd"] for row in rows), reverse=True
            )

    def test_a_user_who_comes_again_on_other_days_is_one_user(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for days in range(9):
            clock.now = NOON - timedelta(days=days)
            store.save_token_record(call("alice"))
        clock.now = NOON
        midnight = NOON + timedelta(hours=12)

        for days in (1, 3, 8, 16):
            span = Span(since=micros(midnight - timedelta(days=days)), until=micros(midnight))
            assert ask.figures(span)["users"] == 1
            assert len(ask.users(span, 5).rows) == 1

    def test_pages_of_calls_are_all_of_them_once_the_newest_first(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for number in range(23):
            clock.now = NOON + timedelta(seconds=number // 5)
            store.save_token_record(call(session=f"s{number}", call_id=f"c{number}"))

        rows = pages(lambda cursor: ask.calls(CallFilter(), 4, cursor))

        assert [row["call_id"] for row in rows] == [f"c{n}" for n in range(22, -1, -1)]

    def test_a_page_goes_on_where_it_was_when_newer_calls_come(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        for number in range(6):
            store.save_token_record(call(call_id=f"c{number}"))
        first = ask.calls(CallFilter(), 3)
        store.save_token_record(call(call_id="newer"))

        second = ask.calls(CallFilter(), 3, first.next)

        found = [row["call_id"] for row in [*first.rows, *second.rows]]
        assert found == ["c5", "c4", "c3", "c2", "c1", "c0"]
        assert second.next is None

    def test_a_call_is_found_by_whatever_it_was(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        odd = {
            "user_id": "a_%", "session_id": "'", "model": "m%", "kind": "embedding",
            "status": "error", "prompt_name": "p_", "prompt_version": "v%", "priced": False,
            "tags": ('q"', "a", "b\\"), "call_id": "odd", "error_message": "e" * 400,
            "partial": "p", "metadata": {"n": 1},
        }  # fmt: skip
        clock.now = NOON - timedelta(days=2)
        store.save_token_record(TokenRecord(**odd))
        clock.now = NOON
        near = {"user_id": "ab1", "session_id": "''", "model": "mx", "prompt_name": "pq"}
        store.save_token_record(TokenRecord(**near, prompt_version="vx", tags=("A", '"a', "b")))
        store.save_token_record(call())

        for wanted in (
            {"user_id": "a_%"}, {"user_id": "a_%", "session_id": "'"}, {"session_id": "'"},
            {"model": "m%"}, {"kind": "embedding"}, {"status": "error"}, {"prompt_name": "p_"},
            {"prompt_version": "v%"}, {"prompt_name": "p_", "prompt_version": "v%"}, {"tag": 'q"'},
            {"tag": "a"}, {"tag": "b\\"}, {"unpriced": True},
            {"user_id": "a_%", "status": "error", "prompt_name": "p_", "prompt_version": "v%"},
            {"prompt_name": "p_", "prompt_version": "v%", "status": "error", "kind": "embedding"},
            {"span": Span(until=micros() - 1)},
        ):  # fmt: skip
            rows = pages(lambda cursor, w=wanted: ask.calls(CallFilter(**w), 1, cursor))
            assert [row["call_id"] for row in rows] == ["odd"], wanted

        assert rows[0]["error_message"] == "e" * 300
        assert {"partial", "metadata"}.isdisjoint(rows[0])
        assert rows[0]["tags"] == ['q"', "a", "b\\"]
        assert (rows[0]["priced"], rows[0]["created_at"][:10]) == (False, "2026-11-28")
        assert_plain(rows)

    @pytest.mark.parametrize("wanted", [
        {"user_id": "ab"}, {"user_id": "A_%"}, {"status": "ok "}, {"tag": "%"}, {"tag": "_"},
        {"prompt_name": "support", "prompt_version": "v2"}, {"model": "GPT-4O-MINI"},
    ])  # fmt: skip
    def test_what_is_almost_the_same_is_not_found(
        self, store: BaseStore, ask: Analytics, wanted: dict[str, Any]
    ) -> None:
        store.save_token_record(call("a_%", tags=("a",), prompt_name="support"))

        assert pages(lambda cursor: ask.calls(CallFilter(**wanted), 5, cursor)) == []

    def test_a_time_of_calls_has_its_beginning_and_not_its_end(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for number in range(5):
            clock.now = NOON + timedelta(microseconds=number)
            store.save_token_record(call(call_id=f"c{number}"))
        start = micros()

        found = ask.calls(CallFilter(span=Span(since=start + 1, until=start + 3)), 9).rows

        assert [row["call_id"] for row in found] == ["c2", "c1"]

    def test_pages_of_sessions_are_all_of_them_once_the_last_used_first(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for number, name in enumerate(UGLY):
            clock.now = NOON + timedelta(seconds=number // 4)
            store.write([entry("q", f"c{number}", name, name, clock.now)])

        rows = pages(lambda cursor: ask.sessions(SessionFilter(), 3, cursor))

        assert len(rows) == len(UGLY)
        assert {row["session_id"] for row in rows} == set(UGLY)
        assert [r["last_at"] for r in rows] == sorted((r["last_at"] for r in rows), reverse=True)
        by_key = {(r["user_id"], r["session_id"]): r for r in store.get_sessions()}
        assert {(r["user_id"], r["session_id"]): r for r in rows} == by_key
        assert [ask.session(name, name) for name in UGLY] == [by_key[n, n] for n in UGLY]
        for name in ("a_%", "%", ""):
            assert len(ask.sessions(SessionFilter(user_id=name), 9).rows) == 1

    def test_sessions_of_a_time_are_those_that_were_used_in_it(
        self, store: BaseStore, ask: Analytics, clock: Clock
    ) -> None:
        for age, name in ((9, "old"), (5, "middle"), (1, "new"), (8, "long"), (0, "long")):
            clock.now = NOON - timedelta(days=age)
            store.save_token_record(call(session=name))

        def names(newest: int, oldest: int) -> list[str]:
            since, until = (micros(NOON - timedelta(days=d)) for d in (oldest, newest))
            wanted = SessionFilter(span=Span(since=since, until=until + QUARTER))
            return [r["session_id"] for r in pages(lambda c: ask.sessions(wanted, 1, c))]

        assert names(4, 6) in (["middle"], ["long", "middle"])
        assert names(7, 20) == ["long", "old"]
        assert names(0, 2) == ["long", "new"]
        assert names(10, 20) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("密码", ["chinese"]),
            ("mot oublié", ["french"]),
            ("MOT OUBLIÉ", ["french"]),
            ("100%", ["percent"]),
            ("a_b", ["underscore"]),
            ("PERCENT", ["percent"]),
            ("it's", ["quote"]),
            ("\\n", ["backslash"]),
            ("bobby", ["named"]),
            ("/", ["slash"]),
            ("nowhere", []),
        ],
    )
    def test_a_search_finds_a_text_whatever_its_case_and_nothing_else(
        self, store: BaseStore, ask: Analytics, text: str, expected: list[str]
    ) -> None:
        for session, said in (
            ("chinese", "我的密码是什么"), ("french", "mon mot oublié, hélas"),
            ("percent", "100% sure"), ("not percent", "1000 sure"),
            ("underscore", "a_b"), ("no underscore", "aXb"), ("quote", "it's"),
            ("backslash", "a\\nb"), ("slash", "a/b"),
        ):  # fmt: skip
            store.save_message(message("user", said, session=session))
        store.save_message(message("user", "x", "Bobby", "named"))

        rows = pages(lambda cursor: ask.sessions(SessionFilter(text=text), 2, cursor))

        found = {row["session_id"] for row in rows}
        assert found - {"not percent"} == set(expected)
        if text.lower() != "percent":
            assert found == set(expected)

    def test_a_search_shows_the_newest_place_that_has_the_text(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        store.save_message(message("user", "the needle, first"))
        store.save_message(message("user", f"{'hay ' * 100}needle{' hay' * 100}"))
        store.save_message(message("assistant", "nothing"))
        newest = ask.messages("alice", "s1", 9, 9)[1]["id"]

        (row,) = ask.sessions(SessionFilter(text="NEEDLE"), 5).rows
        (named,) = ask.sessions(SessionFilter(text="ALIC"), 5).rows

        assert row["message_id"] == newest
        assert "needle" in row["excerpt"]
        assert len(row["excerpt"]) <= 160
        assert (named["message_id"], named["excerpt"]) == (None, None)

    def test_a_search_ends_and_goes_on_until_it_has_seen_everything(
        self, store: BaseStore, ask: Analytics, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not self.cuts_long_searches:
            pytest.skip("it looks at whole sessions")
        from pywrapai_monitor.db import sql_lists, sql_sessions

        monkeypatch.setattr(sql_lists, "LOOKED_AT", 10)
        monkeypatch.setattr(sql_sessions, "ROWS_LOOKED_AT", 12)
        monkeypatch.setattr(sql_sessions, "SESSIONS_LOOKED_AT", 3)
        for number in range(40):
            word = "needle" if number in (2, 30) else "hay"
            model = "rare" if number in (3, 31) else "usual"
            session = "long" if number < 25 else f"s{number}"
            store.write([entry(word, f"c{number}", session=session, model=model)])

        first = ask.calls(CallFilter(model="rare"), 5)
        assert (len(first.rows), first.searched_to is not None) == (1, True)
        found = pages(lambda cursor: ask.calls(CallFilter(model="rare"), 5, cursor))
        assert [row["call_id"] for row in found] == ["c31", "c3"]
        rows = pages(lambda cursor: ask.sessions(SessionFilter(text="needle"), 5, cursor))
        assert sorted(row["session_id"] for row in rows) == ["long", "s30"]
        assert pages(lambda cursor: ask.sessions(SessionFilter(text="zebra"), 5, cursor)) == []
        wanted = SessionFilter(span=Span(since=0, until=micros() + QUARTER))
        assert len(pages(lambda cursor: ask.sessions(wanted, 2, cursor))) == 16

    @pytest.mark.parametrize("rubbish", [
        "x", "é", "W10", "WzFd", "bnVsbA", "eyJhIjoxfQ", "WzEsMiwzLDQsNV0", "=" * 9, "A" * 100_000,
        "WyIxIiwiMiJd", "WzFlOTk5LDFd", "W1tbW1tbW1tb",
    ])  # fmt: skip
    def test_what_is_no_cursor_is_refused(
        self, store: BaseStore, ask: Analytics, rubbish: str
    ) -> None:
        store.save_token_record(call())
        store.save_message(message("user", "q"))

        with pytest.raises(ValueError, match="cursor"):
            ask.calls(CallFilter(), 5, rubbish)
        with pytest.raises(ValueError, match="cursor"):
            ask.users(Span(), 5, rubbish)
        with pytest.raises(ValueError, match="cursor"):
            ask.sessions(SessionFilter(), 5, rubbish)
        with pytest.raises(ValueError, match="cursor"):
            ask.sessions(SessionFilter(text="q"), 5, rubbish)

    def test_pins_are_listed_by_their_users(self, store: BaseStore, ask: Analytics) -> None:
        if not self.lists_pins:
            with pytest.raises(NotImplementedError):
                ask.pins("support", 5)
            return
        store.save_prompt("support", "v1", "one", is_active=True)
        store.save_prompt("other", "v1", "else", is_active=True)
        for user in UGLY:
            store.set_user_prompt(user, "support", "v1")
        store.set_user_prompt("somebody", "other", "v1")

        rows = pages(lambda cursor: ask.pins("support", 4, cursor))

        assert sorted(row["user_id"] for row in rows) == sorted(UGLY)
        assert {row["version"] for row in rows} == {"v1"}
        assert {row["updated_at"] for row in rows} == {Clock().iso()}
        assert_plain(rows)
        with pytest.raises(ValueError, match="cursor"):
            ask.pins("support", 4, "rubbish")

    # Prompts

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

    def test_a_prompt_has_its_text(self, store: BaseStore, ask: Analytics) -> None:
        store.save_prompt("support", "v1", "one")

        assert ask.prompt_text("support", "v1") == "one"
        with pytest.raises(KeyError):
            ask.prompt_text("support", "v2")

    # Details

    def test_a_call_has_all_that_belongs_to_it(self, store: BaseStore, ask: Analytics) -> None:
        store.write([agent_entry("c1"), agent_entry("c2"), entry("other", "c3")])
        self.give_feedback(store, "c2")

        found = ask.call("c2", 10)

        assert found["call_id"] == "c2"
        assert (found["error_message"], found["error_message_length"]) == ("e" * 10, 50)
        assert (found["partial"], found["partial_length"]) == (None, 0)
        assert (found["tags"], found["metadata"]) == (["t"], {"n": 1})
        assert [(m["role"], m["call_id"]) for m in found["messages"]] == [
            ("user", "c2"), ("tool_call", "c2"), ("tool_result", "c2"),
        ]  # fmt: skip
        assert found["messages"][0]["content"] == "question"
        assert [tool["tool_name"] for tool in found["tools"]] == ["add", "div"]
        assert found["tools"] == ask.tool_calls("c2", 10)
        assert (found["feedback"] or {"score": 0.5})["score"] == 0.5
        assert_plain(found)
        with pytest.raises(KeyError):
            ask.call("none", 10)
        assert ask.tool_calls("none", 10) == []

    @staticmethod
    def give_feedback(store: BaseStore, call_id: str) -> None:
        try:
            store.save_feedback(Feedback(call_id=call_id, score=0.5, comment="so so"))
        except NotImplementedError:
            return

    def test_tool_calls_have_their_arguments_and_results(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        store.write([agent_entry("c1")])

        add, div = ask.tool_calls("c1", 7)

        assert (add["tool_call_id"], add["status"], add["error"]) == ("t1", "ok", None)
        assert (add["arguments"], add["arguments_length"]) == ('{"a": "', 111)
        assert (add["result"], add["result_length"]) == ("r" * 7, 20)
        assert (div["status"], div["result"], div["error"]) == ("error", None, "by zero")
        assert (div["result_length"], div["error_length"]) == (0, 7)

    def test_messages_come_in_their_order_from_either_side(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        for number in range(12):
            store.save_message(message("user", f"{number:02} {'x' * 50}"))
            store.save_message(message("user", "elsewhere", session="s2"))

        def numbers(**where: Any) -> list[str]:
            return [row["content"] for row in ask.messages("alice", "s1", 4, 2, **where)]

        newest = ask.messages("alice", "s1", 4, 2)
        ids = [row["id"] for row in ask.messages("alice", "s1", 50, 0)]

        assert [row["content"] for row in newest] == ["08", "09", "10", "11"]
        assert [row["content_length"] for row in newest] == [53] * 4
        assert numbers(before=newest[0]["id"]) == ["04", "05", "06", "07"]
        assert numbers(after=ids[2]) == ["03", "04", "05", "06"]
        assert numbers(before=ids[0]) == []
        assert numbers(after=ids[-1]) == []
        assert ask.messages("alice", "none", 4, 2) == []
        assert set(newest[0]) == {
            "id", "created_at", "role", "status", "call_id", "history_count", "content",
            "content_length",
        }  # fmt: skip

    def test_a_message_has_its_prompt_and_its_chunks(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        chunks = [
            {"text": "t" * 30, "score": 0.75, "doc_id": "d", "metadata": {"page": 1}},
            {"text": "密" * 30},
        ]
        asked = message(
            "user", "é" * 30, rag_context=chunks, system_prompt="p" * 30, history_count=3,
            call_id="c1",
        )  # fmt: skip
        store.save_message(asked)
        store.save_message(message("assistant", "a"))
        question, answer = (row["id"] for row in ask.messages("alice", "s1", 5, 5))

        found = ask.message(question, 4)

        assert (found["content"], found["content_length"]) == ("éééé", 30)
        assert (found["system_prompt"], found["system_prompt_length"]) == ("pppp", 30)
        assert (found["user_id"], found["session_id"], found["call_id"]) == ("alice", "s1", "c1")
        assert found["rag_context"] == [
            {"text": "tttt", "text_length": 30, "score": 0.75, "doc_id": "d",
             "metadata": {"page": 1}},
            {"text": "密密密密", "text_length": 30, "score": None, "doc_id": None,
             "metadata": None},
        ]  # fmt: skip
        assert ask.message(answer, 4)["rag_context"] is None
        assert ask.message(answer, 4)["system_prompt_length"] == 0
        with pytest.raises(KeyError):
            ask.message(10**9, 4)

    def test_the_history_of_a_question_is_what_was_sent_with_it(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        for number in range(5):
            store.save_message(message("user", f"q{number}", history_count=min(number, 2)))
            store.save_message(message("tool_call", "[]"))
            store.save_message(message("assistant", f"a{number}"))
            store.save_message(message("user", "elsewhere", "bob"))
        ids = {row["content"]: row["id"] for row in ask.messages("alice", "s1", 50, 9)}

        def history(content: str) -> list[str]:
            return [row["content"] for row in ask.history_of(ids[content], 9)]

        assert history("q0") == []
        assert history("q1") == ["q0", "a0"]
        assert history("q4") == ["q2", "a2", "q3", "a3"]
        assert history("a4") == []
        with pytest.raises(KeyError):
            ask.history_of(10**9, 9)

    def test_a_whole_text_is_given_on_request(self, store: BaseStore, ask: Analytics) -> None:
        store.save_message(message("user", "long " * 1000, system_prompt="be kind"))
        store.save_token_record(call(partial="so f", call_id="c1"))
        question = ask.messages("alice", "s1", 1, 5)[0]["id"]
        record = ask.calls(CallFilter(), 1).rows[0]["id"]

        assert ask.body("conversations", question, "content") == "long " * 1000
        assert ask.body("conversations", question, "system_prompt") == "be kind"
        assert ask.body("token_records", record, "partial") == "so f"
        assert ask.body("token_records", record, "error_message") is None
        with pytest.raises(KeyError):
            ask.body("conversations", 10**9, "content")
        wrong: Any = "user_id"
        with pytest.raises(ValueError, match="user_id"):
            ask.body("conversations", question, wrong)
        with pytest.raises(ValueError, match="feedback"):
            ask.body(_any("feedback"), question, "content")

    def test_it_tells_about_the_database(self, ask: Analytics) -> None:
        about = ask.about()

        assert set(about) == {"database", "schema_version", "size_bytes"}
        assert about["database"]
        assert_plain(about)

    def test_a_session_that_is_not_there_is_an_error(self, ask: Analytics) -> None:
        with pytest.raises(KeyError):
            ask.session("alice", "s1")


def _any(value: Any) -> Any:
    return value


def agent_entry(call_id: str) -> Entry:
    """A step of an agent: its model call failed, say, after two tools."""
    return Entry(
        token=call(
            call_id=call_id, error_message="e" * 50, status="error", tags=("t",), metadata={"n": 1}
        ),
        messages=(
            message("user", "question", call_id=call_id),
            message("tool_call", TOOL_CALLS, call_id=call_id),
            message("tool_result", TOOL_RESULTS, call_id=call_id),
        ),
        tools=ToolStep(
            user_id="alice",
            session_id="s1",
            turn_num=1,
            calls=(ToolCall("t1", "add", {"a": "x" * 102}), ToolCall("t2", "div", {})),
            results=(
                ToolResult("t1", "add", "r" * 20),
                ToolResult("t2", "div", "by zero", is_error=True),
            ),
            durations_ms=(5.0, None),
        ),
        at=micros(),
    )


TOOL_CALLS = (
    '[{"id": "t1", "name": "add", "arguments": {"a": "' + "x" * 102 + '"}}, '
    '{"id": "t2", "name": "div", "arguments": {}}]'
)
TOOL_RESULTS = (
    '[{"tool_call_id": "t1", "name": "add", "content": "' + "r" * 20 + '", "is_error": false}, '
    '{"tool_call_id": "t2", "name": "div", "content": "by zero", "is_error": true}]'
)

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


def pages(read: Callable[[str | None], Page]) -> list[Row]:
    """All rows, page by page."""
    rows, page = [], read(None)
    for _ in range(200):
        rows += page.rows
        if page.next is None:
            return rows
        page = read(page.next)
    raise AssertionError("the list has no end")


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
