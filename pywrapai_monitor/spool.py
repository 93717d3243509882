"""The spool: files in which entries wait while their store cannot take them.

Processes share a folder. Each has files of JSON lines there, and a lock that it holds as long as it
lives; what a dead one left is taken over whole by whoever asks first. The first line of a file says
how much of it is done. Who may call what when is the Recorder's business.
"""

from __future__ import annotations

import os
import time
from array import array
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from secrets import token_hex
from typing import TypeAlias

from pywrapai.core.filelock import HeldLock, hold
from pywrapai_monitor.spool_files import HEADER_BYTES, SpoolFile, create, left_by, processes_in

Session: TypeAlias = tuple[str, str]
"""A user_id and a session_id."""

_FILE_BYTES = 16 * 1024 * 1024
_FIRST = 10**9  # those that go before it count down
_BUCKETS = 1 << 14


class Spool:
    """The files of this process, and those that it has taken over."""

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int) -> None:
        self.folder = os.fspath(folder)
        self._max_bytes = max_bytes
        self._bytes = 0
        self._left: deque[SpoolFile] = deque()
        self._own: deque[SpoolFile] = deque()
        self._lowest = self._highest = _FIRST
        self._process = _new_process()
        self._lock: HeldLock | None = None
        self._sessions = _no_sessions()

    @property
    def count(self) -> int:
        """How many entries wait."""
        return sum(file.count for files in (self._left, self._own) for file in files)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more are within the bound."""
        return self._bytes + size <= self._max_bytes

    def reserve(self, size: int) -> bool:
        """Whether there is room for so many bytes, which are then taken; negative gives back."""
        if size > 0 and not self.has_room(size):
            return False
        self._bytes += size
        return True

    def append(self, line: bytes, session: Session) -> bool:
        """Let an entry wait behind the others; False if the spool is full. OSError."""
        if not self.reserve(len(line)):
            return False
        try:
            self._append(line)
        except BaseException:
            self.reserve(-len(line))
            raise
        self._note([session], 1)
        return True

    def new_file(self, first: bool = False) -> SpoolFile:
        """An empty file, to be filled and then inserted before or behind all others. OSError."""
        self._hold_lock()
        if first:
            self._lowest = number = self._lowest - 1
        else:
            self._highest = number = self._highest + 1
        return create(os.path.join(self.folder, f"{self._process}.{number:010d}.jsonl"))

    def insert(self, file: SpoolFile, first: bool, sessions: Iterable[Session]) -> None:
        """Let what is in a file, its bytes reserved, wait among what is of this process."""
        if not file.count:
            self._delete(file)
            return
        if first:
            self._own.appendleft(file)
        else:
            self._own.append(file)
        self._note(sessions, 1)

    def oldest(self) -> SpoolFile | None:
        """Where the entries are that have waited longest."""
        for files in (self._left, self._own):
            if files:
                return files[0]
        return None

    def drop(self, file: SpoolFile, lines: int, size: int, sessions: Iterable[Session]) -> None:
        """The first lines of a file that was the oldest, so many bytes, wait no more. OSError."""
        files = self._own if self._own and self._own[0] is file else self._left
        if not files or files[0] is not file:
            return  # it was closed meanwhile
        file.start += size
        file.count -= lines
        if files is self._own:
            self._note(sessions, -1)
        if file.count > 0:
            with suppress(FileNotFoundError):  # somebody has deleted it, which is seen at its next
                file.mark()
            return
        files.popleft()
        self._delete(file)
        if not self.count:
            self._sessions = _no_sessions()  # also those whose lines could not be read

    def may_hold(self, session: Session) -> bool:
        """Whether an entry of the session may wait here; never False where one does."""
        return bool(self._left) or self._sessions[hash(session) % _BUCKETS] > 0

    def left_by_the_dead(self) -> list[SpoolFile]:
        """The files of processes that have ended, oldest first, which nobody else can have now.

        OSError.
        """
        found: list[SpoolFile] = []
        for process in sorted(processes_in(self.folder) - {self._process}):
            with suppress(PermissionError):  # they are of another user
                found += left_by(self.folder, process)
        return found

    def take_over(self, files: Iterable[SpoolFile]) -> None:
        """Let these go first."""
        for file in files:
            self._left.append(file)
            self._bytes += file.end - HEADER_BYTES

    def close(self) -> None:
        """Leave what waits to whoever comes next."""
        for file in self._left:
            if file.last_of is not None:
                file.last_of.release()
        if self._lock is not None:
            if self._own:
                self._lock.release()
            else:
                self._lock.remove()
        self._lock = None
        self._left.clear()
        self._own.clear()
        self._bytes = 0

    def _append(self, line: bytes) -> None:
        tail = self._own[-1] if self._own else None
        if tail is not None and tail.end < _FILE_BYTES:
            with suppress(FileNotFoundError):  # somebody has deleted it
                tail.append(line)
                return
        file = self.new_file()
        self._own.append(file)
        file.append(line)

    def _note(self, sessions: Iterable[Session], change: int) -> None:
        for session in sessions:
            self._sessions[hash(session) % _BUCKETS] += change

    def _hold_lock(self) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        while self._lock is None:
            self._lock = hold(os.path.join(self.folder, f"{self._process}.lock"))
            if self._lock is None:  # somebody looks whether it was left by the dead
                self._process = _new_process()

    def _delete(self, file: SpoolFile) -> None:
        self._bytes -= file.end - HEADER_BYTES
        with suppress(FileNotFoundError):
            os.unlink(file.path)
        if file.last_of is not None:
            file.last_of.remove()


def _new_process() -> str:
    return f"{time.time_ns():020d}-{os.getpid()}-{token_hex(4)}"


def _no_sessions() -> array[int]:
    return array("l", bytes(array("l").itemsize * _BUCKETS))
