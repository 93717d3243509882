"""What a Recorder has in memory: entries that wait, and for how long nobody asks the store."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pywrapai_monitor.db.base import Entry, StoreError
from pywrapai_monitor.entries_json import bytes_of
from pywrapai_monitor.spool import Session


@dataclass(slots=True, eq=False)
class Item:
    """An entry on its way."""

    entry: Entry
    size: int
    """Bytes in memory, roughly."""
    session: Session
    tried: bool = False
    """Whether the store may have it already."""


def item_of(entry: Entry, tried: bool = False) -> Item:
    """The entry, weighed."""
    return Item(entry, bytes_of(entry), session_of(entry), tried)


def session_of(entry: Entry) -> Session:
    """Whose entry it is."""
    return entry.token.user_id, entry.token.session_id


class Queue:
    """Items in their order. Those that are taken still count until they are done or given back.

    Garbage collection may call `put` in the midst of any other method, in the same thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self.count = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: deque[Item] = deque()
        self._sessions: defaultdict[Session, int] = defaultdict(int)

    def has_items(self) -> bool:
        """Whether there are some to be taken."""
        return bool(self._items)

    def holds(self, session: Session) -> bool:
        """Whether an entry of the session is among them."""
        return session in self._sessions

    def put(self, item: Item) -> bool:
        """Add an item; False if there is no room for it."""
        if self._bytes + item.size > self._max_bytes:
            return False
        self._items.append(item)
        self.count += 1
        self._bytes += item.size
        self._sessions[item.session] += 1
        return True

    def take(self, most: int, most_bytes: int) -> list[Item]:
        """The next ones, and at least one if there are any."""
        taken: list[Item] = []
        size = 0
        while self._items and len(taken) < most and (not taken or size < most_bytes):
            taken.append(self._items.popleft())
            size += taken[-1].size
        return taken

    def take_all(self) -> list[Item]:
        """All that are not taken."""
        return self.take(len(self._items), self._max_bytes)

    def give_back(self, items: Iterable[Item]) -> None:
        """Those that were taken and not done come first again."""
        self._items.extendleft(reversed(list(items)))

    def done(self, items: Iterable[Item]) -> None:
        """Those that were taken need nothing more."""
        for item in items:
            self.count -= 1
            self._bytes -= item.size
            self._sessions[item.session] -= 1
            if not self._sessions[item.session]:
                del self._sessions[item.session]


class Breaker:
    """After a store was away it is not asked for a while, which doubles each time.

    `clock` returns seconds.
    """

    def __init__(
        self, first_s: float, longest_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.reason: str | None = None
        """Why, while it is; not the error itself, whose traceback holds what was being written."""
        self._first_s, self._longest_s = first_s, longest_s
        self._clock = clock
        self._pause_s = self._until = 0.0

    def wait_s(self) -> float:
        """For how long it is not to be asked."""
        return max(0.0, self._until - self._clock()) if self._until else 0.0

    def trip(self, error: BaseException) -> None:
        """It was asked and is away."""
        self.reason = f"{error}" or type(error).__name__
        if not self.wait_s():  # else several had asked at the same time
            self._pause_s = min(2 * self._pause_s or self._first_s, self._longest_s)
            self._until = self._clock() + self._pause_s

    def close(self) -> None:
        """It answers."""
        self.reason = None
        self._pause_s = self._until = 0.0


def is_away(error: Exception) -> bool:
    """Whether a store that raises this is out of reach, and did not refuse what it was given."""
    return isinstance(error, (ConnectionError, TimeoutError)) or (
        isinstance(error, StoreError) and error.retryable
    )
