"""The figures of `Analytics`, out of the running totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    desc,
    func,
    or_,
    select,
    union_all,
)

from pywrapai_monitor.db import buckets, codec, cursors
from pywrapai_monitor.db.analytics import Page, Span
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.buckets import ALL_TIME, USERS, Range
from pywrapai_monitor.db.latency import percentiles
from pywrapai_monitor.db.sql_sums import Histogram, Summed
from pywrapai_monitor.db.tables import (
    latency_totals,
    session_totals,
    token_records,
    tool_totals,
    usage_totals,
    user_totals,
)

_TOKENS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip
_COUNTS = ("calls", "errors", "unpriced", "cached")
_TIMES = ("duration_ms", "cached_ms")
_AMOUNTS = (*_COUNTS, *_TOKENS, "cost", *_TIMES)
_Amounts: TypeAlias = dict[str, Any]
_SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}

_session, _record, _user, _tool = session_totals.c, token_records.c, user_totals.c, tool_totals.c

_BY_KIND = Summed(usage_totals, ("kind",), _AMOUNTS)
_BY_MODEL = Summed(usage_totals, ("model", "provider", "kind"), _AMOUNTS)
_BY_BIN = Histogram(latency_totals, "bin", "calls")


def figures(conn: Connection, span: Span) -> Row:
    """Of one time."""
    by_kind = _BY_KIND.of(conn, span)
    return {
        **_figures(
            [(kind, _amounts(sums)) for (kind,), sums in by_kind.items()], _BY_BIN.of(conn, span)
        ),
        "users": int(conn.execute(_number_of_users(span)).scalar_one()),
        "sessions": int(conn.execute(_number_of_sessions(span)).scalar_one()),
    }


def series(conn: Connection, bounds: Sequence[int]) -> list[Row]:
    """Of each step between two bounds."""
    number_of = range(len(bounds) - 1)
    usage: dict[int, list[tuple[tuple[str, str, str], _Amounts]]] = {n: [] for n in number_of}
    for (step, *what), sums in _BY_MODEL.steps(conn, bounds).items():
        model, provider, kind = what
        usage[step].append(((model, provider, kind), _amounts(sums)))
    bins = _BY_BIN.steps(conn, bounds)
    return [
        {
            **_figures([(kind, amounts) for (_, _, kind), amounts in usage[n]], bins[n]),
            "models": _models_of_step(usage[n]),
        }
        for n in number_of
    ]


def _amounts(sums: Sequence[Any]) -> _Amounts:
    found = dict(zip(_AMOUNTS, sums, strict=True))
    return {name: v if name in _TIMES else int(v) for name, v in found.items()}


def _figures(by_kind: Iterable[tuple[str, _Amounts]], bins: Mapping[int, int]) -> Row:
    of_all, of_calls = dict.fromkeys(_AMOUNTS, 0), dict.fromkeys(_AMOUNTS, 0)
    for kind, amounts in by_kind:
        for total in (of_all, of_calls) if kind == "chat" else (of_all,):
            for name in _AMOUNTS:
                total[name] += amounts[name]
    shares = percentiles(bins, list(_SHARES.values()))
    return {
        "calls": of_calls["calls"],
        "errors": of_calls["errors"],
        "cached_calls": of_calls["cached"],
        "unpriced_calls": of_calls["unpriced"],
        "embeddings": of_all["calls"] - of_calls["calls"],
        "cost_usd": codec.cost_usd(of_all["cost"]),
        **{name: of_all[name] for name in _TOKENS},
        "total_tokens": of_all["input_tokens"] + of_all["output_tokens"],
        "avg_duration_ms": _latency(of_calls),
        **dict(zip(_SHARES, shares, strict=True)),
    }


def _latency(amounts: _Amounts) -> float | None:
    """The mean of what the cache did not answer."""
    return mean(amounts["duration_ms"] - amounts["cached_ms"], amounts["calls"] - amounts["cached"])


def mean(total_ms: float, number: int) -> float | None:
    """None of nothing; rounding that a purge left behind never shows as a negative duration."""
    return max(float(total_ms), 0.0) / number if number > 0 else None


def _models_of_step(usage: Sequence[tuple[tuple[str, str, str], _Amounts]]) -> list[Row]:
    rows: dict[tuple[str, str], Row] = {}
    costs: dict[tuple[str, str], int] = {}
    for (model, provider, kind), amounts in usage:
        if amounts["calls"] <= 0:
            continue
        of = (model, provider)
        row = rows.setdefault(of, {"model": model, "provider": provider, "calls": 0, "errors": 0})
        costs[of] = costs.get(of, 0) + amounts["cost"]
        row["cost_usd"] = codec.cost_usd(costs[of])
        if kind == "chat":
            row["calls"] += amounts["calls"]
            row["errors"] += amounts["errors"]
    return sorted(rows.values(), key=_dearest_first)


def _dearest_first(row: Row) -> tuple[float, int, str, str]:
    return -row["cost_usd"], -row["calls"], row["model"], row["provider"]


def models(conn: Connection, span: Span) -> list[Row]:
    """Per model and kind of record."""
    rows = []
    for (model, provider, kind), sums in _BY_MODEL.of(conn, span).items():
        amounts = _amounts(sums)
        if amounts["calls"] > 0:
            rows.append({
                "model": model,
                "provider": provider,
                "kind": kind,
                "calls": amounts["calls"],
                "errors": amounts["errors"],
                "unpriced_calls": amounts["unpriced"],
                "cached_calls": amounts["cached"],
                **{name: amounts[name] for name in _TOKENS},
                "cost_usd": codec.cost_usd(amounts["cost"]),
                "avg_duration_ms": _latency(amounts),
            })  # fmt: skip
    return sorted(rows, key=lambda row: (*_dearest_first(row), row["kind"]))


_OF_TOOL = ("calls", "errors", "timed", "duration_ms")
_BY_TOOL = Summed(tool_totals, ("tool_name",), _OF_TOOL)


def tools(conn: Connection, span: Span) -> list[Row]:
    """Per tool."""
    rows = []
    for (tool,), sums in _BY_TOOL.of(conn, span).items():
        calls, errors, timed = map(int, sums[:3])
        if calls > 0:
            rows.append({
                "tool_name": tool,
                "calls": calls,
                "successes": calls - errors,
                "errors": errors,
                "avg_duration_ms": mean(sums[3], timed) or 0.0,
            })  # fmt: skip
    return sorted(rows, key=lambda row: (-row["calls"], row["tool_name"]))


def in_span(span: Span) -> list[ColumnElement[bool]]:
    """The conditions for sessions that began, were last used or had calls in a time."""
    found: list[ColumnElement[bool]] = [_session.row_count > 0]
    if span == Span():
        return found
    since, until = buckets.quarters(span.since, span.until)
    found += [_session.last_at >= since, _session.first_at < until]
    if span.since is not None and span.until is not None:
        sure = _session.last_at < until, _session.first_at >= since
        found.append(or_(*sure, _had_calls(since, until)))
    return found


def _had_calls(since: int, until: int) -> ColumnElement[bool]:
    # Not "exists", for which PostgreSQL reads all calls of the time where it stands behind an "or".
    first = (
        select(_record.id)
        .where(
            _record.user_id == _session.user_id,
            _record.session_id == _session.session_id,
            _record.created_at >= since,
            _record.created_at < until,
        )
        .limit(1)
    )
    return first.correlate(session_totals).scalar_subquery().is_not(None)


def _number_of_sessions(span: Span) -> Select[Any]:
    return select(func.count()).select_from(session_totals).where(*in_span(span))


# Users

_OF_USER = ("records", "calls", "errors", "total_tokens", "cost")


def users(conn: Connection, span: Span, limit: int, cursor: str | None) -> Page:
    """Per user, a page of them."""
    of_user = _of_users(span).subquery()
    found = of_user.c
    page = select(of_user).order_by(desc(found.cost), desc(found.calls), found.user_id)
    if cursor is not None:
        cost, calls, user_id = cursors.decode(cursor, int, int, str)
        same = and_(found.calls == calls, found.user_id > user_id)
        page = page.where(
            or_(found.cost < cost, and_(found.cost == cost, or_(found.calls < calls, same)))
        )
    rows = conn.execute(page.limit(limit + 1)).mappings().all()
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]
        following = cursors.encode(int(last["cost"]), int(last["calls"]), last["user_id"])
    return Page(rows=[_user_row(row) for row in rows[:limit]], next=following)


def _user_row(row: Any) -> Row:
    return {
        "user_id": row["user_id"],
        "calls": int(row["calls"]),
        "errors": int(row["errors"]),
        "total_tokens": int(row["total_tokens"]),
        "cost_usd": codec.cost_usd(row["cost"]),
    }


def _of_users(span: Span) -> Select[Any]:
    """Who has records in a time, and their sums."""
    columns = [_user.user_id, *(func.sum(_user[name]).label(name) for name in _OF_USER)]
    when, rest = _pieces(span)
    parts = [select(*columns).where(part).group_by(_user.user_id) for part in when]
    added = union_all(*parts, *(_records_of_users(*ends) for ends in rest)).subquery()
    return (
        select(added.c.user_id, *(func.sum(added.c[name]).label(name) for name in _OF_USER))
        .group_by(added.c.user_id)
        .having(func.sum(added.c.records) > 0)
    )


def _number_of_users(span: Span) -> Select[Any]:
    """How many have records in a time."""
    when, rest = _pieces(span)
    parts = [select(_user.user_id).where(part, _user.records > 0) for part in when]
    at = _record.created_at
    parts += [select(_record.user_id).where(at >= since, at < until) for since, until in rest]
    # Not "count distinct", for which PostgreSQL sorts them.
    each = select(union_all(*parts).subquery().c.user_id).distinct()
    return select(func.count()).select_from(each.subquery())


def _pieces(span: Span) -> tuple[list[ColumnElement[bool]], Sequence[Range]]:
    """A time as conditions for ranges of buckets, and as what is left of it at its ends."""
    cover = buckets.cover(*buckets.quarters(span.since, span.until), USERS)
    ranges = [pair for some in cover.buckets.values() for pair in some]
    if not ranges and not cover.rest:
        ranges = [(ALL_TIME, ALL_TIME + 1)]  # which users have none of
    return [_user.bucket.between(first, last - 1) for first, last in ranges], cover.rest


def _records_of_users(since: int, until: int) -> Any:
    is_call = _record.kind == "chat"
    failed = and_(is_call, _record.status == "error")
    return (
        select(
            _record.user_id,
            func.count().label("records"),
            func.sum(case((is_call, 1), else_=0)).label("calls"),
            func.sum(case((failed, 1), else_=0)).label("errors"),
            func.sum(_record.input_tokens + _record.output_tokens).label("total_tokens"),
            func.sum(_record.cost).label("cost"),
        )
        .where(_record.created_at >= since, _record.created_at < until)
        .group_by(_record.user_id)
    )
