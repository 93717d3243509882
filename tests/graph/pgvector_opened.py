"""The table of a test, opened as often as the test asks."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pywrapai_graph.rag.stores.pgvector import PGVectorStore


class Opened:
    """Opens the table of a test, as often as it is asked to; it is gone with its database."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.table = f"t_{uuid4().hex}"
        self.stores: list[PGVectorStore] = []

    def __call__(self, **options: Any) -> PGVectorStore:
        self.stores.append(PGVectorStore(self.database, **{"table_name": self.table} | options))
        return self.stores[-1]
