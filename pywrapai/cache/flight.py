"""Single flight: of callers who want the same thing at once, one gets it and the others wait."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Generic, TypeVar

from pywrapai.core.flow import Flow, Step

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Flights by key. Threads and tasks, of any event loop, may share one.

    A forked child has none of its parent's flights: the threads that fly them are not in it.
    """

    def __init__(self) -> None:
        self._flights: dict[tuple[int, str], Future[T | None]] = {}

    def board(self, key: str) -> Future[T | None] | None:
        """None for the first, who must `land`; for the others the flight to wait for."""
        own: Future[T | None] = Future()
        flight = self._flights.setdefault((os.getpid(), key), own)  # one step for all threads
        return None if flight is own else flight

    def land(self, key: str, result: T | None) -> None:
        """Give the waiting ones what was got; None if nothing was, and each tries for himself."""
        self._flights.pop((os.getpid(), key)).set_result(result)


def waiting(flight: Future[T | None]) -> Flow[T | None]:
    """Wait for another's flight; None where nothing came of it, or where waiting never ended."""

    def block() -> T | None:
        # The flight may be a task of the very loop that this blocking call is holding up.
        return None if _in_event_loop() and not flight.done() else flight.result()

    async def wait() -> T | None:
        import asyncio

        # shielded: a waiting task that is cancelled must not cancel it for all
        return await asyncio.shield(asyncio.wrap_future(flight))

    result: T | None = yield Step(block, wait)
    return result


def _in_event_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
