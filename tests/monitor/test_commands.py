"""The commands of `python -m pywrapai_monitor`, on real databases."""

from __future__ import annotations

import io
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.__main__ import main
from pywrapai_monitor.commands.terminal import size, table
from pywrapai_monitor.db.base import Feedback
from pywrapai_monitor.db.sqlite import SQLiteStore
from pywrapai_monitor.db.tables import SCHEMA_VERSION
from pywrapai_monitor.recorder import Recorder
from pywrapai_monitor.spool_files import spool_dir_of
from tests.contracts.store_rows import NOON, entry
from tests.mariadb import mariadb, mariadb_url  # noqa: F401
from tests.monitor.recorder_stores import AWAY, MoodyStore
from tests.postgres import Postgres

READING = [
    ["stats"],
    ["prompts", "list"],
    ["prompts", "show", "guide"],
    ["prompts", "promote", "guide", "v1"],
    ["export", "all"],
    ["purge", "3"],
    ["purge", "3", "--dry-run"],
    ["vacuum"],
    ["doctor"],
    ["doctor", "--replay"],
    ["serve", "--port", "0"],
]


@pytest.fixture(autouse=True)
def _no_database_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYWRAPAI_DB_URL", raising=False)


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A database with three calls of two users."""
    path = tmp_path / "m.db"
    with closing(SQLiteStore(path)) as store:
        store.write([entry("q1", "c1"), entry("q2", "c2"), entry("q3", "c3", "bob")])
        call = ToolCall("1", "search", {})
        store.save_tool_step("alice", "s1", 0, [call], [ToolResult("1", "search", "x")])
        store.save_feedback(Feedback(call_id="c3", score=0.0))
    return str(path)


@pytest.fixture
def run(db: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command on `db`: its exit code, what it printed, and what it complained of."""

    def run(*words: str, given: str | None = None, on: str = db) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            if given is not None:
                text = io.TextIOWrapper(io.BytesIO(given.encode()))
                patch.setattr(sys, "stdin", text)
            code = main([*words, "--db", on])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def said(run) -> Callable[..., str]:
    """What a command that succeeds prints."""

    def said(*words: str, **more: Any) -> str:
        code, out, err = run(*words, **more)
        assert (code, err) == (0, "")
        return out

    return said


