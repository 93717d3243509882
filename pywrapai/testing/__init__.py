"""For tests of code that calls models: scripted stand-ins, and a server that speaks the wires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy
from pywrapai.testing.stub import StubProvider

if TYPE_CHECKING:
    from pywrapai.testing.embedder import StubEmbedder
    from pywrapai.testing.network import NetworkBlockedError, no_network
    from pywrapai.testing.server import StubServer, refusing_port
    from pywrapai.testing.wires import Call, events, hang_up, html, raw, status, text, tool_calls

_SERVER = ("StubServer", "refusing_port")
_NETWORK = ("NetworkBlockedError", "no_network")
_REPLIES = ("Call", "events", "hang_up", "html", "raw", "status", "text", "tool_calls")

__all__ = [
    "Call",
    "NetworkBlockedError",
    "StubEmbedder",
    "StubProvider",
    "StubServer",
    "events",
    "hang_up",
    "html",
    "no_network",
    "raw",
    "refusing_port",
    "status",
    "text",
    "tool_calls",
]

# The server imports asyncio, which a scripted stand-in does without.
__getattr__ = lazy(
    __name__,
    {
        "StubEmbedder": "pywrapai.testing.embedder",
        **dict.fromkeys(_SERVER, "pywrapai.testing.server"),
        **dict.fromkeys(_NETWORK, "pywrapai.testing.network"),
        **dict.fromkeys(_REPLIES, "pywrapai.testing.wires"),
    },
)
