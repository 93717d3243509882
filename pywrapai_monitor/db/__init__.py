"""Where monitored calls are kept: the contract of a store, and the stores that there are.

`base.py` is the contract. A store answers it in layers, each a class on the one below:

- `transactions.py` opens the database, begins and ends, explains errors, survives forks;
- `deletion.py` deletes, by `purge.py`; `sql.py` has all other methods: `batch.py` writes,
  `queries.py` reads, `prompts.py` and `feedback.py` have tables of their own, `sql_export.py`
  reads whole tables;
- `sqlite.py`, `postgres.py` and `mysql.py` have what differs, the latter two by way of `server.py`.

`tables.py` is the schema: rows, and the `*_totals`, which are running sums of them. `rows.py` and
`codec.py` turn records into rows and back, `totals.py` says what a row adds to the totals, and
`buckets.py` how these divide time. `schema.py`, `migrations.py` and `recount.py` make the tables
and bring old ones up to date.

A figure on a page of the dashboard comes from `Analytics` (`analytics.py`), which has two answers:

- `sql_analytics.py` for SQL: `sql_figures.py` (figures, steps, models, users, tools),
  `sql_prompts.py` (versions of a prompt), `sql_lists.py` (calls, pins), `sql_sessions.py`
  (conversations and the search), `sql_details.py` (one call, one message). Sums of a time are
  `sql_sums.py`'s, out of the totals; percentiles are `latency.py`'s, out of a histogram.
- `plain_analytics.py` for any other store, by the methods of the contract alone:
  `plain_figures.py`, `plain_pages.py`, `plain_texts.py`.
"""

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
