"""Which rows have which values in their metadata, so that a filter need not read all of it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pywrapai.core.process import ProcessLock
from pywrapai_graph.rag.metadata import Where, tag_of

T = TypeVar("T")
Mask: TypeAlias = npt.NDArray[np.bool_]
_RowsByTag: TypeAlias = "dict[str, array[int]]"


class Tagged(Generic[T]):
    """Rows by their values for each key that somebody has filtered by.

    Args:
        metadata_of: gives the metadata of items; asked when a key is first filtered by, and then
            for new items.
    """

    def __init__(self, metadata_of: Callable[[Sequence[T]], Iterable[dict[str, Any]]]) -> None:
        self._metadata_of = metadata_of
        self._lock = ProcessLock()
        self._rows: dict[str, _RowsByTag] = {}

    def extend(self, items: Sequence[T], first: int) -> None:
        """Note what new items have; the row of the first one is `first`, and so on."""
        with self._lock:
            self._note(self._rows, items, first)

    def passing(self, where: Where, items: Sequence[T]) -> Mask:
        """For each row, be it dead, whether it passes; `items` are those of all rows."""
        with self._lock:
            fresh: dict[str, _RowsByTag] = {
                key: {} for key, _ in where.wanted if key not in self._rows
            }
            self._note(fresh, items, 0)
            self._rows.update(fresh)
            passing = np.ones(len(items), dtype=np.bool_)
            for key, tags in where.wanted:
                having = np.zeros(len(items), dtype=np.bool_)
                for rows in filter(None, map(self._rows[key].get, tags)):
                    having[np.asarray(rows)] = True
                passing &= having
            return passing

    def _note(self, noted: dict[str, _RowsByTag], items: Sequence[T], first: int) -> None:
        if not noted:
            return
        for row, metadata in enumerate(self._metadata_of(items), first):
            for key, rows in noted.items():
                value = metadata.get(key, noted)  # which is no value
                if value is None or isinstance(value, (str, int, float)):
                    rows.setdefault(tag_of(key, value), array("q")).append(row)
