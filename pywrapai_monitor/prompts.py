"""The prompts of a store, and what was last read of them for when the database is away."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from pywrapai.core.process import ProcessLock
from pywrapai_monitor.db.base import BaseStore, StoreError

log = logging.getLogger(__name__)

_MOST = 10_000


class Prompts:
    """Prompts by name and version, and by user. May be shared by threads."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self._lock = ProcessLock()
        self._read: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._away = False

    def text(self, name: str, version: str = "active") -> str:
        """A version's text. KeyError if there is none."""
        return self._latest(self._store.get_prompt, name, version)

    def of_user(self, user_id: str, name: str) -> tuple[str, str]:
        """The text and the version that a user is pinned to, or the active one."""
        version = self._latest(self._version_of, user_id, name)
        return self.text(name, version), version

    def _version_of(self, user_id: str, name: str) -> str:
        pinned = self._store.get_user_prompt_version(user_id, name)
        return pinned or self._store.active_prompt_version(name)

    def _latest(self, read: Callable[..., str], *which: str) -> str:
        """What the store has now or, while that is away, what it had when it was last asked."""
        key = (read.__name__, *which)
        try:
            found = read(*which)
        except StoreError as error:
            known = self._read.get(key)
            if known is None or not error.retryable:
                raise
            if not self._away:
                log.warning("prompts are given as they were last read: %s", error)
            self._away = True
            return known
        with self._lock:
            self._away = False
            self._read[key] = found
            self._read.move_to_end(key)
            if len(self._read) > _MOST:
                self._read.popitem(last=False)
        return found
