"""What the commands have in common on the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from pywrapai_monitor.monitor import DB_URL_ENV

Run = Callable[[argparse.Namespace], int]
"""Does what a command says; the exit code."""


def add_command(
    commands: Any, name: str, run: Run | None, told: str, more: str = ""
) -> argparse.ArgumentParser:
    """A command with a line of help, and `more` that its own help says below."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=told,
        description=f"{told[0].upper()}{told[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        command.set_defaults(run=run)
    return command


def add_database(command: argparse.ArgumentParser, *, json: bool = True) -> None:
    """--db, and --json for a command that prints."""
    command.add_argument(
        "--db",
        metavar="PATH|URL",
        default=os.environ.get(DB_URL_ENV) or None,
        help=f"the database; default: what {DB_URL_ENV} says",
    )
    if json:
        command.add_argument("--json", action="store_true", help="print JSON, for a program")


def add_choice(command: argparse.ArgumentParser, *, session: str) -> None:
    """--user and --session."""
    command.add_argument("--user", metavar="USER", help="only what is this user's")
    command.add_argument("--session", metavar="SESSION", help=session)
