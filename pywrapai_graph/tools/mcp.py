"""The session with an MCP server, and its tools.

Only `ToolRegistry.add_mcp` imports this, when it is called: the mcp package takes its time.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import httpx2
import mcp.types as wire
from mcp import Client, MCPError

from pywrapai.core import portal
from pywrapai.core.checks import timeout_seconds
from pywrapai.core.flow import Step
from pywrapai.core.process import after_fork_in_child
from pywrapai_graph.tools.errors import MCPConnectionError, ToolArgumentsError
from pywrapai_graph.tools.mcp_content import value_of
from pywrapai_graph.tools.mcp_servers import Endpoint, Process
from pywrapai_graph.tools.names import checked_name, sanitised
from pywrapai_graph.tools.tool import Tool

T = TypeVar("T")

_REASON_SECONDS = 1.0
"""For a session to notice why its connection is closed."""

_LEAVE_SECONDS = 5.0
"""For telling a server that its session ends, where its protocol wants that."""

_EXIT_SECONDS = 10.0
"""For all sessions together, when the interpreter ends; a stubborn process takes 2 to be killed."""

# What goes wrong is told by an exception; without a handler it would be printed as well.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class Session:
    """One server, from its start to its end.

    One task of the loop in the background opens and closes the connection and waits in between;
    each call is a task of its own there. So the steps work from any thread and any loop.
    """

    def __init__(self, server: Process | Endpoint, timeout: float) -> None:
        self._server = server
        self._timeout = timeout_seconds(timeout)
        self._pid = os.getpid()
        self._name = f"the MCP server {str(server)!r}"
        self._listed: list[wire.Tool] = []
        self._client: Client | None = None
        self._life: asyncio.Task[None] | None = None
        self._fault: Exception | None = None
        self._is_closed = False
        self._ready = asyncio.Event()
        self._leaving = asyncio.Event()
        self._scope: anyio.CancelScope

    @property
    def is_gone(self) -> bool:
        """Whether no call can succeed any more."""
        return self._client is None or self._pid != os.getpid()

    def tools(self, prefix: str | None) -> list[Tool]:
        """What the server has, by names that providers take. ValueError if two become one."""
        made: dict[str, _Remote] = {}
        tools: list[Tool] = []
        for listed in self._listed:
            name, remote = _legal(f"{prefix or ''}{listed.name}"), _Remote(self, listed.name)
            if name in made:
                raise ValueError(
                    f"{self._name} has tools {made[name].name!r} and {remote.name!r}, and both "
                    f"would be named {name!r}: nothing was added"
                )
            made[name] = remote
            said = listed.description or listed.title or ""
            tools.append(MCPTool(name, said, listed.input_schema, remote))
        return tools

    @property
    def opening(self) -> Step:
        """Connect. MCPConnectionError if that fails; then nothing is left of it."""
        return self._step(self._open)

    @property
    def closing(self) -> Step:
        """End it, and wait until it has ended. May be done again, and in a forked child."""
        return self._step(self._close)

    def calling(self, tool: str, arguments: dict[str, Any]) -> Step:
        """Call a tool by the server's own name for it."""
        return self._step(lambda: self._call(tool, arguments))

    def _step(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Step:
        def block() -> T:
            if portal.is_here():
                raise RuntimeError(
                    f"{self._name} is called, without await, from the loop that its session lives "
                    "in, which would wait for itself: await the async twin, such as aexecute"
                )
            return portal.result_of(portal.start(work()))

        async def wait() -> T:
            return await asyncio.wrap_future(portal.start(work()))

        return Step(block, wait)

    async def _open(self) -> None:
        _remember(self)
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + self._timeout)
        self._life = asyncio.create_task(self._live())
        try:
            await self._ready.wait()
        except asyncio.CancelledError:
            self._end()
            raise
        if self._client is None:
            raise self._unusable() from self._fault

    async def _live(self) -> None:
        try:
            with self._scope:
                async with Client(self._server.transport(self._timeout), cache=None) as client:
                    self._listed = await _listed_by(client)
                    self._scope.deadline = math.inf
                    if client.server_info is not None:
                        self._name = f"the MCP server {client.server_info.name!r:.100}"
                    self._client = client
                    self._ready.set()
                    await self._leaving.wait()
        except Exception as error:
            self._fault = _first(error)
        finally:
            self._client = None
            self._ready.set()
            _sessions.discard(self)

    async def _close(self) -> None:
        if self._life is None or self._pid != os.getpid():
            return
        self._is_closed = True
        self._end()
        await asyncio.wait([self._life])

    def _end(self) -> None:
        """Begin to end it. A session that stands takes its leave of the server first."""
        self._client = None
        self._leaving.set()
        leave = _LEAVE_SECONDS if self._ready.is_set() else 0.0
        self._scope.deadline = min(self._scope.deadline, anyio.current_time() + leave)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if self._client is None or self.is_gone:
            raise self._lost()
        try:
            with anyio.fail_after(self._timeout):
                result = await self._client.call_tool(tool, arguments)
        except TimeoutError:
            raise TimeoutError(
                f"{tool} of {self._name} took longer than {self._timeout:g} seconds"
            ) from None
        except MCPError as error:
            raise await self._refusal(error) from error
        return value_of(result)

    async def _refusal(self, error: MCPError) -> Exception:
        """What it means that the answer was none of the tool's."""
        if error.code == wire.INVALID_PARAMS:
            return ToolArgumentsError(error.message)
        is_expired = error.message == "Session terminated"  # the server was started anew
        if error.code != wire.CONNECTION_CLOSED and not is_expired:
            return RuntimeError(f"{self._name} refused the call: {error.message}")
        assert self._life is not None
        if is_expired or isinstance(self._server, Process):
            self._end()
        await asyncio.wait([self._life], timeout=_REASON_SECONDS)
        if self._client is None:
            return self._lost()
        return MCPConnectionError(f"{self._name} broke off its answer: {error.message}")

    def _lost(self) -> MCPConnectionError:
        if self._pid != os.getpid():
            return MCPConnectionError(
                f"{self._name} belongs to the process that this one was forked from: call add_mcp "
                "here for a session of its own"
            )
        if self._is_closed:
            return MCPConnectionError(f"{self._name} is closed: call add_mcp again to use it")
        reason = f" ({self._fault})" if self._fault is not None else ""
        return MCPConnectionError(
            f"{self._name} has ended{reason}: call add_mcp again, and its tools take the place of "
            "those that are here"
        )

    def _unusable(self) -> MCPConnectionError:
        """Why there is no session."""
        match self._fault:
            case _ if self._scope.cancel_called:
                said = f"did not answer within {self._timeout:g} seconds"
            case OSError() | httpx2.TransportError():
                said = f"{self._server.failure}: {self._fault}"
            case MCPError(code=wire.CONNECTION_CLOSED):
                said = "ended before it spoke MCP"
            case _:
                said = f"does not speak MCP as it should: {self._fault}"
        return MCPConnectionError(f"{self._name} {said}; {self._server.advice}")


