"""`typing.TypedDict` for Pydantic, which before Python 3.12 takes typing_extensions' alone."""

from __future__ import annotations

import operator
import sys
from functools import reduce
from types import UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

_REFUSED = sys.version_info < (3, 12)


def readable(hint: Any) -> Any:
    """The hint with every `typing.TypedDict` in it made anew as Pydantic reads it."""
    return _readable(hint, ()) if _REFUSED else hint


def _readable(hint: Any, within: tuple[Any, ...]) -> Any:
    if type(hint).__module__ == "typing" and hasattr(hint, "__required_keys__"):
        return dict[str, Any] if hint in within else _made_anew(hint, (*within, hint))
    arguments = get_args(hint)
    changed = tuple(_readable(argument, within) for argument in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return hint
    origin = get_origin(hint)
    if origin is Annotated:
        return Annotated[changed[0], *hint.__metadata__]
    if origin in (Union, UnionType):
        return reduce(operator.or_, changed)
    return origin[changed] if len(changed) > 1 else origin[changed[0]]


def _made_anew(typed_dict: Any, within: tuple[Any, ...]) -> Any:
    from typing_extensions import TypedDict

    hints = get_type_hints(typed_dict, include_extras=True)
    fields = {
        name: _readable(_value_type(hint), within)
        if name in typed_dict.__required_keys__
        else NotRequired[_readable(_value_type(hint), within)]
        for name, hint in hints.items()
    }
    make: Any = TypedDict
    new = make(typed_dict.__name__, fields)
    new.__doc__, new.__module__ = typed_dict.__doc__, typed_dict.__module__
    return new


def _value_type(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
