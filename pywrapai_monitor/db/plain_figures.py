"""Sums and percentiles of token records that are at hand, as `Analytics` has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.latency import percentile

TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


def figures_of(records: Sequence[Row]) -> Row:
    """What `Analytics.series` has for a step, but for `models`."""
    chats = [record for record in records if _is_chat(record)]
    durations = sorted(_number(each, "duration_ms") for each in chats if not each.get("cached"))
    return {
        "calls": len(chats),
        "errors": _errors(chats),
        "cached_calls": _count(chats, "cached"),
        "unpriced_calls": sum(not each.get("priced", True) for each in chats),
        "embeddings": len(records) - len(chats),
        "cost_usd": _cost(records),
        **_tokens(records),
        "total_tokens": total_tokens(records),
        "avg_duration_ms": sum(durations) / len(durations) if durations else None,
        "p50_ms": percentile(durations, 0.50),
        "p95_ms": percentile(durations, 0.95),
        "p99_ms": percentile(durations, 0.99),
    }


def models_of(records: Iterable[Row]) -> list[Row]:
    """What `Analytics.models` has."""
    rows = []
    for (model, provider, kind), some in grouped(records, "model", "provider", "kind").items():
        durations = [_number(each, "duration_ms") for each in some if not each.get("cached")]
        rows.append(
            {
                "model": model,
                "provider": provider,
                "kind": kind,
                "calls": len(some),
                "errors": _errors(some),
                "unpriced_calls": sum(not each.get("priced", True) for each in some),
                "cached_calls": _count(some, "cached"),
                **_tokens(some),
                "cost_usd": _cost(some),
                "avg_duration_ms": sum(durations) / len(durations) if durations else None,
            }
        )
    return sorted(rows, key=lambda row: (-row["cost_usd"], -row["calls"], row["model"]))


def models_of_step(records: Iterable[Row]) -> list[Row]:
    """The `models` of a step."""
    rows = [
        {
            "model": model,
            "provider": provider,
            "calls": sum(map(_is_chat, some)),
            "errors": _errors(each for each in some if _is_chat(each)),
            "cost_usd": _cost(some),
        }
        for (model, provider), some in grouped(records, "model", "provider").items()
    ]
    return sorted(rows, key=lambda row: (-row["cost_usd"], -row["calls"], row["model"]))


def users_of(records: Iterable[Row]) -> list[Row]:
    """What `Analytics.users` has, of all users."""
    return [
        {
            "user_id": user,
            "calls": sum(map(_is_chat, some)),
            "errors": _errors(each for each in some if _is_chat(each)),
            "total_tokens": total_tokens(some),
            "cost_usd": _cost(some),
        }
        for (user,), some in grouped(records, "user_id").items()
    ]


def versions_of(records: Iterable[Row]) -> list[Row]:
    """What `Analytics.prompt_versions` has, of records that are newest first."""
    rows = []
    for (version,), some in sorted(grouped(records, "prompt_version").items()):
        figures = figures_of(some)
        newest = sorted(_number(each, "duration_ms") for each in some[:1000] if _timed(each))
        rows.append(
            {
                "version": version,
                **{name: figures[name] for name in ("calls", "errors", "cost_usd")},
                "avg_duration_ms": figures["avg_duration_ms"],
                "p95_ms": percentile(newest, 0.95),
            }
        )
    return rows


def grouped(records: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """The records by these fields, each group in their order; what is missing is ""."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for record in records:
        key = tuple(_kind(record) if n == "kind" else record.get(n) or "" for n in names)
        groups.setdefault(key, []).append(record)
    return groups


def total_tokens(records: Iterable[Row]) -> int:
    """Input and output."""
    return sum(_number(each, "input_tokens") + _number(each, "output_tokens") for each in records)


def _kind(record: Row) -> str:
    return record.get("kind") or "chat"


def _is_chat(record: Row) -> bool:
    return _kind(record) == "chat"


def _timed(record: Row) -> bool:
    return _is_chat(record) and not record.get("cached")


def _errors(records: Iterable[Row]) -> int:
    return sum(each.get("status") == "error" for each in records)


def _count(records: Iterable[Row], name: str) -> int:
    return sum(bool(each.get(name)) for each in records)


def _cost(records: Iterable[Row]) -> float:
    return float(sum(_number(each, "cost_usd") for each in records))


def _tokens(records: Sequence[Row]) -> dict[str, int]:
    return {name: sum(_number(each, name) for each in records) for name in TOKENS}


def _number(record: Row, name: str) -> Any:
    return record.get(name) or 0
