"""Record every model call and conversation, and look at them in a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy

if TYPE_CHECKING:
    from pywrapai_monitor.dashboard.app import create_app
    from pywrapai_monitor.db.base import BaseStore, StoreError
    from pywrapai_monitor.db.sqlite import SQLiteStore
    from pywrapai_monitor.graph import MonitoredGraph
    from pywrapai_monitor.monitor import Monitor

__all__ = [
    "BaseStore",
    "Monitor",
    "MonitoredGraph",
    "SQLiteStore",
    "StoreError",
    "create_app",
]

# SQLAlchemy and Flask take a second to import: each comes with the name that needs it.
__getattr__ = lazy(
    __name__,
    {
        "BaseStore": "pywrapai_monitor.db.base",
        "Monitor": "pywrapai_monitor.monitor",
        "MonitoredGraph": "pywrapai_monitor.graph",
        "SQLiteStore": "pywrapai_monitor.db.sqlite",
        "StoreError": "pywrapai_monitor.db.base",
        "create_app": "pywrapai_monitor.dashboard.app",
    },
    extra="monitor",
)
