"""A pool of connections whose callers are not kept waiting when no connection can be made."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Empty
from typing_extensions import override


class Pool(QueuePool):
    """SQLAlchemy's own wakes those who wait when a connection comes back, and not when one could
    not be made, or all were thrown away: in an outage they would wait until their time is over.
    """

    def __init__(
        self, creator: Any, *, pool_size: int = 5, max_overflow: int = 10, **options: Any
    ) -> None:
        super().__init__(creator, pool_size=pool_size, max_overflow=max_overflow, **options)
        self._free = threading.Semaphore(pool_size + max_overflow)

    @override
    def _do_get(self) -> ConnectionPoolEntry:
        if not self._free.acquire(timeout=self.timeout()):
            raise PoolTimeoutError(f"no connection became free within {self.timeout():g} s")
        try:
            return self._idle() or self._create_connection()
        except BaseException:
            self._free.release()
            raise

    def _idle(self) -> ConnectionPoolEntry | None:
        try:
            return self._pool.get(False)
        except Empty:
            return None

    @override
    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        try:
            super()._do_return_conn(record)
        finally:
            self._free.release()
