"""The prompts, and one prompt: its versions, what they cost, and how they differ."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import TypeVar

from pywrapai_monitor.dashboard.params import BadParameterError, Values
from pywrapai_monitor.dashboard.source import Source, checked_cursor, known
from pywrapai_monitor.dashboard.views.rows import ratio, with_error_rate
from pywrapai_monitor.db.analytics import Span
from pywrapai_monitor.db.base import Row

CUT = 100_000
"""So many characters of a version are shown."""
_MOST_LINES = 2_000
"""Of each version, so many are compared."""
_AROUND = 3
"""So many lines that are the same stand before and after those that differ."""
_PINS = 50
T = TypeVar("T")


def prompts(source: Source, values: Values) -> Row:
    """By name."""
    return {"rows": source.store.list_prompts()}


def prompt(source: Source, values: Values) -> Row:
    """All of one prompt."""
    name, asked = values["name"], source.range(values)
    with known():
        versions = source.store.list_prompt_versions(name)
    used = {row["version"]: row for row in _used(source, name, asked.span)}
    active = next((row["version"] for row in versions if row["is_active"]), None)
    newest = versions[-1]["version"] if versions else None
    shown = values["version"] or active or newest
    text = None if shown is None else _text(source, name, shown)
    listed = {row["version"] for row in versions}
    return {
        "range": asked.as_row(),
        "name": name,
        "active": active,
        "versions": [_with_figures(row, used.get(row["version"])) for row in versions],
        "unlisted": [
            _with_figures({"version": version}, row)
            for version, row in used.items()
            if version not in listed
        ],
        "version": shown,
        "text": text and text[:CUT],
        "text_length": len(text or ""),
        "diff": _diff(source, values),
        "pins": _or_none(lambda: _pins(source, values)),
    }


def _used(source: Source, name: str, span: Span) -> list[Row]:
    return _or_none(lambda: source.analytics.prompt_versions(name, span)) or []


def _or_none(ask: Callable[[], T]) -> T | None:
    """None where the store cannot tell."""
    try:
        return ask()
    except NotImplementedError:
        return None


def _text(source: Source, name: str, version: str) -> str:
    with known():
        return source.analytics.prompt_text(name, version)


_UNUSED: Row = {"calls": 0, "errors": 0, "cost_usd": 0.0, "avg_duration_ms": None, "p95_ms": None}


def _with_figures(row: Row, used: Row | None) -> Row:
    figures = with_error_rate(_UNUSED if used is None else used)
    return {**row, **figures, "cost_per_call": ratio(figures["cost_usd"], figures["calls"])} | {
        "version": row["version"]
    }


def _pins(source: Source, values: Values) -> Row:
    with checked_cursor():
        page = source.analytics.pins(values["name"], _PINS, values["cursor"])
    return {"rows": page.rows, "next": page.next, "cursor": values["cursor"]}


def _diff(source: Source, values: Values) -> Row | None:
    a, b = values["a"], values["b"]
    if a is None and b is None:
        return None
    if a is None or b is None:
        raise BadParameterError("a and b must be given both: ?a=v1&b=v2")
    lines = list(diff_lines(*(_text(source, values["name"], each) for each in (a, b))))
    added = sum(line["kind"] == "added" for line in lines)
    removed = sum(line["kind"] == "removed" for line in lines)
    return {
        "a": a,
        "b": b,
        "same": not (added or removed),
        "added": added,
        "removed": removed,
        "lines": lines,
    }


def diff_lines(a: str, b: str) -> Iterator[Row]:
    """The lines of both, with those left out that stand far from any that differs."""
    old, new = a.splitlines(), b.splitlines()
    cut = max(len(old), len(new)) > _MOST_LINES
    old, new = old[:_MOST_LINES], new[:_MOST_LINES]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 500)
    done = 0
    for group in matcher.get_grouped_opcodes(_AROUND):
        yield from _skipped(group[0][1] - done)
        for kind, start, end, new_start, new_end in group:
            yield from _changed(kind, old, new, (start, end), (new_start, new_end))
        done = group[-1][2]
    yield from _skipped(len(old) - done)
    if cut:
        yield _line("skipped", f"only the first {_MOST_LINES:,} lines are compared")


def _changed(
    kind: str, old: list[str], new: list[str], was: tuple[int, int], now: tuple[int, int]
) -> Iterator[Row]:
    if kind == "equal":
        for i, j in zip(range(*was), range(*now), strict=True):
            yield _line("same", old[i], i + 1, j + 1)
        return
    for i in range(*was):
        yield _line("removed", old[i], i + 1)
    for j in range(*now):
        yield _line("added", new[j], None, j + 1)


def _skipped(number: int) -> Iterator[Row]:
    if number > 0:
        yield _line("skipped", f"{number:,} {'line' if number == 1 else 'lines'} the same")


def _line(kind: str, text: str, a: int | None = None, b: int | None = None) -> Row:
    return {"kind": kind, "text": text, "a": a, "b": b}
