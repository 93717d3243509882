"""The command line of the monitor: `python -m pywrapai_monitor demo`, `... serve` and the rest."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from pywrapai.exceptions import PyWrapAIError
from pywrapai_monitor.commands import doctor, exporting, keeping, prompts, serving, stats
from pywrapai_monitor.commands.terminal import inert
from pywrapai_monitor.monitor import DB_URL_ENV


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a failure that is told, 2 a wrong command line."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.db is None:
        parser.error(f"which database? give --db PATH or URL, or set {DB_URL_ENV}")
    if "check" in arguments:
        arguments.check(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of characters that a terminal lacks
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _left_alone()
    except (PyWrapAIError, NotImplementedError, OSError, ValueError) as error:
        print(f"error: {inert(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _left_alone() -> int:
    """Whoever read standard output has enough, as `head` soon has; nothing more is written to it.

    The code is the one of a program that the signal ended.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pywrapai_monitor", description="Record model calls, and look at them."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (serving, stats, prompts, exporting, keeping, doctor):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
