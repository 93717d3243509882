"""The home of Pydantic among the tools: a function's parameters as JSON Schema, and as a check.

The parameters become the fields of a TypedDict, which takes any name and has no methods that a
parameter could hide.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Set
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, TypeAlias, Union, Unpack, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from pywrapai.core.schema import Schema, changed
from pywrapai_graph.tools.errors import ToolArgumentsError
from pywrapai_graph.tools.typed_dicts import readable
from pywrapai_graph.tools.values import copied

Bound: TypeAlias = tuple[list[Any], dict[str, Any]]
"""The positional and the named arguments of a call."""

MAX_PROBLEMS = 8
MAX_PROBLEM_LENGTH = 300

_TEXT = Annotated[Any, WithJsonSchema({"type": "string"})]
"""What has no hint: the model is asked for a text, and whatever it sends is passed on."""
_CONFIG = ConfigDict(coerce_numbers_to_str=True)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Arguments:
    """What a tool's function takes.

    Raises TypeError for a hint of which there is no schema because it is not complete.
    """

    def __init__(
        self, parameters: Sequence[inspect.Parameter], descriptions: Mapping[str, str]
    ) -> None:
        try:
            self._adapter, written = _described(parameters, descriptions)
        except (PydanticUserError, PydanticUndefinedAnnotation):
            settled = [_settled(p) for p in parameters]
            self._adapter, written = _described(settled, descriptions)
        self._parameters = {p.name: p for p in parameters}
        self._names = frozenset(written["properties"])
        self._extras = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        self._unfilled = {p.name: None for p in parameters if p.default is p.empty and _optional(p)}
        self._ordered = any(
            p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters
        )
        left_out = {p.name for p in parameters if _optional(p) and _default(p) in (p.empty, None)}
        self.schema = _tool_schema(written, left_out)

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """The call that a model's arguments mean; they themselves are not changed.

        Raises ToolArgumentsError.
        """
        given, unknown = self._known(copied(arguments))
        problems = [f"there is no argument {name!r:.80}" for name in unknown]
        values: dict[str, Any] = {}
        try:
            values = self._adapter.validate_python(given)
        except ValidationError as error:
            problems = [*_problems(error), *problems]
        if unknown:
            problems.append(f"the arguments are {', '.join(sorted(self._names)) or 'none'}")
        if problems:
            raise ToolArgumentsError("; ".join(p[:MAX_PROBLEM_LENGTH] for p in problems))
        values = {**self._unfilled, **values}
        return self._in_place(values) if self._ordered else ([], values)

    def _known(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """What has a parameter, and the names of what has none; `**kwargs` takes them all."""
        unknown = [name for name in arguments if name not in self._names]
        if not unknown or self._extras is None:
            return arguments, unknown[:MAX_PROBLEMS]
        extras = {name: arguments.pop(name) for name in unknown}
        named = arguments.get(self._extras, {})
        arguments[self._extras] = {**extras, **named} if isinstance(named, dict) else named
        return arguments, []

    def _in_place(self, values: dict[str, Any]) -> Bound:
        """Positions first: what is positional only, and all that stands before given `*args`."""
        rest = next((p.name for p in self._parameters.values() if p.kind is p.VAR_POSITIONAL), None)
        all_in_order = bool(rest and values.get(rest))
        by_position: list[Any] = []
        for p in self._parameters.values():
            if p.kind is p.POSITIONAL_ONLY or (all_in_order and p.kind is p.POSITIONAL_OR_KEYWORD):
                by_position.append(values.pop(p.name, p.default))
        by_position += values.pop(rest, []) if rest else []
        extras = values.pop(self._extras, {}) if self._extras else {}
        return by_position, {**extras, **values}


def _field(parameter: inspect.Parameter, description: str | None) -> Any:
    hint, metadata = _split(_hint(parameter))
    described = description or next((m for m in metadata if isinstance(m, str)), None)
    if isinstance(parameter.default, FieldInfo):  # def f(x: int = Field(5, ge=1))
        metadata = (*metadata, parameter.default)
    if described:
        metadata = (Field(description=described), *metadata)  # a Field of the user's own wins
    field = Annotated[hint, *metadata] if metadata else hint
    return field if _required(parameter) else NotRequired[field]


def _hint(parameter: inspect.Parameter) -> Any:
    hint = parameter.annotation
    if hint in (parameter.empty, Any, object):
        hint = _TEXT
    if parameter.kind is parameter.VAR_POSITIONAL:
        return list[readable(hint)]  # type: ignore[misc]  # made as it runs
    if parameter.kind is parameter.VAR_KEYWORD:
        if get_origin(hint) is Unpack:
            return readable(get_args(hint)[0])
        return dict[str, readable(hint)]  # type: ignore[misc]
    return readable(hint)


def _required(parameter: inspect.Parameter) -> bool:
    if parameter.kind in _VARIADIC or _optional(parameter):
        return False
    return _default(parameter) is parameter.empty


def _default(parameter: inspect.Parameter) -> Any:
    """Its default, in Python's way or in a Field; `empty` if there is none."""
    _, metadata = _split(parameter.annotation)
    for given in (parameter.default, *metadata):
        if isinstance(given, FieldInfo):
            if not given.is_required():
                return given.get_default(call_default_factory=False)
        elif given is parameter.default and given is not parameter.empty:
            return given
    return parameter.empty


