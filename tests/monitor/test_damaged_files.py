"""A database file that is damaged under a running program, and a good copy put in its place."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor, MonitoredGraph, StoreError, create_app


def damage(path: Path) -> None:
    """Overwrite everything but the file's first page."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "monitor.db"


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """A good copy, with ten calls in it."""
    with Monitor(path) as monitor:
        talk(wrapped(monitor), 10)
    kept = tmp_path / "copy.db"
    kept.write_bytes(path.read_bytes())
    return kept


@pytest.fixture
def monitor(path: Path, copy: Path) -> Iterator[Monitor]:
    with Monitor(path) as monitor:
        yield monitor


def wrapped(monitor: Monitor) -> MonitoredGraph:
    llm = LLM(StubProvider(lambda messages, tools: "a fine answer"))
    return monitor.wrap(GraphLLM(llm), user_id="u", session_id="s", max_turns=0)


def talk(tracked: MonitoredGraph, calls: int) -> None:
    for _ in range(calls):
        assert tracked.chat("hello").content == "a fine answer"


def restore(copy: Path, path: Path) -> None:
    for name in (f"{path}-wal", f"{path}-shm"):
        Path(name).unlink(missing_ok=True)
    os.replace(copy, path)


def calls_in(path: Path) -> tuple[int, int]:
    """How many there are, and how many different ones."""
    with closing(sqlite3.connect(path)) as raw:
        found: tuple[int, int] = raw.execute(
            "SELECT count(*), count(DISTINCT call_id) FROM token_records"
        ).fetchone()
        return found


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_every_answer_is_given_and_every_record_is_in_the_copy_that_is_put_there(
    monitor: Monitor, path: Path, copy: Path, restarted: bool
) -> None:
    damage(path)
    talk(wrapped(monitor), 10)

    assert not monitor.flush(10)
    assert monitor.recorder.counts()["lost"] == 0
    with pytest.raises(StoreError, match="damaged"):
        monitor.store.get_overview()

    if restarted:
        monitor.close()
        restore(copy, path)
        monitor = Monitor(path)
    else:
        restore(copy, path)
    assert monitor.flush(60)
    talk(wrapped(monitor), 10)
    monitor.close()

    assert calls_in(path) == (30, 30)


def test_health_says_so(monitor: Monitor, path: Path) -> None:
    client = create_app(monitor.store, counts=monitor.recorder.counts).test_client()
    assert client.get("/health", headers={"Host": "127.0.0.1"}).status_code == 200

    damage(path)
    talk(wrapped(monitor), 10)
    monitor.flush(10)
    told = client.get("/health", headers={"Host": "127.0.0.1"})

    assert told.status_code == 503
    assert told.get_json() == {
        "status": "error",
        "database": "error",
        "queued": 0,
        "spooled": 10,
        "lost": 0,
    }


@pytest.mark.parametrize("kept", [0, 5000], ids=["all", "most"])
def test_a_log_that_is_lost_keeps_no_answer_from_its_caller(path: Path, kept: int) -> None:
    with Monitor(path) as monitor:
        talk(wrapped(monitor), 10)
        os.truncate(path.with_name("monitor.db-wal"), kept)
        talk(wrapped(monitor), 10)
        monitor.flush(10)
        assert monitor.recorder.counts()["lost"] == 0

    with suppress(StoreError), Monitor(path) as monitor:  # what is left of it, if anything
        talk(wrapped(monitor), 10)
