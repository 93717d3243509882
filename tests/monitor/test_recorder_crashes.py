"""The Recorder when its process ends, is killed or forks: nothing is lost in silence, or twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pywrapai_monitor.db import SQLiteStore
from pywrapai_monitor.recorder import Recorder
from pywrapai_monitor.spool_files import look_at
from tests.monitor.recorder_processes import calls_in

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


def run(scene: str, path: Path) -> subprocess.CompletedProcess[str]:
    """In an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tests.monitor.recorder_processes", scene, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def play(scene: str, path: Path) -> str:
    """The same, which succeeds; what it has said in its log."""
    done = run(scene, path)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "way", ["end", "end_after_asyncio", "end_with_sys_exit", "end_on_a_handled_sigterm"]
)
def test_a_program_that_ends_has_written_what_it_enqueued(way, path):
    play(way, path)

    assert sorted(calls_in(str(path))) == sorted(f"c{number}" for number in range(1000))


def test_so_has_one_that_ends_with_an_exception(path):
    done = run("end_with_an_exception", path)

    assert done.returncode == 1
    assert len(calls_in(str(path))) == 1000


def test_one_that_ends_while_the_store_is_away_leaves_all_to_the_next(path):
    said = play("end_while_the_store_is_away", path)

    assert "1000 records wait in" in said
    assert calls_in(str(path)) == []
    assert sum(waiting.entries for waiting in look_at(f"{path}.spool")) == 1000
    store = SQLiteStore(path)
    Recorder(store, f"{path}.spool").close(timeout=30)
    store.close()
    assert calls_in(str(path)) == [f"c{number}" for number in range(1000)]


@needs_fork
def test_children_of_multiprocessing_have_written_what_they_enqueued(path):
    play("end_of_multiprocessing", path)


@needs_fork
def test_sigterm_that_nobody_handles_costs_what_is_queued_and_not_what_is_written(path):
    play("end_on_sigterm", path)


@needs_fork
def test_a_kill_costs_what_was_queued_alone_and_never_half_an_entry(path):
    play("killed_with_a_queue", path)


@needs_fork
def test_what_was_spooled_before_a_kill_is_written_by_the_next_process(path):
    play("killed_while_spooling", path)


@needs_fork
def test_a_kill_in_the_midst_of_replaying_makes_nothing_twice(path):
    play("killed_while_replaying", path)


@needs_fork
def test_many_processes_that_begin_at_once_replay_what_was_left_once(path):
    play("replayed_by_many", path)


@needs_fork
def test_many_processes_in_an_outage_lose_nothing_and_keep_their_order(path):
    play("many_in_an_outage", path)


@needs_fork
def test_a_forked_child_begins_with_nothing_and_its_flush_returns(path):
    play("forked_with_a_queue", path)


@needs_fork
def test_a_forked_child_does_not_replay_what_its_parent_spooled(path):
    play("forked_with_a_spool", path)


@needs_fork
def test_a_child_does_not_hold_what_its_dead_parent_left(path):
    play("outlived_by_a_child", path)


@needs_fork
def test_forks_at_any_time_neither_hang_nor_lose(path):
    play("forked_at_any_time", path)


@needs_fork
def test_a_database_that_is_made_read_only_makes_entries_wait(path):
    play("made_read_only", path)
