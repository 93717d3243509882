"""Lists of users, calls, sessions and pins: each row once, page by page, and what is found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pywrapai_monitor.db.analytics import Analytics, CallFilter, SessionFilter, Span
from pywrapai_monitor.db.base import BaseStore, TokenRecord
from tests.contracts.store_pages import UGLY, pages
from tests.contracts.store_rows import NOON, Clock, assert_plain, call, entry, message, micros

QUARTER = 15 * 60 * 10**6


class AnalyticsListsContract:
    """Part of AnalyticsContract."""

    lists_pins = True
    cuts_long_searches = True

    @pytest.fixture
    def ask(self, store: BaseStore) -> Analytics:
        return store.analytics()

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
