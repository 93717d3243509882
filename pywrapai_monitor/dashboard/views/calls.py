"""The list of calls, and one call."""

from __future__ import annotations

from contextlib import suppress

from pywrapai_monitor.dashboard.params import Values
from pywrapai_monitor.dashboard.source import Source, checked_cursor, known
from pywrapai_monitor.dashboard.views.messages import with_items
from pywrapai_monitor.dashboard.views.rows import colored, page_of, record_of
from pywrapai_monitor.db.analytics import CallFilter, Span
from pywrapai_monitor.db.base import Row

CUT = 20_000
"""So many characters of each text of a call are shown."""
_FILTERS = (
    "user_id", "session_id", "model", "kind", "status", "prompt_name", "prompt_version", "tag",
    "unpriced",
)  # fmt: skip


def calls(source: Source, values: Values) -> Row:
    """Newest first."""
    asked = source.range(values)
    filters = {name: values[name] for name in _FILTERS}
    wanted = CallFilter(span=asked.span, **filters)
    with checked_cursor():
        page = source.analytics.calls(wanted, values["limit"], values["cursor"])
    colors = source.colors()
    return {
        "range": asked.as_row(),
        "filters": filters,
        "filtered": any(filters.values()),
        **page_of(page, values["cursor"]),
        "rows": colored(page.rows, colors),
        "models": _models(source),
    }


def _models(source: Source) -> list[Row]:
    rows = source.analytics.models(Span())
    names = dict.fromkeys((row["model"], row["provider"]) for row in rows)
    return colored([{"model": m, "provider": p} for m, p in sorted(names)], source.colors())


def call(source: Source, values: Values) -> Row:
    """What belongs to one call."""
    with known():
        found = source.analytics.call(values["call_id"], CUT)
    session = None
    with suppress(KeyError):
        session = source.analytics.session(found["user_id"], found["session_id"])
    return {
        "call": record_of(found, source.colors()),
        "messages": with_items(found["messages"]),
        "tools": found["tools"],
        "feedback": found["feedback"],
        "conversation": session is not None,
    }
