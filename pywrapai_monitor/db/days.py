"""Days of a time zone as bounds in UTC, right also where a day has 23 or 25 hours."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from pywrapai_monitor.db.instants import datetime_of, micros_at

MAX_DAYS = 36_500


def time_zone(name: str) -> tzinfo:
    """The zone of an IANA name. ValueError if there is none."""
    if name == "UTC":
        return UTC  # works without a zone database, which Windows has not
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError) as exc:
        raise ValueError(
            f"unknown time zone {name!r}: give an IANA name such as 'Europe/Brussels' or 'UTC' "
            f"(where the system has no zone database: pip install tzdata)"
        ) from exc


def whole_number(field: str, value: int, highest: int | None = None) -> int:
    """`value`, if it is an int of at least 1. ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a whole number of at least 1, not {value!r}")
    if highest is not None and value > highest:
        raise ValueError(f"{field} must be at most {highest}, not {value}")
    return value


def midnight(day: date, zone: tzinfo) -> int:
    """When that day begins in that zone, in microseconds since 1970."""
    return micros_at(datetime(day.year, day.month, day.day, tzinfo=zone))


def today(now_us: int, zone: tzinfo) -> date:
    """The date in that zone."""
    return datetime_of(now_us).astimezone(zone).date()


def last_days(now_us: int, days: int, zone: tzinfo) -> list[date]:
    """The last `days` dates in that zone, today the last."""
    last = today(now_us, zone)
    return [last - timedelta(days=back) for back in range(days - 1, -1, -1)]
