"""The tools that a model may call, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pywrapai.core import flow
from pywrapai.core.base import ToolCall, ToolResult
from pywrapai.core.closing import Closing
from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow, Step
from pywrapai.core.process import ProcessLock
from pywrapai_graph.copies import copied
from pywrapai_graph.tools.errors import broken_arguments
from pywrapai_graph.tools.results import failed, succeeded
from pywrapai_graph.tools.signature import is_unbound_method
from pywrapai_graph.tools.tool import Tool, tool_of

Schemas = list[dict[str, Any]]


class ToolRegistry(Closing):
    """Tools in the order of their registration. May be shared by threads and by tasks.

    `with` or `async with` closes what tools of other processes keep open; others need no closing.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._lock = ProcessLock()
        self._closing: list[Step] = []

    def register(self, item: Tool | Callable[..., Any], *, replace: bool = False) -> None:
        """Add a Tool or a function decorated with `@tool`.

        Args:
            item: the tool; of a class's method, register the bound one: `register(thing.method)`.
            replace: take the place of a tool of the same name.

        Raises:
            TypeError: a plain function, or one whose signature cannot be told to a model.
            ValueError: there is a tool of this name already.
        """
        tool = tool_of(item)
        if tool.bind is not None and is_unbound_method(tool.fn):
            raise TypeError(
                f"{tool.name} is a method without its object: register it bound, as in "
                f"registry.register(thing.{tool.name})"
            )
        if not isinstance(tool.parameters, Mapping):  # what cannot be told is told here, not later
            raise TypeError(f"the parameters of {tool.name} are no JSON Schema: a dict is one")
        with self._lock:
            if tool.name in self._tools and not replace:
                raise ValueError(
                    f"there is a tool {tool.name!r} already: give this one another name, or pass "
                    "replace=True"
                )
            self._tools[tool.name] = tool

    def add_mcp(
        self,
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        prefix: str | None = None,
        timeout: float = 30.0,
    ) -> list[str]:
        """Add the tools of an MCP server, and keep a session with it until the registry is closed.

        Give `command` to start the server as a process, or `url` to reach it by streamable HTTP.

        Args:
            command: the program and its arguments.
            env: added to the few variables that the process inherits, such as PATH and HOME.
            cwd: the directory of the process.
            url: the endpoint, such as "http://127.0.0.1:9000/mcp".
            headers: sent with every request.
            prefix: put before each name, such as "fs_".
            timeout: seconds to connect, and seconds for each call.

        Returns:
            The names that were added, such as providers take them.

        Raises:
            MCPConnectionError: the server cannot be started or reached, or does not speak MCP.
            ValueError: there is a tool of one of the names already; then none is added. One of a
                server that has ended gives way.
        """
        return flow.run(self._with_mcp(command, env, cwd, url, headers, prefix, timeout))

    async def aadd_mcp(
        self,
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        prefix: str | None = None,
        timeout: float = 30.0,
    ) -> list[str]:
        """`add_mcp`, awaited. The tools may be called from any loop and any thread."""
        return await flow.arun(self._with_mcp(command, env, cwd, url, headers, prefix, timeout))

    def _with_mcp(
        self,
        command: Sequence[str] | None,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        url: str | None,
        headers: Mapping[str, str] | None,
        prefix: str | None,
        timeout: float,
    ) -> Flow[list[str]]:
        with needs("mcp"):
            from pywrapai_graph.tools.mcp import Session
            from pywrapai_graph.tools.mcp_servers import server_of
        session = Session(server_of(command, env, cwd, url, headers), timeout)
        try:
            yield session.opening
            tools = session.tools(prefix)
            self._add_all(tools)
        except BaseException:
            yield session.closing
            raise
        self._closing.append(session.closing)
        return [tool.name for tool in tools]

    def _add_all(self, tools: Sequence[Tool]) -> None:
        """Or none: ValueError if a name is taken by a tool that can still be called."""
        with self._lock:
            known = [self._tools[tool.name] for tool in tools if tool.name in self._tools]
            taken = [tool.name for tool in known if not getattr(tool, "is_gone", False)]
            if taken:
                raise ValueError(
                    f"there are tools {', '.join(taken)} already, and nothing was added: give this "
                    "server's another prefix="
                )
            self._tools.update((tool.name, tool) for tool in tools)

    def get(self, name: str) -> Tool:
        """The tool of this name. KeyError that lists the known ones if there is none."""
        try:
            return self._tools[name]
        except KeyError:
            known = ", ".join(self._tools) or "none"
            raise KeyError(f"there is no tool {name!r:.80}; there are: {known}") from None

    def step(self, call: ToolCall) -> Step:
        """A model's call as a step whose outcome is the function's own return value.

        KeyError at once for an unknown name. Arguments that were no JSON object are an error of
        the step, and nothing runs.
        """
        tool = self.get(call.name)
        return tool.step(call.arguments) if call.raw_arguments is None else _refusal(call)

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a model's call. What the tool raises becomes a result that says so, `is_error` set.

        Only an unknown name is raised, as KeyError. No approval is asked for.
        """
        return flow.run(self._executed(call))

    async def aexecute(self, call: ToolCall) -> ToolResult:
        """`execute`, awaited: an async tool in this loop, a sync one in a thread."""
        return await flow.arun(self._executed(call))

    def _executed(self, call: ToolCall) -> Flow[ToolResult]:
        step = self.step(call)
        try:
            return succeeded(call, (yield step))
        except Exception as error:
            return failed(call, error)

    def to_schema(self) -> Schemas:
        """The tools as `chat(tools=...)` takes them. Yours to change: nothing else sees it."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": copied(tool.parameters),
            }
            for tool in self._listed()
        ]

    def to_openai_schema(self) -> Schemas:
        """What OpenAI is sent, to look at. `chat` takes `to_schema()`."""
        from pywrapai.core.schema import parameters_of

        return [
            {"type": "function", "function": {**tool, "parameters": parameters_of(tool)}}
            for tool in self.to_schema()
        ]

    def to_anthropic_schema(self) -> Schemas:
        """What Anthropic is sent, to look at. `chat` takes `to_schema()`."""
        from pywrapai.providers.anthropic_schema import tool_input

        return [_with(tool, "input_schema", tool_input(tool)) for tool in self.to_schema()]

    def to_gemini_schema(self) -> Schemas:
        """The function declarations in Gemini's dialect, to look at. `chat` takes `to_schema()`."""
        from pywrapai.core.schema import parameters_of
        from pywrapai.providers.gemini_schema import in_dialect

        return [
            _with(tool, "parameters", in_dialect(parameters_of(tool))) for tool in self.to_schema()
        ]

    @property
    def names(self) -> list[str]:
        """The names in the order of registration."""
        return [tool.name for tool in self._listed()]

    def _listed(self) -> list[Tool]:
        with self._lock:
            return list(self._tools.values())

    def close(self) -> None:
        """Close what tools of other processes keep open. May be called again."""
        flow.run(self._closed())

    async def aclose(self) -> None:
        """`close`, awaited."""
        await flow.arun(self._closed())

    def _closed(self) -> Flow[None]:
        errors: list[Exception] = []
        while self._closing:
            try:
                yield self._closing.pop()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("not everything could be closed", errors)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._listed())

    def __repr__(self) -> str:
        return f"ToolRegistry(tools={self.names})"


def _with(tool: dict[str, Any], key: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], key: schema}


def _refusal(call: ToolCall) -> Step:
    def block() -> Any:
        raise broken_arguments(call)

    async def wait() -> Any:
        raise broken_arguments(call)

    return Step(block, wait)
