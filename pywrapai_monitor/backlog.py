"""Backlog: the entries that are not in the store yet, in memory or on the disk.

New ones wait in memory, unless the disk has some already or memory is full: so what is in memory is
older than what is on the disk. It is newer where the disk takes no more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pywrapai_monitor.db.base import Entry
from pywrapai_monitor.entries_json import from_line, to_line
from pywrapai_monitor.queueing import Item, Queue, session_of
from pywrapai_monitor.spool import Session, Spool
from pywrapai_monitor.spool_files import SpoolFile

log = logging.getLogger(__name__)

_PORTION_BYTES = 4 * 1024 * 1024
_COMPLAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Portion:
    """The entries on the disk that have waited longest."""

    file: SpoolFile
    lines: Sequence[bytes]
    entries: Sequence[Entry]
    """As many as the lines."""


class Backlog:
    """`lock` may be held around several calls; the same thread may come in between all the same,
    from garbage collection, which closes streams, which add entries.
    """

    def __init__(self, spool: Spool | None, max_queued_bytes: int) -> None:
        self.lock = threading.RLock()
        self.lost = 0
        self.loss: str | None = None
        """Why the last one was lost."""
        self._queue = Queue(max_queued_bytes)
        self._inflight: list[Item] = []
        self._moving = False
        self._is_newer = False
        self._spool = spool
        self._left = 0
        self._complained_at = -_COMPLAIN_S

    # What is in it

    @property
    def queued(self) -> int:
        """How many are in memory."""
        return self._queue.count

    @property
    def spooled(self) -> int:
        """How many are on the disk, those included that were left there at the end."""
        return self._left + self.waiting

    @property
    def waiting(self) -> int:
        """How many are on the disk and are to be replayed."""
        return 0 if self._spool is None else self._spool.count

    @property
    def folder(self) -> str | None:
        """Where on the disk they are."""
        return None if self._spool is None else self._spool.folder

    @property
    def is_busy(self) -> bool:
        """Whether some are on their way into the store from memory."""
        return bool(self._inflight)

    def has_next(self) -> bool:
        """Whether there are some in memory to be taken, before those on the disk."""
        return self._queue.has_items() and not (self._is_newer and self.waiting)

    def holds(self, session: Session) -> bool:
        """Whether an entry of the session may be in it."""
        spool = self._spool
        return self._queue.holds(session) or (spool is not None and spool.may_hold(session))

    # Into it

    def add(self, item: Item, *, aside: bool = False) -> None:
        """Let an entry wait behind all others; on the disk if it is to be put `aside`."""
        with self.lock:
            has_disk = self._moving or self.waiting > 0
            self._is_newer &= has_disk and self._queue.count > 0
            aside = self._spool is not None and (aside or has_disk)
            if not (aside and not self._is_newer) and self._queue.put(item):
                return
        if not self._is_newer and self._into_spool(item):
            return
        with self.lock:
            self._is_newer |= has_disk and not self._queue.has_items()
            if self._queue.put(item):
                return
        self.lose(1, "there was no room for it in memory and spool")

    def lose(self, count: int, why: str) -> None:
        """Count what will never be in the store."""
        with self.lock:
            self.lost += count
            self.loss = why
        self._complain(f"{self.lost} records were lost so far, the last because {why}")

    def adopt(self) -> bool:
        """Take over what dead processes left on the disk; says whether there was any."""
        if self._spool is None:
            return False
        try:
            found = self._spool.left_by_the_dead()
        except OSError as error:
            self._complain(f"nobody can see whether records wait: {error}")
            return False
        if found:
            with self.lock:
                self._spool.take_over(found)
            waiting = sum(file.count for file in found)
            log.info("%d records of processes that died wait in %s", waiting, self.folder)
        return bool(found)

    # Out of memory

    def take(self, most: int) -> list[Item]:
        """The next ones in memory, which are then on their way."""
        with self.lock:
            self._inflight = self._queue.take(most, _PORTION_BYTES)
            return self._inflight

    def finish(self, batch: list[Item], handled: int) -> None:
        """The first ones that were taken are done; the others wait again, first of all."""
        with self.lock:
            if self._inflight is not batch:
                return  # they were left to the spool meanwhile
            self._inflight = []
            self._queue.done(batch[:handled])
            rest = batch[handled:]
            for item in rest:
                item.tried = True
            self._queue.give_back(rest)

    def take_back(self) -> None:
        """Whoever has taken some will not finish."""
        self.finish(self._inflight, 0)

    def move_aside(self) -> None:
        """From memory to the disk, before what is there already; as many as it takes."""
        with self.lock:
            self._moving = True  # what comes meanwhile is newer, and must not wait in memory
            batch = self._inflight = self._queue.take_all()
        try:
            moved = self._move(batch)
            self.finish(batch, moved)
            self._is_newer |= 0 < moved < len(batch)
        finally:
            self._moving = False

    def leave(self) -> int:
        """Leave everything to other processes, and say how much that is on the disk.

        What is in memory, or on its way from there, is lost where there is no spool. More may
        come, and be left again.
        """
        with self.lock:
            batch, self._inflight = self._inflight + self._queue.take_all(), []
        moved = self._move(batch, first=not self._is_newer)
        if rest := batch[moved:]:
            self.lose(len(rest), "the store was away until the end, and there was no spool for it")
        with self.lock:
            self._queue.done(batch)
            left = self.waiting
            self._left += left
            if self._spool is not None:
                self._spool.close()
            return left

    # Out of the disk

    def portion(self, most: int) -> Portion | None:
        """The next ones on the disk. None where they could not be read, and were lost. OSError."""
        assert self._spool is not None
        with self.lock:
            file = self._spool.oldest()
            end = 0 if file is None else file.end
        if file is None:
            return None
        try:
            lines = file.lines(end, most=most, most_bytes=_PORTION_BYTES)
        except FileNotFoundError:
            lines = []
        if not lines:
            self._skip(file, [], f"{file.path} is not what it was")
        entries = self._entries(file, lines)
        return Portion(file, lines[: len(entries)], entries) if entries else None

    def drop(self, portion: Portion, handled: int) -> None:
        """The first ones of a portion are done. OSError."""
        assert self._spool is not None
        size = sum(map(len, portion.lines[:handled]))
        sessions = map(session_of, portion.entries[:handled])
        with self.lock:
            self._spool.drop(portion.file, handled, size, sessions)

    def _entries(self, file: SpoolFile, lines: Sequence[bytes]) -> list[Entry]:
        """Those up to the first line that is none, which is lost if it comes first."""
        entries: list[Entry] = []
        try:
            for line in lines:
                entries.append(from_line(line))
        except ValueError as error:
            if not entries:
                self._skip(file, lines[:1], str(error))
        return entries

    def _skip(self, file: SpoolFile, lines: Sequence[bytes], why: str) -> None:
        """A line that is none, or with no lines the whole file."""
        assert self._spool is not None
        count = len(lines) or file.count
        if count:
            log.warning("%d records in %s cannot be read: %s", count, file.path, why)
            self.lose(count, "a line in the spool was damaged")
        with self.lock:
            size = sum(map(len, lines)) if lines else file.end - file.start
            self._spool.drop(file, count, size, ())

    def _into_spool(self, item: Item) -> bool:
        if self._spool is None or not self._spool.has_room(item.size):
            return False
        line = to_line(item.entry)
        try:
            with self.lock:
                return self._spool.append(line, item.session)
        except OSError as error:
            self._complain(f"the spool cannot be written: {error}")
            return False

    def _move(self, items: Sequence[Item], first: bool = True) -> int:
        """Into a file of their own; how many there was room for."""
        if self._spool is None or not items:
            return 0
        moved: list[Item] = []
        file: SpoolFile | None = None
        try:
            with self.lock:
                file = self._spool.new_file(first)
            for item in items:
                line = self._line(item)
                if not self._reserved(len(line)):
                    break
                if line:
                    file.append(line)
                moved.append(item)
        except OSError as error:
            self._complain(f"the spool cannot be written: {error}")
        if file is not None:
            with self.lock:
                self._spool.insert(file, first, [item.session for item in moved])
        return len(moved)

    def _reserved(self, size: int) -> bool:
        assert self._spool is not None
        with self.lock:
            return self._spool.reserve(size)

    def _line(self, item: Item) -> bytes:
        try:
            return to_line(item.entry)
        except Exception as error:  # it has values that no store could keep
            self.lose(1, f"it cannot be written down: {error}")
            return b""

    def _complain(self, what: str) -> None:
        now = time.monotonic()
        if now - self._complained_at >= _COMPLAIN_S:
            self._complained_at = now
            log.error("%s", what)
