"""What each thing that the dashboard reads costs in databases of different sizes.

Run: python -m benchmarks.monitor_dashboard [--sizes 10000 200000 1000000] [--db URL] [--filled]

`--db` is a path or a URL in which {} stands for the size, of an empty database for each; by default
they are files. `--filled` says that they are filled already. Filling a million takes minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks.monitor_data import DAY_US, Traffic, open_store, write_all
from pywrapai_monitor.db import BaseStore
from pywrapai_monitor.db.analytics import CallFilter, SessionFilter, Span
from pywrapai_monitor.db.days import last_days, midnight

GOAL_MS = 50.0
GOAL_RATIO = 3.0
RANGES = {"24 h": 1, "7 days": 7, "30 days": 30, "90 days": 90}
OVERVIEW = ("figures", "figures before", "series", "models", "users", "tools", "calls")
HOUR_US = 3600 * 10**6
CUT = 2000
Read = Callable[[], Any]


def of_ranges(store: BaseStore, now: int) -> Iterator[tuple[str, str, Read]]:
    """Range, name and read of what the overview shows."""
    ask, zone = store.analytics(), ZoneInfo("Europe/Brussels")
    for name, days in RANGES.items():
        if days == 1:
            end = -(-now // HOUR_US) * HOUR_US
            bounds = [end - hours * HOUR_US for hours in range(24, -1, -1)]
        else:
            dates = last_days(now, days, zone)
            bounds = [*(midnight(date, zone) for date in dates), -(-now // HOUR_US) * HOUR_US]
        span = Span(since=bounds[0], until=bounds[-1])
        before = Span(since=2 * bounds[0] - bounds[-1], until=bounds[0])
        yield name, "figures", lambda span=span: ask.figures(span)
        yield name, "figures before", lambda span=before: ask.figures(span)
        yield name, "series", lambda bounds=bounds: ask.series(bounds)
        yield name, "models", lambda span=span: ask.models(span)
        yield name, "users", lambda span=span: ask.users(span, 10)
        yield name, "tools", lambda span=span: ask.tools(span)
        yield name, "calls", lambda span=span: ask.calls(CallFilter(span=span), 20)
        yield name, "prompt_versions", lambda span=span: ask.prompt_versions("support", span)
        yield name, "sessions", lambda span=span: ask.sessions(SessionFilter(span=span), 50)
        yield name, "sessions then", lambda span=before: ask.sessions(SessionFilter(span=span), 50)


def of_lists(store: BaseStore, now: int) -> Iterator[tuple[str, Read]]:
    """Name and read of all else that `Analytics` has."""
    ask = store.analytics()
    known = ask.calls(CallFilter(status="ok", kind="chat"), 1).rows[0]
    call_id, user, session = known["call_id"], known["user_id"], known["session_id"]
    deep = ask.calls(CallFilter(span=Span(until=now - 45 * DAY_US)), 50).next
    question = ask.messages(user, session, 50, CUT)[-2]["id"]
    yield "all time: figures", lambda: ask.figures(Span())
    yield "all time: models", lambda: ask.models(Span())
    yield "all time: users", lambda: ask.users(Span(), 10)
    yield "all time: tools", lambda: ask.tools(Span())
    for name, wanted in {
        "all": CallFilter(),
        "of a user": CallFilter(user_id=user),
        "of a session": CallFilter(user_id=user, session_id=session),
        "errors": CallFilter(status="error"),
        "errors of a user": CallFilter(status="error", user_id=user),
        "of a rare model": CallFilter(model="house-model"),
        "of no model": CallFilter(model="none"),
        "unpriced": CallFilter(unpriced=True),
        "tagged": CallFilter(tag="web"),
        "with no such tag": CallFilter(tag="none"),
        "of a version": CallFilter(prompt_name="support", prompt_version="v2"),
    }.items():
        yield f"calls: {name}", lambda wanted=wanted: ask.calls(wanted, 50)
    yield "calls: far down", lambda: ask.calls(CallFilter(), 50, deep)
    yield "call", lambda: ask.call(call_id, CUT)
    yield "sessions: all", lambda: ask.sessions(SessionFilter(), 50)
    yield "sessions: of a user", lambda: ask.sessions(SessionFilter(user_id=user), 50)
    yield "sessions: often said", lambda: ask.sessions(SessionFilter(text="Password"), 50)
    yield "sessions: never said", lambda: ask.sessions(SessionFilter(text="zebra"), 50)
    yield "sessions: an accent", lambda: ask.sessions(SessionFilter(text="été"), 50)
    yield "session", lambda: ask.session(user, session)
    yield "messages", lambda: ask.messages(user, session, 50, CUT)
    yield "message", lambda: ask.message(question, CUT)
    yield "history_of", lambda: ask.history_of(question, CUT)
    yield "tool_calls", lambda: ask.tool_calls(call_id, CUT)
    yield "body", lambda: ask.body("conversations", question, "content")
    yield "pins", lambda: ask.pins("support", 50)
    yield "about", ask.about
    yield "get_overview", store.get_overview
    yield "get_today", store.get_today
    yield "get_cost_over_time(30)", lambda: store.get_cost_over_time(30, "Europe/Brussels")
    yield "get_model_usage", store.get_model_usage
    yield "get_users", store.get_users
    yield "get_sessions(user)", lambda: store.get_sessions(user)
    yield "get_recent_queries", store.get_recent_queries
    yield "get_tool_usage", store.get_tool_usage
    yield "get_tool_usage(user)", lambda: store.get_tool_usage(user)
    yield "get_conversation", lambda: store.get_conversation(user, session)
    yield "get_session_token_records", lambda: store.get_session_token_records(user, session)


def timed(
    read: Read, rounds: int, clock: Callable[[], float], take: Callable[[list[float]], float]
) -> float:
    """Milliseconds."""
    read()
    spent = []
    for _ in range(rounds):
        started = clock()
        read()
        spent.append((clock() - started) * 1000)
    return take(spent)


def measured(store: BaseStore, timed: Callable[[Read], float]) -> dict[str, float]:
    """Each read, and the overview's sum for each range."""
    now = store.analytics().calls(CallFilter(), 1).rows[0]["created_at"]
    now_us = int(datetime.fromisoformat(now).astimezone(UTC).timestamp() * 10**6)
    found: dict[str, float] = {}
    for name, what, read in of_ranges(store, now_us):
        found[f"{name}: {what}"] = timed(read)
    for name in RANGES:
        found[f"{name}: OVERVIEW"] = sum(found[f"{name}: {what}"] for what in OVERVIEW)
    found.update((name, timed(read)) for name, read in of_lists(store, now_us))
    return found


