"""Files of an older schema are brought up to date in place, whatever interrupts it.

schema_v4.sql is what version 4 made and wrote, as `sqlite3 FILE .dump` gives it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect

from pywrapai_monitor.db import SQLiteStore, StoreError, recount
from pywrapai_monitor.db.base import Feedback
from pywrapai_monitor.db.tables import SCHEMA_VERSION
from tests.contracts.store_rows import entry, save_turn, texts
from tests.contracts.store_totals import assert_totals
from tests.monitor import sqlite_processes
from tests.monitor.test_sqlite_store import needs_fork, run_as_script

V4 = (Path(__file__).parent / "schema_v4.sql").read_text(encoding="utf-8")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that version 4 has written."""
    return make(tmp_path / "library.db", V4)


def make(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(script)
    return path


def schema(path: Path) -> dict[str, Any]:
    """What the file has, but for the order of columns."""
    engine = create_engine(f"sqlite:///{path}")
    found = inspect(engine)
    tables = {
        name: (
            sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
            sorted((i["name"], i["column_names"], i["unique"]) for i in found.get_indexes(name)),
            found.get_pk_constraint(name)["constrained_columns"],
        )
        for name in found.get_table_names()
    }
    engine.dispose()
    return tables


def rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        return {n: [dict(r) for r in connection.execute(f"SELECT * FROM {n}")] for n in names}


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The statements that are executed meanwhile."""
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement.strip())

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("SELECT version FROM schema_info").fetchone()[0]
        return version


def test_an_old_file_gets_the_schema_of_a_new_one(path: Path, tmp_path: Path) -> None:
    SQLiteStore(path).close()
    SQLiteStore(tmp_path / "new.db").close()

    assert schema(path) == schema(tmp_path / "new.db")
    assert version_of(path) == SCHEMA_VERSION


def test_every_row_and_total_is_as_it_was(path: Path) -> None:
    before = rows(path)

    SQLiteStore(path).close()

    after = rows(path)
    assert set(after) - set(before) == {
        "feedback", "latency_totals", "prompt_totals", "user_totals",
    }  # fmt: skip
    after["usage_totals"] = [row for row in after["usage_totals"] if row["bucket"] < 10**9]
    after["tool_totals"] = [row for row in after["tool_totals"] if row["bucket"] == -1]
    for name in set(before) - {"schema_info"}:
        kept = [{key: row[key] for key in before[name][0]} for row in after[name]]
        assert sorted(kept, key=repr) == sorted(before[name], key=repr)


def test_the_totals_of_an_old_file_are_those_of_its_rows(path: Path) -> None:
    store = SQLiteStore(path)

    assert_totals(store)
    store.close()


def test_totals_that_were_left_half_filled_are_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recount, "_AT_ONCE", 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE user_totals (bucket INTEGER, half INTEGER)")
        connection.execute("INSERT INTO user_totals VALUES (1, 1)")
        connection.commit()

    store = SQLiteStore(path)

    assert_totals(store)
    store.close()


def test_what_version_4_wrote_can_be_read_and_added_to(path: Path) -> None:
    store = SQLiteStore(path)

    assert texts(store) == ["q0", "re: q0", "q1", "re: q1"]
    record = store.get_session_token_records("alice", "s1")[0]
    assert (record["call_id"], record["tags"], record["metadata"]) == (None, [], None)
    assert store.get_overview()["cost_usd"] == 0.75
    assert store.get_prompt("support") == "one"

    save_turn(store, "q2", cost_usd=0.25)
    store.write([entry("q3", "call-3")])
    store.save_feedback(Feedback(call_id="call-3", score=1.0))
    assert texts(store)[-4:] == ["q2", "re: q2", "q3", "re: q3"]
    assert [row["call_id"] for row in store.get_feedback()] == ["call-3"]
    assert store.get_overview()["calls"] == 6


def test_what_was_active_can_be_rolled_back_to(path: Path) -> None:
    store = SQLiteStore(path)
    store.save_prompt("support", "v2", is_active=True)

    assert store.rollback_prompt("support") == "v1"
    with pytest.raises(KeyError, match="support"):
        store.rollback_prompt("support")


def test_a_second_opening_changes_nothing(path: Path) -> None:
    SQLiteStore(path).close()
    before = schema(path), rows(path)

    SQLiteStore(path).close()

    assert (schema(path), rows(path)) == before


@needs_fork
def test_sixteen_processes_may_open_an_old_file_at_once(path: Path) -> None:
    run_as_script(sqlite_processes.open_at_once, path)

    store = SQLiteStore(path)
    assert store.get_overview()["calls"] == 4 + 16
    assert texts(store) == ["q0", "re: q0", "q1", "re: q1"]


def test_a_migration_that_fails_leaves_the_old_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE feedback (id INTEGER PRIMARY KEY, stars INTEGER)")
    before = schema(path)

    with pytest.raises(StoreError, match=r"table feedback that this pywrapai did not make"):
        SQLiteStore(path)

    assert schema(path) == before
    assert version_of(path) == 4


def test_what_was_left_half_migrated_is_finished(path: Path, tmp_path: Path) -> None:
    with recorded() as statements:
        SQLiteStore(path).close()
    begun = ("ALTER", "CREATE", "DROP", "UPDATE system")
    changes = [s for s in statements if s.startswith(begun)]
    assert len(changes) == 31

    for done in range(len(changes) + 1):
        half = make(tmp_path / f"{done}.db", V4)
        with closing(sqlite3.connect(half)) as connection:
            for change in changes[:done]:
                connection.execute(change)
            connection.commit()
        SQLiteStore(half).close()

        assert schema(half) == schema(path)
        assert rows(half) == rows(path)


def test_what_was_left_half_made_is_finished(tmp_path: Path) -> None:
    with recorded() as statements:
        SQLiteStore(tmp_path / "whole.db").close()
    changes = [s for s in statements if s.startswith(("CREATE", "INSERT"))]
    changes[1] = changes[1].replace("(?, ?)", "(1, 0)")

    for done in range(1, len(changes)):
        half = make(tmp_path / f"{done}.db", ";".join(changes[:done]))
        SQLiteStore(half).close()

        assert schema(half) == schema(tmp_path / "whole.db")


@pytest.mark.parametrize("version", [6, 99])
def test_a_newer_file_is_refused_and_left_alone(path: Path, version: int) -> None:
    SQLiteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE schema_info SET version = ?", [version])
        connection.commit()
    before = schema(path), rows(path)

    with pytest.raises(StoreError, match=f"version {version} .*upgrade pywrapai"):
        SQLiteStore(path)

    assert (schema(path), rows(path)) == before


def test_a_version_that_nobody_knows_the_way_from_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE schema_info SET version = 3")
        connection.commit()

    with pytest.raises(StoreError, match="version 3, from which there is no way"):
        SQLiteStore(path)
