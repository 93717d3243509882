"""The command line of the monitor: `python -m pywrapai_monitor demo` and `... serve`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pywrapai.exceptions import PyWrapAIError
from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.demo import talk
from pywrapai_monitor.monitor import Monitor

if TYPE_CHECKING:
    from pywrapai_monitor.dashboard.server import Server


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a failure that is told, 2 a wrong command line."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (PyWrapAIError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def demo(arguments: argparse.Namespace) -> int:
    """Talk to the local model and record it, with the dashboard open beside it if wanted."""
    with Monitor(db_path=arguments.db) as monitor:
        if not arguments.serve:
            talk(monitor)
            print(f"\nKept in {arguments.db}.")
            return 0
        with _server(monitor, arguments) as server:  # a taken port is told before the talk
            talk(monitor)
            print(
                f"\nKept in {arguments.db}. Dashboard on {server.url} (Ctrl-C ends it)", flush=True
            )
            server.wait()
    return 0


def serve(arguments: argparse.Namespace) -> int:
    """Show the dashboard of a database that is there; a new one is not made for it."""
    if not Path(arguments.db).exists():
        raise StoreError(f"there is no database at {arguments.db!r}: check the path")
    with Monitor(db_path=arguments.db) as monitor, _server(monitor, arguments) as server:
        print(f"Dashboard on {server.url} (Ctrl-C ends it)", flush=True)
        server.wait()
    return 0


def _server(monitor: Monitor, arguments: argparse.Namespace) -> Server:
    return monitor.serve(
        port=arguments.port,
        host=arguments.host,
        auth_token=arguments.auth_token,
        open_browser=arguments.open,
        tz=arguments.tz,
        block=False,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pywrapai_monitor", description="Record model calls, and look at them."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("demo", help="a recorded talk with a local model; needs no key")
    command.set_defaults(run=demo)
    command.add_argument(
        "--no-serve", dest="serve", action="store_false", help="end after the talk"
    )
    _add_server_options(command, default_db="pywrapai_demo.db")

    command = commands.add_parser("serve", help="the dashboard of a database")
    command.set_defaults(run=serve)
    _add_server_options(command, default_db=None)
    return parser


def _add_server_options(command: argparse.ArgumentParser, default_db: str | None) -> None:
    command.add_argument(
        "--db", default=default_db, required=default_db is None, help="path of the SQLite database"
    )
    command.add_argument("--port", type=int, default=8080, help="0 picks a free one; default: 8080")
    command.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    command.add_argument("--auth-token", help="what the API then asks for as a Bearer token")
    command.add_argument("--tz", default="UTC", help="time zone of the days; default: UTC")
    command.add_argument("--open", action="store_true", help="open it in the browser")


if __name__ == "__main__":
    sys.exit(main())
