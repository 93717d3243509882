"""What tests of the dashboard share: stores with rows in them, and ways to ask."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from html import unescape
from typing import Any
from weakref import WeakKeyDictionary

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from pywrapai_monitor.dashboard import create_app
from pywrapai_monitor.db import BaseStore, SQLiteStore
from pywrapai_monitor.db.base import Entry, MessageRecord, TokenRecord
from tests.contracts.store_rows import NOON, Clock, micros
from tests.monitor.test_foreign_store import forwarded

TOKEN = "s3cret-token"
XSS = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
UGLY = ("a/b", "..", "%", "_", "new", "#?&=+ %2F", "東京 🦊 délphine", XSS, "'; DROP", "x" * 191)
PAGES = ("/", "/calls", "/conversations", "/users", "/prompts", "/status")


def _begin(self: Any, clock: Clock) -> None:
    self.inner = SQLiteStore(":memory:", clock=clock)


Foreign: Any = type(
    "Foreign",
    (BaseStore,),
    {"__init__": _begin, **{name: forwarded(name) for name in BaseStore.__abstractmethods__}},
)
"""Of somebody who wrote the nineteen methods and no more."""


def sqlite(*entries: Entry, now: datetime = NOON) -> SQLiteStore:
    store = SQLiteStore(":memory:", clock=Clock(now))
    store.write(entries)
    return store


def client(store: BaseStore, now: datetime = NOON, **options: Any) -> FlaskClient:
    if options or now != NOON:
        return create_app(store, clock=Clock(now), **options).test_client()
    if store not in _APPS:
        _APPS[store] = create_app(store, clock=Clock(now))
    return _APPS[store].test_client()


_APPS: WeakKeyDictionary[BaseStore, Flask] = WeakKeyDictionary()


def view(asked: FlaskClient, page: str, /, **query: Any) -> Any:
    answer = asked.get(f"/api/views/{page}", query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def links(answer: TestResponse | str) -> list[str]:
    text = answer if isinstance(answer, str) else answer.text
    return [unescape(found) for found in re.findall(r'href="([^"]*)"', text)]


def fetch(
    url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, str]:
    """Status, headers and text of a real HTTP request, errors included."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {})) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def long_talk(turns: int, user: str = "alice", session: str = "s1", **more: Any) -> list[Entry]:
    return [
        turn(f"question {number}", f"c{number}", user, session, history_count=number, **more)
        for number in range(turns)
    ]


def turn(
    question: str,
    call_id: str | None,
    user: str = "alice",
    session: str = "s1",
    at: datetime = NOON,
    history_count: int = 0,
    rag_context: list[dict[str, Any]] | None = None,
    system_prompt: str | None = "Be brief.",
    **more: Any,
) -> Entry:
    """As a call of a MonitoredGraph leaves it."""
    shared: dict[str, Any] = {"user_id": user, "session_id": session, "call_id": call_id}
    asked = MessageRecord(
        **shared,
        role="user",
        content=question,
        history_count=history_count,
        rag_context=rag_context,
        system_prompt=system_prompt,
    )
    told = MessageRecord(**shared, role="assistant", content=f"re: {question}")
    record = TokenRecord(**shared, **{"model": "gpt-4o-mini", "provider": "openai", **more})
    return Entry(token=record, messages=(asked, told), at=micros(at))


def strictly(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def entry_store() -> SQLiteStore:
    return sqlite(turn("q", "c1"))
