"""What `Analytics` tells of the versions of a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, or_, select, text

from pywrapai_monitor.db import buckets, codec
from pywrapai_monitor.db.analytics import Span
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.latency import percentile
from pywrapai_monitor.db.sql_figures import mean
from pywrapai_monitor.db.sql_sums import Summed
from pywrapai_monitor.db.tables import PROMPTED, prompt_totals, token_records

_NEWEST = 1000
_SUMS = ("calls", "errors", "cost", "timed", "duration_ms")

_record = token_records.c
_BY_VERSION = Summed(
    prompt_totals, ("prompt_version",), _SUMS, prompt_totals.c.prompt_name == bindparam("prompt")
)
_DURATIONS = (
    select(_record.duration_ms)
    .where(
        text(PROMPTED),
        _record.prompt_name == bindparam("prompt"),
        _record.created_at >= bindparam("since"),
        _record.created_at < bindparam("until"),
        _record.kind == "chat",
        ~_record.cached,
    )
    .order_by(_record.created_at.desc(), _record.id.desc())
    .limit(_NEWEST)
)
_VERSION = _record.prompt_version == bindparam("version")


def versions(conn: Connection, name: str, span: Span) -> list[Row]:
    """Per version with calls in a time."""
    rows = []
    for (version,), sums in sorted(_BY_VERSION.of(conn, span, prompt=name).items()):
        calls, errors, cost, timed = map(int, sums[:4])
        if calls > 0:
            rows.append({
                "version": version,
                "calls": calls,
                "errors": errors,
                "cost_usd": codec.cost_usd(cost),
                "avg_duration_ms": mean(sums[4], timed),
                "p95_ms": percentile(_durations(conn, name, version, span), 0.95),
            })  # fmt: skip
    return rows


def _durations(conn: Connection, name: str, version: str, span: Span) -> Sequence[float]:
    """Of the newest calls of a version, ascending."""
    since, until = buckets.quarters(span.since, span.until)
    nameless = or_(_record.prompt_version.is_(None), _VERSION)  # for which the totals have ""
    newest = _DURATIONS.where(_VERSION if version else nameless)
    asked = {"prompt": name, "version": version, "since": since, "until": until}
    return sorted(conn.execute(newest, asked).scalars())
