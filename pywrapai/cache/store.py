"""What a cache is, and the one in this process's memory."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import OrderedDict

from pywrapai.core.base import LLMResponse
from pywrapai.core.checks import at_least_1, ttl_seconds
from pywrapai.core.process import ProcessLock


class BaseCache(ABC):
    """Keeps responses by key. Called from many threads at once.

    A cache that raises is taken for one that has nothing: the call goes on, with a warning.
    """

    blocks: bool = True
    """Whether `get` and `set` do I/O: async callers then run them in a thread."""

    @abstractmethod
    def get(self, key: str) -> LLMResponse | None:
        """What was kept under the key, if it is still there."""

    @abstractmethod
    def set(self, key: str, response: LLMResponse) -> None:
        """Keep a response."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    def __len__(self) -> int:
        """How many responses there are."""


class ResponseCache(BaseCache):
    """The most recently used responses, in memory.

    Args:
        max_size: how many; the one that was used longest ago makes room.
        ttl: seconds after which a response is forgotten; None keeps it.
    """

    blocks = False

    def __init__(self, max_size: int = 1000, ttl: float | None = None) -> None:
        self.max_size = at_least_1("max_size", max_size)
        self.ttl = ttl_seconds(ttl)
        self._lock = ProcessLock()
        self._entries: OrderedDict[str, tuple[LLMResponse, float]] = OrderedDict()

    def get(self, key: str) -> LLMResponse | None:
        """What was kept under the key; it counts as used."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            response, kept_at = entry
            if self.ttl is not None and time.monotonic() - kept_at >= self.ttl:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return response

    def set(self, key: str, response: LLMResponse) -> None:
        """Keep a response, and drop the one that was used longest ago if there are too many."""
        with self._lock:
            self._entries[key] = (response, time.monotonic())
            self._entries.move_to_end(key)
            if len(self._entries) > self.max_size:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)
