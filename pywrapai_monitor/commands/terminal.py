"""What the commands print: tables in columns, sizes, times, and text that cannot do any harm."""

from __future__ import annotations

import argparse
import io
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pywrapai_monitor.export import json_text

_JOINERS = "\u200c\u200d"


def print_rows(
    arguments: argparse.Namespace, rows: Sequence[Mapping[str, Any]], nothing: str
) -> None:
    """As JSON if that is asked for, else as a table, or the word for `nothing`."""
    if arguments.json:
        print_json(rows)
    else:
        print(table(rows) if rows else nothing)


def print_result(arguments: argparse.Namespace, result: Mapping[str, Any], told: str) -> None:
    """As JSON if that is asked for, else as it is `told`."""
    if arguments.json:
        print_json(result)
    else:
        print(inert(told))


def print_json(value: Any) -> None:
    """Indented, and in UTF-8 whatever the terminal has."""
    use_utf8()
    print(json_text(value, indent=2))


def use_utf8() -> None:
    """What is printed from now on is UTF-8, and its line ends are as they are written."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows, which have the same keys, below their keys."""
    names = list(rows[0])
    cells = [[cell(name, row[name]) for name in names] for row in rows]
    numbers = {
        column
        for column, name in enumerate(names)
        if not any(isinstance(row[name], (str, bool)) for row in rows)
    }
    return aligned([[name.replace("_", " ").strip() for name in names], *cells], numbers)


def aligned(lines: Sequence[Sequence[str]], to_the_right: Iterable[int] = ()) -> str:
    """The cells in columns, some of them aligned to the right."""
    right = set(to_the_right)
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            " " * (width - _width(text)) + text
            if column in right
            else text + " " * (width - _width(text))
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def cell(name: str, value: Any) -> str:
    """A value for a reader, by what its name says of it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str() if name.endswith("_at"):
            return moment(value)
        case str():
            return inert(value)
        case _ if name == "cost_usd":
            return f"${value:,.6f}"
        case _ if name.endswith("_ms"):
            return f"{value:,.0f}"
        case _:
            return f"{value:,}"


def inert(text: str) -> str:
    """The text with what would steer a terminal written out."""
    return "".join(
        c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text
    )


def inert_lines(text: str) -> str:
    """The same of a text whose lines and tabs stay."""
    return "\n".join("\t".join(map(inert, line.split("\t"))) for line in text.split("\n"))


def moment(iso: str) -> str:
    """A time of a store's, to the second."""
    return f"{iso[:19].replace('T', ' ')}Z"


def size(count: int) -> str:
    """Bytes as people say it."""
    for unit, of in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= of:
            return f"{count / of:,.1f} {unit}"
    return f"{count} bytes"


def counted(count: int, what: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _width(text: str) -> int:
    """In columns of a terminal."""
    return sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or character in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
