"""`demo` and `serve`: a recorded talk, and the dashboard."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pywrapai_monitor.commands.databases import existing, look_at
from pywrapai_monitor.commands.options import add_command, add_database
from pywrapai_monitor.demo import talk
from pywrapai_monitor.monitor import Monitor

if TYPE_CHECKING:
    from pywrapai_monitor.dashboard.server import Server


def demo(arguments: argparse.Namespace) -> int:
    """Talk to the local model and record it, with the dashboard open beside it if wanted."""
    kept = f"\nKept in {_place(arguments.db)}."
    with Monitor(db_path=arguments.db) as monitor:
        if not arguments.serve:
            talk(monitor)
            print(kept)
            return 0
        with _server(monitor, arguments) as server:  # a taken port is told before the talk
            talk(monitor)
            print(f"{kept} Dashboard on {server.url} (Ctrl-C ends it)", flush=True)
            server.wait()
    return 0


def serve(arguments: argparse.Namespace) -> int:
    """Show the dashboard of a database that is there; a new one is not made for it."""
    with (
        existing(arguments.db) as store,
        Monitor(store=store) as monitor,
        _server(monitor, arguments) as server,
    ):
        print(f"Dashboard on {server.url} (Ctrl-C ends it)", flush=True)
        server.wait()
    return 0


def _place(url: str) -> str:
    if "://" not in url:
        return url
    with look_at(url) as found:
        return found.place  # without the password


def _server(monitor: Monitor, arguments: argparse.Namespace) -> Server:
    return monitor.serve(
        port=arguments.port,
        host=arguments.host,
        auth_token=arguments.auth_token,
        open_browser=arguments.open,
        tz=arguments.tz,
        block=False,
    )


def add(commands: Any) -> None:
    """Make both known."""
    command = add_command(commands, "demo", demo, "a recorded talk with a local model, no key")
    command.add_argument("--db", metavar="PATH|URL", default="pywrapai_demo.db")
    command.add_argument(
        "--no-serve", dest="serve", action="store_false", help="end after the talk"
    )
    _add_options(command)
    command = add_command(commands, "serve", serve, "the dashboard of a database")
    add_database(command, json=False)
    _add_options(command)


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--port", type=int, default=8080, help="0 picks a free one; default: 8080")
    command.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    command.add_argument(
        "--auth-token", help="what pages then ask for in a form, and the API as a Bearer token"
    )
    command.add_argument("--tz", default="UTC", help="time zone of the days; default: UTC")
    command.add_argument("--open", action="store_true", help="open it in the browser")
