"""Percentiles out of bins are within the width of a bin of those of the calls themselves."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai_monitor.db.latency import (
    GROWTH,
    HIGHEST,
    LOWEST,
    bin_of,
    percentile,
    percentiles,
)

DURATIONS = st.lists(st.floats(0.0625, 1e9), min_size=1, max_size=200)
SHARES = [0.0, 0.01, 0.5, 0.95, 0.99, 1.0]


@given(DURATIONS)
def test_a_percentile_is_off_by_less_than_a_bin(durations: list[float]) -> None:
    found = percentiles(Counter(map(bin_of, durations)), SHARES)

    ascending = sorted(durations)
    for share, value in zip(SHARES, found, strict=True):
        exact = ascending[max(ceil(share * len(ascending)), 1) - 1]
        assert value is not None
        assert exact / GROWTH * 0.999999 <= value <= exact * GROWTH * 1.000001


@given(DURATIONS)
def test_percentiles_ascend(durations: list[float]) -> None:
    found = percentiles(Counter(map(bin_of, durations)), SHARES)

    assert found == sorted(value for value in found if value is not None)


@given(st.floats(0.0625, 2.0**39))
def test_a_bin_holds_what_is_in_it(duration: float) -> None:
    number = bin_of(duration)

    assert 2 ** (number / 4) * 0.999999 <= duration <= 2 ** ((number + 1) / 4) * 1.000001


@pytest.mark.parametrize("duration", [-5.0, 0.0, 1e-300, 0.0624])
def test_what_is_too_short_is_in_the_lowest_bin(duration: float) -> None:
    assert bin_of(duration) == LOWEST


@pytest.mark.parametrize("duration", [2.0**40, 1e300])
def test_what_is_too_long_is_in_the_highest_bin(duration: float) -> None:
    assert bin_of(duration) == HIGHEST


def test_many_calls_in_a_bin_are_told_apart() -> None:
    durations = [1000 + i / 10 for i in range(1000)]

    (middle,) = percentiles(Counter(map(bin_of, durations)), [0.5])

    assert middle == pytest.approx(1050, rel=0.05)


def test_of_no_calls_there_are_no_percentiles() -> None:
    assert percentiles({}, [0.5, 0.95]) == [None, None]
    assert percentiles({4: 0, 5: -1}, [0.5]) == [None]
    assert percentile([], 0.5) is None


def test_of_values_at_hand_a_percentile_lies_between_two_of_them() -> None:
    assert percentile([10.0], 0.95) == 10.0
    assert percentile([10.0, 20.0], 0.5) == 15.0
    assert percentile(list(map(float, range(101))), 0.95) == 95.0
