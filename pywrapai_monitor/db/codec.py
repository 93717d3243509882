"""What goes into a column and what comes out of it: readable text, JSON, money, times, counts.

Everything here accepts whatever a model, a tool or a user can produce. Only an id that does not
fit is refused, because cutting it would merge two users.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from pywrapai_monitor.db.instants import iso_of, micros_of
from pywrapai_monitor.db.tables import COST_UNITS, KEY_LENGTH

_LAST_MICROS = 253_402_300_799_999_999  # the end of the year 9999
_MAX_COUNT = 10**12  # per row; a thousand times any real call, and sums stay within 64 bits
_MAX_COST_USD = 1e6
_MAX_DEPTH = 50
_MAX_BITS = 10_000  # Python refuses to write out much longer numbers in decimals


def readable(text: str) -> str:
    r"""Text that every database takes: NUL becomes "␀", a lone surrogate its escape (`\ud83d`)."""
    if "\x00" in text:
        text = text.replace("\x00", "␀")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def readable_or_none(text: str | None) -> str | None:
    """The same, where a column may be empty."""
    return None if text is None else readable(text)


def key(field: str, value: str) -> str:
    """An id as it is stored and looked up. ValueError if it is longer than the column."""
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a str, not {type(value).__name__}")
    text = readable(value)
    if len(text) > KEY_LENGTH:
        raise ValueError(
            f"{field} has {len(text)} characters and at most {KEY_LENGTH} can be stored: "
            f"use a shorter one, or a hash of it"
        )
    return text


def label(text: str, limit: int = KEY_LENGTH) -> str:
    """A name that we did not choose; too long a one is cut visibly and stays distinct."""
    text = readable(text)
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: limit - 9]}…{digest}"


def label_or_none(text: str | None, limit: int = KEY_LENGTH) -> str | None:
    """The same, where a column may be empty."""
    return None if text is None else label(text, limit)


def count(number: int | None) -> int:
    """A number of tokens; None is 0, and nonsense is brought within bounds."""
    if type(number) is int and 0 <= number <= _MAX_COUNT:
        return number
    return min(max(int(number or 0), 0), _MAX_COUNT)


def milliseconds(duration: float) -> float:
    """A duration; NaN and infinity, which no database stores alike, are 0."""
    return float(duration) if math.isfinite(duration) else 0.0


def milliseconds_or_none(duration: float | None) -> float | None:
    """The same, where a column may be empty."""
    return None if duration is None else milliseconds(duration)


def cost_units(cost_usd: float) -> int:
    """USD as whole units of `1 / COST_UNITS`."""
    return round(max(-_MAX_COST_USD, min(cost_usd, _MAX_COST_USD)) * COST_UNITS)


def cost_usd(units: int) -> float:
    """The other way."""
    return int(units) / COST_UNITS


def moment(micros: int) -> int:
    """A time, brought within those that can be written as a date."""
    return min(max(int(micros), 0), _LAST_MICROS)


def iso_time(micros: int) -> str:
    """ "2026-11-30T18:00:00.000000Z"."""
    return iso_of(int(micros))


def iso_time_or_none(micros: int | None) -> str | None:
    """The same, where there is nothing yet."""
    return None if micros is None else iso_time(micros)


def micros(field: str, text: str) -> int:
    """A time that somebody gave, as ISO 8601, in UTC unless it says otherwise. ValueError."""
    try:
        return micros_of(text)
    except (TypeError, ValueError) as exc:
        raise ValueError(
            f"{field} must be a time as '2026-11-30' or '2026-11-30T18:00:00Z', not {text!r:.80}"
        ) from exc


def to_json(value: Any) -> str:
    """Valid JSON for any value: NaN becomes "NaN", an odd object its repr, a cycle is cut."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_repr)
    except (TypeError, ValueError, RecursionError):
        return _dump_plain(value)
    if "\\u0000" in text or readable(text) is not text:
        return _dump_plain(value)
    return text


def from_json(text: str | None) -> Any:
    """What was stored; None where the column is empty. ValueError if it is no JSON."""
    return None if text is None else json.loads(text)


def _dump_plain(value: Any) -> str:
    return json.dumps(_plain(value, ()), ensure_ascii=False, allow_nan=False)


def _plain(value: Any, path: tuple[int, ...]) -> Any:
    """The value in JSON's own types; `path` holds the ids of the containers around it."""
    match value:
        case str():
            return readable(value)
        case dict() | list() | tuple() if id(value) in path or len(path) == _MAX_DEPTH:
            return "…"
        case dict():
            inner = (*path, id(value))
            return {_plain_name(name): _plain(item, inner) for name, item in value.items()}
        case list() | tuple():
            inner = (*path, id(value))
            return [_plain(item, inner) for item in value]
        case int() if value.bit_length() > _MAX_BITS:
            return hex(value)
        case float() if not math.isfinite(value):
            return _FLOAT_NAMES.get(value, "NaN")
        case None | int() | float():
            return value
        case _:
            return _repr(value)


_FLOAT_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _plain_name(name: Any) -> str:
    return readable(name) if isinstance(name, str) else _repr(name)


def _repr(value: Any) -> str:
    try:
        return readable(repr(value))
    except Exception:  # the repr is somebody else's code, and the record matters more
        return f"<{type(value).__name__}>"
