"""`stats`: what was called, what it cost, by model and by tool."""

from __future__ import annotations

import argparse
from typing import Any

from pywrapai_monitor.commands.databases import existing
from pywrapai_monitor.commands.options import add_command, add_database
from pywrapai_monitor.commands.terminal import aligned, cell, print_json, table
from pywrapai_monitor.db.base import Row


def stats(arguments: argparse.Namespace) -> int:
    """Print the totals."""
    with existing(arguments.db) as store:
        found: dict[str, Any] = {
            "all_time": store.get_overview(),
            "today": store.get_today(arguments.tz),
            "models": store.get_model_usage(),
            "tools": store.get_tool_usage(),
        }
    if arguments.json:
        print_json(found)
    else:
        print("\n\n".join(_told(found, arguments.tz)))
    return 0


def _told(found: dict[str, Any], tz: str) -> list[str]:
    told = [_totals(found["all_time"], found["today"], tz)]
    return told + [table(found[name]) for name in ("models", "tools") if found[name]]


def _totals(all_time: Row, today: Row, tz: str) -> str:
    lines = [["", "all time", f"today ({tz})"]]
    for name in all_time:
        values = cell(name, all_time[name]), cell(name, today.get(name))
        lines.append([name.replace("_", " "), *values])
    return aligned(lines, to_the_right=(1, 2))


def add(commands: Any) -> None:
    """Make it known."""
    command = add_command(commands, "stats", stats, "calls, tokens and cost, by model and by tool")
    add_database(command)
    command.add_argument("--tz", default="UTC", help="time zone of today; default: UTC")
