"""The gate to SQLite: threads go through it to use the library, and nobody is inside at a fork.

SQLite has locks of its own for the whole process, which a thread takes to get memory, even. A child
that is forked meanwhile finds them taken for ever, and hangs when it opens a database.
"""

from __future__ import annotations

import logging
import threading
from threading import get_ident

log = logging.getLogger(__name__)

_WAIT_S = 5.0


class Gate:
    """A block that any number of threads may be in. It may be nested."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """With nobody inside, as in a forked child, where the other threads are not."""
        self._moved = threading.Condition()
        self._inside: dict[int, int] = {}
        self._is_open = True

    def __enter__(self) -> None:
        thread = get_ident()
        with self._moved:
            if thread not in self._inside:
                self._moved.wait_for(lambda: self._is_open)
            self._inside[thread] = self._inside.get(thread, 0) + 1

    def __exit__(self, *_: object) -> None:
        thread = get_ident()
        with self._moved:
            depth = self._inside.pop(thread, 1) - 1  # a child that was forked inside has none
            if depth > 0:
                self._inside[thread] = depth
            elif not self._is_open:
                self._moved.notify_all()

    def close(self) -> None:
        """Before a fork: let none in, and wait some seconds until no other thread is inside."""
        with self._moved:
            if not self._is_open:
                return
            self._is_open = False
            if not self._moved.wait_for(lambda: self._inside.keys() <= {get_ident()}, _WAIT_S):
                log.warning("a fork while SQLite is in use: the child may hang if it uses SQLite")

    def open(self) -> None:
        """After a fork, in the parent: let them in again."""
        with self._moved:
            self._is_open = True
            self._moved.notify_all()


GATE = Gate()


class Turn:
    """A lock whose holder is inside the gate."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout: float = -1) -> bool:
        """Says whether it is held now. `timeout` is in seconds; negative is none."""
        if not self._lock.acquire(timeout=timeout):
            return False
        try:
            GATE.__enter__()
        except BaseException:
            self._lock.release()
            raise
        return True

    def release(self) -> None:
        """Let the next one have it."""
        GATE.__exit__()
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
