"""Any value as JSON values, for a reader."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any
from uuid import UUID

MAX_DEPTH = 50
MAX_INTEGER_BITS = 10_000
"""Python refuses to write longer ones in decimals."""

_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def plain(value: Any) -> Any:
    """The value as JSON values, for reading: not all of it can be told back from them.

    Models and dataclasses become objects, sets sorted lists, dates ISO texts, NaN "NaN", an object
    of an unknown kind its `repr`, and what contains itself "..." where it does.
    """
    return _plain(value, ())


def _plain(value: Any, within: tuple[int, ...]) -> Any:
    match value:
        case Enum():
            return _plain(value.value, within)
        case None | bool():
            return value
        case str():
            return str.__str__(value)  # of a subclass too, whatever its own says
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID() | PurePath() | timedelta():
            return str(value)
        case Integral() | Real():
            return _number(value)
        case bytes() | bytearray() | memoryview():
            return _text_in(bytes(value))
    if id(value) in within or len(within) >= MAX_DEPTH:
        return "..."
    return _whole(value, (*within, id(value)))


def _whole(value: Any, within: tuple[int, ...]) -> Any:
    """What has parts."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        value = dict(zip(value._fields, value, strict=True))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
    match value:
        case Mapping():
            return {_key(key): _plain(item, within) for key, item in value.items()}
        case list() | tuple() | deque():
            return [_plain(item, within) for item in value]
        case set() | frozenset():
            return sorted((_plain(item, within) for item in value), key=json.dumps)
    pydantic = sys.modules.get("pydantic")  # whoever has made a model has imported it
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return _plain(_dumped(value), within)
    return _shown(value)


def _dumped(model: Any) -> Any:
    with suppress(Exception):  # one that holds what its own serialisers cannot write
        return model.model_dump(mode="json", warnings=False, fallback=_shown)
    return _shown(model)


def _number(value: Any) -> int | float | str:
    if not isinstance(value, Integral):
        value = float(value)
        return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
    number = int(value)
    return number if number.bit_length() <= MAX_INTEGER_BITS else hex(number)


def _text_in(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"<{len(data)} bytes that are no text>"


def _key(key: Any) -> str:
    name = _plain(key, ())
    return name if isinstance(name, str) else json.dumps(name, ensure_ascii=False)


def _shown(value: Any) -> str:
    """Its `repr`, without the address in memory that Python's own has."""
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__:
        return f"<{kind.__qualname__}>"
    try:
        return repr(value)
    except Exception as error:
        return f"<{kind.__qualname__}: its repr failed with {type(error).__name__}>"
