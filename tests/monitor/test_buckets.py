"""A span is made up of buckets and of what is left at its ends, each moment once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai_monitor.db import buckets
from pywrapai_monitor.db.buckets import (
    ALL_TIME,
    DAY,
    EIGHT_DAYS,
    END,
    QUARTER,
    SUMS,
    TWO_HOURS,
    USERS,
    Width,
    cover,
)

TIMES = st.integers(0, 400 * DAY.us)
ALL = (QUARTER, TWO_HOURS, DAY, EIGHT_DAYS)


def pieces(since: int, until: int, widths: tuple[Width, ...]) -> list[tuple[int, int]]:
    found = cover(since, until, widths)
    spans = [
        ((number - width.first) * width.us, (number + 1 - width.first) * width.us)
        for width, ranges in found.buckets.items()
        for first, last in ranges
        for number in range(first, last)
    ]
    return sorted([*spans, *found.rest])


@given(TIMES, TIMES, st.sampled_from([SUMS, USERS]))
def test_the_pieces_of_a_span_follow_each_other_from_end_to_end(
    since: int, until: int, widths: tuple[Width, ...]
) -> None:
    found = pieces(since, until, widths)

    if since >= until:
        assert found == []
        return
    assert found[0][0] == since
    assert found[-1][1] == until
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_what_is_added_less_what_is_taken_off_is_the_span(since: int, until: int) -> None:
    found = buckets.pieces(since * QUARTER.us, until * QUARTER.us)

    counted: Counter[int] = Counter()
    for piece in found:
        length = piece.width.us // QUARTER.us
        first, last = (number - piece.width.first for number in (piece.first, piece.last))
        counted.update(dict.fromkeys(range(first * length, last * length), piece.sign))
    assert {quarter: n for quarter, n in counted.items() if n} == dict.fromkeys(
        range(since, until), 1
    )
    assert len(found) <= 5
    assert sum(p.last - p.first for p in found if p.width is not DAY) <= 2 * (6 + 4)


@given(TIMES, TIMES)
def test_a_span_of_any_length_is_few_ranges(since: int, until: int) -> None:
    found = cover(since, until, USERS)

    assert sum(map(len, found.buckets.values())) <= 5
    assert sum(end - start for start, end in found.rest) < 2 * TWO_HOURS.us


@given(st.integers(0, END - 1))
def test_a_time_is_in_the_buckets_that_it_is_counted_in(at: int) -> None:
    assert buckets.of(at) == (ALL_TIME, QUARTER.of(at), TWO_HOURS.of(at), DAY.of(at))
    assert buckets.of_user(at) == (TWO_HOURS.of(at), DAY.of(at), EIGHT_DAYS.of(at))


def test_buckets_of_two_widths_have_no_number_in_common() -> None:
    ranges = [(width.of(0), width.of(END)) for width in ALL]

    assert all(last < first for (_, last), (first, _) in pairwise(ranges))


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, (0, END)),
        (-5, 2 * END, (0, END)),
        (QUARTER.us + 1, 2 * QUARTER.us + 1, (QUARTER.us, 3 * QUARTER.us)),
        (QUARTER.us, 2 * QUARTER.us, (QUARTER.us, 2 * QUARTER.us)),
    ],
)
def test_the_ends_of_a_span_move_outwards(
    since: int | None, until: int | None, expected: tuple[int, int]
) -> None:
    assert buckets.quarters(since, until) == expected
