"""The first page: figures of a time, how they went, and who and what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from pywrapai_monitor.dashboard.colors import Colors
from pywrapai_monitor.dashboard.params import Values
from pywrapai_monitor.dashboard.ranges import Range, Steps, step_label, steps_of, today_of
from pywrapai_monitor.dashboard.source import Source
from pywrapai_monitor.dashboard.views.rows import colored, ratio, with_error_rate
from pywrapai_monitor.db.analytics import CallFilter, SessionFilter
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.buckets import END
from pywrapai_monitor.db.instants import iso_of, micros_of

_TOP_MODELS = 8
"""So many have a part of their own in the chart."""
_CLASSES = {
    "input_tokens": "Input",
    "cache_read_tokens": "Read from cache",
    "cache_write_tokens": "Written to cache",
    "output_tokens": "Output",
    "reasoning_tokens": "Reasoning",
}
"""Of tokens, as readers know them."""
_ROWS = 10
_RECENT = 20


def overview(source: Source, values: Values) -> Row:
    """All of the page; a part that the store cannot tell is None, and named in `cannot`."""
    asked = source.range(values)
    parts = _Parts()
    colors = parts.of("colors", source.colors) or Colors(())
    figures = parts.of("figures", lambda: with_error_rate(source.analytics.figures(asked.span)))
    steps = parts.of("steps", lambda: _series(source, asked))
    kind, rows, costs = steps or (None, None, None)
    return {
        "range": asked.as_row(kind),
        "empty": not source.store.get_recent_queries(1),
        "headline": parts.of("headline", lambda: _headline(source, asked, figures)),
        "figures": figures,
        "today": parts.of("today", lambda: _today(source, asked)),
        "unpriced_calls": figures and figures["unpriced_calls"],
        "steps": rows,
        "cost_by_model": None if costs is None else _cost_by_model(costs, colors),
        "tokens": figures and _tokens(figures, rows or ()),
        "models": parts.of("models", lambda: _models(source, asked, colors)),
        "users": parts.of("users", lambda: _users(source, asked, figures)),
        "sessions": parts.of("sessions", lambda: _sessions(source, asked, figures)),
        "tools": parts.of("tools", lambda: _tools(source, asked)),
        "calls": parts.of("calls", lambda: _calls(source, asked, colors)),
        "cannot": parts.cannot,
    }


class _Parts:
    """Those that a store cannot tell do not keep the others away."""

    def __init__(self) -> None:
        self.cannot: list[str] = []

    def of(self, name: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except NotImplementedError:
            self.cannot.append(name)
            return None


def _headline(source: Source, asked: Range, figures: Row | None) -> Row | None:
    if figures is None:
        return None
    before = None
    if asked.previous is not None:
        before = with_error_rate(source.analytics.figures(asked.previous))
    return {
        "calls": _change(figures, before, "calls"),
        "cost_usd": _change(figures, before, "cost_usd"),
        "error_rate": _difference(figures, before),
        "p95_ms": _change(figures, before, "p95_ms"),
    }


def _change(figures: Row, before: Row | None, name: str) -> Row:
    value, previous = figures[name], before and before[name]
    known = value is not None and previous
    change = (value - previous) / previous if known else None
    return {"value": value, "previous": previous, "change": change}


def _difference(figures: Row, before: Row | None) -> Row:
    value, previous = figures["error_rate"], before and before["error_rate"]
    known = value is not None and previous is not None
    change = value - previous if known else None
    return {"value": value, "previous": previous, "change": change}


def _today(source: Source, asked: Range) -> Row:
    return with_error_rate(source.analytics.figures(today_of(asked)))


def _series(source: Source, asked: Range) -> tuple[str, list[Row], list[list[Row]]]:
    """The kind of the steps, the steps, and the costs of models in each."""
    first_at = None
    if asked.span.since is None:
        first = source.store.get_overview()["first_at"]
        first_at = None if first is None else micros_of(first)
    steps = steps_of(asked, first_at)
    bounds = list(steps.bounds)
    if asked.span.until is None:
        bounds[-1] = END  # records of a clock that is ahead count in the figures, too
    found = source.analytics.series(bounds)
    return steps.kind, _steps(asked, steps, found), [row["models"] for row in found]


def _steps(asked: Range, steps: Steps, found: Sequence[Row]) -> list[Row]:
    return [
        {
            "start": iso_of(start),
            "end": iso_of(end),
            "label": step_label(steps.kind, start, asked.zone),
            "finished": end <= asked.now,
            **with_error_rate({name: row[name] for name in row if name != "models"}),
        }
        for (start, end), row in zip(pairwise(steps.bounds), found, strict=True)
    ]


def _cost_by_model(found: Sequence[Sequence[Row]], colors: Colors) -> Row:
    """Of the dearest models each, and of the others together."""
    totals: dict[tuple[str, str], list[float]] = {}
    for place, rows in enumerate(found):
        for row in rows:
            name = (row["provider"] or "", row["model"])
            totals.setdefault(name, [0.0] * len(found))[place] += row["cost_usd"]
    ordered = sorted(totals.items(), key=lambda item: (-sum(item[1]), item[0]))
    shown, rest = ordered[:_TOP_MODELS], ordered[_TOP_MODELS:]
    models = [
        {"model": model, "provider": provider, "cost_usd": sum(costs), "values": costs}
        for (provider, model), costs in shown
    ]
    return {
        "shown": len(shown),
        "of": len(ordered),
        "models": colored(models, colors),
        "others": _others([costs for _, costs in rest]) if rest else None,
    }


def _others(costs: Sequence[Sequence[float]]) -> Row:
    values = [sum(step) for step in zip(*costs, strict=True)]
    return {"models": len(costs), "cost_usd": sum(values), "values": values}


def _tokens(figures: Row, steps: Sequence[Row]) -> list[Row]:
    """Tokens by class, in all and in each step."""
    apart = None not in (figures[name] for name in _CLASSES)
    totals = _by_class(figures, apart)
    of_steps = [_by_class(step, apart) for step in steps]
    return [
        {
            "name": name,
            "label": _CLASSES[name],
            "value": value,
            "share": ratio(value, sum(totals.values())),
            "values": [step[name] for step in of_steps],
        }
        for name, value in totals.items()
    ]


def _by_class(figures: Row, apart: bool) -> dict[str, int]:
    """Classes that do not overlap: what was read from and written to a cache is part of the input,
    and reasoning of the output. Two are left where a store cannot tell them `apart`.
    """
    given, made = figures["input_tokens"], figures["output_tokens"]
    if not apart:
        return {"input_tokens": given, "output_tokens": made}
    read, written = figures["cache_read_tokens"], figures["cache_write_tokens"]
    return {
        "input_tokens": max(given - read - written, 0),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": max(made - figures["reasoning_tokens"], 0),
        "reasoning_tokens": figures["reasoning_tokens"],
    }


def _models(source: Source, asked: Range, colors: Colors) -> Row:
    rows = source.analytics.models(asked.span)
    cost = sum(row["cost_usd"] for row in rows)
    shown = [
        {**with_error_rate(row), "share": ratio(row["cost_usd"], cost)} for row in rows[:_ROWS]
    ]
    return {"rows": colored(shown, colors), "shown": len(shown), "of": len(rows)}


def _users(source: Source, asked: Range, figures: Row | None) -> Row:
    page = source.analytics.users(asked.span, _ROWS)
    return {
        "rows": [with_error_rate(row) for row in page.rows],
        "more": page.next is not None,
        "of": figures and figures["users"],
    }


def _sessions(source: Source, asked: Range, figures: Row | None) -> Row:
    page = source.analytics.sessions(SessionFilter(span=asked.span), _ROWS)
    return {
        "rows": page.rows,
        "more": page.next is not None,
        "of": figures and figures["sessions"],
    }


def _tools(source: Source, asked: Range) -> Row:
    rows = [with_error_rate(row) for row in source.analytics.tools(asked.span)]
    return {"rows": rows[:_ROWS], "shown": len(rows[:_ROWS]), "of": len(rows)}


def _calls(source: Source, asked: Range, colors: Colors) -> Row:
    page = source.analytics.calls(CallFilter(span=asked.span), _RECENT)
    return {"rows": colored(page.rows, colors), "more": page.next is not None}
