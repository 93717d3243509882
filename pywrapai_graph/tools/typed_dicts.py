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


def for_pydantic(hint: Any) -> Any:
    """The hint with every `typing.TypedDict` in it made anew as Pydantic reads it."""
    return _rebuilt(hint, ()) if _REFUSED else hint


def _rebuilt(hint: Any, within: tuple[Any, ...]) -> Any:
    if type(hint).__module__ == "typing" and hasattr(hint, "__required_keys__"):
        return dict[str, Any] if hint in within else _made_anew(hint, (*within, hint))
    arguments = get_args(hint)
    changed = tuple(_rebuilt(argument, within) for argument in arguments)
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
    fields = {}
    for name, hint in hints.items():
        is_required, value = _requirement(hint, name in typed_dict.__required_keys__)
        made = _rebuilt(value, within)
        fields[name] = made if is_required else NotRequired[made]
    make: Any = TypedDict
    new = make(typed_dict.__name__, fields)
    new.__doc__, new.__module__ = typed_dict.__doc__, typed_dict.__module__
    return new


def _requirement(hint: Any, otherwise: bool) -> tuple[bool, Any]:
    """Whether a key is required, and its type. `__required_keys__` has not seen through strings."""
    origin = get_origin(hint)
    if origin in (Required, NotRequired):
        return origin is Required, get_args(hint)[0]
    return otherwise, hint
