"""Files with the rows of a table, sent while they are read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pywrapai_monitor.db.base import Feedback, Row, StoreError
from pywrapai_monitor.export import COLUMNS
from tests.contracts.store_rows import NOON, Clock, entry
from tests.monitor.dashboard_client import TOKEN, Foreign, client, sqlite, turn, view


class Counting(Foreign):  # type: ignore[misc]
    """Its rows are made when they are asked for; it knows how many were."""

    def __init__(self, rows: int, fail_at: int | None = None) -> None:
        super().__init__(Clock())
        self.rows, self.fail_at, self.given = rows, fail_at, 0

    def export_rows(self, table: str, **which: Any) -> Iterator[Row]:
        self.asked = which
        for number in range(self.rows):
            if number == self.fail_at:
                raise StoreError("gone")
            self.given = number + 1
            yield {"id": number, "content": "x" * 1000}


def test_csv_has_the_columns_and_every_row():
    asked = client(sqlite(turn('says "a",\nb', "c1"), turn("=HYPERLINK(1)", "c2")))
    answer = asked.get("/api/export/conversations.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))

    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="conversations.csv"'
    assert answer.headers["Cache-Control"] == "no-store"
    assert tuple(rows[0]) == COLUMNS["conversations"]
    assert [row["content"] for row in rows][::2] == ['says "a",\nb', "'=HYPERLINK(1)"]


def test_a_file_has_the_order_of_the_pages_though_the_clock_stands_still():
    asked = client(sqlite(*(turn(f"q{i}", f"c{i}") for i in range(5))))

    def said(kind: str) -> list[Any]:
        lines = asked.get(f"/api/export/{kind}.jsonl?user_id=alice&session_id=s1").text
        return [json.loads(line)["id"] for line in lines.splitlines()]

    shown = view(asked, "conversation", user_id="alice", session_id="s1")["messages"]
    assert said("conversations") == [row["id"] for row in shown]
    calls = view(asked, "calls", user_id="alice")["rows"]
    assert said("token_records") == [row["id"] for row in calls][::-1]


def test_json_lines_are_exact():
    store = sqlite(turn("東京", "c1", metadata={"n": 9007199254740993}, cost_usd=0.0))
    row = json.loads(client(store).get("/api/export/token_records.jsonl").text)

    assert row["metadata"]["n"] == 9007199254740993
    assert row["cost_usd"] == 0.0


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_every_table_can_be_had_and_may_be_empty(table, format):
    answer = client(sqlite()).get(f"/api/export/{table}.{format}")

    assert answer.status_code == 200
    assert answer.text.count("\n") == (1 if format == "csv" else 0)


def test_feedback_comes_with_its_call():
    store = sqlite(turn("q", "c1"))
    store.save_feedback(Feedback(call_id="c1", score=0.0, comment="="))

    row = json.loads(client(store).get("/api/export/feedback.jsonl").text)

    assert (row["user_id"], row["score"]) == ("alice", 0.0)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["old", "c1", "c2"]),
        ("user_id=bob", ["old"]),
        ("session_id=s1&user_id=alice", ["c1", "c2"]),
        ("range=7d", ["c1", "c2"]),
        ("from=2026-11-01&to=2026-11-10", ["old"]),
        ("since=2026-11-30T12:00:00Z", ["c1", "c2"]),
        ("until=2026-11-30T13:00:00%2B01:00", ["old"]),
        ("since=2026-11-30T12:00:00.000001Z", []),
    ],
)
def test_rows_are_those_asked_for(query, found):
    store = sqlite(
        entry("q", "old", "bob", at=NOON - timedelta(days=22)), turn("q", "c1"), turn("q", "c2")
    )
    lines = client(store).get(f"/api/export/token_records.jsonl?{query}").text.splitlines()

    assert [json.loads(line)["call_id"] for line in lines] == found


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("since=yesterday", "since must be a time as 2026-11-30 or 2026-11-30T18:00:00Z"),
        ("since=2026-11-30&range=7d", "since and until must be left out where a range"),
        ("limit=5", "unknown parameter 'limit'"),
        ("user_id=", "user_id must not be empty: leave it out"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_sent(query, told):
    answer = client(sqlite()).get(f"/api/export/conversations.csv?{query}")

    assert answer.status_code == 400
    assert told in answer.json["error"]


@pytest.mark.parametrize("path", ["users.csv", "conversations.xlsx", "conversations", "all.jsonl"])
def test_there_are_no_other_files(path):
    assert client(sqlite()).get(f"/api/export/{path}").status_code == 404


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_the_first_bytes_come_before_the_last_row_is_read(format):
    store = Counting(10_000)
    answer = client(store).get(f"/api/export/conversations.{format}")
    pieces = answer.iter_encoded()

    next(pieces)
    assert store.given <= 2
    next(pieces)
    assert store.given < 200
    assert sum(map(len, pieces)) > 9_000_000
    answer.close()


def test_a_reader_who_leaves_ends_the_reading():
    store = Counting(10_000)
    answer = client(store).get("/api/export/conversations.jsonl")
    next(answer.iter_encoded())
    answer.close()

    assert store.given < 200


def test_a_database_that_is_away_is_a_503():
    answer = client(Counting(10, fail_at=0)).get("/api/export/conversations.jsonl")

    assert answer.status_code == 503


def test_without_the_token_there_are_no_files():
    asked = client(sqlite(turn("q", "c1")), auth_token=TOKEN)

    assert asked.get("/api/export/conversations.csv").status_code == 401
