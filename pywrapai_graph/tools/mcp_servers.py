"""MCP servers as they are given to `add_mcp`, and the way to each: a process, or an URL."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

_READ_SECONDS = 300.0
"""Between two bytes of an HTTP answer, at least: a server may hold a stream open."""


@dataclass(frozen=True, slots=True)
class Process:
    """A server that is a child of this process, spoken to by its stdin and stdout."""

    command: Sequence[str]
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    failure = "cannot be started"
    advice = "run its command by itself to see why"

    def __post_init__(self) -> None:
        if isinstance(self.command, str) or not self.command:
            raise ValueError(
                "command is a list, the program first, such as [sys.executable, 'server.py'], not "
                f"{self.command!r:.100}"
            )

    def __str__(self) -> str:
        return f"{shlex.join(self.command):.100}"

    def transport(self, timeout: float) -> AbstractAsyncContextManager[Any]:
        """The running process, while the block runs."""
        program, *arguments = self.command
        settings = StdioServerParameters(
            command=program,
            args=arguments,
            env=dict(self.env) if self.env is not None else None,
            cwd=os.fspath(self.cwd) if self.cwd is not None else None,
        )
        return stdio_client(settings, errlog=_stderr())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that listens for streamable HTTP."""

    url: str
    headers: Mapping[str, str] | None = None
    refused: list[int] = field(default_factory=list, init=False)
    """The HTTP status of the last request that was, if one was."""
    failure = "cannot be reached"

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url starts with http:// or https://, unlike {self.url!r:.100}")

    def __str__(self) -> str:
        shown = httpx2.URL(self.url).copy_with(userinfo=b"", query=None, fragment=None)
        return f"{shown!s:.100}"

    @property
    def advice(self) -> str:
        """What to do when there is no session."""
        told = f"it answered with HTTP {self.refused[-1]}: " if self.refused else ""
        return f"{told}check the URL, the headers, and that the server runs"

    @asynccontextmanager
    async def transport(self, timeout: float) -> AsyncGenerator[Any, None]:
        """The connections, while the block runs."""
        limits = httpx2.Timeout(timeout, read=max(timeout, _READ_SECONDS))

        async def note(response: httpx2.Response) -> None:
            if response.status_code >= 400:
                self.refused[:] = [response.status_code]

        hooks = {"response": [note]}
        async with (
            httpx2.AsyncClient(headers=self.headers, timeout=limits, event_hooks=hooks) as http,
            streamable_http_client(self.url, http_client=http) as streams,
        ):
            yield streams


def server_of(
    command: Sequence[str] | None,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    url: str | None,
    headers: Mapping[str, str] | None,
) -> Process | Endpoint:
    """The server that these arguments of `add_mcp` mean. ValueError if they contradict."""
    if (command is None) == (url is None):
        raise ValueError("give either command=[...], to start a server, or url=, to reach one")
    if command is not None:
        if headers is not None:
            raise ValueError("headers belong to url=; a process gets its settings by env=")
        return Process(command, env, cwd)
    assert url is not None
    if env is not None or cwd is not None:
        raise ValueError("env and cwd belong to command=: nothing is started for a url")
    return Endpoint(url, headers)


def _stderr() -> TextIO:
    """The caller's own, or that of the process where something without a file stands in for it."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.fileno()
        return sys.stderr
    return cast(TextIO, None)
