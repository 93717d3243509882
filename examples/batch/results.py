"""What came back, in an SQLite file: a row is in it once, and from the moment it was answered."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pywrapai import LLMResponse

SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    number INTEGER PRIMARY KEY, answer TEXT, error TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0, priced INTEGER NOT NULL DEFAULT 1)
"""


@dataclass(frozen=True, slots=True)
class Bill:
    answered: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced: int
    """Rows whose model has no price that is known; they are missing in `cost_usd`."""


class Results:
    """Open it in one process at a time: a second one is told that the database is locked."""

    def __init__(self, path: Path) -> None:
        # Each row is a transaction of its own. In WAL mode a process that is killed loses none.
        self._database = sqlite3.connect(path, isolation_level=None, timeout=1)
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(SCHEMA)

    def answered(self) -> set[int]:
        """The numbers of the rows that need not be asked again."""
        rows = self._database.execute("SELECT number FROM results WHERE error IS NULL")
        return {number for (number,) in rows}

    def keep(self, number: int, response: LLMResponse) -> None:
        usage = response.usage
        self._database.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, NULL, ?, ?, ?, ?)",
            (
                *(number, response.content.strip(), usage.input_tokens, usage.output_tokens),
                *(response.cost_usd, response.priced),
            ),
        )

    def keep_error(self, number: int, error: str) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO results (number, error) VALUES (?, ?)", (number, error)
        )

    def bill(self) -> Bill:
        """Of all rows, in whichever run they were answered."""
        sums = self._database.execute(
            "SELECT count(*) - count(error), count(error), coalesce(sum(input_tokens), 0), "
            "coalesce(sum(output_tokens), 0), coalesce(sum(cost_usd), 0), "
            "coalesce(sum(NOT priced), 0) FROM results"
        )
        return Bill(*sums.fetchone())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._database.close()
