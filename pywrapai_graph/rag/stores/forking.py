"""Clients that a forked child must leave alone: those that have threads, or hold files locked."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakSet

from pywrapai.core.process import after_fork_in_child

_clients: WeakSet[Any] = WeakSet()


def stays_with_the_parent(client: Any) -> None:
    """In children that are forked from now on, the client is never freed, not even at their end.

    To free it there would wait for threads that the child does not have, or give away a lock that
    is the parent's, too.
    """
    _clients.add(client)


def _keep() -> None:
    for client in _clients:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _clients.clear()


after_fork_in_child(_keep)
