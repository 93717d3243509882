"""What a program is given of its prompts while the database is away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor, StoreError, prompts


@contextmanager
def away(path: Path) -> Iterator[None]:
    """A directory where the database was."""
    path.rename(path.with_suffix(".away"))
    path.mkdir()
    try:
        yield
    finally:
        path.rmdir()
        path.with_suffix(".away").rename(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "monitor.db"


@pytest.fixture
def monitor(path: Path) -> Iterator[Monitor]:
    with Monitor(path) as monitor:
        monitor.save_prompt("support", "v1", "Be brief.", is_active=True)
        monitor.save_prompt("support", "v2", "Be long.")
        yield monitor


def test_a_prompt_is_what_was_last_read_of_it(monitor, path, caplog):
    monitor.get_prompt("support")
    monitor.save_prompt("support", "v2", is_active=True)
    assert monitor.get_prompt("support") == "Be long."

    with away(path), caplog.at_level(logging.WARNING):
        assert [monitor.get_prompt("support") for _ in range(3)] == ["Be long."] * 3
        with pytest.raises(StoreError):
            monitor.get_prompt("support", "v1")  # was not read before

    assert len([record for record in caplog.records if "last read" in record.message]) == 1
    monitor.save_prompt("support", "v1", is_active=True)
    assert monitor.get_prompt("support") == "Be brief."


def test_a_user_keeps_the_version_that_is_his(monitor, path):
    monitor.set_user_prompt("bob", "support", "v2")
    graph = GraphLLM(LLM(StubProvider(["x"] * 2)))

    def wrapped(user: str):
        return monitor.wrap(graph, user, "s", max_turns=0, prompt_name="support")

    for user in ("alice", "bob"):
        wrapped(user)
    with away(path):
        given = [wrapped(user).system_prompt for user in ("alice", "bob")]
        wrapped("bob").chat("hello")
        with pytest.raises(StoreError):  # he may be pinned
            wrapped("carol")

    assert given == ["Be brief.", "Be long."]
    assert monitor.flush(60)
    (row,) = monitor.store.get_session_token_records("bob", "s")
    assert (row["prompt_name"], row["prompt_version"]) == ("support", "v2")


def test_what_was_never_there_is_not_made_up(monitor, path):
    with pytest.raises(KeyError):
        monitor.get_prompt("other")
    with away(path), pytest.raises(StoreError):
        monitor.get_prompt("other")


def test_what_is_remembered_is_bounded(monitor, path, monkeypatch):
    monkeypatch.setattr(prompts, "_MOST", 2)
    for version in ("v1", "v2", "active"):
        monitor.get_prompt("support", version)
    with away(path):
        assert monitor.get_prompt("support") == "Be brief."
        with pytest.raises(StoreError):
            monitor.get_prompt("support", "v1")
