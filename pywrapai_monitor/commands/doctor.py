"""`doctor`: whether the database can be had and is whole, and what waits outside of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pywrapai_monitor.commands.databases import Found, FoundFile, existing, look_at
from pywrapai_monitor.commands.options import add_command, add_database
from pywrapai_monitor.commands.terminal import (
    aligned,
    counted,
    inert,
    moment,
    print_json,
    size,
    table,
)
from pywrapai_monitor.db.base import Row, StoreError
from pywrapai_monitor.db.instants import iso_of
from pywrapai_monitor.recorder import FlushReport, Recorder
from pywrapai_monitor.spool_files import look_at as look_at_spool

_MOST_DAMAGE = 5
"""So many lines of what is wrong with a file are told."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what it was like."""

    what: str
    ok: bool
    told: str


def doctor(arguments: argparse.Namespace) -> int:
    """Print what was found; 1 if something is wrong."""
    with look_at(arguments.db) as found:
        checks = list(_of_database(found))
        folder = arguments.spool_dir or found.spool_dir
        if arguments.replay:
            may_write = all(check.ok for check in checks)
            checks.append(_replayed(arguments.db, folder, may_write))
        waiting, check = _of_spool(folder)
        checks.append(check)
    if arguments.json:
        _print_json(checks, folder, waiting)
    else:
        _print(checks, waiting)
    return 0 if all(check.ok for check in checks) else 1


def _of_database(found: Found) -> Iterator[Check]:
    """Each makes sense only if the one before is well."""
    try:
        version = found.require()
    except StoreError as error:
        yield Check("database", False, str(error))
        return
    yield Check("database", True, _place(found))
    yield _schema(version)
    if isinstance(found, FoundFile):
        yield _integrity(found)
        yield _writable(found)


def _place(found: Found) -> str:
    if isinstance(found, FoundFile):
        return f"{found.place}, {size(found.path.stat().st_size)}"
    return found.place


def _schema(version: int) -> Check:
    from pywrapai_monitor.db.tables import SCHEMA_VERSION

    told = f"version {version}"
    if version > SCHEMA_VERSION:
        return Check("schema", False, f"{told}, newer than {SCHEMA_VERSION}: upgrade pywrapai")
    if version < SCHEMA_VERSION:
        return Check("schema", True, f"{told}; the next Monitor makes it version {SCHEMA_VERSION}")
    return Check("schema", True, told)


def _integrity(found: FoundFile) -> Check:
    try:
        with found.connected() as connection:
            rows = connection.execute(f"PRAGMA integrity_check({_MOST_DAMAGE})").fetchall()
    except StoreError as error:
        return Check("integrity", False, str(error))
    damage = [text for (text,) in rows if text != "ok"]
    if damage:
        advice = "restore a copy of it, or try `sqlite3 FILE .recover`"
        return Check("integrity", False, f"{'; '.join(damage)}: {advice}")
    return Check("integrity", True, "no damage")


def _writable(found: FoundFile) -> Check:
    try:
        with found.connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except StoreError as error:
        return Check("writing", False, str(error))
    return Check("writing", True, "can be written")


def _replayed(url: str, folder: str, may_write: bool) -> Check:
    if not may_write:
        return Check("replay", False, "not tried, because of what is wrong with the database")
    with existing(url) as store:
        recorder = Recorder(store, folder)
        try:
            report = recorder.flush()
        finally:
            recorder.close()
    return Check("replay", bool(report), _told(report))


def _told(report: FlushReport) -> str:
    told = f"{counted(report.written, 'record')} brought into the database"
    if report:
        return told
    return f"{told}, {report.lost:,} lost, {report.spooled:,} still waiting: {report.reason}"


def _of_spool(folder: str) -> tuple[list[Row], Check]:
    """The files that wait, and what to think of them."""
    try:
        waiting = [asdict(file) for file in look_at_spool(folder)]
    except OSError as error:
        return [], Check("spool", False, f"{folder} cannot be read: {error.strerror or error}")
    for row in waiting:
        row["path"] = str(row["path"])
        row["oldest_at"] = None if row["oldest_at"] is None else iso_of(row["oldest_at"])
    return waiting, _judged(folder, waiting)


def _judged(folder: str, waiting: list[Row]) -> Check:
    entries = sum(row["entries"] for row in waiting)
    if not entries:
        missing = "" if os.path.isdir(folder) else ", which is not there"
        return Check("spool", True, f"nothing waits in {folder}{missing}")
    times = [row["oldest_at"] for row in waiting if row["oldest_at"]]
    since = f", the oldest since {moment(min(times))}" if times else ""
    bytes_ = size(sum(row["size"] for row in waiting))
    told = f"{counted(entries, 'record')} ({bytes_}{since}) outside of the database, in {folder}"
    if all(row["held"] for row in waiting):
        return Check("spool", False, f"{told}: the program that has them is about to replay them")
    return Check("spool", False, f"{told}: `doctor --replay` brings them in")


def _print(checks: list[Check], waiting: list[Row]) -> None:
    print(aligned([["ok" if c.ok else "WRONG", c.what, inert(c.told)] for c in checks]))
    if waiting:
        print(f"\n{table([_for_reader(row) for row in waiting])}")


def _for_reader(row: Row) -> Row:
    return {**row, "size": size(row["size"])}


def _print_json(checks: list[Check], folder: str, waiting: list[Row]) -> None:
    print_json(
        {
            "ok": all(check.ok for check in checks),
            "checks": [asdict(check) for check in checks],
            "spool": {
                "folder": folder,
                "entries": sum(row["entries"] for row in waiting),
                "bytes": sum(row["size"] for row in waiting),
                "files": waiting,
            },
        }
    )


def add(commands: Any) -> None:
    """Make it known."""
    command = add_command(
        commands,
        "doctor",
        doctor,
        "whether the database is well, and what waits outside of it",
        "The exit code is 1 if something is wrong. A large SQLite file is read as a whole.",
    )
    add_database(command)
    command.add_argument("--replay", action="store_true", help="bring in the records that wait")
    command.add_argument(
        "--spool-dir", metavar="DIR", help="where records wait, if Monitor was given a spool_dir"
    )
