"""The first command of the README, with the real model."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from pywrapai_monitor.__main__ import main

DEMO = [sys.executable, "-W", "error", "-m", "pywrapai_monitor", "demo"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A database after one talk, and what the terminal showed."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    ended = subprocess.run(
        [*DEMO, "--no-serve", "--db", str(path)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return path, ended.stdout


def rows(path: Path, query: str) -> list[tuple]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_the_terminal_shows_three_turns_with_their_tokens(recorded):
    path, shown = recorded

    tokens = re.findall(r"\[(\d+) tokens in, (\d+) out", shown)
    assert len(tokens) == 3
    counted = rows(path, "SELECT input_tokens, output_tokens FROM token_records ORDER BY id")
    assert [(int(given), int(made)) for given, made in tokens] == counted
    for answer in rows(path, "SELECT content FROM conversations WHERE role = 'assistant'"):
        assert answer[0] in shown
    assert "Recorded: 6 messages, 3 calls" in shown


def test_the_model_was_told_the_system_prompt_and_the_history(recorded):
    path, _ = recorded

    asked = rows(path, "SELECT system_prompt, history_count FROM conversations WHERE role='user'")
    assert [count for _, count in asked] == [0, 1, 2]
    assert all("travel guide" in prompt for prompt, _ in asked)
    given = [row[0] for row in rows(path, "SELECT input_tokens FROM token_records ORDER BY id")]
    assert given[0] < given[1] < given[2]


def test_the_dashboards_numbers_are_the_databases(recorded):
    path, _ = recorded
    serve = [sys.executable, "-m", "pywrapai_monitor", "serve", "--db", str(path), "--port", "0"]

    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = re.search(r"http://\S+", server.stdout.readline())
        assert url is not None
        page = urlopen(url[0], timeout=10).read().decode()
        overview = json.load(urlopen(f"{url[0]}/api/overview", timeout=10))
        (session,) = json.load(urlopen(f"{url[0]}/api/sessions", timeout=10))
        who = f"user_id={session['user_id']}&session_id={session['session_id']}"
        records = json.load(urlopen(f"{url[0]}/api/token-records?{who}", timeout=10))
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=10) == 0

    totals = "count(*), sum(input_tokens), sum(output_tokens), count(DISTINCT session_id)"
    ((calls, given, made, sessions),) = rows(path, f"SELECT {totals} FROM token_records")
    assert (overview["calls"], overview["sessions"]) == (calls, sessions) == (3, 1)
    assert (overview["input_tokens"], overview["output_tokens"]) == (given, made)
    assert (session["turns"], session["total_tokens"]) == (3, given + made)
    assert sum(record["input_tokens"] for record in records) == given
    assert "<title>" in page


def test_a_second_talk_is_a_session_of_its_own(recorded, capfd):
    path, _ = recorded

    assert main(["demo", "--no-serve", "--db", str(path)]) == 0

    assert len(rows(path, "SELECT DISTINCT session_id FROM token_records")) == 2
    assert "2 sessions" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--db", "/proc/nowhere/m.db"], "/proc/nowhere"),
        (["serve", "--db", "missing.db"], "missing.db"),
        (["demo", "--no-serve", "--db", "/proc/nowhere/m.db"], "/proc/nowhere"),
    ],
)
def test_a_failure_is_one_line_on_stderr(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(arguments) == 1

    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_others_can_reach_needs_a_token(recorded, capsys):
    assert main(["serve", "--db", str(recorded[0]), "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "auth_token" in capsys.readouterr().err
