"""Which store a URL means."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from pywrapai.core.extras import needs
from pywrapai.exceptions import ConfigurationError
from pywrapai_monitor.db.base import BaseStore

# Scheme: the home of the store, its class, and the extra that installs what it imports.
STORES = {
    "sqlite": ("pywrapai_monitor.db.sqlite", "SQLiteStore", "monitor"),
    "postgresql": ("pywrapai_monitor.db.postgres", "PostgresStore", "postgres"),
    "postgres": ("pywrapai_monitor.db.postgres", "PostgresStore", "postgres"),
    "mysql": ("pywrapai_monitor.db.mysql", "MySQLStore", "mysql"),
    "mariadb": ("pywrapai_monitor.db.mysql", "MySQLStore", "mysql"),
}


def store_from_url(url: str | os.PathLike[str], **options: Any) -> BaseStore:
    """The store that the scheme stands for; what has none is the path of an SQLite file.

    Args:
        url: "sqlite:///library.db", "postgresql://...", "mysql+pymysql://..." or a path.
        options: keyword arguments of the store.

    Raises:
        ConfigurationError: there is no store for this scheme.
        MissingDependencyError: the store's driver is not installed.
        StoreError: the database cannot be opened.
    """
    text = os.fspath(url)
    name, found, _ = text.partition("://")
    scheme = name.partition("+")[0] if found else "sqlite"
    if scheme not in STORES:
        # Nothing but the scheme is told, for the rest may hold a password.
        raise ConfigurationError(
            f"there is no store for {scheme!r} databases: give a path, or a URL that begins with "
            + ", ".join(f"{known}://" for known in STORES)
        )
    home, store, extra = STORES[scheme]
    with needs(extra):
        found_class = getattr(import_module(home), store)
    made: BaseStore = found_class(text, **options)
    return made
