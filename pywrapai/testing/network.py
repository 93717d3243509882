"""A switch that makes every network call beyond this machine fail."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_blocks = 0
_installed = False


class NetworkBlockedError(OSError):
    """Something tried to leave this machine while `no_network` was on."""


@contextmanager
def no_network() -> Iterator[None]:
    """While the block runs, connecting or looking a name up beyond loopback raises.

    It holds for all threads and all libraries of this process, asyncio included: the switch is
    one of Python's audit hooks, which see what any of them hands to the operating system.
    """
    global _blocks, _installed
    if not _installed:
        sys.addaudithook(_watch)  # stays for ever, and does nothing while no block runs
        _installed = True
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _blocks:
        return
    if event == "socket.connect" or event == "socket.sendto":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host is not None and not _is_here(host):
        raise NetworkBlockedError(
            f"{host!r} is beyond this machine, and no_network is on: give the code a StubProvider "
            "or the base_url of a StubServer"
        )


def _is_here(host: str | bytes) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified  # 0.0.0.0 is what servers listen on
