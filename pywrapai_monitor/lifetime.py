"""What must be closed when a process ends, and begins with nothing in a forked child."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from typing import Any, Protocol
from weakref import WeakSet


class Lasting(Protocol):
    """What lives as long as its process."""

    def close(self) -> Any:
        """Called at the end, whether it was closed before or not."""

    def rest(self) -> None:
        """Called before a fork."""

    def go_on(self) -> None:
        """Called after it, in the parent."""

    def begin(self) -> None:
        """Called after it, in the child."""


_ALL: WeakSet[Lasting] = WeakSet()
_finalized_in: int | None = None


def watch(lasting: Lasting) -> None:
    """From now on; it is not kept alive."""
    _ALL.add(lasting)
    _watch_forks()


@cache
def _watch_forks() -> None:
    # Not sooner: of what is to happen before a fork, that of a store made before comes later.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lambda: _each("rest"),
            after_in_parent=lambda: _each("go_on"),
            after_in_child=lambda: _each("begin"),
        )


def close_with_multiprocessing() -> None:
    """To be called in each process that has something to close: the children that multiprocessing
    makes end without what atexit knows.
    """
    global _finalized_in
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _finalized_in != os.getpid():
        _finalized_in = os.getpid()
        util.Finalize(None, _close_all, exitpriority=0)


def _close_all() -> None:
    _each("close")


def _each(method: str) -> None:
    for lasting in list(_ALL):
        getattr(lasting, method)()


atexit.register(_close_all)
