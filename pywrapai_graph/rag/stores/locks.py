"""One store among many threads: they read at once, and write alone."""

from __future__ import annotations

import os
import threading


class SharedLock:
    """Many threads may read at once, or one may write, which goes before those who come to read.

    Use it as `with lock.reading` and `with lock.writing`. A forked child finds it free.
    """

    def __init__(self) -> None:
        self.reading = _Reading(self)
        """Among readers."""
        self.writing = _Writing(self)
        """Alone."""
        self.renew()

    def renew(self) -> None:
        """Free, in this process."""
        self.pid = os.getpid()
        self.turn = threading.Lock()
        self.counting = threading.Lock()
        self.unread = threading.Lock()
        self.readers = 0


class _Reading:
    def __init__(self, lock: SharedLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        if lock.pid != os.getpid():  # a fork leaves one thread, so nobody races here
            lock.renew()
        with lock.turn, lock.counting:
            if lock.readers == 0:
                lock.unread.acquire()
            lock.readers += 1

    def __exit__(self, *exc_info: object) -> None:
        lock = self._lock
        with lock.counting:
            lock.readers -= 1
            if lock.readers == 0:
                lock.unread.release()


class _Writing:
    def __init__(self, lock: SharedLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        if lock.pid != os.getpid():
            lock.renew()
        lock.turn.acquire()
        try:
            lock.unread.acquire()
        except BaseException:  # Ctrl-C, while readers read on
            lock.turn.release()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self._lock.unread.release()
        self._lock.turn.release()
