"""The spool: entries as lines, files on the disk, whose they are, and what is left of torn ones."""

from __future__ import annotations

import errno
import math
import os
import stat
import threading
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai.core.filelock import hold
from pywrapai_monitor.db.base import Entry, MessageRecord, TokenRecord, ToolStep
from pywrapai_monitor.entries_json import bytes_of, from_line, to_line
from pywrapai_monitor.recorder import Recorder
from pywrapai_monitor.spool import Spool
from pywrapai_monitor.spool_files import look_at, spool_dir_of
from tests.contracts.store_rows import entry, message
from tests.monitor.recorder_stores import AWAY, ListStore, MoodyList

TEXTS = st.text(st.characters(), max_size=40)  # lone surrogates and NUL included
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
FLOATS = st.floats(allow_nan=False)
TOKENS = st.builds(
    TokenRecord,
    user_id=TEXTS,
    session_id=TEXTS,
    model=TEXTS,
    kind=st.sampled_from(["chat", "embedding"]),
    input_tokens=st.integers(),
    cost_usd=FLOATS,
    priced=st.booleans(),
    duration_ms=FLOATS,
    ttft_ms=st.none() | FLOATS,
    error_message=st.none() | TEXTS,
    partial=st.none() | TEXTS,
    call_id=st.none() | TEXTS,
    tags=st.lists(TEXTS, max_size=3).map(tuple),
    metadata=st.none() | OBJECTS,
)
MESSAGES = st.builds(
    MessageRecord,
    user_id=TEXTS,
    session_id=TEXTS,
    role=st.sampled_from(["user", "assistant", "tool_call", "tool_result"]),
    content=TEXTS,
    rag_context=st.none() | st.lists(OBJECTS, max_size=2),
    system_prompt=st.none() | TEXTS,
    history_count=st.none() | st.integers(),
)
STEPS = st.builds(
    ToolStep,
    user_id=TEXTS,
    session_id=TEXTS,
    turn_num=st.integers(),
    calls=st.lists(
        st.builds(ToolCall, TEXTS, TEXTS, OBJECTS, st.none() | TEXTS, st.none() | OBJECTS),
        max_size=2,
    ).map(tuple),
    results=st.lists(st.builds(ToolResult, TEXTS, TEXTS, TEXTS, st.booleans()), max_size=2).map(
        tuple
    ),
    durations_ms=st.lists(st.none() | FLOATS, max_size=2).map(tuple),
)
ENTRIES = st.builds(
    Entry,
    token=TOKENS,
    messages=st.lists(MESSAGES, max_size=2).map(tuple),
    tools=st.none() | STEPS,
    at=st.integers(),
)


# Lines


@given(ENTRIES)
def test_an_entry_comes_back_from_its_line_as_it_was(whole):
    line = to_line(whole)

    assert from_line(line) == whole
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "\x00",
        "\\u0000",
        "\ud83d",
        "\ud83d\ude00",
        "👩‍👩‍👧",
        "\u202e",
        "\u2028\x85\r\n",
        "",
        "漢" * 400_000,
    ],
    ids=ascii,
)
def test_odd_texts_come_back_as_they_were(text):
    whole = entry(text, "c1", metadata={text: [text]}, tags=(text,))

    assert from_line(to_line(whole)) == whole


def test_odd_numbers_come_back_as_they_were():
    whole = entry(
        "q",
        "c1",
        cost_usd=math.nan,
        duration_ms=-math.inf,
        metadata={"a": math.nan, "b": math.inf, "c": 9007199254740993, "d": -0.0, "e": 0.1 + 0.2},
    )

    back = from_line(to_line(whole))

    assert repr(back) == repr(whole)


