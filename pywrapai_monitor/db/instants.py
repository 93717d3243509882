"""Times as numbers and as text, for those who know no SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_of(micros: int) -> str:
    """Microseconds since 1970 as "2026-11-30T18:00:00.000000Z"."""
    moment = EPOCH + timedelta(microseconds=micros)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def micros_of(text: str) -> int:
    """The other way; a time without a zone is in UTC. ValueError."""
    return micros_at(datetime.fromisoformat(text))


def micros_at(moment: datetime) -> int:
    """A time without a zone is in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // MICROSECOND


def datetime_of(micros: int) -> datetime:
    """In UTC."""
    return EPOCH + timedelta(microseconds=micros)
