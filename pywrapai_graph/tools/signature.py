"""What a callable takes, as Python tells it: parameters with resolved hints, documentation, kind.

Partials, bound methods, classes and callable objects are looked through to the function in them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

Fn: typing.TypeAlias = Callable[..., Any]


def function_in(fn: Fn) -> Any:
    """The function that has the hints and the docstring of a callable."""
    if isinstance(fn, partial):
        return function_in(fn.func)
    if isinstance(fn, type):
        return fn.__init__  # type: ignore[misc]  # of whichever class this is
    return fn if inspect.isroutine(fn) else type(fn).__call__


def docstring_of(fn: Fn) -> str | None:
    """The docstring of the function in it, or of the object's class."""
    if isinstance(fn, partial):
        return docstring_of(fn.func)
    if inspect.isroutine(fn) or isinstance(fn, type):
        return inspect.getdoc(fn)
    return type(fn).__call__.__doc__ or inspect.getdoc(type(fn))


def is_async(fn: Fn) -> bool:
    """Whether calling it gives a coroutine, as far as can be seen without calling it."""
    if isinstance(fn, partial):
        return is_async(fn.func)
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(function_in(fn))


def parameters(fn: Fn, names_around: Mapping[str, Any] | None = None) -> list[inspect.Parameter]:
    """The parameters that are left to fill, each with its hint for an annotation.

    Without `self` and `cls`, and without what a partial has bound. `names_around` are the local
    names where the function was written. TypeError for a hint that cannot be resolved, and for a
    callable that nobody can look into.
    """
    inner = function_in(fn)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError("it is a generator function: let it return a list")
    bound = _bound(fn)
    hints = resolved_hints(fn, names_around)
    found = _written(fn)
    return [
        p.replace(annotation=hints.get(p.name, p.empty))
        for p in found[_lacks_self(found) :]
        if p.name not in bound
    ]


def is_unbound_method(fn: Fn) -> bool:
    """Whether the `self` of a method, or the `cls`, is still to be given."""
    return _lacks_self(_written(fn))


def _lacks_self(found: Sequence[inspect.Parameter]) -> bool:
    first = found[0] if found else None
    return first is not None and first.name in ("self", "cls") and first.annotation is first.empty


def _written(fn: Fn) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except ValueError as error:
        raise TypeError(f"{error}: put a function with type hints around it") from None


def _bound(fn: Fn) -> set[str]:
    """What a partial has given by name; what it has given by position is not in its signature."""
    return {*fn.keywords, *_bound(fn.func)} if isinstance(fn, partial) else set()


def resolved_hints(fn: Fn, names_around: Mapping[str, Any] | None) -> dict[str, Any]:
    """The hints of the parameters by name, also where they are written as strings."""
    inner = function_in(fn)
    written = {n: h for n, h in getattr(inner, "__annotations__", {}).items() if n != "return"}
    names = getattr(inspect.unwrap(inner), "__globals__", {})
    try:
        return typing.get_type_hints(
            SimpleNamespace(__annotations__=written), names, names_around, include_extras=True
        )
    except NameError as error:
        raise TypeError(
            f"its type hints cannot be resolved: {error}. Import or define that name where the "
            "function is, not for type checkers alone"
        ) from error
