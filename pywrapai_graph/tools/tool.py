"""A tool: a function that a model may call, and the decorator that makes one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import Parameter, isawaitable
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from pywrapai.core import portal
from pywrapai.core.extras import needs
from pywrapai.core.flow import Step
from pywrapai_graph.copies import copied
from pywrapai_graph.tools import signature
from pywrapai_graph.tools.docstrings import first_line, parameter_descriptions
from pywrapai_graph.tools.names import checked_name, name_of

if TYPE_CHECKING:
    from pywrapai_graph.tools.arguments import Arguments, Bound

F = TypeVar("F", bound=Callable[..., Any])

ATTRIBUTE = "_pywrapai_tool"
"""Where a decorated function keeps its Tool."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function with what a model is told of it. Calling the tool calls the function.

    `@tool` and `from_function` read a function's signature: its arguments are checked and
    converted before each call, and `parameters` are worked out when they are first needed. A Tool
    made by hand passes the model's arguments on by name, unless it is given a `bind`.

    Raises ValueError for a name that not every provider takes.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, an object."""
    fn: Callable[..., Any] = field(repr=False)
    """May be async."""
    requires_approval: bool = False
    """Whether an agent asks before each call."""
    bind: Callable[[dict[str, Any]], Bound] | None = field(default=None, repr=False)
    """From a model's arguments to those of the call, positional and named; raises if they do not
    fit."""

    def __post_init__(self) -> None:
        checked_name(self.name)
        if not callable(self.fn):
            raise TypeError(f"the fn of tool {self.name!r} is no function but {self.fn!r:.80}")

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        *,
        requires_approval: bool = False,
    ) -> Self:
        """A tool of a function, bound method, partial or callable object, sync or async.

        Args:
            fn: what is called; what a partial has bound is out of the model's reach.
            name: that of the function if not given; a lambda needs one.
            description: the docstring's first line if not given.
            requires_approval: whether an agent asks before each call.

        Raises:
            TypeError: for what cannot be called; a signature is read later, when it is needed.
            ValueError: without a name that providers take.
        """
        return cls._of(fn, name, description, requires_approval, sys._getframe(1).f_locals)

    @classmethod
    def _of(
        cls,
        fn: Callable[..., Any],
        name: str | None,
        description: str | None,
        requires_approval: bool,
        names_around: Mapping[str, Any],
    ) -> Self:
        if not callable(fn):
            raise TypeError(f"a tool is made of something to call, not of {fn!r:.80}")
        read = _Signature(fn, names_around)
        if description is None:
            description = first_line(signature.docstring_of(fn))
        tool = cls(name or name_of(fn), description, {}, fn, requires_approval, read)
        object.__delattr__(tool, "parameters")  # until __getattr__ is asked for them
        return tool

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "parameters":
                raise AttributeError(f"a Tool has no {name!r}", name=name, obj=self)
            object.__setattr__(self, "parameters", self.bind.arguments.schema)
            return self.parameters

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, with what it takes and unchecked."""
        return self.fn(*args, **kwargs)

    def step(self, arguments: Mapping[str, Any]) -> Step:
        """One call with a model's arguments; its outcome is what the function returns.

        Blocking, an async function runs in a loop in the background. Awaited, a sync function runs
        in a thread, which a cancelled task leaves behind. Either sees the caller's context
        variables. The arguments are checked when it starts: a ToolArgumentsError if they do not
        fit. They are not changed.
        """

        def block() -> Any:
            args, kwargs = self._bound(arguments)
            found = _called(self.fn, args, kwargs)
            return portal.run(_finished(found)) if isawaitable(found) else found

        async def wait() -> Any:
            args, kwargs = self._bound(arguments)
            if signature.is_async(self.fn):
                return await self.fn(*args, **kwargs)
            from asyncio import to_thread

            found = await to_thread(_called, self.fn, args, kwargs)
            return await found if isawaitable(found) else found

        return Step(block, wait)

    def _bound(self, arguments: Mapping[str, Any]) -> Bound:
        if not isinstance(arguments, Mapping):
            raise TypeError(f"arguments are given by name, in a dict, not as {arguments!r:.80}")
        if self.bind is None:
            return [], copied(dict(arguments))
        return self.bind(dict(arguments))


def _called(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:  # it would end the generator, or hang the future, around us
        raise RuntimeError("the tool raised StopIteration: an iterator in it was empty") from error


async def _finished(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class _Signature:
    """A function's arguments, worked out when they are first needed, and once."""

    def __init__(self, fn: Callable[..., Any], names_around: Mapping[str, Any]) -> None:
        self._fn = fn
        self._parameters: list[Parameter] | None = None
        if "<locals>" in getattr(signature.function_in(fn), "__qualname__", ""):
            with suppress(TypeError):  # told when it is needed
                # The names around a nested function are gone later.
                self._parameters = signature.parameters(fn, names_around)

    def __call__(self, arguments: dict[str, Any]) -> Bound:
        return self.arguments.bind(arguments)

    @cached_property
    def arguments(self) -> Arguments:
        with needs("tools"):
            from pywrapai_graph.tools.arguments import Arguments
        try:
            parameters = self._parameters or signature.parameters(self._fn)
            told = parameter_descriptions(signature.docstring_of(self._fn))
            return Arguments(parameters, told)
        except TypeError as error:
            raise TypeError(f"{self._fn!r:.100} cannot be a tool: {error}") from error


@overload
def tool(fn: F, /) -> F: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, requires_approval: bool = False
) -> Callable[[F], F]: ...


def tool(
    fn: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    requires_approval: bool = False,
) -> F | Callable[[F], F]:
    """Make a function a tool, as `@tool` or as `@tool(name=..., requires_approval=True)`.

    The function itself comes back, and works as before; its Tool is its `_pywrapai_tool`. Type
    hints say what a model may send, the first line of the docstring what the tool does, and its
    section of parameters what each is.
    """
    if fn is not None:
        return _decorated(fn, name, description, requires_approval, sys._getframe(1).f_locals)

    def decorate(fn: F) -> F:
        return _decorated(fn, name, description, requires_approval, sys._getframe(1).f_locals)

    return decorate


def _decorated(
    fn: F,
    name: str | None,
    description: str | None,
    requires_approval: bool,
    names_around: Mapping[str, Any],
) -> F:
    if isinstance(fn, (staticmethod, classmethod)):
        raise TypeError(f"put @{type(fn).__name__} above @tool, not below")
    known = getattr(fn, ATTRIBUTE, None)
    if known is not None and known.fn is fn:
        raise TypeError(
            f"{known.name} is a tool already: for another one of the same function, use "
            "Tool.from_function(fn, name=...)"
        )
    made = Tool._of(fn, name, description, requires_approval, names_around)
    try:
        setattr(fn, ATTRIBUTE, made)
    except AttributeError:
        raise TypeError(f"@tool cannot mark {fn!r:.80}: use Tool.from_function") from None
    return fn


def tool_of(item: Any) -> Tool:
    """The Tool that something is or carries.

    Of a bound method of a decorated one, and of a wrapper around a decorated function, it is a
    Tool that calls what was given. TypeError for a plain function.
    """
    if isinstance(item, Tool):
        return item
    known = getattr(item, ATTRIBUTE, None)
    if not isinstance(known, Tool):
        raise TypeError(
            f"{item!r:.80} is no tool: write @tool above its def, or give Tool.from_function(...)"
        )
    return known if known.fn is item else replace(known, fn=item)
