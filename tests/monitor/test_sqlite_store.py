"""The SQLite store: the contract, in a file and in memory, and what is SQLite's own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from pywrapai_monitor.db import LibraryStore, SQLiteStore, StoreError, sql_export, sqlite
from pywrapai_monitor.db.tables import SCHEMA_VERSION, metadata
from tests.contracts.sql_store import SQLStoreContract
from tests.contracts.store_rows import Clock, entry, save_turn, texts
from tests.monitor import sqlite_processes
from tests.monitor.sqlite_processes import assert_sound

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class TestSQLite(SQLStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: Clock) -> Iterator[SQLiteStore]:
        store = SQLiteStore(tmp_path / "library.db", clock=clock)
        yield store
        store.close()


class TestSQLiteInMemory(SQLStoreContract):
    @pytest.fixture
    def store(self, clock: Clock) -> Iterator[SQLiteStore]:
        store = SQLiteStore(":memory:", clock=clock)
        yield store
        store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "library.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    yield store
    store.close()


@pytest.fixture
def raw(store: SQLiteStore, path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's connection to the same file, which does not wait."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    yield connection
    connection.close()


# Where a database may be


@pytest.mark.parametrize("name", ["plain.db", "a b?c%d#e.db", "ünï.db"])
def test_a_path_may_be_a_str_a_path_or_a_url(tmp_path: Path, name: str) -> None:
    for db_path in (tmp_path / name, str(tmp_path / name)):
        SQLiteStore(db_path).close()

    assert (tmp_path / name).is_file()


@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_url_may_stand_for_the_path(path: Path, url: str) -> None:
    save_turn(SQLiteStore(path), "q")

    assert texts(SQLiteStore(url.format(path))) == ["q", "re: q"]


def test_a_relative_path_stays_where_it_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("sqlite:///library.db")
    monkeypatch.chdir("/")
    store.close()

    save_turn(store, "q")

    assert texts(SQLiteStore(tmp_path / "library.db")) == ["q", "re: q"]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", ":memory:"])
def test_memory_is_not_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)

    save_turn(SQLiteStore(url), "q")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong", ["", "sqlite://host/x.db", "sqlite:///x.db?mode=ro", "sqlite+x:///y"]
)
def test_what_is_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        SQLiteStore(wrong)


def test_the_old_name_still_works() -> None:
    assert LibraryStore is SQLiteStore


# Databases that cannot be used


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no directory .*/missing: create it"):
        SQLiteStore(tmp_path / "missing" / "library.db")


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a directory: give the path of a file"):
        SQLiteStore(tmp_path)


def test_a_file_that_is_no_database_is_left_as_it_is(path: Path) -> None:
    path.write_text("Dear diary, " * 100)

    with pytest.raises(StoreError, match=r"library\.db: .*no SQLite database") as caught:
        SQLiteStore(path)

    assert isinstance(caught.value.__cause__, Exception)
    assert path.read_text() == "Dear diary, " * 100


@needs_fork
def test_a_file_that_may_not_be_written_is_a_clear_error() -> None:
    output = run_as_script(sqlite_processes.open_read_only)

    assert "library.db" in output
    assert "make the file and its directory writable" in output


def test_a_newer_schema_is_refused_and_left_alone(store: SQLiteStore, path: Path) -> None:
    save_turn(store, "q")
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE schema_info SET version = version + 1")
    other.close()

    with pytest.raises(StoreError, match=f"version {SCHEMA_VERSION + 1} .*upgrade pywrapai"):
        SQLiteStore(path)


def test_tables_of_somebody_else_are_not_taken_for_ours(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE conversations (id INTEGER PRIMARY KEY, text TEXT)")
    other.close()

    with pytest.raises(StoreError, match="tables conversations that this pywrapai did not make"):
        SQLiteStore(path)


def test_tables_of_other_names_may_live_in_the_same_file(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    other.close()

    save_turn(SQLiteStore(path), "q")

    assert texts(SQLiteStore(path)) == ["q", "re: q"]


# Errors


def test_a_failed_write_is_a_store_error_that_repeats_no_text(
    store: SQLiteStore, raw: sqlite3.Connection, path: Path
) -> None:
    raw.execute("DROP TABLE token_records")

    with pytest.raises(StoreError, match=r"library\.db: no such table") as caught:
        save_turn(store, "a secret")

    assert "a secret" not in f"{caught.value} {caught.value.__cause__}"
    assert texts(store) == []
    raw.execute("BEGIN IMMEDIATE")  # the lock was given back


def test_an_error_inside_a_transaction_gives_the_lock_back_at_once(
    store: SQLiteStore, raw: sqlite3.Connection
) -> None:
    raw.execute("DROP TABLE tool_totals")

    def read_in_vain() -> None:
        with store.transaction():
            save_turn(store, "q")
            try:
                store.get_tool_usage()
            finally:
                raw.execute("BEGIN IMMEDIATE")
                raw.execute("ROLLBACK")

    with pytest.raises(StoreError, match="no such table"):
        read_in_vain()

    assert texts(store) == []


def test_damaged_rows_do_not_keep_the_others_from_being_read(
    store: SQLiteStore, raw: sqlite3.Connection
) -> None:
    for i in range(4):
        save_turn(store, f"q{i}")
    raw.execute("UPDATE conversations SET content = CAST(x'41ff42' AS TEXT) WHERE id = 1")
    raw.execute("UPDATE conversations SET content = x'00ff' WHERE id = 2")
    raw.execute("UPDATE conversations SET role = 'robot' WHERE id = 4")
    raw.execute("UPDATE conversations SET rag_context = '{bad' WHERE id = 5")

    history = texts(store)
    rows = store.get_conversation("alice", "s1")

    assert history == ["A\ufffdB", "\x00\ufffd", "q1", "q2", "re: q2", "q3", "re: q3"]
    assert len(rows) == 8
    assert rows[4]["rag_context"] is None


# Databases that are away for a while


def test_a_full_disk_is_worth_another_try(path: Path) -> None:
    limit = "PRAGMA max_page_count = 100"

    def limit_pages(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute(limit)

    event.listen(Engine, "connect", limit_pages)
    try:
        store = SQLiteStore(path)
        with pytest.raises(StoreError, match="disk is full") as caught:
            write_many(store, 100, 10_000)
        store.close()
        limit = "PRAGMA max_page_count = 1000000"
        store.write([entry("q", "the next")])
    finally:
        event.remove(Engine, "connect", limit_pages)

    assert caught.value.retryable
    assert_sound(path)
    assert store.get_recent_queries(1)[0]["call_id"] == "the next"


def test_a_lock_held_for_too_long_is_worth_another_try(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_TIMEOUT_S", 0.05)
    store = SQLiteStore(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: store.write([entry("q", "c1")]),
            lambda: store.save_prompt("p", "v1", "text"),
        ):
            with pytest.raises(StoreError, match="held the lock") as caught:
                write()
            assert caught.value.retryable
        assert texts(store) == []
        other.execute("ROLLBACK")

    store.write([entry("q", "c1")])
    assert texts(store) == ["q", "re: q"]


def test_a_directory_that_is_away_is_worth_another_try(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    store = SQLiteStore(tmp_path / "volume" / "library.db")
    store.write([entry("q0", "c0")])
    store.close()
    (tmp_path / "volume").rename(tmp_path / "elsewhere")

    for use in (lambda: store.write([entry("q1", "c1")]), store.get_overview):
        with pytest.raises(StoreError, match="unable to open") as caught:
            use()
        assert caught.value.retryable

    (tmp_path / "elsewhere").rename(tmp_path / "volume")
    store.write([entry("q1", "c1")])
    assert texts(store)[::2] == ["q0", "q1"]


@needs_fork
def test_what_could_not_be_written_is_opened_anew_once_it_can(path: Path) -> None:
    assert run_as_script(sqlite_processes.make_writable_again).split() == ["True", "1"]


@pytest.mark.parametrize("another", [False, True])
def test_what_is_written_after_the_file_was_deleted_is_in_the_one_that_is_there(
    store: SQLiteStore, path: Path, tmp_path: Path, another: bool
) -> None:
    store.write([entry("lost", "c0")])
    with closing(SQLiteStore(tmp_path / "another.db")) as other:
        other.write([entry("theirs", "c1")])
    for file in tmp_path.glob("library.db*"):
        file.unlink()
    if another:
        (tmp_path / "another.db").rename(path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: store.write([entry(f"q{i}", f"d{i}")]), range(10)))

    expected = {f"q{i}" for i in range(10)} | ({"theirs"} if another else set())
    assert {text for text in texts(store) if not text.startswith("re:")} == expected
    with closing(SQLiteStore(path)) as other:
        assert texts(other) == texts(store)


def test_what_was_deleted_is_nowhere_in_the_files(store: SQLiteStore, path: Path) -> None:
    secret = b"s3cr3t"
    write_many(store, 20, 100)
    store.write([entry("s3cr3t " * 2000, f"c{i}", "bob") for i in range(20)])

    store.delete_user("bob")

    files = [file.read_bytes() for file in path.parent.iterdir()]
    assert len(files) == 3
    assert not any(secret in content for content in files)


@pytest.mark.parametrize("damage", ["DROP TABLE session_totals", "DROP TABLE token_records"])
def test_what_will_fail_again_is_not_worth_another_try(
    store: SQLiteStore, raw: sqlite3.Connection, damage: str
) -> None:
    raw.execute(damage)

    with pytest.raises(StoreError, match="no such table") as caught:
        store.write([entry("q", "c1")])

    assert not caught.value.retryable


def test_a_damaged_file_is_named_as_one_that_may_be_mended(store: SQLiteStore, path: Path) -> None:
    write_many(store, 200, 1000)
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 100 * 4096)

    with pytest.raises(StoreError) as caught:
        write_many(store, 200, 1000)

    assert caught.value.retryable
    assert "damaged" in str(caught.value)


# Readers, writers, processes


def test_readers_and_a_writer_do_not_wait_for_each_other(
    store: SQLiteStore, raw: sqlite3.Connection
) -> None:
    save_turn(store, "q0")
    raw.execute("BEGIN")
    assert raw.execute("SELECT count(*) FROM token_records").fetchone() == (1,)

    save_turn(store, "q1")  # while somebody reads
    assert raw.execute("SELECT count(*) FROM token_records").fetchone() == (1,)
    raw.execute("COMMIT")

    raw.execute("BEGIN IMMEDIATE")  # while somebody writes
    assert store.get_overview()["calls"] == 2
    assert texts(store) == ["q0", "re: q0", "q1", "re: q1"]


def test_the_log_is_moved_into_the_file_before_it_is_long(store: SQLiteStore, path: Path) -> None:
    log = path.with_name("library.db-wal")

    longest = 0
    for _ in range(10):
        write_many(store, 300, 50_000)
        longest = max(longest, log.stat().st_size)

    assert longest < path.stat().st_size / 2


def test_a_writer_waits_for_the_lock(store: SQLiteStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["COMMIT"])
    release.start()

    save_turn(store, "q")

    release.join()
    other.close()
    assert texts(store) == ["q", "re: q"]


def test_a_closed_store_opens_its_file_again_when_used(store: SQLiteStore) -> None:
    save_turn(store, "q")
    store.close()

    assert texts(store) == ["q", "re: q"]


def test_a_store_may_be_closed_in_the_middle_of_a_transaction(store: SQLiteStore) -> None:
    with store.transaction():
        save_turn(store, "q0")
        assert texts(store) == ["q0", "re: q0"]
        store.close()
        save_turn(store, "q1")

    assert texts(store)[::2] == ["q0", "q1"]


@needs_fork
def test_sixteen_processes_may_open_a_fresh_file_at_once(path: Path) -> None:
    run_as_script(sqlite_processes.open_at_once, path)

    assert SQLiteStore(path).get_overview()["calls"] == 16


@needs_fork
def test_four_processes_write_every_turn_exactly_once(path: Path) -> None:
    run_as_script(sqlite_processes.write_at_once, path)

    store = SQLiteStore(path)
    for worker in range(4):
        expected = [text for i in range(100) for text in (f"q{i}", f"re: q{i}")]
        assert texts(store, session=f"s{worker}", max_turns=None) == expected
    assert store.get_overview()["calls"] == 400
    assert_sound(path)


@needs_fork
def test_a_killed_process_leaves_whole_turns(path: Path) -> None:
    run_as_script(sqlite_processes.kill_writers, path)

    store = SQLiteStore(path)
    save_turn(store, "the next", session="next")
    assert texts(store, session="next") == ["the next", "re: the next"]
    assert_sound(path)


@needs_fork
def test_a_store_works_on_both_sides_of_a_fork(path: Path) -> None:
    run_as_script(sqlite_processes.fork_while_writing, path)

    store = SQLiteStore(path)
    sessions = {row["session_id"]: row["turns"] for row in store.get_sessions()}
    assert {name: sessions[name] for name in sessions if name != "parent"} == {
        f"child{i}": 20 for i in range(5)
    }
    assert sessions["parent"] >= 5
    assert_sound(path)


@needs_fork
def test_a_child_loses_nothing_when_its_parent_closes_the_file(path: Path) -> None:
    run_as_script(sqlite_processes.fork_and_close, path)

    store = SQLiteStore(path)
    turns = {row["session_id"]: row["turns"] for row in store.get_sessions()}
    assert turns == {"parent": 1, "child": 20}
    assert_sound(path)


def test_an_export_is_whole_however_its_pages_are_cut(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([entry(str(i), f"c{i}", f"u{i % 2}") for i in range(50)])

    for ids, rows in ((1, 1), (7, 3), (8, 4), (100, 100)):
        monkeypatch.setattr(sql_export, "_IDS_AT_ONCE", ids)
        monkeypatch.setattr(sql_export, "_PAGE", rows)
        found = [row["call_id"] for row in store.export_rows("token_records")]
        assert found == [f"c{i}" for i in range(50)]
        found = [row["call_id"] for row in store.export_rows("token_records", user_id="u1")]
        assert found == [f"c{i}" for i in range(1, 50, 2)]


# Cost


def test_what_is_asked_often_never_reads_a_whole_table(
    store: SQLiteStore, raw: sqlite3.Connection
) -> None:
    save_turn(store, "q")
    statements: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        store.load_history("alice", "s1", 10)
        store.load_history("alice", "s1", None)
        store.get_session_token_records("alice", "s1")
        store.get_conversation("alice", "s1")
        store.get_today()
        for_today = len(statements)
        store.get_overview()
        store.get_cost_over_time()
        store.get_model_usage()
        store.get_users()
        store.get_tool_usage()
    finally:
        event.remove(Engine, "before_cursor_execute", note)

    steps = [
        [step[3] for step in raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        for statement, parameters in statements
    ]
    plans = [step for plan in steps for step in plan]
    assert len(statements) == 15
    assert "SCAN session_totals" not in str(steps[:for_today])
    assert [p for p in plans if p.startswith(("SCAN conversations", "SCAN token_records"))] == []
    assert [p for p in plans if "conversations" in p and "ORDER BY" in p] == []


def test_the_schema_compiles_for_the_other_databases() -> None:
    mysql_dialect = mysql.dialect()
    for dialect in (mysql_dialect, postgresql.dialect()):  # type: ignore[no-untyped-call]  # SQLAlchemy's
        for table in metadata.tables.values():
            str(CreateTable(table).compile(dialect=dialect))
            for index in table.indexes:
                str(CreateIndex(index).compile(dialect=dialect))

    conversations = str(
        CreateTable(metadata.tables["conversations"]).compile(dialect=mysql_dialect)
    )
    assert "content LONGTEXT CHARACTER SET utf8mb4 NOT NULL" in conversations
    assert "user_id VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin" in conversations


def write_many(store: SQLiteStore, number: int, size: int) -> None:
    for _ in range(number):
        store.write([entry("q" * size, uuid4().hex)])


def run_as_script(function: Callable[..., None], *arguments: Path) -> str:
    """Run a function of sqlite_processes in a new interpreter, where no thread hinders a fork."""
    name = function.__name__
    code = f"import sys; from {sqlite_processes.__name__} import {name}; {name}(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
