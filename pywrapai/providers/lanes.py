"""Many small connection pools in the place of a large one, for async callers.

An httpx pool walks over all of its connections for every request: of two milliseconds that a call
takes among a hundred at once, that is one. Here nobody's pool has more than LANE of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any, Self

LANE = 8
IDLE_S = 5.0
"""After so long without a request a further lane is closed; the first one stays."""


class _Lane:
    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.busy = 0
        """How many of its connections are in use."""
        self.used_at = monotonic()


class _Body:
    """A reply's body. Until it is closed it is being read: a stream goes on for minutes."""

    def __init__(self, body: Any, lane: _Lane) -> None:
        self._body = body
        self._lane: _Lane | None = lane

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._body)

    async def aclose(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.busy -= 1
        await self._body.aclose()


class Lanes:
    """An async transport, in the form that httpx and httpx2 take one in.

    Few requests at a time all go through the first lane, and so find its connections open.
    """

    def __init__(self, make: Callable[[], Any], stream_type: type[Any] = object) -> None:
        """`stream_type` is the library's class of all bodies; it takes no others."""
        self._make = make
        self._lanes = [_Lane(make())]
        self._body: Any = type("Body", (_Body, stream_type), {})

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request through the first lane that has room."""
        lane = next((lane for lane in self._lanes if lane.busy < LANE), None)
        if lane is None:
            lane = _Lane(self._make())
            self._lanes.append(lane)
        lane.busy += 1
        lane.used_at = now = monotonic()
        try:
            await self._close_idle(now)
            reply = await lane.transport.handle_async_request(request)
        except BaseException:
            lane.busy -= 1
            raise
        reply.stream = self._body(reply.stream, lane)
        return reply

    async def _close_idle(self, now: float) -> None:
        last = self._lanes[-1]
        if len(self._lanes) > 1 and not last.busy and now - last.used_at > IDLE_S:
            self._lanes.pop()
            await last.transport.aclose()

    async def aclose(self) -> None:
        """Close them all."""
        for lane in self._lanes:
            await lane.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()
