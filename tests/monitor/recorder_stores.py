"""Stores that fail when they are told to, for the tests of the Recorder."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pywrapai_monitor.db import SQLiteStore, StoreError
from pywrapai_monitor.db.base import BaseStore, Entry

AWAY = StoreError("db.example:5432: connection refused", retryable=True)


class Moody:
    """What a store does before it writes: fail, hang, or say that it is busy."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.error: BaseException | None = None
        self.once: BaseException | None = None
        self.refused: set[str] = set()
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Semaphore(0)
        self.batches: list[int] = []

    def write(self, entries: Sequence[Entry], *, replayed: bool = False) -> None:
        self.batches.append(len(entries))
        self.asked.release()
        self.open.wait()
        once, self.once = self.once, None
        if (error := once or self.error) is not None:
            raise error.with_traceback(None)  # it would hold what was given the last time
        if any(entry.token.call_id in self.refused for entry in entries):
            raise ValueError("this one does not fit")
        super().write(entries, replayed=replayed)  # type: ignore[misc]


class MoodyStore(Moody, SQLiteStore):
    """SQLite, if it is in the mood."""


class ListStore(BaseStore):
    """A store of somebody else's: it saves entries at once, all or none, and each of them once."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._lock = threading.Lock()

    def write(self, entries: Sequence[Entry], *, replayed: bool = False) -> None:
        with self._lock:
            known = {entry.token.call_id for entry in self.entries} if replayed else set()
            self.entries += [entry for entry in entries if entry.token.call_id not in known]


ListStore.__abstractmethods__ = frozenset()


class MoodyList(Moody, ListStore):
    """The same, if it is in the mood."""


class PlainStore(ListStore):
    """It has what every store must have, and no `write` of its own."""

    write = BaseStore.write

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str | None] = []
        self.refused: set[str] = set()

    def save_message(self, record: Any) -> None:
        pass

    def save_token_record(self, record: Any) -> None:
        if record.call_id in self.refused:
            raise RuntimeError("refused")
        self.saved.append(record.call_id)
