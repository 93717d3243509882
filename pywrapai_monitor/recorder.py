"""Recorder: brings entries into their store, now or in the background, and loses none in silence.

While the store is away they wait in a spool, or in memory where there is none, and are replayed
when it is back. The entries of a session stay in their order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from pywrapai_monitor import lifetime
from pywrapai_monitor.backlog import Backlog
from pywrapai_monitor.db.base import BaseStore, Entry
from pywrapai_monitor.delivery import Delivery
from pywrapai_monitor.queueing import Breaker, item_of, session_of
from pywrapai_monitor.spool import Spool

_SETTLE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushReport:
    """What became of the entries. True only if none is outside of the store."""

    written: int
    """Since the last report."""
    spooled: int
    """How many wait in the spool now."""
    lost: int
    """Since the last report."""
    queued: int
    """How many wait in memory now."""
    reason: str | None = None
    """Why some are not in the store, where that is known."""

    def __bool__(self) -> bool:
        return not (self.spooled or self.lost or self.queued)


class Recorder:
    """May be used by many threads and event loops at once, and after a fork.

    Args:
        store: where entries go. What it raises means that it refused an entry, unless it is a
            StoreError with `retryable`, a ConnectionError or a TimeoutError: then it is away.
        spool_dir: the folder in which entries wait while it is; None keeps them in memory.
        max_queued_bytes: how much of memory may hold entries.
        max_spool_bytes: how much of the disk may, for this process.
        first_wait_s: for how long nobody asks the store after it was found to be away.
        longest_wait_s: to what that grows, doubling.

    An entry is saved once, also when it is replayed after a crash, if the store knows `replayed`;
    one that does not may get it once more.

    What is in memory is written at exit, but not when the process is killed, or ended by a signal
    that nobody handles, as SIGTERM is by default. What `write` has returned from is safe then.
    """

    def __init__(
        self,
        store: BaseStore,
        spool_dir: str | os.PathLike[str] | None = None,
        *,
        max_queued_bytes: int = 64 * 1024 * 1024,
        max_spool_bytes: int = 1024 * 1024 * 1024,
        first_wait_s: float = 0.5,
        longest_wait_s: float = 30.0,
    ) -> None:
        self._store = store
        self._spool_dir = spool_dir
        self._max_queued_bytes = max_queued_bytes
        self._max_spool_bytes = max_spool_bytes
        self._waits_s = (first_wait_s, longest_wait_s)
        self.begin()
        lifetime.watch(self)
        self._backlog.adopt()
        self._delivery.begin()

    # What callers do

    def write(self, entry: Entry) -> None:
        """Save an entry now. If the store is away it waits in the spool.

        Raises nothing but what is no Exception, such as KeyboardInterrupt.
        """
        try:
            self._write(entry)
        except Exception as error:
            self._delivery.refused(entry, error)

    def enqueue(self, entry: Entry) -> None:
        """Save an entry in the background; after `close`, now. Raises as little as `write`."""
        try:
            self._enqueue(entry)
        except Exception as error:
            self._delivery.refused(entry, error)

    @property
    def uses_disk(self) -> bool:
        """Whether `enqueue` puts entries into the spool now."""
        return self._backlog.waiting > 0 or self._delivery.breaker.wait_s() > 0

    def settle(self, user_id: str, session_id: str, timeout: float | None = _SETTLE_S) -> bool:
        """Wait until all entries of a session are in the store, or it is found to be away.

        Says whether they are. `timeout` is in seconds.
        """
        self._adopt()
        return self._delivery.wait_for((user_id, session_id), timeout)

    def flush(self, timeout: float | None = None) -> FlushReport:
        """Wait until everything is in the store, for at most `timeout` seconds.

        A store that is away is asked once more, at once, and not waited for.
        """
        self.settle_all(timeout)
        return self._report()

    def settle_all(self, timeout: float | None = _SETTLE_S) -> None:
        """`flush` without its report, which is left to who asks for it."""
        self._adopt()
        self._delivery.work_off(timeout)

    def counts(self) -> dict[str, int]:
        """How many are "queued" and "spooled" now, and were "written" and "lost" in all."""
        with self._backlog.lock:
            return {
                "queued": self._backlog.queued,
                "spooled": self._backlog.spooled,
                "lost": self._backlog.lost,
                "written": self._delivery.written,
            }

    def close(self, timeout: float | None = 10.0) -> FlushReport:
        """Flush; what is not in the store after `timeout` seconds is left in the spool.

        May be called twice.
        """
        self._adopt()
        self._delivery.work_off(timeout)
        self._delivery.close()
        return self._report()

    # What forks do

    def begin(self) -> None:
        """With nothing, as in a forked child: what waits is its parent's."""
        folder = self._spool_dir
        spool = None if folder is None else Spool(folder, self._max_spool_bytes)
        self._backlog = Backlog(spool, self._max_queued_bytes)
        self._delivery = Delivery(self._store, self._backlog, Breaker(*self._waits_s), owner=self)
        self._reported = (0, 0)

    def rest(self) -> None:
        """Before a fork: a child must not be born while the thread is in the store."""
        self._delivery.rest()

    def go_on(self) -> None:
        """After a fork."""
        self._delivery.go_on()

    # Where an entry goes

    def _write(self, entry: Entry) -> None:
        session = session_of(entry)
        backlog, delivery = self._backlog, self._delivery
        with backlog.lock:
            free = not (backlog.waiting or backlog.holds(session) or delivery.breaker.wait_s())
        if not free:
            self._enqueue(entry)
            delivery.wait_for(session, _SETTLE_S)
            return
        try:
            _, away = delivery.keep([entry], replayed=False)
        except BaseException:  # nobody knows whether it was kept
            self._put_aside(entry)
            raise
        if away is not None:
            delivery.trip(away)
            self._put_aside(entry)

    def _enqueue(self, entry: Entry) -> None:
        self._backlog.add(item_of(entry), aside=self._delivery.breaker.wait_s() > 0)
        self._delivery.begin()

    def _put_aside(self, entry: Entry) -> None:
        self._backlog.add(item_of(entry, tried=True), aside=True)
        self._delivery.begin()

    def _adopt(self) -> None:
        if not self._delivery.closed:
            self._backlog.adopt()

    def _report(self) -> FlushReport:
        backlog, delivery = self._backlog, self._delivery
        with backlog.lock:
            written, lost = self._reported
            self._reported = (delivery.written, backlog.lost)
            lost = backlog.lost - lost
            return FlushReport(
                written=delivery.written - written,
                spooled=backlog.spooled,
                lost=lost,
                queued=backlog.queued,
                reason=delivery.breaker.reason or (backlog.loss if lost else None),
            )
