"""What is to be asked: the texts of a CSV file, or made-up reviews."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

THINGS = ("kettle", "desk lamp", "wool blanket", "office chair", "bird feeder", "notebook")
GOOD = ("works well", "is lovely", "is just what I wanted", "looks great")
BAD = ("broke in a week", "is too small", "arrived late", "smells odd")


def read_rows(path: Path | None, count: int) -> list[str]:
    """The column `text` of a CSV file, or `count` reviews, the same each time."""
    if path is not None:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row["text"] for row in csv.DictReader(file)]
    random = Random(2026)
    return [
        f"No. {number}: the {random.choice(THINGS)} {random.choice(random.choice((GOOD, BAD)))}."
        for number in range(1, count + 1)
    ]
