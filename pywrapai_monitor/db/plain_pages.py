"""Lists that are at hand, a page at a time: a cursor is the key of the last row that was given."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any, TypeAlias

from pywrapai_monitor.db.analytics import Page
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.instants import micros_of

Key: TypeAlias = list[Any]

NUMBER, TEXT = (int, float), (str,)


def place_of(rows: Sequence[Row], row_id: int, default: int) -> int:
    """Where the row of this id stands."""
    return next((i for i, row in enumerate(rows) if row["id"] == row_id), default)


def paged(
    rows: Iterable[Row],
    key: Callable[[Row], Key],
    kinds: Sequence[tuple[type, ...]],
    limit: int,
    cursor: str | None,
) -> Page:
    """The page of the rows, in the order of their keys, that the cursor names."""
    rows = following(sorted(rows, key=key), key, kinds, cursor)
    if len(rows) <= limit:
        return Page(rows=rows)
    return Page(rows=rows[:limit], next=encoded(key(rows[limit - 1])))


def following(
    rows: Sequence[Row],
    key: Callable[[Row], Key],
    kinds: Sequence[tuple[type, ...]],
    cursor: str | None,
) -> list[Row]:
    """The rows behind the one that the cursor names."""
    if cursor is None:
        return list(rows)
    last = decoded(cursor, kinds)
    return [row for row in rows if key(row) > last]


def records_after(records: Iterable[Row], cursor: str | None) -> Iterable[Row]:
    """The records behind the one that the cursor names; behind its time if it is gone."""
    if cursor is None:
        return records
    at, row_id = decoded(cursor, (NUMBER, NUMBER))
    rows = list(records)
    place = place_of(rows, row_id, -1)
    if place >= 0:
        return rows[place + 1 :]
    return [row for row in rows if micros_of(row["created_at"]) < at]


def record_key(record: Row) -> Key:
    """What `records_after` is told."""
    return [micros_of(record["created_at"]), record["id"]]


def encoded(key: Key) -> str:
    """A key as a cursor."""
    text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def decoded(cursor: str, kinds: Sequence[tuple[type, ...]]) -> Key:
    """The key of a cursor. ValueError if it has not values of these kinds."""
    try:
        key = json.loads(base64.urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(_NO_CURSOR) from error
    if not isinstance(key, list) or len(key) != len(kinds):
        raise ValueError(_NO_CURSOR)
    if not all(map(isinstance, key, kinds)) or any(map(_endless, key)):
        raise ValueError(_NO_CURSOR)
    return key


def _endless(value: object) -> bool:
    return isinstance(value, float) and not isfinite(value)


_NO_CURSOR = "cursor must be what the page before said in next"
