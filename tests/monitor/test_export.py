"""Rows as JSON lines and CSV: every value, in a form that a reader gets back."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import BaseStore, Feedback
from pywrapai_monitor.db.sqlite import SQLiteStore
from pywrapai_monitor.export import COLUMNS, export, to_csv, to_jsonl
from tests.contracts.store_rows import NOON, entry, save_turn


@pytest.fixture
def store() -> Iterator[SQLiteStore]:
    store = SQLiteStore(":memory:")
    yield store
    store.close()


def exported(store: BaseStore, table: str, **more: Any) -> str:
    file = io.StringIO(newline="")
    export(store, table, file, **more)
    return file.getvalue()


def fill(store: SQLiteStore) -> None:
    for user in ("alice", "bob"):
        store.write([entry("q", f"{user} 1", user, tags=("a", "b"), metadata={"é": [0, None]})])
        call = ToolCall("1", "search", {"n": 9007199254740993})
        store.save_tool_step(user, "s1", 0, [call], [ToolResult("1", "search", "0")], [None])
        store.save_feedback(Feedback(call_id=f"{user} 1", score=0.0, comment=None))


@pytest.mark.parametrize("table", COLUMNS)
def test_json_lines_give_the_rows_back(store, table):
    fill(store)

    lines = exported(store, table).splitlines()

    assert [json.loads(line) for line in lines] == list(store.export_rows(table))


@pytest.mark.parametrize("table", COLUMNS)
def test_csv_has_every_column_once_and_a_line_for_each_row(store, table):
    fill(store)

    header, *lines = csv.reader(io.StringIO(exported(store, table, format="csv"), newline=""))

    rows = list(store.export_rows(table))
    assert header == list(COLUMNS[table])
    assert set(header) == set(rows[0])
    assert [line[0] for line in lines] == [str(row["id"]) for row in rows]
    assert {len(line) for line in lines} == {len(header)}


def test_a_csv_of_no_rows_has_its_header(store):
    assert exported(store, "feedback", format="csv") == ",".join(COLUMNS["feedback"]) + "\r\n"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (0, "0"),
        (0.0, "0.0"),
        (-1.5, "-1.5"),
        (1e-07, "1e-07"),
        (9007199254740993, "9007199254740993"),
        (False, "false"),
        (None, ""),
        ("", '""'),
        ([], "[]"),
        (["a", 1], '"[""a"", 1]"'),
        ('say "hi", twice', '"say ""hi"", twice"'),
        ("two\nlines", '"two\nlines"'),
        ("a\r\nb", '"a\r\nb"'),
        (" kept ", '" kept "'),
        ("👩‍👩‍👧 é 日本", "👩‍👩‍👧 é 日本"),
        ("3 - 2", "3 - 2"),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", '"\'\t=1"'[0:0] + "'\t=1"),
        ("\r=1", '"\'\r=1"'),
        (" =1", "' =1"),
        ("\uff1d1", "'\uff1d1"),
        ('=a"b', '"\'=a""b"'),
    ],
)
def test_a_field_of_csv(value, field):
    _, line = to_csv([{"first": 1, "value": value, "last": 2}], ["first", "value", "last"])

    assert line == f"1,{field},2\r\n"


def test_what_a_foreign_store_has_beside_the_columns_comes_last():
    rows = [{"b": 1, "more": "x"}, {"a": 2}]

    assert list(to_csv(rows, ["a", "b"])) == ["a,b,more\r\n", ",1,x\r\n", "2,,\r\n"]


def test_json_lines_steer_no_terminal_and_lose_nothing():
    text = "\x1b[31m \x9b31m \u202e \x7f \u2028 \ud83d é 日本"

    (line,) = to_jsonl([{"text": text}])

    assert json.loads(line) == {"text": text}
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    assert "é 日本" in line
    line.encode()


def test_all_tables_in_one_stream_say_whose_a_row_is(store):
    fill(store)

    rows = [json.loads(line) for line in exported(store, "all").splitlines()]

    of_table = {table: [r for r in rows if r.pop("table", table) == table] for table in COLUMNS}
    assert next(iter(of_table["feedback"][0])) == "id"
    assert len(rows) == sum(len(list(store.export_rows(table))) for table in COLUMNS)


def test_rows_are_chosen_and_counted(store):
    for day, user in enumerate(("alice", "bob", "alice")):
        store.write([entry(f"q{day}", f"c{day}", user, at=NOON.replace(day=day + 1))])
    file = io.StringIO()

    found = export(
        store, "conversations", file, user_id="alice", since="2026-11-02", until="2026-12-01"
    )

    rows = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [row["content"] for row in rows] == ["q2", "re: q2"]
    assert found == 2
    assert export(store, "conversations", io.StringIO(), format="csv", session_id="s1") == 6


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"table": "users"}, "table must be one of"),
        ({"table": "feedback", "format": "xml"}, "format must be one of jsonl, csv"),
        ({"table": "all", "format": "csv"}, "one table"),
        ({"table": "feedback", "since": "yesterday"}, "since must be a time"),
    ],
)
def test_what_cannot_be_exported_is_told_before_anything_is_written(store, asked, said):
    file = io.StringIO()

    with pytest.raises(ValueError, match=said):
        export(store, file=file, **asked)

    assert file.getvalue() == ""


def test_rows_are_written_as_they_come():
    endless = ({"n": n} for n in count())

    assert list(islice(to_jsonl(endless), 2)) == ['{"n": 0}\n', '{"n": 1}\n']
    assert list(islice(to_csv(endless, ["n"]), 2)) == ["n\r\n", "2\r\n"]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_long_table_takes_the_memory_of_a_page(store, format, tmp_path):
    with store.transaction():
        for _ in range(600):
            save_turn(store, "x" * 10_000)  # 12 MB
    with open(tmp_path / "out", "w", encoding="utf-8", newline="") as file:
        tracemalloc.start()
        try:
            assert export(store, "conversations", file, format=format) == 1200
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 7_000_000
    assert (tmp_path / "out").stat().st_size > 12_000_000
