"""`Analytics` by the nineteen methods of a store alone: for stores that know no SQL.

It reads a bounded number of rows for each answer, and says NotImplementedError where more would be
needed. What such a store cannot tell is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise

from typing_extensions import override

from pywrapai_monitor.db.analytics import (
    Analytics,
    Body,
    BodyTable,
    CallFilter,
    Page,
    SessionFilter,
    Span,
    check_body,
)
from pywrapai_monitor.db.base import BaseStore, Row
from pywrapai_monitor.db.instants import micros_of
from pywrapai_monitor.db.plain_figures import (
    TOKENS,
    figures_of,
    models_of,
    models_of_step,
    users_of,
    versions_of,
)
from pywrapai_monitor.db.plain_pages import (
    NUMBER,
    TEXT,
    Key,
    encoded,
    following,
    paged,
    place_of,
    record_key,
    records_after,
)
from pywrapai_monitor.db.plain_texts import (
    cut_fields,
    excerpt,
    history_before,
    message_of,
    tools_of,
    whole_message_of,
)

_MOST_RECORDS = 20_000
_LATE = 100
_MOST_SESSIONS = 200
"""So many conversations are read for one answer."""
_MOST_PLACES = 10_000


class PlainAnalytics(Analytics):
    """Of any store; may be used by many threads at once."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self._places: dict[int, tuple[str, str]] = {}
        """In which sessions rows were seen, so that they are looked for there first."""

    # Figures

    @override
    def figures(self, span: Span) -> Row:
        if span == Span():
            return self._all_time()
        records = self._records(span, "the figures")
        return {
            **figures_of(records),
            "users": len({each["user_id"] for each in records}),
            "sessions": len({(each["user_id"], each["session_id"]) for each in records}),
        }

    def _all_time(self) -> Row:
        told = self._store.get_overview()
        names = ("cached_calls", *TOKENS, "p50_ms", "p95_ms", "p99_ms")
        return dict.fromkeys(names) | {
            name: value for name, value in told.items() if name not in ("first_at", "last_at")
        }

    @override
    def series(self, bounds: Sequence[int]) -> list[Row]:
        span = Span(since=bounds[0], until=bounds[-1])
        records = [(_at(each), each) for each in self._records(span, "the figures")]
        steps = [[r for at, r in records if low <= at < high] for low, high in pairwise(bounds)]
        return [{**figures_of(some), "models": models_of_step(some)} for some in steps]

    @override
    def models(self, span: Span) -> list[Row]:
        if span == Span():
            unknown: Row = dict.fromkeys(("cached_calls", *TOKENS))
            return [{**unknown, **row} for row in self._store.get_model_usage()]
        return models_of(self._records(span, "the models"))

    @override
    def users(self, span: Span, limit: int, cursor: str | None = None) -> Page:
        if span == Span():
            names = ("user_id", "calls", "errors", "total_tokens", "cost_usd")
            rows = [{name: row.get(name) for name in names} for row in self._store.get_users()]
        else:
            rows = users_of(self._records(span, "the users"))
        return paged(rows, _user_key, _USER_KEY, limit, cursor)

    @override
    def tools(self, span: Span) -> list[Row]:
        if span != Span():
            raise self._cannot("tell the tools of a time, only those of all time")
        return self._store.get_tool_usage()

    # Lists

    @override
    def calls(self, wanted: CallFilter, limit: int, cursor: str | None = None) -> Page:
        records, searched_to = self._newest(wanted)
        found = records_after(filter(_agrees_with(wanted), records), cursor)
        rows = [_listed(each) for each in islice(found, limit + 1)]
        if len(rows) > limit:
            last = rows[limit - 1]
            return Page(rows=rows[:limit], next=encoded(record_key(last)))
        return Page(rows=rows, searched_to=searched_to)

    def _newest(self, wanted: CallFilter) -> tuple[list[Row], str | None]:
        """The records to look through, newest first, and where they end too early."""
        if wanted.user_id and wanted.session_id:
            rows = self._store.get_session_token_records(wanted.user_id, wanted.session_id)
            return rows[::-1], None
        rows = self._store.get_recent_queries(_MOST_RECORDS)
        since = wanted.span.since
        if len(rows) < _MOST_RECORDS:
            return rows, None
        latest = max(rows[-_LATE:], key=_at)  # some were written late, after an outage
        return rows, latest["created_at"] if since is None or _at(latest) >= since else None

    @override
    def sessions(self, wanted: SessionFilter, limit: int, cursor: str | None = None) -> Page:
        rows = sorted(self._store.get_sessions(wanted.user_id), key=_session_key)
        rows = [row for row in rows if _overlaps(row, wanted.span)]
        if not wanted.text:
            return paged(rows, _session_key, _SESSION_KEY, limit, cursor)
        return self._found(wanted.text, following(rows, _session_key, _SESSION_KEY, cursor), limit)

    def _found(self, text: str, rows: Sequence[Row], limit: int) -> Page:
        found: list[Row] = []
        for number, row in enumerate(rows):
            if len(found) == limit or number == _MOST_SESSIONS:
                before = rows[number - 1]
                searched_to = before["last_at"] if len(found) < limit else None
                return Page(rows=found, next=encoded(_session_key(before)), searched_to=searched_to)
            if (where := self._where(text, row)) is not None:
                found.append({**row, **where})
        return Page(rows=found)

    def _where(self, text: str, session: Row) -> Row | None:
        for row in reversed(self._conversation(session["user_id"], session["session_id"])):
            if (around := excerpt(str(row["content"]), text)) is not None:
                return {"message_id": row["id"], "excerpt": around}
        ids = f"{session['user_id']}\n{session['session_id']}"
        return None if excerpt(ids, text) is None else dict.fromkeys(("message_id", "excerpt"))

    @override
    def session(self, user_id: str, session_id: str) -> Row:
        for row in self._store.get_sessions(user_id):
            if row["session_id"] == session_id:
                return row
        raise KeyError(f"no session {session_id!r} of user {user_id!r}")

    # Details

    @override
    def call(self, call_id: str, cut: int) -> Row:
        record = self._record(lambda each: each.get("call_id") == call_id)
        if record is None:
            raise KeyError(f"no call {call_id!r}")
        rows = self._rows_of(record)
        return {
            **record,
            **cut_fields(record, cut, "error_message", "partial"),
            "messages": [message_of(row, cut) for row in rows],
            "tools": tools_of(rows, cut),
            "feedback": self._feedback(record),
        }

    @override
    def messages(
        self,
        user_id: str,
        session_id: str,
        limit: int,
        cut: int,
        *,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Row]:
        rows = self._conversation(user_id, session_id)
        if before is not None:
            rows = rows[: place_of(rows, before, 0)]
        if after is not None:
            rows = rows[place_of(rows, after, -1) + 1 :][:limit]
        return [message_of(row, cut) for row in rows[-limit:]]

    @override
    def message(self, message_id: int, cut: int) -> Row:
        rows, place = self._find(message_id)
        return whole_message_of(rows[place], cut)

    @override
    def history_of(self, message_id: int, cut: int) -> list[Row]:
        return [message_of(row, cut) for row in history_before(*self._find(message_id))]

    @override
    def tool_calls(self, call_id: str, cut: int) -> list[Row]:
        record = self._record(lambda each: each.get("call_id") == call_id)
        return [] if record is None else tools_of(self._rows_of(record), cut)

    @override
    def body(self, table: BodyTable, row_id: int, name: Body) -> str | None:
        check_body(table, name)
        row: Row | None
        if table == "conversations":
            rows, place = self._find(row_id)
            row = rows[place]
        elif table == "token_records":
            row = self._record(lambda each: each.get("id") == row_id)
        else:
            raise self._cannot("tell the texts of one tool call")
        if row is None:
            raise KeyError(f"no row {row_id} in {table}")
        text = row.get(name)
        return None if text is None else str(text)

    # Prompts, and the store itself

    @override
    def prompt_versions(self, name: str, span: Span) -> list[Row]:
        wanted = CallFilter(span=span, prompt_name=name, kind="chat")
        records = self._records(span, "the calls of each version")
        return versions_of(filter(_agrees_with(wanted), records))

    @override
    def pins(self, name: str, limit: int, cursor: str | None = None) -> Page:
        raise self._cannot("list who is pinned to a prompt")

    @override
    def prompt_text(self, name: str, version: str) -> str:
        return self._store.get_prompt(name, version)

    @override
    def about(self) -> Row:
        self._store.get_recent_queries(1)
        return {"database": type(self._store).__name__, "schema_version": None, "size_bytes": None}

    # What is read

    def _records(self, span: Span, what: str) -> list[Row]:
        """All in `span`, newest first."""
        records, short = self._newest(CallFilter(span=span))
        if short:
            raise self._cannot(
                f"tell {what} of more than {_MOST_RECORDS:,} records: take a shorter time"
            )
        return [each for each in records if _within(_at(each), span)]

    def _record(self, is_it: Callable[[Row], bool]) -> Row | None:
        newest = self._store.get_recent_queries(_MOST_RECORDS)
        if (found := next(filter(is_it, newest), None)) is not None:
            return found
        if len(newest) < _MOST_RECORDS:
            return None
        sessions = islice(self._store.get_sessions(), _MOST_SESSIONS)
        keys = ((each["user_id"], each["session_id"]) for each in sessions)
        older = (row for key in keys for row in self._store.get_session_token_records(*key))
        return next(filter(is_it, older), None)

    def _rows_of(self, record: Row) -> list[Row]:
        rows = self._conversation(record["user_id"], record["session_id"])
        return [row for row in rows if row.get("call_id") == record["call_id"]]

    def _conversation(self, user_id: str, session_id: str) -> list[Row]:
        rows = self._store.get_conversation(user_id, session_id)
        if len(self._places) > _MOST_PLACES:
            self._places.clear()
        self._places.update({row["id"]: (user_id, session_id) for row in rows[-_MOST_PLACES:]})
        return rows

    def _find(self, message_id: int) -> tuple[list[Row], int]:
        """The conversation that has this row, and its place there."""
        seen = self._places.get(message_id)
        for key in [seen] if seen else self._some_sessions():
            rows = self._conversation(*key)
            if (place := place_of(rows, message_id, -1)) >= 0:
                return rows, place
        raise KeyError(f"no message {message_id}")

    def _some_sessions(self) -> Iterable[tuple[str, str]]:
        newest = islice(self._store.get_sessions(), _MOST_SESSIONS)
        return ((each["user_id"], each["session_id"]) for each in newest)

    def _feedback(self, record: Row) -> Row | None:
        try:
            rows = self._store.get_feedback(record["user_id"], record["session_id"])
        except NotImplementedError:
            return None
        return next((row for row in rows if row["call_id"] == record["call_id"]), None)

    def _cannot(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self._store).__name__} cannot {what}")


