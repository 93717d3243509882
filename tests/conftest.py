"""What all tests share: no keys, no network but loopback, a stub server, the bundled model."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pywrapai import LLM
from pywrapai.providers import PROVIDERS
from pywrapai.testing import StubServer
from pywrapai.testing.network import no_network

# What a shell starts in the background ignores Ctrl-C, and so would the programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("tests.postgres",)  # a server that all modules share

KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OLLAMA_HOST",
    "PYWRAPAI_DB_URL",
)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _providers_as_they_were() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(PROVIDERS)
    yield
    PROVIDERS.clear()
    PROVIDERS.update(before)


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    with no_network():
        yield


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer() as running:
        yield running


@pytest.fixture
def llm(server: StubServer) -> LLM:
    """An LLM on the stub server that does not retry."""
    return LLM("openai", "gpt-4o-mini", api_key="sk-t3st", base_url=server.url(), max_retries=0)
