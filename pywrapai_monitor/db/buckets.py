"""Time in buckets of several widths, and the fewest of them that make up a span.

A bucket is one number, whatever its width: `first` of its width, and how many such widths have
passed since 1970. So one column holds them all, and those of one width follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""From the first, included, to the last, excluded."""

_MINUTE = 60 * 1_000_000
END = 253_402_300_800_000_000
"""The year 10000, which no row reaches."""


@dataclass(frozen=True, slots=True)
class Width:
    """Buckets of one width, in microseconds."""

    us: int
    first: int

    def of(self, at: int) -> int:
        """The bucket that a time is in."""
        return self.first + at // self.us


# Every time zone is a multiple of a quarter of an hour from UTC, so a day is whole quarters. A day
# elsewhere begins within a day of UTC, and is eleven times two hours and eight quarters.
QUARTER = Width(15 * _MINUTE, 0)
TWO_HOURS = Width(120 * _MINUTE, 1_000_000_000)
DAY = Width(24 * 60 * _MINUTE, 2_000_000_000)
EIGHT_DAYS = Width(8 * 24 * 60 * _MINUTE, 3_000_000_000)
ALL_TIME = -1
"""The bucket that sums up all others."""

SUMS = (QUARTER, TWO_HOURS, DAY)
USERS = (TWO_HOURS, DAY, EIGHT_DAYS)
"""Of users there are too many for buckets that most of them are not in."""


@dataclass(frozen=True, slots=True)
class Cover:
    """What makes up a span: whole buckets, and times that are in none of them."""

    buckets: Mapping[Width, Sequence[Range]]
    """Of each width, ranges of bucket numbers in their order."""
    rest: Sequence[Range] = field(default=())


def of(at: int) -> tuple[int, int, int, int]:
    """The buckets of sums that a time belongs to, ALL_TIME included.

    Written out, as is `of_user`, because every row that is written passes here.
    """
    return (
        ALL_TIME,
        at // 900_000_000,
        1_000_000_000 + at // 7_200_000_000,
        2_000_000_000 + at // 86_400_000_000,
    )


def of_user(at: int) -> tuple[int, int, int]:
    """The same of sums per user."""
    return (
        1_000_000_000 + at // 7_200_000_000,
        2_000_000_000 + at // 86_400_000_000,
        3_000_000_000 + at // 691_200_000_000,
    )


def cover(since: int, until: int, widths: Sequence[Width] = SUMS) -> Cover:
    """The widest buckets of ascending `widths` that lie in a span, and what is left at its ends."""
    found: dict[Width, list[Range]] = {width: [] for width in widths}
    rest: list[Range] = []
    if since < until:
        _cover(since, until, list(widths), found, rest)
    return Cover({width: ranges for width, ranges in found.items() if ranges}, rest)


def _cover(
    since: int, until: int, widths: list[Width], found: dict[Width, list[Range]], rest: list[Range]
) -> None:
    if not widths:
        rest.append((since, until))
        return
    *narrower, width = widths
    start, end = -(-since // width.us), until // width.us
    if start >= end:
        if since < until:
            _cover(since, until, narrower, found, rest)
        return
    if since < start * width.us:
        _cover(since, start * width.us, narrower, found, rest)
    found[width].append((width.first + start, width.first + end))
    if end * width.us < until:
        _cover(end * width.us, until, narrower, found, rest)


@dataclass(frozen=True, slots=True)
class Piece:
    """Buckets of one width, the last excluded, to be added or (`sign` -1) taken off."""

    width: Width
    first: int
    last: int
    sign: int = 1


def pieces(since: int, until: int, widths: Sequence[Width] = SUMS) -> list[Piece]:
    """A span between two quarters of an hour as sums: of whole days from the midnight nearest to
    its beginning to that nearest to its end, and more or less what lies between.

    A day elsewhere is a day of UTC, less the hours before it, and the hours after it.
    """
    *narrower, width = widths
    first, last = _nearest(since, width), _nearest(until, width)
    if first >= last:
        return pieces(since, until, narrower) if since < until else []
    found = [Piece(width, width.first + first, width.first + last)]
    if narrower:
        found += _signed(since, first * width.us, narrower)
        found += _signed(last * width.us, until, narrower)
    return found


def _signed(since: int, until: int, widths: Sequence[Width]) -> list[Piece]:
    if since <= until:
        return pieces(since, until, widths)
    return [replace(piece, sign=-piece.sign) for piece in pieces(until, since, widths)]


def _nearest(at: int, width: Width) -> int:
    return (at + width.us // 2) // width.us


def quarters(since: int | None, until: int | None) -> Range:
    """A span as times that are whole quarters of an hour, none cut off; open ends have a time."""
    start = 0 if since is None else max(since, 0) // QUARTER.us * QUARTER.us
    end = END if until is None else -(-min(max(until, 0), END) // QUARTER.us) * QUARTER.us
    return start, end
