"""Whether the database can be read, and what waits outside of it."""

from __future__ import annotations

import logging
import time

from pywrapai_monitor.dashboard.params import Values
from pywrapai_monitor.dashboard.source import Source
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.instants import iso_of

log = logging.getLogger(__name__)


def status(source: Source, values: Values) -> Row:
    """Answers also while the database is away."""
    start = time.perf_counter()
    about = _about(source)
    took_ms = (time.perf_counter() - start) * 1000
    counts, counted_in = source.outside() or (None, None)
    return {
        "status": "error" if about is None else "ok",
        "database_status": "error" if about is None else "ok",
        **(about or dict.fromkeys(("database", "schema_version", "size_bytes"))),
        "location": source.store.location,
        "counts": counts,
        "counted_in": counted_in,
        "answered_in_ms": took_ms if about else None,
        "read_now_at": iso_of(source.now),
    }


def _about(source: Source) -> Row | None:
    try:
        return source.analytics.about()
    except NotImplementedError:
        return _probed(source)
    except Exception as error:  # whatever a store raises, the answer is that it does not work
        log.warning("the store cannot be read: %s", error)
        return None


def _probed(source: Source) -> Row | None:
    try:
        source.store.get_recent_queries(1)
    except Exception as error:
        log.warning("the store cannot be read: %s", error)
        return None
    return dict.fromkeys(("database", "schema_version", "size_bytes"))


def health(source: Source) -> Row:
    """Words and numbers for a load balancer, and nothing that tells who or where."""
    try:
        source.store.get_recent_queries(1)
        word = "ok"
    except Exception as error:
        log.warning("the store failed its health check: %s", error)
        word = "error"
    counts, _ = source.outside() or ({}, None)
    told = {name: counts.get(name) for name in ("queued", "spooled", "lost")}
    known = {name: number for name, number in told.items() if number is not None}
    return {"status": word, "database": word, **known}
