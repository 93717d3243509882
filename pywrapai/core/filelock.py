"""Locks that files stand for, among processes. They end with the process that holds them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

from pywrapai.core.process import after_fork_in_child

_LONGEST_NAP_S = 0.05


@contextmanager
def file_lock(path: str, *, shared: bool, timeout_s: float = 60.0) -> Iterator[None]:
    """Hold the lock that a file stands for; the file is made, and stays.

    Whoever holds it `shared` does so beside others of that kind. Of two holders in one process each
    counts as another.

    Raises:
        TimeoutError: another process held it all the time.
        OSError: the file cannot be made or locked.
    """
    descriptor = os.open(path, os.O_CREAT | (os.O_RDONLY if shared else os.O_RDWR), 0o666)
    try:
        deadline, nap = time.monotonic() + timeout_s, 0.0005
        while not _acquired(descriptor, shared):
            if time.monotonic() > deadline:
                raise TimeoutError(0, f"another process held it for {timeout_s:.0f} s", path)
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP_S)
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


class HeldLock:
    """A lock that is held from now on; `hold` makes it. A forked child does not hold it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        _HELD.add(self)

    def release(self) -> None:
        """Let another have it; the file stays."""
        if (descriptor := self._taken()) is not None:
            _release(descriptor)
            os.close(descriptor)

    def remove(self) -> None:
        """Let go of it, and delete the file."""
        if sys.platform == "win32":  # which deletes no file that is open
            self.release()
        with suppress(OSError):
            os.unlink(self.path)
        self.release()

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and must not outlive it here."""
        if (descriptor := self._taken()) is not None:
            os.close(descriptor)

    def _taken(self) -> int | None:
        descriptor, self._descriptor = self._descriptor, None
        return descriptor


def hold(path: str, *, mode: int = 0o600) -> HeldLock | None:
    """The lock that a file stands for, which is made; None if somebody else has it.

    `mode` are the file's rights where it is made. OSError where it cannot be made or locked.
    """
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, mode)
        try:
            acquired = _acquired(descriptor, shared=False)
            if acquired and _is_at(path, descriptor):
                return HeldLock(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not acquired:
            return None


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the file was not removed between its opening and its locking."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


_HELD: WeakSet[HeldLock] = WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


after_fork_in_child(_forget_all)

if sys.platform == "win32":
    import msvcrt

    def _acquired(descriptor: int, shared: bool) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # which knows no shared ones
        except PermissionError:
            return False
        return True

    def _release(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquired(descriptor: int, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(descriptor: int) -> None:
        """For a child too that was forked meanwhile, and shares the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)
