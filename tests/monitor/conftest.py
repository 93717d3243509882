"""What tests of the dashboard in a browser share; nothing is imported before one of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from tests.monitor.dashboard_browser import browsing

    with browsing() as running:
        yield running


@pytest.fixture
def read(browser: Any) -> Iterator[Callable[..., Any]]:
    """Gives readers of a site, none of whom may have had a fault in the end."""
    from tests.monitor.dashboard_browser import Reader, Site

    readers = []

    def start(site: Site, **options: Any) -> Reader:
        readers.append(Reader(browser, site.url, **options))
        return readers[-1]

    yield start
    for reader in readers:
        reader.context.close()
    assert [fault for reader in readers for fault in reader.faults] == []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A dashboard over 1,200 calls of the thirty days up to NOW, in a file."""
    from pywrapai_monitor import SQLiteStore
    from tests.contracts.store_rows import Clock
    from tests.monitor.dashboard_browser import NOW, served
    from tests.monitor.dashboard_data import fill

    clock = Clock(NOW)
    store = SQLiteStore(tmp_path_factory.mktemp("desk") / "desk.db", clock=clock)
    fill(store, 1200, NOW, clock)
    with served(store, clock) as site:
        yield site
    store.close()
