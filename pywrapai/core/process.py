"""What a forked child must not take over from its parent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


def after_fork_in_child(forget: Callable[[], None]) -> None:
    """Call `forget` in every child that is forked from now on, where processes can fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def keep_free_over_fork(lock: Any) -> None:
    """See that no forked child inherits `lock` as held by a thread that the child does not have."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )


class ProcessLock:
    """A lock for work in memory, which a forked child finds free.

    The thread that held it at the fork is not in the child, so nobody there would release it.
    """

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self._pid != os.getpid():  # a fork leaves one thread, so nobody races here
            self._renew()
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()
