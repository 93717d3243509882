"""Record every model call and conversation, and look at them in a dashboard."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pywrapai_monitor.dashboard import create_app
    from pywrapai_monitor.db import SQLiteStore
    from pywrapai_monitor.db.base import BaseStore, StoreError
    from pywrapai_monitor.graph import MonitoredGraph
    from pywrapai_monitor.monitor import Monitor

_HOMES = {
    "BaseStore": "pywrapai_monitor.db.base",
    "Monitor": "pywrapai_monitor.monitor",
    "MonitoredGraph": "pywrapai_monitor.graph",
    "SQLiteStore": "pywrapai_monitor.db",
    "StoreError": "pywrapai_monitor.db.base",
    "create_app": "pywrapai_monitor.dashboard",
}

__all__ = [
    "BaseStore",
    "Monitor",
    "MonitoredGraph",
    "SQLiteStore",
    "StoreError",
    "create_app",
]


def __getattr__(name: str) -> Any:
    """SQLAlchemy and Flask cost a second to import: each is loaded with the name that needs it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
