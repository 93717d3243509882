"""A function's parameters as one JSON Schema, and a model's arguments as a call of the function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from pywrapai.core.schema import Schema
from pywrapai.core.structured import MAX_ERROR_LENGTH, MAX_ERRORS, faults_in
from pywrapai_graph.copies import copied
from pywrapai_graph.tools.errors import ToolArgumentsError
from pywrapai_graph.tools.types import VARIADIC, hint_and_metadata, schemas_of, type_of, untitled

Bound: TypeAlias = tuple[list[Any], dict[str, Any]]
"""The positional and the named arguments of a call."""

_UNNAMED = (*VARIADIC, inspect.Parameter.POSITIONAL_ONLY)


class Arguments:
    """What a tool's function takes.

    Raises TypeError for a hint that has no schema because it is not complete.
    """

    def __init__(
        self, parameters: Sequence[inspect.Parameter], descriptions: Mapping[str, str]
    ) -> None:
        self._parameters = {p.name: p for p in parameters}
        self._types = {p.name: type_of(p) for p in parameters}
        self._args = _name_of(parameters, inspect.Parameter.VAR_POSITIONAL)
        self._kwargs = _name_of(parameters, inspect.Parameter.VAR_KEYWORD)
        self._required = [p.name for p in parameters if _is_required(p)]
        self._filled = {p.name: _field_in(p) for p in parameters if _is_filled(p)}
        self._named_only = not any(p.kind in _UNNAMED for p in parameters)
        self.schema = self._schema(descriptions)

    def _schema(self, descriptions: Mapping[str, str]) -> Schema:
        properties, definitions = schemas_of(self._types)
        for name, schema in properties.items():
            parameter = self._parameters[name]
            properties[name] = _described(schema, parameter, descriptions.get(name))
        schema = {"type": "object", "properties": properties, "required": [*self._required]}
        return {**schema, "$defs": definitions} if definitions else schema

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """The call that a model's arguments mean; they themselves are not changed.

        Raises ToolArgumentsError.
        """
        given, unknown = self._split_by_name(copied(arguments))
        problems = [f"{name} is missing" for name in self._required if name not in given]
        values: dict[str, Any] = {}
        for name, value in given.items():
            try:
                values[name] = self._types[name].validate(value)
            except ValidationError as error:
                problems += _problems(name, error)
        if unknown:
            problems += [f"there is no argument {name!r:.80}" for name in unknown[:MAX_ERRORS]]
            problems.append(f"the arguments are {', '.join(self._parameters) or 'none'}")
        if problems:
            raise ToolArgumentsError("; ".join(p[:MAX_ERROR_LENGTH] for p in problems))
        for name, field in self._filled.items():
            if name not in values:
                values[name] = field and field.get_default(call_default_factory=True)
        return ([], values) if self._named_only else self._in_place(values)

    def _split_by_name(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """What has a parameter, and the names of what has none; `**kwargs` takes them all."""
        unknown = [name for name in arguments if name not in self._parameters]
        if not unknown or self._kwargs is None:
            return {n: v for n, v in arguments.items() if n in self._parameters}, unknown
        extras = {name: arguments.pop(name) for name in unknown}
        named = arguments.get(self._kwargs, {})
        if isinstance(named, dict):
            arguments[self._kwargs] = {**extras, **named}
        return arguments, []

    def _in_place(self, values: dict[str, Any]) -> Bound:
        """Positions first: what is positional only, and all that stands before given `*args`."""
        rest = values.pop(self._args, []) if self._args else []
        more = values.pop(self._kwargs, {}) if self._kwargs else {}
        first = [
            values.pop(p.name, p.default)
            for p in self._parameters.values()
            if p.kind is p.POSITIONAL_ONLY or (rest and p.kind is p.POSITIONAL_OR_KEYWORD)
        ]
        return [*first, *rest], {**more, **values}


def _name_of(parameters: Sequence[inspect.Parameter], kind: Any) -> str | None:
    return next((p.name for p in parameters if p.kind is kind), None)


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in VARIADIC and _default(parameter) is parameter.empty


def _is_filled(parameter: inspect.Parameter) -> bool:
    """Whether the function would miss it when it is not sent: Python does not know its default."""
    if parameter.kind in VARIADIC or _is_required(parameter):
        return False
    return parameter.default is parameter.empty or isinstance(parameter.default, FieldInfo)


def _default(parameter: inspect.Parameter) -> Any:
    """What it is when it is not sent; `empty` if it has to be.

    That is Python's default, or a Field's, or None where that is one of its types.
    """
    if parameter.default is not parameter.empty and not isinstance(parameter.default, FieldInfo):
        return parameter.default
    field = _field_in(parameter)
    if field is not None:
        return field.default
    return None if _is_optional(parameter) else parameter.empty


def _field_in(parameter: inspect.Parameter) -> FieldInfo | None:
    """The Field that has its default: `x: int = Field(5)`, or `x: Annotated[int, Field(5)]`."""
    given = (parameter.default, *hint_and_metadata(parameter.annotation)[1])
    return next((g for g in given if isinstance(g, FieldInfo) and not g.is_required()), None)


def _is_optional(parameter: inspect.Parameter) -> bool:
    """Whether None is one of its types."""
    hint, _ = hint_and_metadata(parameter.annotation)
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return NoneType in choices or None in choices


def _described(schema: Schema, parameter: inspect.Parameter, told: str | None) -> Schema:
    hint, metadata = hint_and_metadata(parameter.annotation)
    if parameter.kind not in VARIADIC and _default(parameter) is None:
        schema = _without_null(schema)
    schema = untitled(getattr(hint, "__name__", ""), schema)
    said = next((m for m in metadata if isinstance(m, str)), told)
    fields = [m for m in (*metadata, parameter.default) if isinstance(m, FieldInfo)]
    if said is None or any(field.description for field in fields):
        return schema
    return {**schema, "description": said}


def _without_null(schema: Schema) -> Schema:
    """To leave it out means None: the model need not be able to say it."""
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if not choices:
        return schema
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}


def _problems(argument: str, error: ValidationError) -> list[str]:
    lines = faults_in(error, argument)
    more = len(lines) - MAX_ERRORS
    return [*lines[:MAX_ERRORS], f"and {more} more"] if more > 0 else lines
