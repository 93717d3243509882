"""The running totals of an SQL store are those of its rows, whatever was written and deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Table, select

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import Entry, ToolStep
from pywrapai_monitor.db.sql import SQLStore
from pywrapai_monitor.db.tables import (
    conversations,
    latency_totals,
    prompt_totals,
    session_totals,
    token_records,
    tool_calls,
    tool_totals,
    usage_totals,
    user_totals,
)
from tests.contracts.store_rows import NOON, Clock, call, message, micros

MINUTE = 60 * 10**6
WIDTHS = {0: 15 * MINUTE, 10**9: 120 * MINUTE, 2 * 10**9: 1440 * MINUTE}
WIDTHS_OF_USERS = {10**9: 120 * MINUTE, 2 * 10**9: 1440 * MINUTE, 3 * 10**9: 8 * 1440 * MINUTE}
TOKENS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip
Found = dict[tuple[Any, ...], list[Any]]


class TotalsContract:
    """Part of SQLStoreContract."""

    def test_the_totals_are_those_of_the_rows_whatever_happens(
        self, store: SQLStore, clock: Clock
    ) -> None:
        written = 0

        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(TURNS, min_size=1, max_size=8), st.sampled_from(DELETIONS))
        def check(turns: list[dict[str, Any]], delete: Any) -> None:
            nonlocal written
            entries = []
            for turn in turns:
                entries.append(entry_of(f"call {written}", **turn))
                written += 1
            store.write(entries)
            store.write(entries[:2], replayed=True)
            delete(store)
            assert_totals(store)

        check()
        clock.now = NOON + timedelta(days=100)
        store.purge_before(1)

        assert_totals(store)
        for table in (usage_totals, latency_totals, prompt_totals, user_totals, tool_totals):
            assert [row for row in rows_of(store, table) if row["bucket"] >= 0] == [], table
        assert rows_of(store, session_totals) == []

    def test_totals_of_calls_beside_each_other_and_of_a_purge_meanwhile(
        self, store: SQLStore, clock: Clock
    ) -> None:
        for age in range(40, 0, -1):
            clock.now = NOON - timedelta(days=age)
            store.save_token_record(call(session=f"s{age}", cost_usd=0.1, duration_ms=age * 100.0))
            store.save_message(message("user", "q", session=f"s{age}"))
        clock.now = NOON

        store.purge_before(30)
        store.delete_session("alice", "s3")
        store.write([entry_of("late", minutes=35 * 24 * 60)])

        assert_totals(store)


def entry_of(call_id: str, minutes: int = 0, tool: bool | None = None, **more: Any) -> Entry:
    """A turn of some minutes before NOON, with a tool call that fails or not, or without one."""
    token = call(call_id=call_id, **more)
    step = None
    if tool is not None:
        step = ToolStep(
            user_id=token.user_id,
            session_id=token.session_id,
            turn_num=1,
            calls=(ToolCall("1", "add", {}), ToolCall("2", "div", {})),
            results=(ToolResult("1", "add", "3", is_error=tool),),
            durations_ms=(5.5, None),
        )
    said = message("user", "q", token.user_id, token.session_id)
    at = micros(NOON) - minutes * MINUTE
    return Entry(token=token, messages=(said,), tools=step, at=at)


TURNS = st.fixed_dictionaries({
    "minutes": st.integers(0, 40 * 24 * 60),
    "tool": st.sampled_from([None, None, True, False]),
    "user": st.sampled_from(["alice", "bob", ""]),
    "session": st.sampled_from(["s1", "s2"]),
    "model": st.sampled_from(["m1", "m2"]),
    "kind": st.sampled_from(["chat", "chat", "embedding"]),
    "status": st.sampled_from(["ok", "error", "interrupted"]),
    "input_tokens": st.integers(0, 1000),
    "output_tokens": st.integers(0, 1000),
    "cache_read_tokens": st.integers(0, 1000),
    "cache_write_tokens": st.integers(0, 1000),
    "reasoning_tokens": st.integers(0, 1000),
    "cost_usd": st.integers(0, 10**6).map(lambda units: units / 10**8),
    "priced": st.booleans(),
    "cached": st.booleans(),
    "duration_ms": st.sampled_from([0.0, 0.3, 1.0, 812.5, 1e5]),
    "prompt_name": st.sampled_from([None, "support"]),
    "prompt_version": st.sampled_from([None, "v1", "v2"]),
})  # fmt: skip
DELETIONS = [
    lambda store: None,
    lambda store: store.purge_before(20),
    lambda store: store.delete_session("alice", "s1"),
    lambda store: store.delete_user("bob"),
    lambda store: store.delete_user(""),
]


def assert_totals(store: SQLStore) -> None:
    """Add all rows up, and compare."""
    records = rows_of(store, token_records)
    calls = [row for row in records if row["kind"] == "chat"]
    tools = rows_of(store, tool_calls)
    assert_same(store, usage_totals, summed(usage(records)))
    assert_same(store, latency_totals, summed(latency(calls)))
    assert_same(store, prompt_totals, summed(prompts(calls)))
    assert_same(store, user_totals, summed(users(records)))
    assert_same(store, tool_totals, summed(tools_of(tools)))
    sessions = {
        (row["user_id"], row["session_id"]): (row["row_count"], row["calls"], row["cost"])
        for row in rows_of(store, session_totals)
    }
    expected: Any = defaultdict(lambda: (0, 0, 0))
    for row in [*records, *rows_of(store, conversations)]:
        key = row["user_id"], row["session_id"]
        count, so_far, cost = expected[key]
        is_call = row.get("kind") == "chat"
        expected[key] = count + 1, so_far + is_call, cost + row.get("cost", 0)
    assert sessions == dict(expected)


def rows_of(store: SQLStore, table: Table) -> list[dict[str, Any]]:
    with store._reading() as conn:
        return [dict(row) for row in conn.execute(select(table)).mappings()]


def usage(records: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    for row in records:
        amounts = [
            1, row["status"] == "error", not row["priced"], bool(row["cached"]),
            *(row[name] for name in TOKENS), row["cost"], row["duration_ms"],
            row["duration_ms"] if row["cached"] else 0.0,
        ]  # fmt: skip
        for bucket in buckets(row, WIDTHS, all_time=True):
            yield (bucket, row["provider"], row["model"], row["kind"]), amounts


def latency(calls: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    for row in calls:
        if not row["cached"]:
            reached = [n for n in range(-16, 161) if 2 ** (n / 4) <= row["duration_ms"]]
            number = max(reached, default=-17)
            for bucket in buckets(row, WIDTHS, all_time=True):
                yield (bucket, number), [1]


def prompts(calls: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    for row in calls:
        if row["prompt_name"] is not None:
            timed = [0, 0.0] if row["cached"] else [1, row["duration_ms"]]
            for bucket in buckets(row, WIDTHS, all_time=True):
                key = (bucket, row["prompt_name"], row["prompt_version"] or "")
                yield key, [1, row["status"] == "error", row["cost"], *timed]


def users(records: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    for row in records:
        is_call = row["kind"] == "chat"
        tokens = row["input_tokens"] + row["output_tokens"]
        amounts = [1, is_call, is_call and row["status"] == "error", tokens, row["cost"]]
        for bucket in buckets(row, WIDTHS_OF_USERS):
            yield (bucket, row["user_id"]), amounts


def tools_of(calls: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    for row in calls:
        duration = row["duration_ms"]
        amounts = [1, row["status"] == "error", duration is not None, duration or 0.0]
        yield (-1, row["user_id"], row["tool_name"]), amounts
        for bucket in buckets(row, WIDTHS):
            yield (bucket, "", row["tool_name"]), amounts


def buckets(row: dict[str, Any], widths: dict[int, int], all_time: bool = False) -> list[int]:
    found = [first + row["created_at"] // width for first, width in widths.items()]
    return [*found, -1] if all_time else found


def summed(amounts: Iterable[tuple[tuple[Any, ...], list[Any]]]) -> Found:
    sums: Found = {}
    for key, some in amounts:
        old = sums.get(key, [0] * len(some))
        sums[key] = [a + b for a, b in zip(old, some, strict=True)]
    return sums


def assert_same(store: SQLStore, table: Table, expected: Found) -> None:
    keys = [c.name for c in table.primary_key if c.name != "lane"]
    names = [c.name for c in table.columns if not c.primary_key]
    rows = rows_of(store, table)
    sums = summed((tuple(row[k] for k in keys), [row[n] for n in names]) for row in rows)
    left = {key: values for key, values in sums.items() if values[0]}
    assert left.keys() == expected.keys(), table.name
    for key, values in left.items():
        for name, value, wanted in zip(names, values, expected[key], strict=True):
            close = abs(value - wanted) < 1e-6 if isinstance(value, float) else value == wanted
            assert close, (table.name, key, name, value, wanted)
