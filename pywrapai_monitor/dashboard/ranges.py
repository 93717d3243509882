"""Which time a page shows: from the parameters of its URL to bounds in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from itertools import count, takewhile

from pywrapai_monitor.dashboard.params import RANGES, BadParameterError, Values
from pywrapai_monitor.db.analytics import Span
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.days import midnight, time_zone, today
from pywrapai_monitor.db.instants import datetime_of, iso_of

DEFAULT = "7d"
_HOUR = 3_600_000_000
_QUARTER = _HOUR // 4
_DAY = timedelta(days=1)
_MOST_DAYS = 120
"""Of which each has a step of its own; weeks are steps beyond."""
_MOST_STEPS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A time, as it was asked for and as the store is asked for it."""

    name: str | None
    label: str
    tz: str
    zone: tzinfo
    now: int
    first: date | None
    """The first day in `tz`; None without a beginning, or of hours."""
    last: date
    span: Span
    end: int
    """Where the last step ends: `span.until`, where it has one."""
    previous: Span | None
    """As long, right before it; where this is not over yet, up to the same moment."""

    @property
    def finished(self) -> bool:
        """Whether all of it is past."""
        return self.end <= self.now

    def as_row(self, step: str | None = None) -> Row:
        """What a view says of it."""
        return {
            "name": self.name,
            "label": self.label,
            "from": None if self.first is None else self.first.isoformat(),
            "to": None if self.name == "24h" else self.last.isoformat(),
            "tz": self.tz,
            **_iso(self.span),
            "finished": self.finished,
            "step": step,
            "previous": None if self.previous is None else _iso(self.previous),
        }


def range_of(values: Values, default_tz: str, now: int) -> Range:
    """The time that `FRAME` parameters name. BadParameterError."""
    tz = values["tz"] or default_tz
    zone = time_zone(tz)
    first, last = values["from"], values["to"]
    if first is None and last is None:
        return _named(values["range"] or DEFAULT, tz, zone, now)
    if values["range"] is not None:
        raise BadParameterError("range must be left out where from or to is given")
    return _dated(first, last, tz, zone, now)


def _dated(first: date | None, last: date | None, tz: str, zone: tzinfo, now: int) -> Range:
    this_day = today(now, zone)
    last = this_day if last is None else last
    if first is None:
        raise BadParameterError("from must be given with to: ?from=2026-11-01&to=2026-11-30")
    if first > this_day:
        raise BadParameterError(f"from must not be after today, which is {this_day} in {tz}")
    if last < first:
        raise BadParameterError(f"from must not be after to, and {first} is after {last}")
    label = _date(first) if first == last else f"{_date(first)} to {_date(last)}"
    return _days(None, label, first, min(last, this_day), tz, zone, now)


def _date(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def _named(name: str, tz: str, zone: tzinfo, now: int) -> Range:
    this_day = today(now, zone)
    if name == "24h":
        return _last_24_hours(tz, zone, now)
    if name == "all":
        end = midnight(this_day + _DAY, zone)
        return Range(
            name=name, label=RANGES[name], tz=tz, zone=zone, now=now, first=None, last=this_day,
            span=Span(), end=end, previous=None,
        )  # fmt: skip
    days = int(name.removesuffix("d"))
    return _days(name, RANGES[name], this_day - (days - 1) * _DAY, this_day, tz, zone, now)


def _last_24_hours(tz: str, zone: tzinfo, now: int) -> Range:
    local = datetime_of(now).astimezone(zone)
    into_hour = timedelta(
        minutes=local.minute, seconds=local.second, microseconds=local.microsecond
    )
    end = now - into_hour // timedelta(microseconds=1) + _HOUR
    since = end - 24 * _HOUR
    return Range(
        name="24h", label=RANGES["24h"], tz=tz, zone=zone, now=now, first=None,
        last=today(now, zone), span=Span(since=since, until=end), end=end,
        previous=_before(since, end, since - 24 * _HOUR, now),
    )  # fmt: skip


def _days(
    name: str | None, label: str, first: date, last: date, tz: str, zone: tzinfo, now: int
) -> Range:
    since, end = midnight(first, zone), midnight(last + _DAY, zone)
    if since == end:
        raise BadParameterError(f"{tz} has never had the day {first}: the date line was moved")
    earlier = midnight(first - (last + _DAY - first), zone)
    return Range(
        name=name, label=label, tz=tz, zone=zone, now=now, first=first, last=last,
        span=Span(since=since, until=end), end=end, previous=_before(since, end, earlier, now),
    )  # fmt: skip


def _before(since: int, end: int, earlier: int, now: int) -> Span:
    if end <= now:
        return Span(since=earlier, until=since)
    passed = -(-(now - since) // _QUARTER) * _QUARTER
    return Span(since=earlier, until=min(earlier + passed, since))


def today_of(asked: Range) -> Span:
    """The day in which we are."""
    day = today(asked.now, asked.zone)
    return Span(since=midnight(day, asked.zone), until=midnight(day + _DAY, asked.zone))


@dataclass(frozen=True, slots=True)
class Steps:
    """A time in pieces: hours, days, or weeks."""

    kind: str
    bounds: Sequence[int]


def steps_of(asked: Range, first_at: int | None) -> Steps:
    """`first_at` is when the first record was made; it is where all time begins."""
    since = asked.span.since
    if since is None:
        first = today(min(asked.now if first_at is None else first_at, asked.now), asked.zone)
    else:
        first = asked.first or asked.last
    days = (asked.last - first).days + 1
    if asked.name == "24h" or (days <= 2 and since is not None):
        return Steps("hour", [*range(since or 0, asked.end, _HOUR), asked.end])
    if days <= _MOST_DAYS:
        midnights = (midnight(first + i * _DAY, asked.zone) for i in range(days + 1))
        return Steps("day", list(dict.fromkeys(midnights)))  # a zone may have left out a day
    step = 7 * -(-days // (7 * _MOST_STEPS)) * _DAY
    starts = takewhile(lambda day: day <= asked.last, (first + i * step for i in count()))
    return Steps("week", [*(midnight(day, asked.zone) for day in starts), asked.end])


def step_label(kind: str, start: int, zone: tzinfo) -> str:
    """What an axis calls a step."""
    at = datetime_of(start).astimezone(zone)
    if kind == "hour":
        return f"{at:%H:%M}"
    return f"{at.day} {at:%b}" if kind == "day" else f"{at.day} {at:%b %Y}"


def _iso(span: Span) -> Row:
    return {
        "since": None if span.since is None else iso_of(span.since),
        "until": None if span.until is None else iso_of(span.until),
    }
