"""Record every model call and conversation, and look at them in a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy

if TYPE_CHECKING:
    from pywrapai_monitor.agent import MonitoredAgent
    from pywrapai_monitor.dashboard.app import create_app
    from pywrapai_monitor.db import BaseStore, MySQLStore, PostgresStore, SQLiteStore, StoreError
    from pywrapai_monitor.graph import MonitoredGraph
    from pywrapai_monitor.monitor import Monitor
    from pywrapai_monitor.recorder import FlushReport
    from pywrapai_monitor.tracing import Tracing

__all__ = [
    "BaseStore",
    "FlushReport",
    "Monitor",
    "MonitoredAgent",
    "MonitoredGraph",
    "MySQLStore",
    "PostgresStore",
    "SQLiteStore",
    "StoreError",
    "Tracing",
    "create_app",
]

# SQLAlchemy and Flask take a second to import: each comes with the name that needs it.
__getattr__ = lazy(
    __name__,
    {
        "BaseStore": "pywrapai_monitor.db",
        "FlushReport": "pywrapai_monitor.recorder",
        "Monitor": "pywrapai_monitor.monitor",
        "MonitoredAgent": "pywrapai_monitor.agent",
        "MonitoredGraph": "pywrapai_monitor.graph",
        "MySQLStore": "pywrapai_monitor.db",
        "PostgresStore": "pywrapai_monitor.db",
        "SQLiteStore": "pywrapai_monitor.db",
        "StoreError": "pywrapai_monitor.db",
        "Tracing": "pywrapai_monitor.tracing",
        "create_app": "pywrapai_monitor.dashboard.app",
    },
    extra="monitor",
)
