"""Clocks that are ahead, and days that never were."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pywrapai_monitor.dashboard.showing import Times
from pywrapai_monitor.db.instants import iso_of
from tests.contracts.store_rows import NOON, micros
from tests.monitor.dashboard_client import client, entry_store, sqlite, turn, view


@pytest.mark.parametrize(
    "query",
    [
        "from=2011-12-29&to=2011-12-31&tz=Pacific/Apia",
        "from=1993-08-20&to=1993-08-23&tz=Pacific/Kwajalein",
        "from=1994-12-30&to=1995-01-02&tz=Pacific/Kiritimati",
    ],
)
def test_a_day_that_a_zone_never_had_is_no_failure(query):
    assert client(entry_store()).get(f"/?{query}").status_code == 200


def test_a_range_that_never_was_is_told():
    answer = client(entry_store()).get("/?from=2011-12-30&to=2011-12-30&tz=Pacific/Apia")

    assert answer.status_code == 400
    assert "has never had the day 2011-12-30" in answer.text


def test_what_is_yet_to_come_is_not_now():
    times = Times("UTC", micros(NOON))

    assert times.ago(iso_of(micros(NOON + timedelta(seconds=3)))) == "now"
    assert times.ago(iso_of(micros(NOON + timedelta(days=3)))) == "in 3 days"
    assert times.ago(iso_of(micros(NOON - timedelta(minutes=5)))) == "5 min ago"


def test_the_steps_of_all_time_add_up_to_its_figures_with_a_record_of_tomorrow():
    store = sqlite(turn("q", "c1", cost_usd=1.0), turn("f", "c2", at=NOON + timedelta(days=3)))
    shown = view(client(store), "overview", range="all")

    assert sum(step["calls"] for step in shown["steps"]) == shown["figures"]["calls"]
