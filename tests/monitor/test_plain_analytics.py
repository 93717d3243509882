"""What pages get of a store that knows no SQL, beside what SQL says of the same rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pywrapai_monitor.db import SQLiteStore, plain_analytics
from pywrapai_monitor.db.analytics import CallFilter, SessionFilter, Span
from pywrapai_monitor.db.latency import percentile
from pywrapai_monitor.db.plain_analytics import PlainAnalytics
from tests.contracts.store_analytics import AnalyticsContract
from tests.contracts.store_rows import NOON, Clock, entry, micros
from tests.monitor.dashboard_client import sqlite, turn
from tests.monitor.dashboard_data import fill

DAY = 86_400_000_000
END = micros(NOON) + 12 * 3_600_000_000
SPANS = [
    Span(since=END - 7 * DAY, until=END),
    Span(since=END - 30 * DAY, until=END - DAY),
    Span(since=END - 40 * DAY),
]
ABOUT = ("p50_ms", "p95_ms", "p99_ms")  # the SQL store keeps a histogram


@pytest.fixture(scope="module")
def store():
    store = sqlite()
    fill(store, calls=600, now=NOON)
    return store


@pytest.fixture
def plain(store):
    return PlainAnalytics(store)


def exact(row):
    return {name: round_(value) for name, value in row.items() if name not in ABOUT}


def round_(value):
    return round(value, 9) if isinstance(value, float) else value


class TestContract(AnalyticsContract):
    sums_of_a_time = False
    lists_pins = False
    cuts_long_searches = False

    @pytest.fixture
    def clock(self):
        return Clock()

    @pytest.fixture
    def store(self, clock):
        store = SQLiteStore(":memory:", clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def ask(self, store):
        return PlainAnalytics(store)


class TestAgreesWithTheSQLStore:
    @pytest.mark.parametrize("span", SPANS)
    def test_on_figures(self, store, plain, span):
        ours, theirs = plain.figures(span), store.analytics().figures(span)

        # A session counts in SQL also where it was used without a call.
        for figures in (ours, theirs):
            del figures["users"], figures["sessions"]
        assert exact(ours) == exact(theirs)
        for name in ABOUT:
            assert ours[name] == pytest.approx(theirs[name], rel=0.2)

    def test_on_figures_of_all_time(self, store, plain):
        ours, theirs = plain.figures(Span()), store.analytics().figures(Span())
        known = {name: value for name, value in ours.items() if value is not None}

        assert set(ours) == set(theirs)
        assert {"calls", "errors", "cost_usd", "users", "sessions"} <= set(known)
        del known["avg_duration_ms"]  # the overview's is that of all calls, cached ones too
        assert exact(known) == {name: round_(theirs[name]) for name in known}

    def test_on_the_steps(self, store, plain):
        bounds = [END - day * DAY for day in range(20, -1, -1)]
        ours, theirs = plain.series(bounds), store.analytics().series(bounds)

        for mine, other in zip(ours, theirs, strict=True):
            models = [
                {each["model"]: exact(each) for each in row.pop("models")} for row in (mine, other)
            ]
            assert models[0] == models[1]
            assert exact(mine) == exact(other)

    @pytest.mark.parametrize("span", SPANS)
    def test_on_models_and_users(self, store, plain, span):
        theirs = store.analytics()

        assert [exact(row) for row in plain.models(span)] == [
            exact(row) for row in theirs.models(span)
        ]
        assert [exact(row) for row in plain.users(span, 100).rows] == [
            exact(row) for row in theirs.users(span, 100).rows
        ]

    @pytest.mark.parametrize(
        "wanted",
        [
            CallFilter(),
            CallFilter(span=SPANS[1]),
            CallFilter(status="error"),
            CallFilter(kind="embedding"),
            CallFilter(unpriced=True),
            CallFilter(model="gpt-5-mini", status="ok"),
        ],
    )
    def test_on_lists_of_calls_page_by_page(self, store, plain, wanted):
        ours, theirs = (paged(each.calls, wanted) for each in (plain, store.analytics()))

        assert [row["id"] for row in ours] == [row["id"] for row in theirs]
        assert set(ours[0]) == set(theirs[0])
        assert exact(ours[0]) == exact(theirs[0])

    def test_on_sessions(self, store, plain):
        ours, theirs = (
            paged(each.sessions, SessionFilter()) for each in (plain, store.analytics())
        )

        key = ("user_id", "session_id")
        assert sorted([row[n] for n in key] for row in ours) == sorted(
            [row[n] for n in key] for row in theirs
        )
        assert [row["last_at"] for row in ours] == [row["last_at"] for row in theirs]

    def test_on_messages_and_their_details(self, store, plain):
        theirs = store.analytics()
        sessions = plain.sessions(SessionFilter(), 15).rows

        assert len(sessions) == 15
        for session in sessions:
            key = (session["user_id"], session["session_id"])
            rows = plain.messages(*key, 7, 50)
            assert rows == theirs.messages(*key, 7, 50)
            assert plain.session(*key) == theirs.session(*key)
            middle = rows[len(rows) // 2]["id"]
            for where in ({"before": middle}, {"after": middle}):
                assert plain.messages(*key, 3, 9, **where) == theirs.messages(*key, 3, 9, **where)
            for row in rows:
                assert plain.message(row["id"], 50) == theirs.message(row["id"], 50)
                assert plain.history_of(row["id"], 9) == theirs.history_of(row["id"], 9)

    def test_on_one_call(self, store, plain):
        theirs = store.analytics()
        calls = plain.calls(CallFilter(), 60).rows

        assert len(calls) == 60
        for row in calls:
            ours, other = (each.call(row["call_id"], 40) for each in (plain, theirs))
            assert ours["messages"] == other["messages"]
            assert ours["error_message_length"] == other["error_message_length"]
            assert [tool["tool_name"] for tool in ours["tools"]] == [
                tool["tool_name"] for tool in other["tools"]
            ]
            assert (ours["feedback"] is None) == (other["feedback"] is None)

    def test_on_versions_of_a_prompt(self, store, plain):
        name = store.list_prompts()[0]["name"]
        ours, theirs = (each.prompt_versions(name, SPANS[2]) for each in (plain, store.analytics()))

        assert ours
        assert [exact(row) for row in ours] == [exact(row) for row in theirs]


def paged(ask, wanted):
    rows, cursor = [], None
    while True:
        page = ask(wanted, 37, cursor)
        rows += page.rows
        if (cursor := page.next) is None:
            return rows


class TestBounds:
    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch):
        monkeypatch.setattr(plain_analytics, "_MOST_RECORDS", 10)
        monkeypatch.setattr(plain_analytics, "_LATE", 1)
        monkeypatch.setattr(plain_analytics, "_MOST_SESSIONS", 3)

    def test_a_time_with_too_many_records_cannot_be_told(self):
        store = sqlite(*(entry("q", f"c{i}", at=NOON + timedelta(hours=i - 19)) for i in range(20)))
        plain = PlainAnalytics(store)

        assert plain.figures(Span(since=micros(NOON - timedelta(hours=5))))["calls"] == 6
        assert plain.figures(Span())["calls"] == 20
        with pytest.raises(NotImplementedError, match="than 10 records: take a shorter time"):
            plain.figures(Span(since=micros(NOON - timedelta(hours=15))))

    def test_a_list_says_where_it_stopped_looking(self):
        plain = PlainAnalytics(sqlite(*(entry("q", f"c{i}", status="ok") for i in range(20))))

        page = plain.calls(CallFilter(status="error"), 5)

        assert (page.rows, page.next) == ([], None)
        assert page.searched_to is not None

    def test_a_search_goes_on_where_it_stopped(self):
        times = [NOON - timedelta(minutes=i) for i in range(8)]
        store = sqlite(*(turn(f"t{i}", f"c{i}", "u", f"s{i}", at=times[i]) for i in range(8)))
        plain, cursor, found = PlainAnalytics(store), None, []
        for _ in range(3):
            page = plain.sessions(SessionFilter(text="T7"), 5, cursor)
            found += page.rows
            cursor = page.next

        assert [row["session_id"] for row in found] == ["s7"]
        assert found[0]["excerpt"] == "re: t7"
        assert cursor is None

    def test_a_message_of_an_old_session_is_found_once_its_session_was_read(self):
        times = [NOON - timedelta(minutes=i) for i in range(8)]
        store = sqlite(*(turn(f"t{i}", f"c{i}", "u", f"s{i}", at=times[i]) for i in range(8)))
        plain = PlainAnalytics(store)
        old = store.get_conversation("u", "s7")[0]["id"]

        with pytest.raises(KeyError):
            plain.message(old, 10)
        plain.messages("u", "s7", 10, 10)
        assert plain.message(old, 10)["content"] == "t7"


@pytest.mark.parametrize(
    "cursor", ["", "!", "W10", "WyJhIl0", "bnVsbA", "WzEsMiwzXQ", "é", "W" * 999]
)
@pytest.mark.parametrize("name", ["calls", "sessions", "users"])
def test_a_cursor_that_no_page_gave_is_a_value_error(name, cursor):
    plain = PlainAnalytics(sqlite(turn("q", "c1")))
    wanted = {"calls": CallFilter(), "sessions": SessionFilter(), "users": Span()}[name]

    with pytest.raises(ValueError, match="cursor must be what the page before said"):
        getattr(plain, name)(wanted, 5, cursor)


def test_a_percentile_lies_between_two_values_in_proportion():
    assert percentile([], 0.5) is None
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([0.0, 10.0], 0.5) == 5.0
    assert percentile([float(i) for i in range(101)], 0.95) == 95.0