def rows_of(path: str, query: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


# Prompts


def test_prompts_are_saved_promoted_compared_and_rolled_back(said):
    said("prompts", "save", "guide", "v1", "--active", given="\ufeffBe terse.\n")
    said("prompts", "save", "guide", "v2", given="Be terse.\nBe kind.\n")

    assert said("prompts", "show", "guide") == "Be terse.\n"
    assert said("prompts", "show", "guide", "v2") == "Be terse.\nBe kind.\n"
    assert said("prompts", "promote", "guide", "v2") == "Version v2 of guide is active.\n"
    changed = said("prompts", "diff", "guide", "v1").splitlines()
    assert changed[:2] == ["--- guide v1", "+++ guide active"]
    assert "+Be kind." in changed
    assert said("prompts", "diff", "guide", "v2", "active") == ""
    assert said("prompts", "rollback", "guide") == "Version v1 of guide is active.\n"


def test_prompts_are_listed(said):
    assert said("prompts", "list") == "There are no prompts yet.\n"
    said("prompts", "save", "guide", "v1", "--active", given="Be terse.")
    said("prompts", "save", "guide", "v2", given="Be kind.")

    header, line = said("prompts", "list").splitlines()
    assert header.split() == ["name", "active", "versions", "updated", "at"]
    assert line.split()[:3] == ["guide", "v1", "2"]
    (listed,) = json.loads(said("prompts", "list", "--json"))
    assert (listed["name"], listed["active"], listed["versions"]) == ("guide", "v1", 2)
    versions = json.loads(said("prompts", "list", "guide", "--json"))
    assert [(v["version"], v["is_active"]) for v in versions] == [("v1", True), ("v2", False)]


def test_a_user_is_pinned_and_unpinned(said, db):
    said("prompts", "save", "guide", "v1", "--active", given="Be terse.")
    said("prompts", "save", "guide", "v2", given="Be kind.")
    pins = "SELECT user_id, prompt_name, prompt_version FROM user_settings"

    said("prompts", "pin", "alice", "guide", "v2")
    assert rows_of(db, pins) == [("alice", "guide", "v2")]

    told = said("prompts", "unpin", "alice", "guide")
    assert told == "alice is pinned to no version of guide.\n"
    assert rows_of(db, pins) == []


def test_a_prompt_that_has_no_active_version_is_told_so(said, run):
    said("prompts", "save", "guide", "v1", given="Be terse.")

    code, _, err = run("prompts", "show", "guide")

    assert (code, "no version of prompt 'guide' is active" in err) == (1, True)


def test_saving_the_first_prompt_makes_the_database(said, tmp_path):
    new = str(tmp_path / "new.db")

    said("prompts", "save", "guide", "v1", given="Be terse.", on=new)

    assert rows_of(new, "SELECT text FROM system_prompts") == [("Be terse.",)]


@pytest.mark.parametrize(
    ("words", "given", "told"),
    [
        (["show", "guide"], None, "there is no prompt 'guide'"),
        (["rollback", "guide"], None, "there is no prompt 'guide'"),
        (["list", "guide"], None, "there is no prompt 'guide'"),
        (["promote", "guide", "v9"], None, "no version 'v9'"),
        (["pin", "alice", "guide", "v9"], None, "no version 'v9'"),
        (["save", "guide", "v1"], " \n", "standard input has no text"),
    ],
)
def test_a_prompt_that_is_not_there_is_told(run, words, given, told):
    code, out, err = run("prompts", *words, given=given)

    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert told in err
    assert err.count("\n") == 1


# Export


def test_an_export_goes_to_standard_output(said):
    rows = [json.loads(line) for line in said("export", "conversations").splitlines()]

    assert [row["content"] for row in rows][::2] == ["q1", "q2", "q3"]
    assert said("export", "conversations", "--user", "bob", "--format", "csv").count("\r\n") == 3
    assert said("export", "token_records", "--until", "2026-11-30T12:00:00Z") == ""


def test_an_export_into_a_file_is_there_when_it_is_complete(run, db, tmp_path):
    out = tmp_path / "all.jsonl"
    out.write_text("what was there before")

    assert run("export", "all", "-o", str(out)) == (0, "", f"11 rows in {out}\n")
    assert len(out.read_text().splitlines()) == 11

    code, _, err = run("export", "all", "--format", "csv", "-o", str(out))
    assert code == 1
    assert "one table" in err
    assert len(out.read_text().splitlines()) == 11
    assert {path.name for path in tmp_path.iterdir()} == {"m.db", "all.jsonl"}


def test_an_export_into_a_device_leaves_it_in_place(run):
    assert run("export", "all", "-o", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


def test_a_reader_that_has_enough_is_no_failure(db):
    with closing(SQLiteStore(db)) as store:
        store.write([entry("q" * 10_000, f"more {n}") for n in range(100)])
    export = [sys.executable, "-W", "error", "-m", "pywrapai_monitor", "export", "all", "--db", db]

    with subprocess.Popen(export, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ended:
        assert ended.stdout is not None
        assert ended.stderr is not None
        assert ended.stdout.readline()
        ended.stdout.close()
        assert ended.stderr.read() == b""

    assert ended.returncode == 141


# Purge and vacuum


def test_a_purge_of_a_user_can_be_tried(said, db):
    tried = json.loads(said("purge", "--user", "alice", "--dry-run", "--json"))
    assert tried == {"would_delete": {"conversations": 4, "token_records": 2, "tool_calls": 1}}

    assert json.loads(said("purge", "--user", "alice", "--json")) == {"deleted": 7}
    assert rows_of(db, "SELECT DISTINCT user_id FROM token_records") == [("bob",)]
    assert said("purge", "--user", "bob", "--session", "s1") == "Deleted 4 rows.\n"


def test_a_purge_of_a_user_takes_what_a_program_has_left_outside(said, db):
    left_in_the_spool(db, entry("q4", "c4"), entry("q5", "c5", "bob"))

    assert said("purge", "--user", "bob") == "Deleted 7 rows.\n"
    assert rows_of(db, "SELECT DISTINCT user_id FROM token_records") == [("alice",)]
    assert rows_of(db, "SELECT count(*) FROM token_records") == [(3,)]


def test_a_purge_of_what_is_old_can_be_tried(said, db):
    with closing(SQLiteStore(db)) as store:
        store.write([entry("old", "c0", at=NOON.replace(year=2020))])

    told = said("purge", "1000", "--dry-run")
    assert told.startswith("It would delete 2 of conversations, 1 of token_records, 0 of tool")
    assert said("purge", "1000") == "Deleted 3 rows.\n"
    assert said("purge", "1000") == "Deleted 0 rows.\n"


@pytest.mark.parametrize(
    "words",
    [[], ["0"], ["-1"], ["3d"], ["x"], ["3", "--user", "bob"], ["3", "--session", "s1"]],
)
def test_a_purge_of_nonsense_is_a_wrong_command_line(run, db, words, capsys):
    with pytest.raises(SystemExit) as ended:
        run("purge", *words)

    assert ended.value.code == 2
    assert "purge: error: " in capsys.readouterr().err
    assert rows_of(db, "SELECT count(*) FROM token_records") == [(3,)]


def test_vacuum_makes_the_file_smaller(said, db):
    with closing(SQLiteStore(db)) as store:
        store.write([entry("x" * 100_000, f"more {n}", "carol") for n in range(20)])
        store.delete_user("carol")

    told = json.loads(said("vacuum", "--json"))

    assert told["bytes_before"] > 2_000_000
    assert told["bytes_after"] == Path(db).stat().st_size < 200_000
    assert rows_of(db, "SELECT count(*) FROM token_records") == [(3,)]


# Stats


def test_stats_are_the_stores_own_numbers(said, db):
    found = json.loads(said("stats", "--json"))

    with closing(SQLiteStore(db)) as store:
        assert found["all_time"] == store.get_overview()
        assert found["models"] == store.get_model_usage()
        assert found["tools"] == store.get_tool_usage()
    assert found["today"].keys() == found["all_time"].keys()


def test_stats_are_tables_for_a_reader(said):
    totals, models, tools = said("stats", "--tz", "Asia/Kolkata").split("\n\n")

    assert "today (Asia/Kolkata)" in totals.splitlines()[0]
    assert re.search(r"^calls +3 +\d+$", totals, re.MULTILINE)
    assert models.splitlines()[1].split()[0] == "gpt-4o-mini"
    assert tools.splitlines()[1].split()[:2] == ["search", "1"]


def test_columns_are_aligned_and_text_steers_no_terminal():
    shown = table(
        [
            {"name": "日本", "calls": 1234, "is_active": True, "cost_usd": 0.5},
            {"name": "a\x1b[31m\n\u202eb", "calls": 0, "is_active": False, "cost_usd": None},
        ]
    )

    assert shown.splitlines() == [
        "name                calls  is active   cost usd",
        "日本                1,234  yes        $0.500000",
        r"a\x1b[31m\n\u202eb      0  no                 -",
    ]
    assert [size(n) for n in (0, 999, 1500, 2_500_000, 3 * 10**9)] == [
        "0 bytes", "999 bytes", "1.5 kB", "2.5 MB", "3.0 GB",
    ]  # fmt: skip


# Doctor


def left_in_the_spool(db: str, *entries) -> None:
    """As by a program that ended while its database was away."""
    with closing(MoodyStore(db)) as store:
        store.error = AWAY
        recorder = Recorder(store, spool_dir_of(store))
        for each in entries:
            recorder.write(each)
        recorder.close()


def test_a_database_that_is_well(run, db):
    code, out, err = run("doctor")

    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["ok", "database"], ["ok", "schema"], ["ok", "integrity"], ["ok", "writing"],
        ["ok", "spool"],
    ]  # fmt: skip
    assert f"version {SCHEMA_VERSION}" in out
    assert [path.name for path in Path(db).parent.iterdir()] == ["m.db"]


def test_records_that_wait_are_found_and_replayed_once(run, db):
    left_in_the_spool(db, entry("q4", "c4"), entry("q5", "c5"))

    code, out, _ = run("doctor")
    assert code == 1
    assert re.search(r"WRONG  spool .* 2 records .* since 2026-11-30 12:00:00Z", out)
    assert "--replay" in out
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["spool"]["entries"]) == (1, False, 2)
    assert found["spool"]["files"][0]["oldest_at"] == "2026-11-30T12:00:00.000000Z"
    assert found["spool"]["files"][0]["held"] is False
    assert rows_of(db, "SELECT count(*) FROM token_records") == [(3,)]

    code, out, _ = run("doctor", "--replay")
    assert code == 0
    assert "2 records brought into the database" in out
    assert run("doctor", "--replay")[0] == 0
    assert rows_of(db, "SELECT count(*) FROM token_records") == [(5,)]


def test_records_that_a_living_program_has_are_left_to_it(run, db):
    with closing(MoodyStore(db)) as store:
        store.error = AWAY
        recorder = Recorder(store, spool_dir_of(store))
        recorder.write(entry("q4", "c4"))

        code, out, _ = run("doctor")
        _, replayed, _ = run("doctor", "--replay")

        assert code == 1
        assert "1 record " in out
        assert "is about to replay them" in out
        assert "0 records brought into the database" in replayed
        store.error = None
        assert recorder.close()
    assert run("doctor")[0] == 0


def test_a_record_that_the_database_refuses_is_told(run, db):
    left_in_the_spool(db, entry("q4", "c4", user="u" * 300), entry("q5", "c5"))

    code, out, _ = run("doctor", "--replay")

    assert code == 1
    assert re.search(r"WRONG  replay .*1 record brought .* 1 lost, 0 still waiting: ", out)
    assert rows_of(db, "SELECT count(*) FROM token_records") == [(4,)]


def test_what_waits_is_told_though_the_database_is_gone(run, db):
    left_in_the_spool(db, entry("q4", "c4"))
    Path(db).unlink()

    code, out, _ = run("doctor", "--replay")

    assert code == 1
    assert "there is no database" in out
    assert "not tried" in out
    assert "1 record " in out
    assert not Path(db).exists()


def test_a_damaged_file_is_told(run, db):
    with closing(SQLiteStore(db)) as store:
        store.write([entry("x" * 5000, f"more {n}") for n in range(50)])
    content = bytearray(Path(db).read_bytes())
    half = len(content) // 2
    content[half : half + 20_000] = b"\xff" * 20_000
    Path(db).write_bytes(content)

    code, out, _ = run("doctor")

    assert code == 1
    assert re.search(r"^WRONG  integrity", out, re.MULTILINE)


def test_a_newer_schema_is_told(run, db):
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("UPDATE schema_info SET version = 99")
        connection.commit()

    code, out, _ = run("doctor")

    assert code == 1
    assert re.search(r"^WRONG  schema +version 99, newer than", out, re.MULTILINE)


def test_an_older_schema_is_not_migrated_by_looking(run, tmp_path):
    old = str(tmp_path / "old.db")
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript((Path(__file__).parent / "schema_v4.sql").read_text())

    code, out, _ = run("doctor", on=old)

    assert code == 0
    assert "version 4" in out
    assert rows_of(old, "SELECT version FROM schema_info") == [(4,)]


# Which database


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_no_database_is_made_by_looking_for_it(run, tmp_path, words):
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()

    code, out, err = run(*words)

    assert code == 1
    assert "there is no database at" in out + err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_nothing_is_made_in_somebody_elses_database(run, tmp_path, words):
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE theirs (id INTEGER)")
    before = foreign.read_bytes()

    code, out, err = run(*words, on=str(foreign))

    assert code == 1
    assert "no Monitor has made its tables there" in out + err
    assert foreign.read_bytes() == before


def test_the_environment_says_which_database(db, capsys, monkeypatch):
    monkeypatch.setenv("PYWRAPAI_DB_URL", f"sqlite:///{db}")
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["all_time"]["calls"] == 3

    monkeypatch.setenv("PYWRAPAI_DB_URL", "")
    with pytest.raises(SystemExit) as ended:
        main(["stats"])
    assert ended.value.code == 2
    assert "PYWRAPAI_DB_URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("oracle://scott:tiger@host/db", "no store for 'oracle'"),
        (":memory:", "in memory"),
        ("postgresql://user:tiger@127.0.0.1:1/db", "127.0.0.1"),
    ],
)
def test_a_database_that_cannot_be_had_is_one_line_without_the_password(run, url, told):
    code, out, err = run("stats", on=url)

    assert (code, out) == (1, "")
    assert told in err
    assert "tiger" not in err
    assert err.count("\n") == 1


@pytest.fixture(params=["postgresql", "mysql"])
def server_url(request: pytest.FixtureRequest) -> Any:
    """The URL of an empty database on a server."""
    if request.param == "mysql":
        yield request.getfixturevalue("mariadb_url")
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database() as url:
        yield url


def test_a_database_on_a_server(run, said, server_url, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for words in (["stats"], ["doctor"]):
        code, out, err = run(*words, on=server_url)
        assert code == 1
        assert "no Monitor has made its tables there" in out + err

    said("prompts", "save", "guide", "v1", "--active", given="Be terse.", on=server_url)

    assert said("prompts", "show", "guide", on=server_url) == "Be terse.\n"
    assert "WRONG" not in said("doctor", "--replay", on=server_url)
    assert json.loads(said("stats", "--json", on=server_url))["all_time"]["calls"] == 0
    assert run("vacuum", on=server_url)[0] == 1