def _at(record: Row) -> int:
    return micros_of(record["created_at"])


def _within(at: int, span: Span) -> bool:
    return (span.since is None or span.since <= at) and (span.until is None or at < span.until)


def _overlaps(session: Row, span: Span) -> bool:
    since, until = span.since, span.until
    return (since is None or micros_of(session["last_at"]) >= since) and (
        until is None or micros_of(session["first_at"]) < until
    )


_EQUAL = (
    "user_id",
    "session_id",
    "model",
    "kind",
    "status",
    "prompt_name",
    "prompt_version",
)


def _agrees_with(wanted: CallFilter) -> Callable[[Row], bool]:
    asked = {name: getattr(wanted, name) for name in _EQUAL if getattr(wanted, name) is not None}

    def agrees(record: Row) -> bool:
        return (
            all(record.get(name) == value for name, value in asked.items())
            and (wanted.tag is None or wanted.tag in (record.get("tags") or ()))
            and not (wanted.unpriced and record.get("priced", True))
            and _within(_at(record), wanted.span)
        )

    return agrees


def _listed(record: Row) -> Row:
    row = {name: value for name, value in record.items() if name not in ("partial", "metadata")}
    message = row.get("error_message")
    return {**row, "error_message": None if message is None else str(message)[:300]}


_USER_KEY = (NUMBER, NUMBER, TEXT)
_SESSION_KEY = (NUMBER, TEXT, TEXT)


def _user_key(row: Row) -> Key:
    return [-row["cost_usd"], -row["calls"], row["user_id"]]


def _session_key(row: Row) -> Key:
    return [-micros_of(row["last_at"]), row["user_id"], row["session_id"]]
