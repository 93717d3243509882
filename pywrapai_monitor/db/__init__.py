"""Where monitored calls are kept. Import this and you import SQLAlchemy; Monitor does when used."""

from pywrapai_monitor.db.base import BaseStore, MessageRecord, Row, StoreError, TokenRecord
from pywrapai_monitor.db.sqlite import SQLiteStore

LibraryStore = SQLiteStore

__all__ = [
    "BaseStore",
    "LibraryStore",
    "MessageRecord",
    "Row",
    "SQLiteStore",
    "StoreError",
    "TokenRecord",
]
