"""Where monitored calls are kept: the contract of a store, and the stores that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy
from pywrapai_monitor.db.base import BaseStore, MessageRecord, Row, StoreError, TokenRecord

if TYPE_CHECKING:
    from pywrapai_monitor.db.sqlite import LibraryStore, SQLiteStore

__all__ = [
    "BaseStore",
    "LibraryStore",
    "MessageRecord",
    "Row",
    "SQLiteStore",
    "StoreError",
    "TokenRecord",
]

# A foreign store needs the contract alone, and not SQLAlchemy.
__getattr__ = lazy(
    __name__,
    {
        "LibraryStore": "pywrapai_monitor.db.sqlite",
        "SQLiteStore": "pywrapai_monitor.db.sqlite",
    },
    extra="monitor",
)
