"""`export`: the rows of a table, or of all, as JSON lines or CSV."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, get_args

from pywrapai_monitor.commands.databases import existing
from pywrapai_monitor.commands.options import add_choice, add_command, add_database
from pywrapai_monitor.commands.terminal import counted, use_utf8
from pywrapai_monitor.db.base import BaseStore
from pywrapai_monitor.export import COLUMNS, Format, export


def run_export(arguments: argparse.Namespace) -> int:
    """Write the rows to standard output, or to a file and how many they were to stderr."""
    with existing(arguments.db) as store:
        if arguments.output is None:
            use_utf8()
            _export(store, arguments, sys.stdout)
            return 0
        with _file(arguments.output) as file:
            count = _export(store, arguments, file)
    print(f"{counted(count, 'row')} in {arguments.output}", file=sys.stderr)
    return 0


def _export(store: BaseStore, arguments: argparse.Namespace, file: TextIO) -> int:
    return export(
        store,
        arguments.table,
        file,
        format=arguments.format,
        user_id=arguments.user,
        session_id=arguments.session,
        since=arguments.since,
        until=arguments.until,
    )


@contextmanager
def _file(path: str) -> Iterator[TextIO]:
    """A file that has its name when all is written; one of that name is then replaced."""
    path = os.path.realpath(path)
    in_place = os.path.exists(path) and not os.path.isfile(path)  # a device, a pipe
    part = path if in_place else f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="") as file:
            yield file
        if not in_place:
            os.replace(part, path)
    except BaseException:
        if not in_place:
            with suppress(FileNotFoundError):
                os.unlink(part)
        raise


def add(commands: Any) -> None:
    """Make it known."""
    command = add_command(
        commands,
        "export",
        run_export,
        "the rows of a table as JSON lines or CSV",
        "In CSV a text that a spreadsheet would take for a formula is led by a '.",
    )
    command.add_argument("table", choices=[*COLUMNS, "all"], help="all: as JSON lines alone")
    command.add_argument("--format", choices=get_args(Format), default="jsonl")
    add_choice(command, session="only sessions of this name")
    command.add_argument("--since", metavar="TIME", help="from then on: 2026-11-30, in UTC")
    command.add_argument("--until", metavar="TIME", help="before then: 2026-11-30T18:00:00+01:00")
    command.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    add_database(command, json=False)
