"""Sums of a time out of the buckets of a table of totals, with or without its steps told apart.

A time is a few ranges of buckets, some of which are taken off again. They are one statement, so
that a record which arrives meanwhile is in all of them or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add, sub
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    String,
    Table,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.selectable import CompoundSelect
from typing_extensions import override

from pywrapai_monitor.db import buckets
from pywrapai_monitor.db.analytics import Span
from pywrapai_monitor.db.buckets import ALL_TIME, Piece, Width

Sums: TypeAlias = dict[tuple[Any, ...], list[Any]]
"""Per group, the sums in the order of the columns that were asked for."""
Counts: TypeAlias = dict[int, int]
_Statement: TypeAlias = CompoundSelect[Any] | Select[Any]
_Use: TypeAlias = tuple[int, int]
"""The step that a sum belongs to, and whether it is added or taken off."""

_AT_ONCE = 900  # MariaDB makes a table of a longer list, and joins it


class _Statements:
    """What sums up buckets, by piece and group; built once for each number and form of pieces."""

    def __init__(
        self, table: Table, by: Sequence[str], of: Sequence[str], *only: ColumnElement[bool]
    ) -> None:
        self._bucket = table.c.bucket
        self._groups = [table.c[name] for name in by]
        self._sums = [_sum(table.c[name]) for name in of]
        self._only = only
        self._built: dict[tuple[Any, ...], _Statement] = {}

    def of_span(
        self, conn: Connection, span: Span, **asked: Any
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Whether a row is added or taken off, its groups and sums."""
        since, until = buckets.quarters(span.since, span.until)
        pieces = [_ALL_TIME] if span == Span() else buckets.pieces(since, until)
        if not pieces:
            return
        for number, piece in enumerate(pieces):
            asked |= {f"first_{number}": piece.first, f"last_{number}": piece.last - 1}
        for row in conn.execute(self._pieces(len(pieces)), asked).all():
            yield pieces[row[0]].sign, row[1:]

    def _pieces(self, number: int) -> _Statement:
        if (number,) not in self._built:
            self._built[(number,)] = _together([
                self._grouped(literal_column(str(n), BigInteger), self._between(n))
                for n in range(number)
            ])  # fmt: skip
        return self._built[(number,)]

    def of_steps(
        self, conn: Connection, bounds: Sequence[int]
    ) -> Iterator[tuple[Sequence[_Use], Sequence[Any]]]:
        """What a row is used for, its groups and sums."""
        parts = list(_parts(bounds))
        asked: dict[str, Any] = {}
        uses: dict[int, Sequence[_Use]] = {}
        for number, part in enumerate(parts):
            asked |= part.asked(number)
            uses |= part.uses
        for row in conn.execute(self._steps(parts), asked).all():
            yield uses[row[0]], row[1:]

    def _steps(self, parts: Sequence[_Part]) -> _Statement:
        shape = tuple((part.is_range, part.grain > 1) for part in parts)
        if shape not in self._built:
            self._built[shape] = _together([
                self._step(number, *part) for number, part in enumerate(shape)
            ])  # fmt: skip
        return self._built[shape]

    def _step(self, number: int, is_range: bool, grained: bool) -> Select[Any]:
        bucket: ColumnElement[int] = self._bucket
        if grained:
            origin = bindparam(f"origin_{number}", type_=BigInteger)
            bucket -= (bucket - origin) % bindparam(f"grain_{number}", type_=BigInteger)
        where = self._between(number) if is_range else self._bucket.in_(_numbers(number))
        return self._grouped(bucket, where)

    def _between(self, number: int) -> ColumnElement[bool]:
        return self._bucket.between(
            bindparam(f"first_{number}", type_=BigInteger),
            bindparam(f"last_{number}", type_=BigInteger),
        )

    def _grouped(self, piece: ColumnElement[int], where: ColumnElement[bool]) -> Select[Any]:
        chosen = select(piece.label("piece"), *self._groups, *self._sums)
        return chosen.where(where, *self._only).group_by("piece", *self._groups)


class Summed:
    """Sums of some columns of a table of totals by some others.

    Whole numbers arrive as int, whatever the database makes of a sum.
    """

    def __init__(
        self, table: Table, by: Sequence[str], of: Sequence[str], *only: ColumnElement[bool]
    ) -> None:
        self._statements = _Statements(table, by, of, *only)
        self._groups = len(by)

    def of(self, conn: Connection, span: Span, **asked: Any) -> Sums:
        """The sums of a time, by group; `asked` is what the conditions need."""
        sums: Sums = {}
        for sign, row in self._statements.of_span(conn, span, **asked):
            _add(sums, sign, tuple(row[: self._groups]), row[self._groups :])
        return sums

    def steps(self, conn: Connection, bounds: Sequence[int]) -> Sums:
        """The sums of each step between two bounds, by its number and group."""
        sums: Sums = {}
        for uses, row in self._statements.of_steps(conn, bounds):
            key, values = row[: self._groups], row[self._groups :]
            for step, sign in uses:
                _add(sums, sign, (step, *key), values)
        return sums


class Histogram:
    """Counts of a table of totals by one whole number.

    Those of a piece arrive as one text, because thousands of rows would cost a driver more than
    the database takes to sum them up.
    """

    def __init__(self, table: Table, by: str, of: str) -> None:
        self._packed = _Packed(table, (by,), (of,))

    def of(self, conn: Connection, span: Span) -> Counts:
        """The counts of a time."""
        counts: Counts = {}
        for sign, (packed,) in self._packed.of_span(conn, span):
            _count(counts, sign, _unpacked(packed))
        return counts

    def steps(self, conn: Connection, bounds: Sequence[int]) -> list[Counts]:
        """The counts of each step between two bounds."""
        steps: list[Counts] = [{} for _ in bounds[1:]]
        for uses, (packed,) in self._packed.of_steps(conn, bounds):
            pairs = _unpacked(packed)
            for step, sign in uses:
                _count(steps[step], sign, pairs)
        return steps


