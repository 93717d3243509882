"""`purge` and `vacuum`: delete what is old or somebody's, and make the file smaller."""

from __future__ import annotations

import argparse
import time
from typing import Any

from pywrapai_monitor.commands.databases import FoundFile, existing, look_at
from pywrapai_monitor.commands.options import add_choice, add_command, add_database
from pywrapai_monitor.commands.terminal import counted, print_result, size
from pywrapai_monitor.db.base import BaseStore, StoreError
from pywrapai_monitor.db.instants import iso_of
from pywrapai_monitor.monitor import Monitor

_DAY_US = 24 * 60 * 60 * 1_000_000
_TABLES = ("conversations", "token_records", "tool_calls")


def purge(arguments: argparse.Namespace) -> int:
    """Delete rows and say how many, or how many there would be."""
    with existing(arguments.db) as store:
        if arguments.dry_run:
            found = {table: _count(store, table, arguments) for table in _TABLES}
            rows = ", ".join(f"{count:,} of {table}" for table, count in found.items())
            told = f"It would delete {rows}, and the feedback to them."
            print_result(arguments, {"would_delete": found}, told)
            return 0
        gone = _purge(store, arguments)
    print_result(arguments, {"deleted": gone}, f"Deleted {counted(gone, 'row')}.")
    return 0


def _purge(store: BaseStore, arguments: argparse.Namespace) -> int:
    if arguments.days is not None:
        return store.purge_before(arguments.days)
    with Monitor(store=store) as monitor:  # it first brings in what waits
        if arguments.session is not None:
            return monitor.delete_session(arguments.user, arguments.session)
        return monitor.delete_user(arguments.user)


def _count(store: BaseStore, table: str, arguments: argparse.Namespace) -> int:
    until = None
    if arguments.days is not None:
        until = iso_of(max(0, time.time_ns() // 1000 - arguments.days * _DAY_US))
    rows = store.export_rows(
        table, user_id=arguments.user, session_id=arguments.session, until=until
    )
    return sum(1 for _ in rows)


def vacuum(arguments: argparse.Namespace) -> int:
    """Write the file anew without the room that deleted rows have left."""
    with look_at(arguments.db) as found:
        if not isinstance(found, FoundFile):
            raise StoreError(
                f"{found.place}: only SQLite's files are made smaller so; servers use the room "
                f"again, and have VACUUM FULL (PostgreSQL) or OPTIMIZE TABLE (MySQL)"
            )
        found.require()
        before = found.path.stat().st_size
        with found.connected() as connection:
            connection.execute("VACUUM")
            is_read, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        after = found.path.stat().st_size
        told = f"{found.place}: {size(before)}, now {size(after)}."
        if is_read:
            told += " It will be smaller when a program that reads from it now has finished."
    print_result(arguments, {"bytes_before": before, "bytes_after": after}, told)
    return 0


def _check(command: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if (arguments.days is None) == (arguments.user is None):
        command.error("give either DAYS, for what is older, or --user, for all of that user")
    if arguments.session is not None and arguments.user is None:
        command.error("--session needs --user: two users may have a session of the same name")


def _days(text: str) -> int:
    days = int(text) if text.isdecimal() else 0
    if days < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return days


def add(commands: Any) -> None:
    """Make both known."""
    _add_purge(commands)
    command = add_command(
        commands,
        "vacuum",
        vacuum,
        "give the room of deleted rows back, of an SQLite file",
        "It needs as much free disk as the file has, and writers wait for it: the records of a\n"
        "program that waits longer than half a minute go to its spool.",
    )
    add_database(command)


def _add_purge(commands: Any) -> None:
    command = add_command(
        commands,
        "purge",
        purge,
        "delete what is older than some days, or all of a user or session",
        "SQLite's file keeps its size until `vacuum`.",
    )
    command.add_argument("days", metavar="DAYS", type=_days, nargs="?", help="what is older goes")
    add_choice(command, session="all of this session of that user")
    command.add_argument("--dry-run", action="store_true", help="count, by reading; delete nothing")
    add_database(command)
    command.set_defaults(check=lambda arguments: _check(command, arguments))
