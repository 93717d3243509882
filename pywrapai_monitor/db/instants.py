"""Times as microseconds since 1970, as ISO 8601 text and as datetimes in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_of(micros: int) -> str:
    """Microseconds since 1970 as "2026-11-30T18:00:00.000000Z"."""
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def micros_of(text: str) -> int:
    """The other way; a time without a zone is in UTC. ValueError if the text is no time."""
    return micros_at(datetime.fromisoformat(text))


def micros_at(moment: datetime) -> int:
    """Microseconds since 1970 of a datetime; one without a zone is in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def datetime_of(micros: int) -> datetime:
    """Microseconds since 1970 as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=micros)
