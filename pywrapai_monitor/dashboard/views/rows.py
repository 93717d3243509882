"""What views add to the rows of a store."""

from __future__ import annotations

from collections.abc import Iterable

from pywrapai_monitor.dashboard.colors import Colors
from pywrapai_monitor.db.analytics import Page
from pywrapai_monitor.db.base import Row


def ratio(part: float | None, whole: float | None) -> float | None:
    """None of nothing."""
    return None if part is None or not whole else part / whole


def with_error_rate(row: Row) -> Row:
    """A row with `calls` and `errors`."""
    return {**row, "error_rate": ratio(row["errors"], row["calls"])}


def colored(rows: Iterable[Row], colors: Colors) -> list[Row]:
    """Rows with a model."""
    return [{**row, "color": colors.of(row)} for row in rows]


def record_of(call: Row, colors: Colors) -> Row:
    """The token record alone of what `Analytics.call` gives."""
    parts = ("messages", "tools", "feedback")
    row = {name: value for name, value in call.items() if name not in parts}
    return {**row, "color": colors.of(row)}


def page_of(page: Page, cursor: str | None) -> Row:
    """What a list has."""
    return {
        "rows": page.rows,
        "next": page.next,
        "searched_to": page.searched_to,
        "cursor": cursor,
    }


def is_cut(row: Row, name: str) -> bool:
    """Whether a text is longer than what is there of it."""
    return len(row.get(name) or "") < (row.get(f"{name}_length") or 0)
