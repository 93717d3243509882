"""The parameters of a URL: each is declared once, and is parsed and described out of that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Protocol, TypeAlias

from pywrapai_monitor.db.days import time_zone

MAX_ID = 191
"""As many characters as an id may have in the database."""
MAX_ROW_ID = 2**53 - 1
MAX_CURSOR = 8000
MAX_TEXT = 200
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2999, 12, 31)

Schema: TypeAlias = dict[str, Any]
Values: TypeAlias = dict[str, Any]


class BadParameterError(ValueError):
    """A query parameter is missing, unknown or not what it has to be."""


class Arguments(Protocol):
    """What a query string says."""

    def getlist(self, key: str, /) -> list[str]:
        """All values of one name."""

    def keys(self) -> Iterable[str]:
        """The names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter. `read` says None for what is not `expected`."""

    name: str
    what: str
    expected: str
    schema: Schema
    read: Callable[[str], Any]
    default: Any = None
    required: bool = False

    def needed(self) -> Param:
        """The same, but it has to be given."""
        return replace(self, required=True)

    def value(self, given: str) -> Any:
        """What a text means. BadParameterError if nothing."""
        if (value := self.read(given)) is None:
            raise BadParameterError(f"{self.name} must be {self.expected}, not {excerpt(given)}")
        return value


def parse(params: Sequence[Param], args: Arguments, *, blank_is_none: bool = False) -> Values:
    """The value of each parameter, or its default. BadParameterError.

    `blank_is_none` takes an empty value for none, as the fields of a form that were left empty.
    """
    by_name = {param.name: param for param in params}
    values: Values = {}
    for name in args.keys():  # noqa: SIM118  # it is no dict
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise BadParameterError(f"unknown parameter {excerpt(name)}: known here are {known}")
        given = args.getlist(name)
        if len(given) > 1:
            raise BadParameterError(f"{name} must be given once, not {len(given)} times")
        if given[0] or not blank_is_none:
            values[name] = _read(by_name[name], given[0])
    for param in params:
        if param.name not in values:
            if param.required:
                raise _missing(param)
            values[param.name] = param.default
    return values


def _read(param: Param, given: str) -> Any:
    if not given and param.schema.get("minLength"):
        raise _missing(param)
    return param.value(given)


def _missing(param: Param) -> BadParameterError:
    return BadParameterError(
        f"{param.name} must be given and not be empty: ?{param.name}=..."
        if param.required
        else f"{param.name} must not be empty: leave it out"
    )


def excerpt(text: str) -> str:
    """A text as an error quotes it."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


# The kinds of parameters


def whole(name: str, what: str, highest: int, default: int | None = None) -> Param:
    """A whole number from 1 on."""

    def read(given: str) -> int | None:
        fits = re.fullmatch("[0-9]{1,19}", given) and 1 <= int(given) <= highest
        return int(given) if fits else None

    schema = {"type": "integer", "minimum": 1, "maximum": highest}
    if default is not None:
        schema["default"] = default
    expected = f"a whole number from 1 to {highest}"
    return Param(name=name, what=what, expected=expected, schema=schema, read=read, default=default)


def text(name: str, what: str, longest: int = MAX_ID) -> Param:
    """A text that is not empty."""
    return Param(
        name=name,
        what=what,
        expected=f"a text of at most {longest} characters",
        schema={"type": "string", "minLength": 1, "maxLength": longest},
        read=lambda given: given if len(given) <= longest else None,
    )


def one_of(name: str, what: str, options: Sequence[str], default: str | None = None) -> Param:
    """One of a few words."""
    schema: Schema = {"type": "string", "enum": list(options)}
    if default is not None:
        schema["default"] = default
    return Param(
        name=name,
        what=what,
        expected=f"one of {', '.join(options)}",
        schema=schema,
        read=lambda given: given if given in options else None,
        default=default,
    )


def flag(name: str, what: str) -> Param:
    """1, or not given."""
    return Param(
        name=name,
        what=what,
        expected="1, or left out",
        schema={"type": "string", "enum": ["1"]},
        read=lambda given: True if given == "1" else None,
        default=False,
    )


def cursor() -> Param:
    """Where a list goes on."""
    what = "The list goes on where the page before said in `next`."
    return text("cursor", what, MAX_CURSOR)


def limit(default: int = 50, highest: int = 200) -> Param:
    """How many rows a page has."""
    return whole("limit", "How many rows.", highest, default)


def row_id(name: str, what: str) -> Param:
    """The id of a row."""
    return whole(name, what, MAX_ROW_ID)


def day(name: str, what: str) -> Param:
    """A date."""

    def read(given: str) -> date | None:
        if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", given):
            return None
        try:
            found = date.fromisoformat(given)
        except ValueError:
            return None
        return found if FIRST_DAY <= found <= LAST_DAY else None

    return Param(
        name=name,
        what=what,
        expected=f"a date from {FIRST_DAY} to {LAST_DAY}",
        schema={"type": "string", "format": "date"},
        read=read,
    )


def zone() -> Param:
    """A time zone."""

    def read(given: str) -> str | None:
        try:
            time_zone(given)
        except ValueError:
            return None
        return given

    return Param(
        name="tz",
        what="The IANA time zone in which days begin; that of the server if not given.",
        expected="an IANA time zone such as Europe/Brussels or UTC",
        schema={"type": "string", "minLength": 1, "examples": ["Europe/Brussels", "UTC"]},
        read=read,
    )


RANGES: Mapping[str, str] = {
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
    "all": "All time",
}
FRAME = (
    one_of("range", "Which time; 7d if neither it nor dates are given.", list(RANGES)),
    day("from", "The first day in `tz`, instead of `range`."),
    day("to", "The last day in `tz`; today if not given."),
    zone(),
)
"""What every page takes, so that links can keep it."""
