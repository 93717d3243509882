"""What embedders cost: whatever one has counted is recorded once, by whoever comes first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from threading import get_ident
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pywrapai.core.process import ProcessLock, after_fork_in_child
from pywrapai.embedder import Embedder
from pywrapai.tokens import CallRecord, TokenTracker
from pywrapai.tokens.tracker import Totals
from pywrapai_monitor.call_ids import new_call_id
from pywrapai_monitor.db.base import Entry, TokenRecord

_UNITS = 10**10  # to the dollar: what stores count in, so that the rows of a model sum exactly


def embedding_entries(
    embedders: Iterable[Any], *, user_id: str, session_id: str, at: int
) -> list[Entry]:
    """What is to be recorded of these embedders now, one entry for each model; `at` is in
    microseconds since 1970.

    That is what they have counted since the last time, in this process and by whatever Monitor,
    and it is from now on taken for recorded. What is no Embedder has nothing.
    """
    return [
        Entry(token=TokenRecord(user_id=user_id, session_id=session_id, **fields), at=at)
        for embedder in embedders
        if isinstance(embedder, Embedder)
        for fields in _ledger_of(embedder).due(embedder)
    ]


class _Sum(NamedTuple):
    """Of some calls of one model."""

    calls: int = 0
    input_tokens: int = 0
    units: int = 0
    unpriced_calls: int = 0

    def less(self, other: _Sum) -> _Sum:
        return _Sum(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


class _Ledger:
    """How much of an embedder's counts is recorded."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._holder: tuple[int, int] | None = None
        self._fork: datetime | None = None
        self._recorded: dict[str, _Sum] = {}

    def due(self, embedder: Embedder) -> list[dict[str, Any]]:
        """What is not recorded yet, as fields of token records; it then is."""
        me = os.getpid(), get_ident()
        if self._holder == me:
            return []  # a garbage collection in here has ended a stream: the next call sees to it
        with self._lock:
            self._holder = me
            try:
                return list(self._take(embedder))
            finally:
                self._holder = None

    def _take(self, embedder: Embedder) -> Iterator[dict[str, Any]]:
        if self._fork is not _forked:
            self._fork, self._recorded = _forked, _before(_forked, embedder.tokens)
        for model, totals in embedder.tokens.by_model().items():
            now, before = _sum(totals), self._recorded.get(model, _Sum())
            if now.calls < before.calls:
                before = _Sum()  # the tracker was reset
            self._recorded[model] = now
            new = now.less(before)
            if new.calls:
                yield {
                    "model": model,
                    "provider": embedder.provider,
                    "kind": "embedding",
                    "input_tokens": new.input_tokens,
                    "cost_usd": new.units / _UNITS,
                    "priced": not new.unpriced_calls,
                    "duration_ms": _duration_ms(embedder.tokens, model, new.calls),
                    "call_id": new_call_id(),
                }


_ledgers: WeakKeyDictionary[Embedder, _Ledger] = WeakKeyDictionary()
_lock = ProcessLock()
_forked: datetime | None = None
"""When this process was forked off another one, if it was."""


def _note_fork() -> None:
    global _forked
    _forked = datetime.now(UTC)


after_fork_in_child(_note_fork)


def _ledger_of(embedder: Embedder) -> _Ledger:
    known = _ledgers.get(embedder)
    if known is None:
        with _lock:
            known = _ledgers.setdefault(embedder, _Ledger())
    return known


def _before(fork: datetime | None, tracker: TokenTracker) -> dict[str, _Sum]:
    """What was counted before a fork, which is the parent's to record."""
    while True:
        calls = tracker.total_calls
        sums = {model: _sum(totals) for model, totals in tracker.by_model().items()}
        since = [call for call in tracker.records if fork is None or call.timestamp >= fork]
        if tracker.total_calls == calls:  # nobody has counted on meanwhile
            break
    for call in since:
        sums[call.model] = sums[call.model].less(_call(call))
    return sums


def _sum(totals: Totals) -> _Sum:
    units = round(totals.cost_usd * _UNITS)
    return _Sum(totals.calls, totals.input_tokens, units, totals.unpriced_calls)


def _call(call: CallRecord) -> _Sum:
    return _Sum(1, call.input_tokens, round(call.cost_usd * _UNITS), int(not call.priced))


def _duration_ms(tracker: TokenTracker, model: str, calls: int) -> float:
    """Of the newest calls of a model, together."""
    spent = [call.duration_ms for call in tracker.records if call.model == model]
    return sum(spent[-calls:])
