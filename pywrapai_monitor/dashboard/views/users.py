"""Who it was for."""

from __future__ import annotations

from pywrapai_monitor.dashboard.params import Values
from pywrapai_monitor.dashboard.source import Source, checked_cursor
from pywrapai_monitor.dashboard.views.rows import page_of, ratio, with_error_rate
from pywrapai_monitor.db.base import Row


def users(source: Source, values: Values) -> Row:
    """Dearest first."""
    asked = source.range(values)
    with checked_cursor():
        page = source.analytics.users(asked.span, values["limit"], values["cursor"])
    try:
        figures = source.analytics.figures(asked.span)
    except NotImplementedError:
        figures = {"users": None, "cost_usd": None}
    cost = figures["cost_usd"]
    return {
        "range": asked.as_row(),
        **page_of(page, values["cursor"]),
        "rows": [
            {**with_error_rate(row), "share": ratio(row["cost_usd"], cost)} for row in page.rows
        ],
        "of": figures["users"],
        "cost_usd": cost,
    }
