"""An MCP server for the tests: over stdio, or with `--http` on a free port, which it prints."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

server = MCPServer("test server", log_level="CRITICAL")
PIXEL = "iVBORw0KGgo="  # 8 bytes


class Meeting:
    """Two that wait for each other, and one that is told when another was cancelled."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.right = asyncio.Event()
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()


meetings: dict[str, Meeting] = {}


def meeting(name: str) -> Meeting:
    return meetings.setdefault(name, Meeting())


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def fail(why: str) -> str:
    """Always fails."""
    raise ToolError(why)


@server.tool()
async def slow(at: str) -> str:
    """Never ends by itself."""
    meeting(at).started.set()
    try:
        await asyncio.Event().wait()
    finally:
        meeting(at).cancelled.set()
    return "never"


@server.tool()
async def wait_started(at: str) -> str:
    """Wait until slow has been called there."""
    await meeting(at).started.wait()
    return "started"


@server.tool()
async def wait_cancelled(at: str) -> str:
    """Wait until slow has been cancelled there."""
    await meeting(at).cancelled.wait()
    return "cancelled"


@server.tool()
async def left(at: str) -> str:
    """Wait for right."""
    meeting(at).left.set()
    await meeting(at).right.wait()
    return "left met right"


@server.tool()
async def right(at: str) -> str:
    """Wait for left."""
    meeting(at).right.set()
    await meeting(at).left.wait()
    return "right met left"


@server.tool(structured_output=False)
def data() -> CallToolResult:
    """Structured content alone."""
    return CallToolResult(content=[], structured_content={"city": "Łódź", "degrees": [1, 2]})


@server.tool(structured_output=False)
def picture() -> CallToolResult:
    """Structured content and an image."""
    image = ImageContent(data=PIXEL, mime_type="image/png")
    return CallToolResult(content=[image], structured_content={"width": 1})


@server.tool(structured_output=False)
def everything() -> CallToolResult:
    """A part of each kind."""
    blob = BlobResourceContents(uri="file:///a.bin", blob=PIXEL, mime_type="application/x-thing")
    text = TextResourceContents(uri="file:///a.txt", text="what the file says")
    return CallToolResult(
        content=[
            TextContent(text="one"),
            ImageContent(data=PIXEL, mime_type="image/png"),
            EmbeddedResource(resource=blob),
            EmbeddedResource(resource=text),
            ResourceLink(uri="file:///b.txt", name="b", size=9),
            TextContent(text="two"),
        ],
        structured_content={"unused": True},
    )


@server.tool()
def silence() -> None:
    """Returns nothing."""


@server.tool(name="odd.näme/with dots", description="A name that no provider takes.")
def odd() -> str:
    return "odd"


@server.tool()
def die() -> str:
    """End the server's process in the middle of the call."""
    os._exit(3)


@server.tool()
def environment() -> dict[str, Any]:
    """What the process was given."""
    return {"pid": os.getpid(), "cwd": os.getcwd(), "env": dict(os.environ)}


@server.tool()
def complain(text: str) -> str:
    """Write to stderr."""
    print(text, file=sys.stderr, flush=True)
    return "said"


def serve_http() -> None:
    import uvicorn

    class Guarded:
        """Answers 401 to who does not know the word, where there is one."""

        def __init__(self, app: Any, word: str | None) -> None:
            self.app, self.word = app, word

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            headers = dict(scope.get("headers", ()))
            known = headers.get(b"authorization") == f"Bearer {self.word}".encode()
            if scope["type"] == "http" and self.word and not known:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await self.app(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = Guarded(server.streamable_http_app(), os.environ.get("TEST_WORD"))
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve_http()
    else:
        server.run()
