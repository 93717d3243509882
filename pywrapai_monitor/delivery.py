"""Delivery: brings what is in the backlog into the store, in one thread that sleeps when idle."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from pywrapai_monitor import lifetime
from pywrapai_monitor.backlog import Backlog
from pywrapai_monitor.db.base import BaseStore, Entry
from pywrapai_monitor.queueing import Breaker, is_away
from pywrapai_monitor.spool import Session

log = logging.getLogger(__name__)

_BATCH = 256
_IDLE_S = 60.0
_FORK_WAIT_S = 1.0


class Delivery:
    """Shares the lock of its backlog. Who finds no thread, and can start none, does the work.

    As long as there is the thread it keeps its `owner` alive, who is closed when the process ends.
    """

    def __init__(
        self, store: BaseStore, backlog: Backlog, breaker: Breaker, owner: object = None
    ) -> None:
        self.breaker = breaker
        self.written = 0
        self.closed = False
        self._owner = owner
        self._store = store
        self._backlog = backlog
        # A store that saves them one by one may fail in the middle, and must not begin anew.
        self._batch = 1 if type(store).write is BaseStore.write else _BATCH
        self._lock = backlog.lock
        self._progress = threading.Condition(self._lock)
        self._bell: SimpleQueue[None] = SimpleQueue()  # keeps what rings while nobody listens
        self._serving = self._move_due = False
        self._asked = self._failed = self._wanted = 0  # numbers of attempts to reach the store
        self._asking = threading.Lock()
        self._is_resting = False
        self._thread: threading.Thread | None = None

    # What callers do

    def begin(self) -> None:
        """Have somebody do what there is to do: the thread, or else whoever calls this."""
        with self._lock:
            if self._serving:
                if self._bell.empty():
                    self._bell.put(None)
                return
            if self._is_idle():
                return
            self._serving = True
        if self.closed or not self._started_thread():
            self._serve(stay=False)

    def wait_for(self, session: Session, timeout: float | None) -> bool:
        """Until all of a session is in the store, or that is away; says whether it is."""
        holds = self._backlog.holds
        with self._lock:
            if not holds(session):
                return True
        self.begin()
        with self._progress:
            self._progress.wait_for(
                lambda: not holds(session) or self.breaker.wait_s() > 0, timeout
            )
            return not holds(session)

    def work_off(self, timeout: float | None) -> None:
        """Until all is in the store, or an attempt that begins now has failed."""
        with self._lock:
            if self._is_idle():
                return
            wanted = self._wanted = self._asked + 1
        self.begin()
        with self._progress:
            self._progress.wait_for(
                lambda: self._is_idle() or (self._failed >= wanted and self._is_aside()), timeout
            )

    def close(self) -> None:
        """Leave the rest to other processes, and what comes later to those who call `begin`."""
        with self._lock:
            self.closed = True
            thread = None if self._backlog.is_busy else self._thread
        self._bell.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
        self._leave()

    def rest(self) -> None:
        """Be out of the store for a while, if it is possible soon."""
        self._is_resting = self._asking.acquire(timeout=_FORK_WAIT_S)

    def go_on(self) -> None:
        """After `rest`."""
        if self._is_resting:
            self._asking.release()

    def keep(self, entries: Sequence[Entry], replayed: bool) -> tuple[int, Exception | None]:
        """How many of them, from the first on, are in the store or refused by it; and why it is
        away, if it is.
        """
        try:
            if replayed:
                self._store.write(entries, replayed=True)
            else:
                self._store.write(entries)
        except Exception as error:
            if is_away(error):
                return 0, error
            if len(entries) == 1:
                self.refused(entries[0], error)
                return 1, None
        else:
            self._went_well(len(entries))
            return len(entries), None
        for number, entry in enumerate(entries):  # one of them is bad
            _, away = self.keep([entry], replayed=True)
            if away is not None:
                return number, away
        return len(entries), None

    def refused(self, entry: Entry, error: Exception) -> None:
        """It will never be in the store."""
        log.error("a call of %r was not recorded", entry.token.user_id, exc_info=error)
        self._backlog.lose(1, f"it was refused: {error}")

    def trip(self, error: Exception) -> None:
        """The store is away."""
        with self._progress:
            was_there = self.breaker.reason is None
            self.breaker.trip(error)
            self._move_due = self._backlog.folder is not None
            self._progress.notify_all()
        if was_there:
            where = self._backlog.folder or "memory"
            log.warning("the store is away, and records wait in %s: %s", where, error)

    # The thread

    def _started_thread(self) -> bool:
        lifetime.close_with_multiprocessing()
        thread = threading.Thread(
            target=self._serve, args=(True,), name="pywrapai-recorder", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # there are too many, or the interpreter is about to end
            return False
        self._thread = thread
        return True

    def _serve(self, stay: bool) -> None:
        """Do what there is to do and then, if it is to `stay`, wait for more."""
        idle = False
        try:
            while (found := self._next(may_wait=stay and not idle)) is not None:
                job, wait_s = found
                if job is not None:
                    idle = False
                    self._do(job)
                else:
                    idle = not self._rings_within(wait_s or _IDLE_S) and not wait_s
        except BaseException:
            with self._lock:
                self._backlog.take_back()
                self._serving = False
            raise

    def _next(self, *, may_wait: bool) -> tuple[Callable[[], None] | None, float] | None:
        """What there is to do, if anything, and for how long the store is not to be asked; None
        where whoever serves may go.
        """
        with self._lock:
            job = self._job()
            if job is None and (self.closed or not may_wait):
                self._serving = False
                if (job := self._job()) is None:
                    return None
                self._serving = True  # it has come from garbage collection just now
            return job, self.breaker.wait_s()

    def _rings_within(self, timeout: float) -> bool:
        try:
            self._bell.get(timeout=timeout)
        except Empty:
            return False
        return True

    def _job(self) -> Callable[[], None] | None:
        may_ask = self._failed < self._wanted or not self.breaker.wait_s()
        if self._backlog.has_next():
            if may_ask:
                return self._write_some
            if self._move_due:
                return self._move_aside
        if may_ask and self._backlog.waiting:
            return self._replay_some
        return self._leave if self.closed and not self._is_idle() else None

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # of the disk, or of ours: either way they wait
            log.exception("records wait, because writing them failed")
            self._backlog.take_back()
            self._tell(error)

    def _write_some(self) -> None:
        with self._asking:
            self._asked += 1
            batch = self._backlog.take(self._batch)
            tried = any(item.tried for item in batch)
            handled, error = self.keep([item.entry for item in batch], replayed=tried)
        self._backlog.finish(batch, handled)
        self._tell(error)

    def _move_aside(self) -> None:
        self._move_due = False
        self._backlog.move_aside()
        self._tell()

    def _replay_some(self) -> None:
        error = None
        with self._asking:
            self._asked += 1
            if (portion := self._backlog.portion(self._batch)) is not None:
                handled, error = self.keep(portion.entries, replayed=True)
                self._backlog.drop(portion, handled)
        self._tell(error)

    def _leave(self) -> None:
        if left := self._backlog.leave():
            log.warning("%d records wait in %s to be replayed", left, self._backlog.folder)
        self._tell()

    # What came of it

    def _tell(self, error: Exception | None = None) -> None:
        """Those who wait, that something is done, or that the store is away."""
        if error is not None:
            self._failed = self._asked
            self.trip(error)
        with self._progress:
            self._progress.notify_all()

    def _went_well(self, count: int) -> None:
        with self._lock:
            self.written += count
            was_away = self.breaker.reason is not None
            self.breaker.close()
        if was_away:
            log.info("the store is back")

    def _is_idle(self) -> bool:
        return not (self._backlog.queued or self._backlog.waiting)

    def _is_aside(self) -> bool:
        """Whether nothing is about to go from memory to the spool, or is under way."""
        return not (self._backlog.is_busy or (self._move_due and self._backlog.has_next()))
