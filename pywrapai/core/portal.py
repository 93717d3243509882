"""An event loop in a background thread, for the async work of callers that are not async.

One loop serves the whole process and goes on between calls, so that what an async function keeps
open, such as a client's connections, is still good at its next call.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from pywrapai.core.process import after_fork_in_child

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

T = TypeVar("T")

_STOP_SECONDS = 2.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for the coroutine's result. It runs in a copy of the caller's context variables.

    An exception here, such as Ctrl-C, cancels it.
    """
    if is_here():
        return _apart(coroutine)  # the loop would wait for itself, for ever
    return result_of(start(coroutine))


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run the coroutine in the background loop itself; cancelling the future cancels it.

    It runs in a copy of the caller's context variables.
    """
    from asyncio import run_coroutine_threadsafe

    return run_coroutine_threadsafe(coroutine, _the_loop().loop)


def is_here() -> bool:
    """Whether the caller is in the loop's own thread, which must not wait for what is started."""
    return threading.current_thread() is _background


def result_of(future: Future[T]) -> T:
    """Wait for what was started. An exception here, such as Ctrl-C, cancels it."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """In a thread and a loop of its own."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "pywrapai-portal") as thread:
        return thread.submit(copy_context().run, asyncio.run, coroutine).result()


class _Background(threading.Thread):
    def __init__(self) -> None:
        from asyncio import new_event_loop

        super().__init__(name="pywrapai-portal", daemon=True)
        self.loop: AbstractEventLoop = new_event_loop()

    def run(self) -> None:
        from asyncio import Runner

        with Runner(loop_factory=lambda: self.loop) as runner:
            runner.get_loop().run_forever()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join(_STOP_SECONDS)


_lock = threading.Lock()
_background: _Background | None = None


def _the_loop() -> _Background:
    global _background
    with _lock:
        if _background is None:
            import atexit

            _background = _Background()
            _background.start()
            atexit.register(_stop)
        return _background


def _stop() -> None:
    if _background is not None and not _background.loop.is_closed():  # a child registers it anew
        _background.stop()


def _forget() -> None:
    """The thread has stayed in the parent, and the lock may be held there."""
    global _background, _lock
    _background, _lock = None, threading.Lock()


after_fork_in_child(_forget)
