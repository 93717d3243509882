"""One colour per model on every page: a number, of which the stylesheet and the charts make one."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from pywrapai_monitor.db.base import Row

PALETTE = 10


def model_color(provider: str, model: str) -> int:
    """The colour that a model has if no other has it."""
    return crc32(f"{provider}\n{model}".encode("utf-8", "surrogatepass")) % PALETTE


class Colors:
    """Of all models that there are, by their names: a model that is new seldom changes others'.

    Two models have the same only if there are more models than colours.
    """

    def __init__(self, models: Iterable[Row]) -> None:
        names = sorted({(row["provider"] or "", row["model"]) for row in models})
        self._colors: dict[tuple[str, str], int] = {}
        taken: set[int] = set()
        for name in names:
            color = model_color(*name)
            if len(taken) < PALETTE:
                while color in taken:
                    color = (color + 1) % PALETTE
                taken.add(color)
            self._colors[name] = color

    def of(self, row: Row) -> int:
        """Of a row that has a model and its provider."""
        name = (row.get("provider") or "", row["model"])
        return self._colors.get(name, model_color(*name))
