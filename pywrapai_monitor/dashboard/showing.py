"""How numbers, times and ids are written on a page; a dash where nothing is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import wraps
from typing import Any

from jinja2 import Undefined
from markupsafe import Markup

from pywrapai_monitor.dashboard.json_text import dumps
from pywrapai_monitor.db.days import time_zone
from pywrapai_monitor.db.instants import datetime_of, micros_of

NOTHING = "\u2013"
_MINUS = "\u2212"


def _known(write: Callable[..., str]) -> Callable[..., str]:
    """Of what is not known, and of what is no number, nothing is written."""

    @wraps(write)
    def written(value: Any, *more: Any) -> str:
        if value is None or isinstance(value, Undefined) or _endless(value):
            return NOTHING
        return write(value, *more)

    return written


def _endless(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


@_known
def usd(value: float) -> str:
    """ "$12.50", and of less than a cent the first three digits: "$0.000312"."""
    sign, value = (_MINUS, -value) if value < 0 else ("", value)
    if value == 0 or value >= 0.995:
        return f"{sign}${value:,.2f}"
    if value >= 0.01:
        return f"{sign}${value:.3f}"
    places = min(2 - math.floor(math.log10(value)), 10)
    text = f"{value:.{places}f}".rstrip("0")
    return f"{sign}${text}" if float(text) else f"{sign}<$0.0000000001"


@_known
def count(value: float) -> str:
    """ "12,345"."""
    return f"{value:,.0f}"


@_known
def compact(value: float) -> str:
    """ "1.2M"; what is below ten thousand in full."""
    if abs(value) < 10_000:
        return count(value)
    for unit, word in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= unit * 0.99995:
            return f"{value / unit:.1f}".removesuffix(".0") + word
    return count(value)


@_known
def ms(value: float) -> str:
    """ "840 ms", "1.23 s", "2 min 5 s"."""
    if value < 9.95:
        return f"{value:.1f} ms".replace(".0 ", " ")
    if value < 999.5:
        return f"{value:.0f} ms"
    seconds = value / 1000
    if seconds < 99.5:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60:,} h {minutes % 60} min"


@_known
def percent(value: float) -> str:
    """ "1.2%"."""
    return _percent(value)


def _percent(value: float) -> str:
    if value and abs(value) < 0.0005:
        return "<0.1%"
    return f"{value * 100:,.1f}".removesuffix(".0") + "%"


@_known
def change(value: float) -> str:
    """ "+12.3%"."""
    return f"{_sign(value, 0.0005)}{abs(value) * 100:,.1f}%"


@_known
def points(value: float) -> str:
    """A difference of two shares: "+1.0 pts"."""
    return f"{_sign(value, 0.0005)}{abs(value) * 100:,.1f} pts"


def _sign(value: float, least: float) -> str:
    if abs(value) < least:
        return "±"
    return "+" if value > 0 else _MINUS


@_known
def size(value: float) -> str:
    """ "1.5 KB", of 1,024 bytes each."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1023.5:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TB"


@_known
def short(value: object, longest: int = 16) -> str:
    """An id, cut in the middle."""
    text = str(value)
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - head - 1) :]}"


def chart_json(value: Any) -> Markup:
    """JSON for the inside of a `<script type="application/json">`."""
    text = dumps(value).encode("utf-8", "backslashreplace").decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # nothing in it can end the element


FILTERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        usd, count, compact, ms, percent, change, points, size, short, chart_json,
    )
}  # fmt: skip


class Times:
    """Times in the zone of a request."""

    def __init__(self, tz: str, now: int) -> None:
        self._zone: tzinfo = time_zone(tz)
        self._now = now

    def time(self, text: str | None) -> str:
        """ "2026-11-30 19:00:05"."""
        return self._written(text, lambda at: f"{at:%Y-%m-%d %H:%M:%S}")

    def clock(self, text: str | None) -> str:
        """ "19:00:05"."""
        return self._written(text, lambda at: f"{at:%H:%M:%S}")

    def day(self, text: str | None) -> str:
        """ "30 Nov 2026"."""
        return self._written(text, lambda at: f"{at.day} {at:%b %Y}")

    def ago(self, text: str | None) -> str:
        """ "5 min ago", or "in 3 days" where a clock is ahead; the day, if that is far away."""
        if text is None:
            return NOTHING
        seconds = (self._now - micros_of(text)) / 1e6
        if -60 < seconds < 5:  # clocks differ a little
            return "now"
        if abs(seconds) >= 30 * 86_400:
            return self.day(text)
        return f"{_length(seconds)} ago" if seconds > 0 else f"in {_length(-seconds)}"

    def _written(self, text: str | None, write: Callable[[datetime], str]) -> str:
        if text is None:
            return NOTHING
        return write(datetime_of(micros_of(text)).astimezone(self._zone))


def _length(seconds: float) -> str:
    for unit, word, until in ((1, "s", 90), (60, "min", 5400), (3600, "h", 172_800)):
        if seconds < until:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds / 86_400:.0f} days"