class _Packed(_Statements):
    @override
    def _grouped(self, piece: ColumnElement[int], where: ColumnElement[bool]) -> Select[Any]:
        sums = super()._grouped(piece, where).subquery()
        _, number, total = (cast(column, String(20)) for column in sums.c)
        pair = number.concat(":").concat(total)
        return select(sums.c.piece, func.aggregate_strings(pair, " ")).group_by(sums.c.piece)


def _unpacked(packed: str) -> list[tuple[int, int]]:
    pairs = [pair.split(":") for pair in packed.split(" ")]
    return [(int(number), int(total)) for number, total in pairs]


def _count(counts: Counts, sign: int, pairs: Sequence[tuple[int, int]]) -> None:
    for number, total in pairs:
        counts[number] = counts.get(number, 0) + sign * total


_ALL_TIME = Piece(Width(buckets.END, ALL_TIME), ALL_TIME, ALL_TIME + 1)


def _sum(column: ColumnElement[Any]) -> ColumnElement[Any]:
    total = func.sum(column)
    return cast(total, BigInteger) if isinstance(column.type, BigInteger) else total


def _numbers(number: int) -> BindParameter[int]:
    return bindparam(f"numbers_{number}", expanding=True, literal_execute=True)


def _together(parts: Sequence[Select[Any]]) -> _Statement:
    return parts[0] if len(parts) == 1 else union_all(*parts)


def _add(sums: Sums, sign: int, key: tuple[Any, ...], values: Sequence[Any]) -> None:
    old = sums.get(key)
    if old is None:
        sums[key] = list(values) if sign > 0 else [-value for value in values]
    else:
        sums[key] = [*map(add if sign > 0 else sub, old, values)]


@dataclass(frozen=True, slots=True)
class _Part:
    """Buckets of one width. `grain` of them, counted from `origin`, are summed up by the database;
    the first of them has the `uses` of them all.
    """

    numbers: Sequence[int]
    origin: int
    grain: int
    uses: Mapping[int, Sequence[_Use]]

    @property
    def is_range(self) -> bool:
        return self.numbers[-1] - self.numbers[0] == len(self.numbers) - 1

    def asked(self, number: int) -> dict[str, Any]:
        """What the statement has to be told, in which this is a part of that number."""
        found: dict[str, Any] = {f"numbers_{number}": self.numbers}
        if self.is_range:
            found = {f"first_{number}": self.numbers[0], f"last_{number}": self.numbers[-1]}
        if self.grain > 1:
            found |= {f"origin_{number}": self.origin, f"grain_{number}": self.grain}
        return found


def _parts(bounds: Sequence[int]) -> Iterator[_Part]:
    at = [buckets.quarters(bound, None)[0] for bound in bounds[:-1]]
    at.extend(buckets.quarters(None, bound)[1] for bound in bounds[-1:])
    if any(later <= earlier for earlier, later in pairwise(at)):
        raise ValueError("bounds must ascend, by a quarter of an hour at least")
    by_width: dict[Width, list[tuple[int, Piece]]] = {}
    for number, (since, until) in enumerate(pairwise(at)):
        for piece in buckets.pieces(since, until):
            by_width.setdefault(piece.width, []).append((number, piece))
    for width, pieces in by_width.items():
        origin, grain = _grain(width, [piece for _, piece in pieces])
        uses: dict[int, list[_Use]] = {}
        for number, piece in pieces:
            for bucket in _firsts(piece, origin, grain):
                uses.setdefault(bucket, []).append((number, piece.sign))
        wanted = sorted({n for _, piece in pieces for n in range(piece.first, piece.last)})
        for some in _some(wanted, origin, grain):
            yield _Part(some, origin, grain, uses)


def _firsts(piece: Piece, origin: int, grain: int) -> Iterable[int]:
    first = piece.first - (piece.first - origin) % grain
    return range(first, piece.last, grain)


def _grain(width: Width, pieces: Sequence[Piece]) -> tuple[int, int]:
    """Where pieces of this width begin and how long they are at most, if they are so regular that
    each is one by itself; else each bucket is one.
    """
    wider = [w for w in buckets.SUMS if w.us > width.us]
    if wider:  # what lies around a bound of the next width
        grain = wider[0].us // width.us
        origin = width.first - grain // 2
    else:
        grain = pieces[0].last - pieces[0].first
        origin = pieces[0].first
    known: dict[int, tuple[int, int]] = {}
    for piece in pieces:
        first, *more = _firsts(piece, origin, grain)
        if more or known.setdefault(first, (piece.first, piece.last)) != (piece.first, piece.last):
            return origin, 1
    return origin, grain


def _some(wanted: Sequence[int], origin: int, grain: int) -> Iterator[Sequence[int]]:
    """As many at once as a statement takes, none of them with a part of a grain."""
    if wanted[-1] - wanted[0] == len(wanted) - 1:
        yield wanted
        return
    start = 0
    while start < len(wanted):
        end = min(start + _AT_ONCE, len(wanted))
        while (
            end < len(wanted)
            and (wanted[end] - origin) // grain == (wanted[end - 1] - origin) // grain
        ):
            end -= 1
        yield wanted[start:end]
        start = end
