"""Lists of a store, read to their end, and names that are hard to keep."""

from __future__ import annotations

from collections.abc import Callable

from pywrapai_monitor.db.analytics import Page
from pywrapai_monitor.db.base import Row

UGLY = [
    "a_%", "ab1", "%", "_", "'", '"', "\\", "a/b", "..", " a", "a ", "A", "ä", "a\u0308", "é",
    "{}", "[1]", "/*", "--", ";", "用户", "👩‍💻", "x" * 191, "x" * 190 + "y", "None", "",
]  # fmt: skip


def pages(read: Callable[[str | None], Page]) -> list[Row]:
    """All rows, page by page."""
    rows, page = [], read(None)
    for _ in range(200):
        rows += page.rows
        if page.next is None:
            return rows
        page = read(page.next)
    raise AssertionError("the list has no end")
