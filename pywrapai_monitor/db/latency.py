"""Latencies as a histogram whose bins grow by a fourth root of two, and percentiles out of it.

So a percentile is known to a factor of `GROWTH`, however many calls there are and however they
spread; where many calls share a bin, it is known much better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log2

PER_OCTAVE = 4
GROWTH = 2 ** (1 / PER_OCTAVE)
"""What the upper end of a bin is of its lower end."""
LOWEST, HIGHEST = -17, 160
"""Bins: everything below 2 ** -4 ms, and everything from 2 ** 40 ms, which is 34 years."""


def bin_of(duration_ms: float) -> int:
    """The bin that a duration is in; all that are too short or negative are in the lowest."""
    if duration_ms < 0.0625:
        return LOWEST
    return min(int(log2(duration_ms) * PER_OCTAVE + 64) - 64, HIGHEST)


def percentiles(counts: Mapping[int, int], shares: Sequence[float]) -> list[float | None]:
    """Of calls by bin, the durations below which these shares of them are; None of no calls.

    Within a bin, calls are taken to be spread evenly.
    """
    bins = sorted((number, calls) for number, calls in counts.items() if calls > 0)
    total = sum(calls for _, calls in bins)
    return [_percentile(bins, total, share) if total else None for share in shares]


def _percentile(bins: Sequence[tuple[int, int]], total: int, share: float) -> float:
    rank = max(ceil(share * total), 1)
    for number, calls in bins:
        if rank <= calls:
            return _within(number, (rank - 0.5) / calls)
        rank -= calls
    return _within(bins[-1][0], 1.0)


def _within(number: int, share: float) -> float:
    lower = 0.0 if number == LOWEST else 2 ** (number / PER_OCTAVE)
    upper = 2 ** ((number + 1) / PER_OCTAVE)
    return float(lower + (upper - lower) * share)


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """Of values that are at hand: between two of them it lies in proportion; None of nothing."""
    if not ascending:
        return None
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)
