"""Sums of a time out of the buckets of a table of totals, with or without its steps told apart.

A time is a few ranges of buckets of each width. Each is one statement, which the database answers
from the key of the table alone; what it gives is added up here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import add
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, Connection, Select, Table, bindparam, func, select
from sqlalchemy.sql.elements import BindParameter, ColumnElement

from pywrapai_monitor.db import buckets
from pywrapai_monitor.db.analytics import Span
from pywrapai_monitor.db.buckets import ALL_TIME, QUARTER, SUMS, Range

Sums: TypeAlias = dict[tuple[Any, ...], list[Any]]
"""Per group, the sums in the order of the columns that were asked for."""

_AT_ONCE = 5000  # buckets in a statement, each of which is written out


def _number(name: str) -> BindParameter[int]:
    return bindparam(name, type_=BigInteger)


_NUMBERS: BindParameter[int] = bindparam("numbers", expanding=True, literal_execute=True)


class Summed:
    """Sums of some columns of a table of totals by some others, as statements that are built once.

    Whole numbers arrive as int, Decimal or float, depending on the database, and leave as they
    are.
    """

    def __init__(
        self, table: Table, by: Sequence[str], of: Sequence[str], *only: ColumnElement[bool]
    ) -> None:
        bucket = table.c.bucket
        groups = [table.c[name] for name in by]
        sums = [func.sum(table.c[name]) for name in of]
        of_buckets = bucket.between(_number("first"), _number("last")), bucket.in_(_NUMBERS)
        # Counted in quarters of an hour: where a bucket begins, after the first step does.
        begin = (bucket - _number("zero")) * _number("width") - _number("origin")
        step = (begin // _number("step")).label("step")
        self._by_range, self._by_list = (
            select(*groups, *sums).where(where, *only).group_by(*groups) for where in of_buckets
        )
        self._steps_by_range, self._steps_by_list = (
            select(step, *groups, *sums).where(where, *only).group_by("step", *groups)
            for where in of_buckets
        )
        self._groups = len(groups)

    def of(self, conn: Connection, span: Span, **asked: Any) -> Sums:
        """The sums of a time, by group; `asked` is what the conditions need."""
        if span == Span():
            found = conn.execute(self._by_range, {"first": ALL_TIME, "last": ALL_TIME, **asked})
            return _added(found, self._groups)
        rows: list[Sequence[Any]] = []
        for ranges in buckets.cover(*buckets.quarters(span.since, span.until)).buckets.values():
            for statement, which in self._parts(self._by_range, self._by_list, ranges):
                rows.extend(conn.execute(statement, {**which, **asked}))
        return _added(rows, self._groups)

    def steps(self, conn: Connection, bounds: Sequence[int]) -> Sums:
        """The sums of each step between two bounds, by its number and group."""
        rows: list[Sequence[Any]] = []
        for run in _runs(bounds):
            for width, ranges in run.cover().items():
                fixed = {
                    "zero": width.first,
                    "width": width.us // QUARTER.us,
                    "origin": run.origin // QUARTER.us,
                    "step": run.step // QUARTER.us,
                }
                parts = self._parts(self._steps_by_range, self._steps_by_list, ranges)
                for statement, which in parts:
                    found = conn.execute(statement, {**fixed, **which}).all()
                    rows.extend((run.number + int(row[0]), *row[1:]) for row in found)
        return _added(rows, self._groups + 1)

    def _parts(
        self, by_range: Select[Any], by_list: Select[Any], ranges: Sequence[Range]
    ) -> Iterator[tuple[Select[Any], dict[str, Any]]]:
        joined = list(_joined(ranges))
        if len(joined) == 1:
            ((first, last),) = joined
            yield by_range, {"first": first, "last": last - 1}
            return
        numbers = buckets.numbers(joined)
        for start in range(0, len(numbers), _AT_ONCE):
            yield by_list, {"numbers": numbers[start : start + _AT_ONCE]}


@dataclass(frozen=True, slots=True)
class _Run:
    """Steps of one length that follow each other; `number` is that of the first."""

    number: int
    origin: int
    step: int
    count: int

    def cover(self) -> Mapping[buckets.Width, Sequence[Range]]:
        found: dict[buckets.Width, list[Range]] = {}
        for number in range(self.count):
            since = self.origin + number * self.step
            for width, ranges in buckets.cover(since, since + self.step, SUMS).buckets.items():
                found.setdefault(width, []).extend(ranges)
        return found


def _runs(bounds: Sequence[int]) -> Iterator[_Run]:
    """Days are of one length but for those on which the clocks change."""
    at = [buckets.quarters(bound, None)[0] for bound in bounds[:-1]]
    at.extend(buckets.quarters(None, bound)[1] for bound in bounds[-1:])
    if any(later <= earlier for earlier, later in pairwise(at)):
        raise ValueError("bounds must ascend, by a quarter of an hour at least")
    steps = [(number, later - earlier) for number, (earlier, later) in enumerate(pairwise(at))]
    for step, same in groupby(steps, key=lambda pair: pair[1]):
        numbers = [number for number, _ in same]
        yield _Run(numbers[0], at[numbers[0]], step, len(numbers))


def _joined(ranges: Sequence[Range]) -> Iterator[Range]:
    """Ranges that follow each other as one."""
    first, last = ranges[0]
    for start, end in ranges[1:]:
        if start != last:
            yield first, last
            first = start
        last = end
    yield first, last


def _added(rows: Any, groups: int) -> Sums:
    sums: Sums = {}
    for row in rows:
        key, values = tuple(row[:groups]), row[groups:]
        old = sums.get(key)
        sums[key] = list(values) if old is None else [*map(add, old, values)]
    return sums
