"""What the store contracts write with: a clock, a message, a call, a turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pywrapai.core.base import Role
from pywrapai_monitor.db.base import BaseStore, Entry, MessageRecord, TokenRecord

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROLES = ((Role.USER, ""), (Role.ASSISTANT, "re: "))


class Clock:
    """The time that a store is told, in nanoseconds since 1970; it stands still until moved."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return (self.now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000

    def iso(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def message(role: Any, content: str, user: str = "alice", session: str = "s1", **more: Any) -> Any:
    return MessageRecord(user_id=user, session_id=session, role=role, content=content, **more)


def call(user: str = "alice", session: str = "s1", **more: Any) -> TokenRecord:
    return TokenRecord(user_id=user, session_id=session, **{"model": "gpt-4o-mini", **more})


def save_turn(
    store: BaseStore, question: str, user: str = "alice", session: str = "s1", **more: Any
) -> None:
    with store.transaction():
        store.save_message(message("user", question, user, session))
        store.save_message(message("assistant", f"re: {question}", user, session))
        store.save_token_record(call(user, session, **more))


def micros(moment: datetime = NOON) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def entry(
    question: str,
    call_id: str | None,
    user: str = "alice",
    session: str = "s1",
    at: datetime = NOON,
    **more: Any,
) -> Entry:
    """A whole turn, as one call gives it."""
    return Entry(
        token=call(user, session, call_id=call_id, **more),
        messages=(
            message("user", question, user, session),
            message("assistant", f"re: {question}", user, session),
        ),
        at=micros(at),
    )


def texts(store: BaseStore, user: str = "alice", session: str = "s1", **more: Any) -> list[str]:
    return [m.text for m in store.load_history(user, session, **more)]


def assert_plain(value: object) -> None:
    """Only what JSON has, and exactly those types: no Decimal, no row object, no int for a bool."""
    if isinstance(value, list):
        for item in value:
            assert_plain(item)
    elif isinstance(value, dict):
        for item in value.values():
            assert_plain(item)
    else:
        assert type(value) in (int, float, str, bool, type(None)), repr(value)
