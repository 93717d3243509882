"""Which time a page shows, and in what steps: pure, with a clock that stands still."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from pywrapai_monitor.dashboard.colors import PALETTE, Colors, model_color
from pywrapai_monitor.dashboard.params import FRAME, BadParameterError, parse
from pywrapai_monitor.dashboard.ranges import Range, range_of, steps_of, today_of
from pywrapai_monitor.dashboard.views.overview import _cost_by_model
from pywrapai_monitor.db.instants import iso_of, micros_at, micros_of

NOW = datetime(2026, 11, 30, 10, 20, tzinfo=UTC)
HOUR = 3_600_000_000


def asked(now: datetime = NOW, tz: str = "UTC", **query: str) -> Range:
    values = parse(FRAME, MultiDict({**query, "tz": tz}))
    return range_of(values, "UTC", micros_at(now))


def ends(found: Range) -> tuple[str, str]:
    assert found.span.since is not None
    assert found.span.until is not None
    return iso_of(found.span.since)[:16], iso_of(found.span.until)[:16]


class TestRange:
    def test_seven_days_are_today_and_the_six_before(self):
        assert ends(asked()) == ("2026-11-24T00:00", "2026-12-01T00:00")
        assert ends(asked(range="7d")) == ends(asked())

    def test_days_begin_at_midnight_of_the_zone(self):
        assert ends(asked(range="7d", tz="Asia/Kolkata")) == (
            "2026-11-23T18:30",
            "2026-11-30T18:30",
        )

    def test_the_last_24_hours_end_with_the_hour_in_which_we_are(self):
        assert ends(asked(range="24h")) == ("2026-11-29T11:00", "2026-11-30T11:00")

    def test_hours_are_those_of_the_zone(self):
        assert ends(asked(range="24h", tz="Asia/Kolkata")) == (
            "2026-11-29T10:30",
            "2026-11-30T10:30",
        )

    def test_dates_are_included_on_both_ends(self):
        found = asked(**{"from": "2026-11-01", "to": "2026-11-03"})

        assert ends(found) == ("2026-11-01T00:00", "2026-11-04T00:00")
        assert found.finished
        assert found.label == "1 Nov 2026 to 3 Nov 2026"

    def test_a_last_day_in_the_future_is_today(self):
        found = asked(**{"from": "2026-11-30", "to": "2027-01-01"})

        assert ends(found) == ("2026-11-30T00:00", "2026-12-01T00:00")
        assert not found.finished

    @pytest.mark.parametrize(
        ("query", "told"),
        [
            ({"from": "2026-12-01"}, "from must not be after today, which is 2026-11-30"),
            ({"from": "2026-11-03", "to": "2026-11-01"}, "from must not be after to"),
            ({"to": "2026-11-01"}, "from must be given with to"),
            ({"from": "2026-11-01", "range": "7d"}, "range must be left out"),
        ],
    )
    def test_what_makes_no_sense_is_told(self, query, told):
        with pytest.raises(BadParameterError, match=told):
            asked(**query)

    def test_the_period_before_is_as_long_and_for_one_that_is_not_over_ends_at_the_same_time(self):
        before = asked(range="7d").previous

        assert before is not None
        assert iso_of(before.since or 0)[:16] == "2026-11-17T00:00"
        assert iso_of(before.until or 0)[:16] == "2026-11-23T10:30"  # a quarter is kept whole

    def test_the_period_before_one_that_is_over_ends_where_that_begins(self):
        before = asked(**{"from": "2026-11-10", "to": "2026-11-19"}).previous

        assert before is not None
        assert (iso_of(before.since or 0)[:10], iso_of(before.until or 0)[:10]) == (
            "2026-10-31",
            "2026-11-10",
        )

    def test_all_time_has_nothing_before_it(self):
        found = asked(range="all")

        assert (found.span.since, found.span.until, found.previous) == (None, None, None)

    def test_today_is_that_of_the_zone(self):
        late = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
        span = today_of(asked(late, tz="Asia/Kolkata"))

        assert iso_of(span.since or 0)[:16] == "2026-11-30T18:30"


class TestSteps:
    @pytest.mark.parametrize(
        ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)]
    )
    def test_a_day_has_as_many_hours_as_it_had(self, day, hours):
        steps = steps_of(asked(tz="Europe/Brussels", **{"from": day, "to": day}), None)

        assert (steps.kind, len(steps.bounds) - 1) == ("hour", hours)

    def test_the_last_24_hours_are_24_steps(self):
        assert len(steps_of(asked(range="24h"), None).bounds) == 25

    def test_days_of_a_zone_that_changes_its_clock_are_whole_days(self):
        query = {"from": "2026-10-20", "to": "2026-10-30"}
        steps = steps_of(asked(tz="Europe/Brussels", **query), None)

        assert steps.kind == "day"
        assert sorted({high - low for low, high in pairwise(steps.bounds)}) == [
            24 * HOUR,
            25 * HOUR,
        ]

    def test_beyond_120_days_weeks_are_steps_and_the_last_may_be_short(self):
        found = asked(**{"from": "2026-01-01", "to": "2026-06-30"})
        steps = steps_of(found, None)

        assert steps.kind == "week"
        assert len(steps.bounds) - 1 == 26
        assert (steps.bounds[0], steps.bounds[-1]) == (found.span.since, found.span.until)

    def test_all_time_begins_with_the_first_record(self):
        steps = steps_of(asked(range="all"), micros_of("2026-11-01T15:00:00Z"))

        assert iso_of(steps.bounds[0])[:16] == "2026-11-01T00:00"
        assert len(steps.bounds) - 1 == 30

    def test_all_time_without_a_record_is_today(self):
        assert len(steps_of(asked(range="all"), None).bounds) - 1 == 1

    def test_a_record_from_1970_does_not_make_thousands_of_steps(self):
        assert len(steps_of(asked(range="all"), 0).bounds) < 200

    @given(
        first=st.dates(date(2000, 1, 1), date(2026, 11, 30)),
        days=st.integers(0, 4000),
        tz=st.sampled_from(["UTC", "Europe/Brussels", "Asia/Kolkata", "America/St_Johns"]),
    )
    def test_steps_cover_the_time_without_a_gap(self, first, days, tz):
        last = min(first + timedelta(days=days), date(2026, 11, 30))
        found = asked(tz=tz, **{"from": str(first), "to": str(last)})
        bounds = steps_of(found, None).bounds

        assert (bounds[0], bounds[-1]) == (found.span.since, found.end)
        assert all(low < high for low, high in pairwise(bounds))
        assert len(bounds) <= 165


class TestColors:
    def test_up_to_as_many_models_as_there_are_colours_differ(self):
        models = [{"provider": "openai", "model": f"m{i}"} for i in range(PALETTE)]
        colors = Colors(models)

        assert {colors.of(row) for row in models} == set(range(PALETTE))

    def test_more_models_share_colours(self):
        models = [{"provider": "openai", "model": f"m{i}"} for i in range(50)]

        assert {Colors(models).of(row) for row in models} == set(range(PALETTE))

    def test_a_model_alone_has_the_colour_of_its_name(self):
        row = {"provider": "openai", "model": "gpt-4o-mini"}

        assert Colors([row]).of(row) == model_color("openai", "gpt-4o-mini")

    def test_the_order_in_which_models_come_does_not_matter(self):
        models: list[dict[str, Any]] = [{"provider": "p", "model": f"m{i}"} for i in range(8)]
        there, back = Colors(models), Colors(models[::-1])

        assert [there.of(row) for row in models] == [back.of(row) for row in models]


def test_the_models_beyond_the_dearest_are_summed_as_others():
    step = [{"model": f"m{i}", "provider": "p", "cost_usd": float(i)} for i in range(12)]

    found = _cost_by_model([step, step], Colors(step))

    assert (found["shown"], found["of"]) == (8, 12)
    assert found["models"][0]["model"] == "m11"
    assert found["others"] == {"models": 4, "cost_usd": 12.0, "values": [6.0, 6.0]}
