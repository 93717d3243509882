"""Where monitored calls are kept: the contract of a store, and the stores that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy
from pywrapai_monitor.db.base import (
    BaseStore,
    Entry,
    Feedback,
    MessageRecord,
    Row,
    StoreError,
    TokenRecord,
    ToolStep,
)

if TYPE_CHECKING:
    from pywrapai_monitor.db.mysql import MySQLStore
    from pywrapai_monitor.db.postgres import PostgresStore
    from pywrapai_monitor.db.sqlite import LibraryStore, SQLiteStore

__all__ = [
    "BaseStore",
    "Entry",
    "Feedback",
    "LibraryStore",
    "MessageRecord",
    "MySQLStore",
    "PostgresStore",
    "Row",
    "SQLiteStore",
    "StoreError",
    "TokenRecord",
    "ToolStep",
]

# A foreign store needs the contract alone, and not SQLAlchemy.
__getattr__ = lazy(
    __name__,
    {
        "LibraryStore": "pywrapai_monitor.db.sqlite",
        "MySQLStore": "pywrapai_monitor.db.mysql",
        "PostgresStore": "pywrapai_monitor.db.postgres",
        "SQLiteStore": "pywrapai_monitor.db.sqlite",
    },
    extra="monitor",
)
