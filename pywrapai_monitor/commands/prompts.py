"""`prompts`: the registry of system prompts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from pywrapai_monitor import versions
from pywrapai_monitor.commands.databases import existing
from pywrapai_monitor.commands.options import Run, add_command, add_database
from pywrapai_monitor.commands.terminal import (
    inert_lines,
    print_json,
    print_result,
    print_rows,
    use_utf8,
)
from pywrapai_monitor.db.base import BaseStore, StoreError
from pywrapai_monitor.db.urls import store_from_url


def show_list(arguments: argparse.Namespace) -> int:
    """All prompts, or all versions of one."""
    with _registry(arguments) as store:
        if arguments.name is None:
            rows, nothing = store.list_prompts(), "There are no prompts yet."
        else:
            rows, nothing = store.list_prompt_versions(arguments.name), ""
    print_rows(arguments, rows, nothing)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """The text of a version."""
    name, version = arguments.name, arguments.version
    with _registry(arguments) as store:
        if version == "active":
            version = store.active_prompt_version(name)
        text = store.get_prompt(name, version)
    if arguments.json:
        print_json({"name": name, "version": version, "text": text})
    else:
        _print_text(text)
    return 0


def save(arguments: argparse.Namespace) -> int:
    """Keep a text as a version. A database that is not there is made."""
    name, version = arguments.name, arguments.version
    text = _from_stdin()
    with closing(store_from_url(arguments.db)) as store:
        store.save_prompt(name, version, text, arguments.active)
    told = f"Saved version {version} of {name}" + (", the active one." if arguments.active else ".")
    saved = {"name": name, "version": version, "characters": len(text), "active": arguments.active}
    print_result(arguments, saved, told)
    return 0


def promote(arguments: argparse.Namespace) -> int:
    """Make a version the active one."""
    with _registry(arguments) as store:
        store.save_prompt(arguments.name, arguments.version, is_active=True)
    return _print_active(arguments, arguments.version)


def roll_back(arguments: argparse.Namespace) -> int:
    """Make the version active that was so before."""
    with _registry(arguments) as store:
        version = store.rollback_prompt(arguments.name)
    return _print_active(arguments, version)


def diff(arguments: argparse.Namespace) -> int:
    """What differs between two versions; nothing is printed if nothing does."""
    name, old, new = arguments.name, arguments.old, arguments.new
    with _registry(arguments) as store:
        text = versions.diff(store, name, old, new)
    if arguments.json:
        print_json({"name": name, "old": old, "new": new, "diff": text})
    elif text:
        _print_text(text)
    return 0


def pin(arguments: argparse.Namespace) -> int:
    """Give a user a version that stays."""
    user, name, version = arguments.user, arguments.name, arguments.version
    with _registry(arguments) as store:
        store.set_user_prompt(user, name, version)
    pinned = {"user_id": user, "name": name, "version": version}
    print_result(arguments, pinned, f"{user} has version {version} of {name}.")
    return 0


def unpin(arguments: argparse.Namespace) -> int:
    """Give a user the active version again."""
    user, name = arguments.user, arguments.name
    with _registry(arguments) as store:
        store.unpin_user_prompt(user, name)
    unpinned = {"user_id": user, "name": name, "version": None}
    print_result(arguments, unpinned, f"{user} is pinned to no version of {name}.")
    return 0


@contextmanager
def _registry(arguments: argparse.Namespace) -> Iterator[BaseStore]:
    with existing(arguments.db) as store:
        try:
            yield store
        except KeyError as error:
            raise StoreError(str(error.args[0])) from error


def _print_active(arguments: argparse.Namespace, version: str) -> int:
    name = arguments.name
    active = {"name": name, "active": version}
    print_result(arguments, active, f"Version {version} of {name} is active.")
    return 0


def _print_text(text: str) -> None:
    if sys.stdout.isatty():
        print(inert_lines(text))
    else:
        use_utf8()
        print(text)


def _from_stdin() -> str:
    """Without white space around it, as PromptRegistry has a file's."""
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"standard input is not in UTF-8: convert it first: {error}") from error
    if not text:
        raise ValueError("standard input has no text: write `... prompts save NAME VERSION < FILE`")
    return text


def add(commands: Any) -> None:
    """Make them known."""
    command = add_command(commands, "prompts", None, "the registry of system prompts")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    parsers = [
        _action(actions, "list", show_list, "all prompts, or the versions of one", "[name]"),
        _action(actions, "show", show, "the text of a version", "name", "[version]"),
        _action(actions, "save", save, "keep standard input as a version", "name", "version"),
        _action(actions, "promote", promote, "make a version the active one", "name", "version"),
        _action(actions, "rollback", roll_back, "make the one active that was so before", "name"),
        _action(actions, "diff", diff, "what differs between two", "name", "old", "[new]"),
        _action(actions, "pin", pin, "give a user a version", "user", "name", "version"),
        _action(actions, "unpin", unpin, "give a user the active one again", "user", "name"),
    ]
    parsers[2].add_argument("--active", action="store_true", help="and make it the active one")
    command.epilog = "".join(parser.format_usage() for parser in parsers)


def _action(
    actions: Any, name: str, run: Run, told: str, *arguments: str
) -> argparse.ArgumentParser:
    """`[...]` may be left out; what is left out of versions is the active one."""
    parser = add_command(actions, name, run, told)
    for argument in arguments:
        bare = argument.strip("[]")
        if bare == argument:
            parser.add_argument(bare, metavar=bare.upper())
        else:
            default = None if bare == "name" else "active"
            parser.add_argument(bare, metavar=bare.upper(), nargs="?", default=default)
    add_database(parser)
    return parser
