"""What the views ask: a store and its figures, the time, and what waits outside of the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from pywrapai_monitor.dashboard.colors import Colors
from pywrapai_monitor.dashboard.params import BadParameterError, Values
from pywrapai_monitor.dashboard.ranges import Range, range_of
from pywrapai_monitor.db.analytics import Analytics, Span
from pywrapai_monitor.db.base import BaseStore
from pywrapai_monitor.spool_files import look_at, spool_dir_of

Counts: TypeAlias = Mapping[str, int | None]
T = TypeVar("T")

_LOOK_AGAIN_S = 15.0
_MODELS_AGAIN_S = 10.0


class NotThereError(LookupError):
    """What an address names is not in the store."""


@dataclass(slots=True)
class _Kept:
    """An answer that is not asked for again at once; two threads may ask at the same time."""

    for_s: float
    until: float = float("-inf")
    value: Any = None

    def get(self, ask: Callable[[], T]) -> T:
        if time.monotonic() >= self.until:
            self.value = ask()
            self.until = time.monotonic() + self.for_s
        value: T = self.value
        return value


@dataclass(frozen=True, slots=True)
class Source:
    """One for an app; what belongs to a request comes as arguments."""

    store: BaseStore
    tz: str
    clock: Callable[[], int]
    """Nanoseconds since 1970."""
    counts: Callable[[], Mapping[str, int]] | None
    analytics: Analytics
    _waiting: _Kept = field(default_factory=lambda: _Kept(_LOOK_AGAIN_S))
    _colors: _Kept = field(default_factory=lambda: _Kept(_MODELS_AGAIN_S))

    @property
    def now(self) -> int:
        """Microseconds since 1970."""
        return self.clock() // 1000

    def range(self, values: Values) -> Range:
        """The time that a page is asked for."""
        return range_of(values, self.tz, self.now)

    def colors(self) -> Colors:
        """Of all models that were ever called."""
        return self._colors.get(lambda: Colors(self.analytics.models(Span())))

    def outside(self) -> tuple[Counts, str] | None:
        """What is not in the store, and where that was counted: in the "recorder" of this process,
        or in the "spool" by its files, where nobody knows what other processes have in memory.
        """
        if self.counts is not None:
            return dict(self.counts()), "recorder"
        spooled = self._waiting.get(self._spooled)
        if spooled is None:
            return None
        return {"queued": None, "spooled": spooled, "lost": None, "written": None}, "spool"

    def _spooled(self) -> int | None:
        folder = spool_dir_of(self.store)
        if folder is None:
            return None
        with suppress(OSError):
            return sum(file.entries for file in look_at(folder))
        return None


def source_of(
    store: BaseStore,
    tz: str,
    clock: Callable[[], int],
    counts: Callable[[], Mapping[str, int]] | None,
) -> Source:
    """Over any store."""
    return Source(store, tz, clock, counts, store.analytics())


@contextmanager
def known() -> Iterator[None]:
    """A KeyError of the store says that an address names what is not there."""
    try:
        yield
    except KeyError as error:
        raise NotThereError(str(error.args[0]) if error.args else "not there") from error


@contextmanager
def checked_cursor() -> Iterator[None]:
    """A ValueError of the store says that a cursor is none."""
    try:
        yield
    except ValueError as error:
        raise BadParameterError(
            "cursor must be what the page before said in next: begin again without it"
        ) from error
