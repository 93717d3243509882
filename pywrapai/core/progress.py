"""A progress bar for work that takes long enough to want one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pywrapai.core.extras import needs

DELAY_SECONDS = 0.5
"""Work that is over sooner shows nothing."""


@contextmanager
def progress(total: int, unit: str, *, shown: bool) -> Iterator[Callable[[int], object]]:
    """What to call with the number of units that were done; where it is `shown`, on stderr."""
    if not shown:
        yield _nothing
        return
    with needs("rag"):
        from tqdm import tqdm
    with tqdm(total=total, unit=unit, delay=DELAY_SECONDS) as bar:
        yield bar.update


def _nothing(count: int) -> None:
    """Where no progress is shown."""