def _optional(parameter: inspect.Parameter) -> bool:
    """Whether None is one of its types."""
    hint, _ = _split(parameter.annotation)
    if parameter.kind in _VARIADIC:
        return False
    return hint is NoneType or (
        get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    )


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is not Annotated:
        return hint, ()
    return hint.__origin__, hint.__metadata__


def _described(
    parameters: Sequence[inspect.Parameter], descriptions: Mapping[str, str]
) -> tuple[TypeAdapter[dict[str, Any]], Schema]:
    fields = {p.name: _field(p, descriptions.get(p.name)) for p in parameters}
    kind: Any = TypedDict("Arguments", fields)  # type: ignore[operator]  # made as it runs
    kind.__pydantic_config__ = _CONFIG
    adapter = TypeAdapter(kind)
    return adapter, adapter.json_schema(schema_generator=_WithoutTitles)


def _settled(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter, as one without a hint if its type is nothing that JSON can hold."""
    try:
        _described([parameter], {})
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        plain = parameter.replace(annotation=parameter.empty)
        return plain.replace(default=None) if _optional(parameter) else plain
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = error.message.split("\n")[0]
        raise TypeError(f"its parameter {parameter.name!r} has no schema: {reason}") from error
    return parameter


class _WithoutTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # "City" says no more than "city", in every request


def _tool_schema(written: Schema, left_out: Set[str]) -> Schema:
    """Pydantic's schema without what says nothing; `left_out` need not be sent to be None."""
    whole = changed(written, _with_properties)
    properties = whole["properties"]
    for name in left_out & properties.keys():
        properties[name] = _without_null(properties[name])
    schema = {"type": "object", "properties": properties, "required": whole.get("required", [])}
    if "$defs" in whole:
        schema["$defs"] = {name: _untitled(name, s) for name, s in whole["$defs"].items()}
    return schema


def _with_properties(schema: Schema) -> Schema:
    """OpenAI's models leave a mapping empty unless it has `properties`, be they none."""
    if schema.get("type") == "object" and "properties" not in schema:
        return {**schema, "properties": {}}
    return schema


def _without_null(schema: Schema) -> Schema:
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if not choices:
        return schema
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}


def _untitled(name: str, schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if (key, value) != ("title", name)}


def _problems(error: ValidationError) -> list[str]:
    """One line each, without the input: it may be huge, and the model has just written it."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [_problem(".".join(map(str, e["loc"])), e) for e in found[:MAX_PROBLEMS]]
    return [*lines, f"and {more} more"] if (more := len(found) - len(lines)) else lines


def _problem(place: str, error: Mapping[str, Any]) -> str:
    return f"{place} is missing" if error["type"] == "missing" else f"{place}: {error['msg']}"
