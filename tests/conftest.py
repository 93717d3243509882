"""What all tests share: no keys, no network but loopback, a stub server, the bundled model."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

import pytest

from pywrapai import LLM
from pywrapai.testing.server import StubServer

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PYWRAPAI_DB_URL")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and not ipaddress.ip_address(address[0]).is_loopback:
            raise OSError(f"a test tried to reach {address!r}: only loopback is allowed")
        connect(self, address)  # type: ignore[arg-type]  # typeshed has the platform's union here

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer() as running:
        yield running


@pytest.fixture
def llm(server: StubServer) -> LLM:
    """An LLM on the stub server that does not retry."""
    return LLM("openai", "gpt-4o-mini", api_key="sk-t3st", base_url=server.url(), max_retries=0)
