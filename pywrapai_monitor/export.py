"""Rows of a store as JSON lines or CSV, one at a time, so that a long table takes little memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain, islice
from typing import Any, Literal, TextIO, TypeAlias, get_args

from pywrapai_monitor.db.base import BaseStore, MessageRecord, Row, TokenRecord

Format: TypeAlias = Literal["jsonl", "csv"]

_ROW = ("id", "created_at")
COLUMNS: dict[str, tuple[str, ...]] = {
    "conversations": (*_ROW, *(field.name for field in fields(MessageRecord))),
    "token_records": (*_ROW, *(field.name for field in fields(TokenRecord))),
    "tool_calls": (
        *_ROW, "user_id", "session_id", "turn_num", "tool_name", "call_id", "model_call_id",
        "status", "duration_ms", "arguments", "result", "error",
    ),
    "feedback": (
        *_ROW, "user_id", "session_id", "call_id", "score", "comment", "model", "prompt_name",
        "prompt_version",
    ),
}  # fmt: skip
"""By table, in their order in a CSV file."""


def export(
    store: BaseStore,
    table: str,
    file: TextIO,
    *,
    format: Format = "jsonl",
    user_id: str | None = None,
    session_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> int:
    """Write the rows of a table in the order of their writing; says how many.

    Args:
        store: where they are.
        table: "conversations", "token_records", "tool_calls", "feedback", or "all": each row of
            these four then says its `table`, which JSON lines alone can do.
        file: opened for text with `newline=""`, so that line ends and the texts within stay.
        format: "jsonl", or "csv" as RFC 4180 has it. In CSV nothing is an empty field and an empty
            text is `""`; a text that a spreadsheet would take for a formula is led by a `'`.
        user_id: only this user's rows.
        session_id: only rows of sessions of this name.
        since: only rows from then on, in ISO 8601.
        until: only rows from before.

    Raises:
        ValueError: there is no such table, format or time.
        StoreError: the database failed.
    """
    if format not in get_args(Format):
        raise ValueError(f"format must be one of {', '.join(get_args(Format))}, not {format!r:.80}")
    which = {"user_id": user_id, "session_id": session_id, "since": since, "until": until}
    if table == "all":
        if format == "csv":
            raise ValueError("a CSV file has the columns of one table: name one, or take jsonl")
        return _write(to_jsonl(_every_row(store, which)), file)
    rows = store.export_rows(table, **which)
    if format == "jsonl":
        return _write(to_jsonl(rows), file)
    return _write(to_csv(rows, COLUMNS[table]), file) - 1


def to_jsonl(rows: Iterable[Row]) -> Iterator[str]:
    """A line of JSON for each row."""
    return (f"{json_text(row)}\n" for row in rows)


def to_csv(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[str]:
    """A line with the names of the columns, and a line for each row.

    What a store of somebody else's has beside these columns comes behind them.
    """
    rows = iter(rows)
    first = list(islice(rows, 1))
    names = list(dict.fromkeys(chain(columns, *first)))
    yield _csv_line(names)
    for row in chain(first, rows):
        yield _csv_line([row.get(name) for name in names])


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON in which the characters that steer a terminal are escaped, and no others."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_STEERING = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _every_row(store: BaseStore, which: dict[str, str | None]) -> Iterator[Row]:
    tables = {name: store.export_rows(name, **which) for name in COLUMNS}
    return ({"table": name, **row} for name, rows in tables.items() for row in rows)


def _write(lines: Iterable[str], file: TextIO) -> int:
    count = 0
    for line in lines:
        file.write(line)
        count += 1
    return count


def _csv_line(values: Iterable[Any]) -> str:
    return ",".join(map(_field, values)) + "\r\n"


# The csv module of Python writes None and "" alike.


def _field(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            text = f"'{value}" if _FORMULA.match(value) else value
        case _:
            text = json_text(value)
    if not text or _QUOTED.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")  # also the wide ones
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
