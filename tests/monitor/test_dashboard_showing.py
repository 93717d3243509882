"""How numbers, times and ids are written."""

from __future__ import annotations

import json

import pytest

from pywrapai_monitor.dashboard.showing import FILTERS, Times, chart_json
from tests.contracts.store_rows import NOON, micros

TABLE = [
    ("usd", 0, "$0.00"),
    ("usd", 12.5, "$12.50"),
    ("usd", 1234567.891, "$1,234,567.89"),
    ("usd", 0.999, "$1.00"),
    ("usd", 0.25, "$0.250"),
    ("usd", 0.000312, "$0.000312"),
    ("usd", 0.0000000312, "$0.0000000312"),
    ("usd", -0.5, "\u2212$0.500"),
    ("count", 12345, "12,345"),
    ("compact", 9999, "9,999"),
    ("compact", 12345, "12.3K"),
    ("compact", 999_999, "1M"),
    ("compact", 1_234_567, "1.2M"),
    ("ms", 0.4, "0.4 ms"),
    ("ms", 840, "840 ms"),
    ("ms", 999.7, "1.00 s"),
    ("ms", 1234, "1.23 s"),
    ("ms", 12345, "12.3 s"),
    ("ms", 125_000, "2 min 5 s"),
    ("ms", 119_600, "2 min"),
    ("ms", 7_300_000, "2 h 1 min"),
    ("percent", 0, "0%"),
    ("percent", 0.0123, "1.2%"),
    ("percent", 1, "100%"),
    ("percent", 0.00001, "<0.1%"),
    ("change", 0.123, "+12.3%"),
    ("change", -0.5, "\u221250.0%"),
    ("change", 0.0, "\u00b10.0%"),
    ("points", 0.01, "+1.0 pts"),
    ("size", 512, "512 bytes"),
    ("size", 1536, "1.5 KB"),
    ("size", 3 * 1024**3, "3.0 GB"),
    ("short", "chat-001", "chat-001"),
    ("short", "0123456789abcdefghij", "01234567…defghij"),
]


@pytest.mark.parametrize(("name", "value", "written"), TABLE)
def test_values_are_written_for_people(name, value, written):
    assert FILTERS[name](value) == written


@pytest.mark.parametrize("name", sorted(set(FILTERS) - {"chart_json", "short"}))
@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_nothing_is_written_of_what_is_not_known(name, value):
    assert FILTERS[name](value) == "\u2013"


def test_a_short_id_has_the_length_that_was_asked_for():
    assert len(FILTERS["short"]("x" * 100, 20)) == 20


class TestTimes:
    times = Times("Asia/Kolkata", micros(NOON))

    def test_they_are_those_of_the_zone(self):
        assert self.times.time("2026-11-30T18:40:05.000000Z") == "2026-12-01 00:10:05"
        assert self.times.clock("2026-11-30T18:40:05.000000Z") == "00:10:05"
        assert self.times.day("2026-11-30T18:40:05.000000Z") == "1 Dec 2026"
        assert self.times.time(None) == "\u2013"

    @pytest.mark.parametrize(
        ("at", "written"),
        [
            ("2026-11-30T12:00:30Z", "now"),  # a clock that is ahead of ours
            ("2026-11-30T11:59:15Z", "45 s ago"),
            ("2026-11-30T11:55:00Z", "5 min ago"),
            ("2026-11-30T09:00:00Z", "3 h ago"),
            ("2026-11-25T12:00:00Z", "5 days ago"),
            ("2026-01-01T12:00:00Z", "1 Jan 2026"),
            (None, "\u2013"),
        ],
    )
    def test_how_long_ago_something_was(self, at, written):
        assert self.times.ago(at) == written


def test_data_of_a_chart_cannot_end_its_element_and_is_exact():
    value = {"model": "</script><!--\u2028", "n": 2**53 + 1, "gap": float("nan")}
    text = chart_json(value)

    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {**value, "n": "9007199254740993", "gap": None}