def test_values_that_json_does_not_have_become_readable():
    cycle: dict[str, Any] = {"name": "loop"}
    cycle["self"] = cycle
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    values = {
        "uuid": UUID(int=1),
        "bytes": b"abc",
        "set": {2, 1},
        "cycle": cycle,
        "deep": deep,
        "big": 10**5000,
        "keys": {(1, 2): "tuple", None: "none"},
        "none": None,
        "object": object(),
    }

    kept = from_line(to_line(entry("q", "c1", metadata=values, cost_usd=Decimal("0.5"))))

    metadata = kept.token.metadata
    assert metadata is not None
    assert metadata["uuid"] == str(UUID(int=1))
    assert metadata["set"] == [1, 2]
    assert metadata["bytes"] == "abc"
    assert metadata["cycle"]["name"] == "loop"
    assert metadata["keys"] == {"[1, 2]": "tuple", "null": "none"}
    assert metadata["big"].startswith("0x")
    assert metadata["none"] is None
    assert kept.token.cost_usd == 0.5
    assert metadata["object"] == "<object>"


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{", b"[]", b"null", b"\xff", b'{"token": 5}', b'{"at": 1}', b"[" * 99_999],
)
def test_what_is_no_line_is_a_value_error(line):
    with pytest.raises(ValueError, match="is no record"):
        from_line(line)


@given(ENTRIES, st.data())
def test_no_part_of_a_line_passes_for_it(whole, data):
    line = to_line(whole)
    cut = data.draw(st.integers(0, len(line) - 2))

    with pytest.raises(ValueError, match="is no record"):
        from_line(line[:cut])


def test_what_a_newer_version_adds_is_left_out():
    line = to_line(entry("q", "c1")).replace(b'"user_id"', b'"new":1,"user_id"')

    assert from_line(line) == entry("q", "c1")


@pytest.mark.parametrize("text", ["x" * 100_000, "漢" * 100_000])
def test_an_entry_weighs_at_least_what_its_texts_do(text):
    chunk = {"text": text, "metadata": {"more": [text]}}
    whole = Entry(
        token=TokenRecord(user_id="u", session_id="s", model="m", partial=text),
        messages=(message("user", text, rag_context=[chunk]),),
        at=0,
    )

    assert 400_000 <= bytes_of(whole) < 1_000_000


# Files


def spooled(folder: Path, count: int, prefix: str = "c", **more: Any) -> None:
    """As a process leaves it that has found its store to be away and ended."""
    store = MoodyList()
    store.error = AWAY
    recorder = Recorder(store, folder, first_wait_s=60, longest_wait_s=60)
    for number in range(count):
        recorder.write(entry("q", f"{prefix}{number}", **more))
    assert recorder.close(timeout=10).spooled == count


def replayed(folder: Path) -> list[str | None]:
    """What another process finds."""
    store = ListStore()
    recorder = Recorder(store, folder)
    recorder.close(timeout=20)
    return [each.token.call_id for each in store.entries]


def file_in(folder: Path) -> Path:
    (path,) = folder.glob("*.jsonl")
    return path


def test_what_a_process_left_is_written_by_the_next_and_the_files_are_gone(tmp_path):
    spooled(tmp_path / "spool", 1000)

    assert replayed(tmp_path / "spool") == [f"c{number}" for number in range(1000)]
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_several_left_is_written_in_the_order_in_which_they_began(tmp_path):
    for run in "abc":
        store = MoodyList()
        store.error = AWAY
        recorder = Recorder(store, tmp_path, first_wait_s=60, longest_wait_s=60)
        for number in range(3):
            recorder.write(entry("q", f"{run}{number}"))
        recorder.close(timeout=10)

    assert replayed(tmp_path) == [f"{run}{number}" for run in "abc" for number in range(3)]


def test_many_files_are_replayed_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr("pywrapai_monitor.spool._FILE_BYTES", 2_000)
    spooled(tmp_path, 200)

    assert len(list(tmp_path.glob("*.jsonl"))) > 10
    assert replayed(tmp_path) == [f"c{number}" for number in range(200)]


def test_new_entries_go_behind_what_was_left(tmp_path):
    spooled(tmp_path, 500)
    store = MoodyList()
    store.open.clear()
    recorder = Recorder(store, tmp_path)

    for number in range(500, 520):
        recorder.enqueue(entry("q", f"c{number}"))
    store.open.set()

    assert recorder.flush(timeout=20)
    assert [each.token.call_id for each in store.entries] == [f"c{n}" for n in range(520)]
    recorder.close()


def test_a_settling_session_takes_over_what_a_process_left_meanwhile(tmp_path):
    store = ListStore()
    recorder = Recorder(store, tmp_path)
    spooled(tmp_path, 10)

    assert recorder.settle("alice", "s1")

    assert len(store.entries) == 10
    recorder.close()


def test_a_torn_last_line_is_left_out_with_a_warning(tmp_path, caplog):
    spooled(tmp_path, 5)
    path = file_in(tmp_path)
    os.truncate(path, path.stat().st_size - 20)
    store = ListStore()

    recorder = Recorder(store, tmp_path)
    report = recorder.flush(timeout=10)

    assert [each.token.call_id for each in store.entries] == ["c0", "c1", "c2", "c3"]
    assert (report.lost, report.spooled) == (1, 0)
    assert "cannot be read" in caplog.text
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_line_in_the_middle_costs_nobody_else(tmp_path):
    spooled(tmp_path, 7)
    path = file_in(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00\xff garbage\n"
    path.write_bytes(b"".join(lines))

    assert replayed(tmp_path) == ["c0", "c1", "c3", "c4", "c5", "c6"]


def test_an_empty_or_torn_file_is_tidied_away(tmp_path):
    (tmp_path / "00000000000000000001-1-ab.1000000001.jsonl").write_bytes(b"")
    (tmp_path / "00000000000000000002-1-ab.1000000001.jsonl").write_bytes(b'{"done":  ')
    (tmp_path / "00000000000000000003-1-ab.lock").write_bytes(b"")
    (tmp_path / "somebody's notes.txt").write_text("stay")

    assert replayed(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["somebody's notes.txt"]


def test_a_damaged_header_repeats_what_was_done_and_loses_nothing(tmp_path):
    spooled(tmp_path, 5)
    path = file_in(tmp_path)
    content = path.read_bytes()
    path.write_bytes(b"\x00" * 29 + b"\n" + content[30:])

    assert replayed(tmp_path) == [f"c{number}" for number in range(5)]


def test_what_is_done_of_a_file_is_kept_on_the_disk(tmp_path):
    spooled(tmp_path, 600)
    failing = FailsLater()

    recorder = Recorder(failing, tmp_path, first_wait_s=60, longest_wait_s=60)
    recorder.close(timeout=20)
    done = len(failing.entries)

    assert 0 < done < 600
    assert replayed(tmp_path) == [f"c{number}" for number in range(done, 600)]


class FailsLater(ListStore):
    """It takes one batch, and is away from then on."""

    def write(self, entries: Any, *, replayed: bool = False) -> None:
        if self.entries:
            raise AWAY.with_traceback(None)
        super().write(entries, replayed=replayed)


def test_the_files_of_a_process_that_lives_are_left_alone(tmp_path):
    store = MoodyList()
    store.error = AWAY
    living = Recorder(store, tmp_path, first_wait_s=60, longest_wait_s=60)
    living.write(entry("q", "c0"))

    assert replayed(tmp_path) == []
    assert [(waiting.entries, waiting.held) for waiting in look_at(tmp_path)] == [(1, True)]
    store.error = None
    assert living.flush(timeout=10)
    living.close()


def test_of_many_that_begin_at_once_only_one_takes_over(tmp_path):
    spooled(tmp_path, 300)
    store = ListStore()
    begin = threading.Barrier(8)

    def work() -> None:
        begin.wait()
        recorder = Recorder(store, tmp_path)
        recorder.close(timeout=20)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [each.token.call_id for each in store.entries] == [f"c{n}" for n in range(300)]


def test_the_files_are_for_their_user_alone(tmp_path):
    spooled(tmp_path / "spool", 1)

    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "spool").iterdir()} == {0o600}


def test_a_line_that_the_disk_takes_in_part_is_taken_back(tmp_path, monkeypatch):
    spool = Spool(tmp_path, 10**6)
    assert spool.append(to_line(entry("q", "c0")), ("alice", "s1"))
    before = file_in(tmp_path).read_bytes()
    write, calls = os.write, []

    def full(descriptor: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 1:
            return write(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            spool.append(to_line(entry("q", "c1")), ("alice", "s1"))

    assert file_in(tmp_path).read_bytes() == before
    assert spool.append(to_line(entry("q", "c2")), ("alice", "s1"))
    spool.close()
    assert replayed(tmp_path) == ["c0", "c2"]


def test_a_full_disk_leaves_entries_in_memory_and_their_order_stands(tmp_path, monkeypatch):
    store = MoodyList()
    store.error = AWAY
    recorder = Recorder(store, tmp_path, first_wait_s=60, longest_wait_s=60)
    for number in range(5):
        recorder.write(entry("q", f"c{number}"))

    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pywrapai_monitor.spool_files.os.write", full)
        for number in range(5, 10):
            recorder.write(entry("q", f"c{number}"))
    recorder.write(entry("q", "c10"))
    assert (recorder.counts()["spooled"], recorder.counts()["queued"]) == (5, 6)
    store.error = None

    assert recorder.flush(timeout=10)
    assert [each.token.call_id for each in store.entries] == [f"c{n}" for n in range(11)]
    recorder.close()


def test_one_looks_at_a_spool_without_changing_it(tmp_path):
    spooled(tmp_path, 3)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    (waiting,) = look_at(tmp_path)

    assert waiting.path == file_in(tmp_path)
    assert (waiting.entries, waiting.held) == (3, False)
    assert waiting.size == file_in(tmp_path).stat().st_size
    assert waiting.oldest_at == entry("q", "c0").at
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert look_at(tmp_path / "nowhere") == []


# Where


def where(location: str | None) -> Path | None:
    return spool_dir_of(SimpleNamespace(location=location))  # type: ignore[arg-type]


def test_the_spool_of_an_sqlite_file_is_beside_it_and_that_of_memory_nowhere():
    assert where("/data/library.db") == Path("/data/library.db.spool")
    assert where(":memory:") is None
    assert where(None) is None
    assert spool_dir_of(ListStore()) is None


def test_each_database_of_a_server_has_a_folder_whoever_logs_in(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    folder = where("postgresql+psycopg2://ann:***@db.example:5432/library")

    assert folder is not None
    assert folder.parent == tmp_path / "pywrapai" / "spool"
    assert folder.name.startswith("db.example-library-")
    assert where("postgresql://bob@db.example:5432/library") == folder
    assert where("postgresql://ann@db.example:5432/other") != folder
    assert where("postgresql://ann@db.example:5433/library") != folder


# Locks


def test_a_lock_is_held_once_until_it_is_released(tmp_path):
    path = str(tmp_path / "a.lock")
    held = hold(path)
    assert held is not None

    assert hold(path) is None
    held.release()
    held.release()

    again = hold(path)
    assert again is not None
    again.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_whose_file_is_removed_between_opening_and_locking_is_no_lock(tmp_path, monkeypatch):
    path = tmp_path / "a.lock"
    opened, real = [], os.open

    def slow(*args: Any, **more: Any) -> int:
        descriptor = real(*args, **more)
        if not opened:
            path.unlink()
        opened.append(descriptor)
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", slow)
        held = hold(str(path))

    assert held is not None
    assert len(opened) == 2
    assert path.exists()
    held.remove()
