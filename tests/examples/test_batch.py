"""Many rows through a model, and what is left of them when the program is killed."""

from __future__ import annotations

import csv
import re
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from pywrapai.testing import StubServer
from pywrapai.testing.wires import Request, status, text
from tests.examples.programs import running

CONCURRENCY = 20


def rows_of(results: Path, columns: str = "number, answer, error") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(results)) as database:
        return database.execute(f"SELECT {columns} FROM results ORDER BY number").fetchall()


def reviews(folder: Path, count: int) -> Path:
    path = folder / "reviews.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["text"], *([f"Review {n}, fine."] for n in range(1, count + 1))])
    return path


def asked(request: Request) -> str:
    return str(request.json["messages"][-1]["content"])


def test_ten_thousand_rows_and_their_bill_without_a_key_killed_on_the_way(tmp_path):
    results = tmp_path / "results.db"
    started = time.monotonic()
    with running("batch", results, cwd=tmp_path) as program:
        program.wait_for(r"No key was found")
        program.wait_for(r"\b[1-9]\d{3}/10000")  # so many are answered
        assert program.end(signal.SIGKILL) == -signal.SIGKILL
    with running("batch", results, cwd=tmp_path) as program:
        assert program.ended(60) == 0

    before = int(program.wait_for(r"10000 rows, (\d+) of them answered before")[1])
    assert 1000 <= before < 10_000
    rows = rows_of(results, "number, answer, error, input_tokens, output_tokens")
    assert [row[0] for row in rows] == list(range(1, 10_001))
    assert {row[1:3] for row in rows} == {("positive", None), ("negative", None)}
    given, made = sum(row[3] for row in rows), sum(row[4] for row in rows)
    cost = (given * 0.15 + made * 0.60) / 1e6  # of both runs
    bill = f"10000 answered, 0 failed; {given:,} tokens in, {made:,} out: ${cost:.4f}"
    assert bill in program.output
    assert time.monotonic() - started < 40


def test_killed_again_and_again_no_row_is_lost_and_no_answered_one_is_asked_twice(tmp_path):
    results, source = tmp_path / "results.db", reviews(tmp_path, 300)
    with StubServer(lambda request: text("positive").delayed(0.03)) as model:
        arguments = (results, "--input", source, "--concurrency", CONCURRENCY)
        for kills in range(1, 3):
            with running("batch", *arguments, cwd=tmp_path, model=model) as program:
                program.wait_for(r"answered before")
                wanted = 80 * kills
                assert model.wait_until(lambda n=wanted: len(model.requests) >= n)
                assert program.end(signal.SIGKILL) == -signal.SIGKILL
        with running("batch", *arguments, cwd=tmp_path, model=model) as program:
            assert program.ended() == 0

        times = Counter(map(asked, model.requests))
        assert [row[0] for row in rows_of(results)] == list(range(1, 301))
        assert set(times) == {f"Review {n}, fine." for n in range(1, 301)}
        assert sum(times.values()) - 300 <= 2 * CONCURRENCY  # those that were on their way
        assert model.peak_in_flight <= CONCURRENCY
        assert "300 answered, 0 failed" in program.output


def test_a_row_that_fails_is_kept_with_its_error_and_asked_again_the_next_time(tmp_path):
    results, source = tmp_path / "results.db", reviews(tmp_path, 30)
    refused = True

    def answer(request: Request) -> Any:
        bad = refused and asked(request) == "Review 7, fine."
        return status(400, "not this one") if bad else "positive"

    with StubServer(answer) as model:
        with running("batch", results, "--input", source, cwd=tmp_path, model=model) as first:
            assert first.ended() == 0
        [failed] = [row for row in rows_of(results) if row[2]]
        refused = False
        with running("batch", results, "--input", source, cwd=tmp_path, model=model) as second:
            assert second.ended() == 0

        assert failed[:2] == (7, None)
        assert "not this one" in failed[2]
        assert "29 answered, 1 failed" in first.output
        assert "30 answered, 0 failed" in second.output
        assert len(model.requests) == 31


def test_a_wrong_key_ends_the_run_at_once_and_is_told(tmp_path):
    results, source = tmp_path / "results.db", reviews(tmp_path, 300)
    with StubServer(lambda request: status(401, "no such key")) as model:
        with running("batch", results, "--input", source, cwd=tmp_path, model=model) as program:
            assert program.ended() == 1

        assert "stopped: " in program.output
        assert "Traceback" not in program.output
        assert len(model.requests) < 200
        assert rows_of(results) == []


def test_a_second_run_on_the_same_results_is_refused_while_the_first_goes_on(tmp_path):
    results = tmp_path / "results.db"
    with running("batch", results, "--concurrency", 1, cwd=tmp_path) as first:
        first.wait_for(r"answered before")
        with running("batch", results, cwd=tmp_path) as second:
            assert second.ended() == 1

        assert "database is locked" in second.output
        assert "Traceback" not in second.output
        assert first.started.poll() is None


def test_ctrl_c_keeps_what_was_answered(tmp_path):
    results = tmp_path / "results.db"
    with running("batch", results, cwd=tmp_path) as program:
        program.wait_for(r"\b\d{3}/10000")
        assert program.end() == 1

    assert "run it again to go on" in program.output
    assert "Traceback" not in program.output
    shown = int(re.findall(r"\b(\d+)/10000", program.output)[-1])
    assert len(rows_of(results)) >= shown > 0
