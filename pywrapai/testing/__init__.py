"""For tests of code that calls models: scripted stand-ins, and a server that speaks the wires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.core.extras import lazy
from pywrapai.testing.stub import StubProvider

if TYPE_CHECKING:
    from pywrapai.testing.embedder import StubEmbedder
    from pywrapai.testing.server import StubServer, refusing_port

__all__ = ["StubEmbedder", "StubProvider", "StubServer", "refusing_port"]

# The server imports asyncio, which a scripted stand-in does without.
__getattr__ = lazy(
    __name__,
    {
        "StubEmbedder": "pywrapai.testing.embedder",
        "StubServer": "pywrapai.testing.server",
        "refusing_port": "pywrapai.testing.server",
    },
)
