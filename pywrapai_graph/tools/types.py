"""Type hints as Pydantic reads them: a JSON Schema, and a check that converts.

Equal hints are read once for all tools: programs use few types, and Pydantic takes longer to read
one than to check a whole call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from inspect import Parameter
from typing import Annotated, Any, Unpack, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, WithJsonSchema
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUserError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from pywrapai.core.schema import Schema, changed
from pywrapai_graph.copies import copied
from pywrapai_graph.tools.typed_dicts import for_pydantic

VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

_CONFIG = ConfigDict(coerce_numbers_to_str=True)


@dataclass(frozen=True, slots=True)
class Type:
    """A type hint, read."""

    adapter: TypeAdapter[Any] | None
    """None where anything goes."""
    schema: Schema

    def validate(self, value: Any) -> Any:
        """The value as the hint says. Raises Pydantic's ValidationError."""
        return value if self.adapter is None else self.adapter.validate_python(value)


_TEXT = Type(None, {"type": "string"})
"""What has no hint: the model is asked for a text, and whatever it sends is passed on."""
_TEXTS = Annotated[Any, WithJsonSchema(_TEXT.schema)]


def type_of(parameter: Parameter) -> Type:
    """What a parameter's hint says. TypeError for one that has no schema yet."""
    hint = _hint(parameter)
    if _says_nothing(hint):
        return _TEXT
    try:
        hash(hint)
    except TypeError:
        read = _read.__wrapped__
    else:
        read = _read
    try:
        return read(hint)
    except (PydanticUserError, NameError) as error:
        reason = str(error).split("\n")[0]
        raise TypeError(f"its parameter {parameter.name!r} has no schema: {reason}") from error


def _says_nothing(hint: Any) -> bool:
    return hint in (Parameter.empty, Any, object)


def _hint(parameter: Parameter) -> Any:
    hint, metadata = hint_and_metadata(parameter.annotation)
    if isinstance(parameter.default, FieldInfo):  # x: int = Field(5, ge=1)
        metadata = (*metadata, parameter.default)
    if _says_nothing(hint) and (metadata or parameter.kind in VARIADIC):
        hint = _TEXTS
    each = Annotated[hint, *metadata] if metadata else hint
    if parameter.kind not in VARIADIC:
        return each
    if get_origin(hint) is Unpack:
        return get_args(hint)[0]
    return list[each] if parameter.kind is parameter.VAR_POSITIONAL else dict[str, each]  # type: ignore[valid-type]


def hint_and_metadata(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint and the metadata that `Annotated` adds to it."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    return hint.__origin__, hint.__metadata__


@lru_cache(maxsize=512)
def _read(hint: Any) -> Type:
    try:
        adapter = _adapter(for_pydantic(hint))
        return Type(adapter, adapter.json_schema(schema_generator=_WithoutTitles))
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        return _TEXT  # nothing that JSON can hold


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=_CONFIG)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(hint)  # a model has a configuration of its own


class _WithoutTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # "City" says no more than "city", in every request


def schemas_of(types: Mapping[str, Type]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The schemas by name, and the definitions that they share."""
    pieces: dict[str, Schema] = {name: copied(kind.schema) for name, kind in types.items()}
    shared: dict[str, Schema] = {}
    referring = {
        name: kind.adapter
        for name, kind in types.items()
        if kind.adapter and "$defs" in kind.schema
    }
    if referring:  # two classes of one name get names of their own
        inputs = [(name, "validation", adapter) for name, adapter in referring.items()]
        found, rest = TypeAdapter.json_schemas(inputs, schema_generator=_WithoutTitles)  # type: ignore[arg-type]
        pieces |= {name: schema for (name, _), schema in found.items()}
        shared = rest.get("$defs", {})
    return (
        {name: changed(schema, _with_properties) for name, schema in pieces.items()},
        {name: untitled(name, changed(s, _with_properties)) for name, s in shared.items()},
    )


def _with_properties(schema: Schema) -> Schema:
    """OpenAI's models leave a mapping empty unless it has `properties`, be they none."""
    if schema.get("type") == "object" and "properties" not in schema:
        return {**schema, "properties": {}}
    return schema


def untitled(name: str, schema: Schema) -> Schema:
    """Without the title that Pydantic makes of a class's name."""
    return {key: value for key, value in schema.items() if (key, value) != ("title", name)}