def report(columns: dict[int, dict[str, float]], what: str) -> bool:
    """Print the table; whether a goal was missed."""
    sizes = sorted(columns)
    small, large = columns[sizes[0]], columns[sizes[-1]]
    missed = False
    print(f"{what + ' ms':34}" + "".join(f"{size:>11,}" for size in sizes) + "   ratio")
    for name in large:
        ratio = large[name] / small[name]
        overview = name.endswith("OVERVIEW")
        late = ratio > GOAL_RATIO if overview else large[name] > GOAL_MS
        missed = missed or late
        figures = "".join(f"{columns[size][name]:11.2f}" for size in sizes)
        print(f"{name:34}{figures}{ratio:8.1f}{'  MISSED' if late else ''}")
    print(f"goals: each under {GOAL_MS} ms, the overview's sum at most {GOAL_RATIO} x as long")
    return missed


def main() -> int:
    """Print the table; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 200_000, 1_000_000])
    parser.add_argument("--db", help="a path or a URL with {} for the size")
    parser.add_argument("--filled", action="store_true", help="the databases are filled already")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu", action="store_true", help="SQLite's work, on a busy machine")
    parser.add_argument("--best", action="store_true", help="the best round, on a busy machine")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    take: Callable[[list[float]], float] = min if options.best else median
    columns = {}
    with tempfile.TemporaryDirectory() as name:
        url = options.db or str(Path(name) / "dashboard-{}.db")
        for size in options.sizes:
            store = open_store(url.format(size))
            if not options.filled:
                started = time.perf_counter()
                write_all(store, iter(Traffic(size)), writers=8 if "://" in url else 1)
                spent = time.perf_counter() - started
                print(f"{size:,} written in {spent:.0f} s", file=sys.stderr)
            one = partial(timed, rounds=options.rounds, clock=clock, take=take)
            columns[size] = measured(store, one)
            store.close()
    return int(report(columns, "best" if options.best else "median"))


if __name__ == "__main__":
    sys.exit(main())
