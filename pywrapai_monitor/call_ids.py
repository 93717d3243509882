"""The ids of calls."""

from __future__ import annotations

import time
from secrets import randbits


def new_call_id() -> str:
    """A UUID of version 7 in hex. They rise with time, so that an index of them grows at its end
    and nowhere else.
    """
    milliseconds = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
    head = milliseconds << 16 | 0x7000 | randbits(12)
    return f"{head << 64 | 0b10 << 62 | randbits(62):032x}"