async def _listed_by(client: Client) -> list[wire.Tool]:
    if client.server_capabilities.tools is None:
        return []
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _first(error: Exception) -> Exception:
    """What a task group has wrapped."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _legal(name: str) -> str:
    try:
        return checked_name(name)
    except ValueError:
        return checked_name(sanitised(name))


@dataclass(frozen=True, slots=True)
class _Remote:
    """A server's tool as a function."""

    session: Session
    name: str

    async def __call__(self, /, **arguments: Any) -> Any:
        return await self.session.calling(self.name, arguments).wait()


@dataclass(frozen=True, slots=True, eq=False)
class MCPTool(Tool):
    """Blocking, it is a call of the session's own: the loop in the background has to be free."""

    fn: _Remote = field(repr=False)

    def step(self, arguments: Mapping[str, Any]) -> Step:
        """One call, in the session; the server checks the arguments."""
        _, given = self._bound(arguments)
        return self.fn.session.calling(self.fn.name, given)

    @property
    def is_gone(self) -> bool:
        """Whether another one may take its place."""
        return self.fn.session.is_gone


_sessions: set[Session] = set()
_is_registered = False


def _remember(session: Session) -> None:
    """Until it ends: an event loop alone would let its task be collected.

    What is open when the interpreter ends is closed then. Registered here, when the loop in the
    background runs already, so that it comes before the end of that.
    """
    global _is_registered
    _sessions.add(session)
    if not _is_registered:
        atexit.register(_close_all)
        _is_registered = True


def _close_all() -> None:
    async def close() -> None:
        await asyncio.wait([asyncio.create_task(s._close()) for s in list(_sessions)])

    if _sessions:
        with suppress(Exception):
            portal.start(close()).result(_EXIT_SECONDS)


def _forget() -> None:
    """The sessions have stayed in the parent; the loop of the child is yet to be started."""
    global _is_registered
    _sessions.clear()
    _is_registered = False


after_fork_in_child(_forget)
