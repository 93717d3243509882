"""Rows of a table as a file, sent while they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from flask import Response

from pywrapai_monitor.dashboard import params
from pywrapai_monitor.dashboard.json_text import encoded
from pywrapai_monitor.dashboard.params import FRAME, BadParameterError, Values
from pywrapai_monitor.dashboard.source import Source
from pywrapai_monitor.db.analytics import Span
from pywrapai_monitor.db.instants import iso_of, micros_of
from pywrapai_monitor.export import COLUMNS, to_csv, to_jsonl

FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}
_CHUNK = 64 * 1024


def _moment(name: str, what: str) -> params.Param:
    def read(given: str) -> str | None:
        try:
            return iso_of(micros_of(given))
        except (ValueError, OverflowError):
            return None

    return params.Param(
        name=name,
        what=what,
        expected="a time as 2026-11-30 or 2026-11-30T18:00:00Z",
        schema={"type": "string", "minLength": 1, "examples": ["2026-11-30T18:00:00Z"]},
        read=read,
    )


EXPORT_PARAMS = (
    params.text("user_id", "Only rows of this user."),
    params.text("session_id", "Only rows of sessions of this name."),
    _moment("since", "Only rows from then on, instead of a range; in UTC unless it says."),
    _moment("until", "Only rows from before."),
    *FRAME,
)


def export(source: Source, table: str, format: str, values: Values) -> Response:
    """All rows of the time asked for; of all time, if none is."""
    since, until = _times(source, values)
    rows = source.store.export_rows(
        table,
        user_id=values["user_id"],
        session_id=values["session_id"],
        since=since,
        until=until,
    )
    lines = to_csv(rows, COLUMNS[table]) if format == "csv" else to_jsonl(rows)
    start = list(islice(lines, 1))  # what cannot be read at all is told as an error
    name = re.sub("[^0-9A-Za-z_.-]", "", f"{table}.{format}")
    return Response(
        _chunks(chain(start, lines)),
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{name}"',
        },
        content_type=FORMATS[format],
    )


def _times(source: Source, values: Values) -> tuple[str | None, str | None]:
    exact = values["since"] or values["until"]
    named = values["range"] or values["from"] or values["to"]
    if exact and named:
        raise BadParameterError("since and until must be left out where a range or dates are given")
    if exact:
        return values["since"], values["until"]
    span = source.range(values).span if named else Span()
    return _iso(span.since), _iso(span.until)


def _iso(micros: int | None) -> str | None:
    return None if micros is None else iso_of(micros)


def _chunks(lines: Iterable[str]) -> Iterator[bytes]:
    """The first line at once, then not too many small pieces."""
    lines = iter(lines)
    for first in islice(lines, 1):
        yield encoded(first)
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(encoded(line))
        size += len(waiting[-1])
        if size >= _CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
