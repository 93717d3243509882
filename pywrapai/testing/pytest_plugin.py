"""Fixtures for tests of code that calls models; pytest finds them once pywrapai is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pywrapai.testing.server import StubServer


@pytest.fixture
def pywrapai_server() -> Iterator[StubServer]:
    """A running StubServer: queue replies, and give `pywrapai_server.url("openai")` as base_url."""
    from pywrapai.testing.server import StubServer

    with StubServer() as server:
        yield server


@pytest.fixture
def pywrapai_no_network() -> Iterator[None]:
    """Makes every network call beyond this machine fail for the length of a test.

    For all tests: `@pytest.fixture(autouse=True)` on a fixture of your own that takes this one.
    """
    from pywrapai.testing.network import no_network

    with no_network():
        yield
