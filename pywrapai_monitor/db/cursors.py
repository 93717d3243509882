"""Where a list goes on, as text that its reader hands back: the key of the last row of a page."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from pywrapai_monitor.db import codec
from pywrapai_monitor.db.tables import KEY_LENGTH

_LONGEST = 8 * KEY_LENGTH * 4
_HIGHEST = 2**63 - 1


def encode(*values: int | str) -> str:
    """A key as a cursor."""
    text = json.dumps(values, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, *kinds: type) -> list[Any]:
    """The key again. ValueError if the text is no cursor of values of these types."""
    values = _values(cursor)
    if len(values) != len(kinds) or not all(map(_fits, values, kinds)):
        raise _wrong(cursor)
    return values


def _values(cursor: str) -> list[Any]:
    if not isinstance(cursor, str) or len(cursor) > _LONGEST:
        raise _wrong(cursor)
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as exc:
        raise _wrong(cursor) from exc
    if not isinstance(values, list):
        raise _wrong(cursor)
    return values


def _fits(value: Any, kind: type) -> bool:
    if type(value) is not kind:
        return False
    if isinstance(value, str):
        return len(value) <= KEY_LENGTH and codec.readable(value) == value
    return isinstance(value, int) and abs(value) <= _HIGHEST


def _wrong(cursor: object) -> ValueError:
    return ValueError(f"cursor must be what the page before said in `next`, not {cursor!r:.80}")
