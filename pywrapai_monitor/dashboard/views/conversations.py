"""The list of conversations, and one conversation with the details of a message."""

from __future__ import annotations

from pywrapai_monitor.dashboard.params import BadParameterError, Values
from pywrapai_monitor.dashboard.source import NotThereError, Source, checked_cursor, known
from pywrapai_monitor.dashboard.views.messages import with_items
from pywrapai_monitor.dashboard.views.rows import page_of, record_of
from pywrapai_monitor.db.analytics import Analytics, SessionFilter
from pywrapai_monitor.db.base import Row

PAGE = 50
BUBBLE = 4_000
"""So many characters of a message are shown among others."""
CUT = 20_000
"""So many are shown in the details."""
_TURNS_BACK = 20
"""So many rows are looked through for the question that an answer belongs to."""


def conversations(source: Source, values: Values) -> Row:
    """Last used first."""
    asked = source.range(values)
    wanted = SessionFilter(span=asked.span, user_id=values["user_id"], text=values["q"])
    with checked_cursor():
        page = source.analytics.sessions(wanted, values["limit"], values["cursor"])
    found = page_of(page, values["cursor"])
    no_match: Row = {"message_id": None, "excerpt": None}
    return {
        "range": asked.as_row(),
        "filters": {"user_id": values["user_id"], "q": values["q"]},
        "filtered": bool(values["user_id"] or values["q"]),
        **found,
        "rows": [{**no_match, **row} for row in page.rows],
    }


def conversation(source: Source, values: Values) -> Row:
    """A part of a conversation; around `message`, if it is given alone, or else the newest."""
    key = (values["user_id"], values["session_id"])
    if values["before"] and values["after"]:
        raise BadParameterError("before and after must not be given both")
    with known():
        session = source.analytics.session(*key)
    detail = None if values["message"] is None else _detail(source, key, values["message"])
    rows, older, newer = _window(source.analytics, key, values)
    selected = values["message"]
    shown = [{**row, "selected": row["id"] == selected} for row in with_items(rows)]
    return {
        "session": session,
        "messages": shown,
        "older": rows[0]["id"] if rows and older else None,
        "newer": rows[-1]["id"] if rows and newer else None,
        "detail": detail,
    }


def _window(
    analytics: Analytics, key: tuple[str, str], values: Values
) -> tuple[list[Row], bool, bool]:
    """Some rows, and whether there are older and newer ones."""
    before, after, message = values["before"], values["after"], values["message"]
    if after is not None:
        rows = analytics.messages(*key, PAGE + 1, BUBBLE, after=after)
        older = bool(rows) and _has_older(analytics, key, rows[0]["id"])
        return rows[:PAGE], older, len(rows) > PAGE
    if message is not None and before is None:
        half = PAGE // 2
        left = analytics.messages(*key, half + 2, BUBBLE, before=message + 1)
        right = analytics.messages(*key, half + 1, BUBBLE, after=message)
        return [*left[-half - 1 :], *right[:half]], len(left) > half + 1, len(right) > half
    rows = analytics.messages(*key, PAGE + 1, BUBBLE, before=before)
    newer = before is not None
    return rows[-PAGE:], len(rows) > PAGE, newer


def _has_older(analytics: Analytics, key: tuple[str, str], first: int) -> bool:
    return bool(analytics.messages(*key, 1, 1, before=first))


def _detail(source: Source, key: tuple[str, str], message_id: int) -> Row:
    analytics = source.analytics
    with known():
        message = analytics.message(message_id, CUT)
    if (message["user_id"], message["session_id"]) != key:
        raise NotThereError(f"no message {message_id} in this session")
    call = _call(analytics, message["call_id"])
    question = _question(analytics, key, message, call)
    return {
        "message": {
            name: message[name]
            for name in (
                "id", "created_at", "role", "status", "call_id", "history_count", "content",
                "content_length", "user_id", "session_id",
            )
        },
        "call": None if call is None else record_of(call, source.colors()),
        **_sent(analytics, question),
        "tools": call["tools"] if call else [],
        "feedback": call and call["feedback"],
    }  # fmt: skip


def _call(analytics: Analytics, call_id: str | None) -> Row | None:
    if call_id is None:
        return None
    try:
        return analytics.call(call_id, CUT)
    except KeyError:
        return None


def _question(
    analytics: Analytics, key: tuple[str, str], message: Row, call: Row | None
) -> Row | None:
    """The user's message that a message belongs to."""
    if message["role"] == "user":
        return message
    near = call["messages"] if call else []
    asked = [row for row in near if row["role"] == "user"]
    if not asked and message["role"] == "assistant":
        near = analytics.messages(*key, _TURNS_BACK, 0, before=message["id"])
        asked = [row for row in near if row["role"] == "user"]
    if not asked:
        return None
    try:
        return analytics.message(asked[-1]["id"], CUT)
    except KeyError:
        return None


def _sent(analytics: Analytics, question: Row | None) -> Row:
    """What went to the model with a question."""
    if question is None:
        names = ("system_prompt", "system_prompt_of", "history", "history_count", "rag_context")
        return {**dict.fromkeys(names), "system_prompt_length": 0}
    turns = question["history_count"]
    history = None if turns is None else analytics.history_of(question["id"], BUBBLE)
    return {
        "system_prompt": question["system_prompt"],
        "system_prompt_length": question["system_prompt_length"],
        "system_prompt_of": question["id"],
        "history": history,
        "history_count": turns,
        "rag_context": _with_bars(question["rag_context"]),
    }


def _with_bars(chunks: list[Row] | None) -> list[Row] | None:
    """Each with a bar from 0 to 1: its score, beside the best where that is above 1."""
    if chunks is None:
        return None
    scores = [chunk["score"] for chunk in chunks if _is_number(chunk["score"])]
    best = max([1.0, *scores])
    return [
        {**chunk, "bar": max(chunk["score"], 0) / best if _is_number(chunk["score"]) else None}
        for chunk in chunks
    ]


def _is_number(score: object) -> bool:
    return isinstance(score, int | float) and not isinstance(score, bool) and score == score
