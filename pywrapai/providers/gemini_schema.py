"""JSON Schemas in Gemini's dialect: a subset of JSON Schema, without references.

Source: the fields `parametersJsonSchema` and `responseJsonSchema` at
https://ai.google.dev/api/generate-content. What has no place in it is told in the description,
so that the model may still keep to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pywrapai.core.schema import Schema, changed, inlined, with_items

_KEPT = frozenset(
    (
        "type",
        "format",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    )
)
_TOLD = frozenset(
    (
        "default",
        "pattern",
        "minLength",
        "maxLength",
        "multipleOf",
        "uniqueItems",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minProperties",
        "maxProperties",
    )
)
_LISTS = ("allOf", "enum", "oneOf")
_AS_IT_IS = _KEPT - {"enum", "additionalProperties"}
_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_DEPTHS = (5, 3, 2, 1)
"""How deep a schema that refers to itself is unrolled: the first depth that keeps it in bounds."""


def in_dialect(schema: Schema) -> Schema:
    """A copy that the API takes; a schema that refers to itself ends a few levels down.

    Raises ValueError for a reference that leads nowhere, or a schema that is too large without
    its references.
    """
    whole: Schema = changed(_without_references(schema), _dialect)
    return whole


def _without_references(schema: Schema) -> Schema:
    if '"$ref"' not in json.dumps(schema, default=str):
        return schema
    for depth in _DEPTHS[:-1]:
        try:
            return inlined(schema, max_depth=depth)
        except ValueError:
            continue
    return inlined(schema, max_depth=_DEPTHS[-1])


def _dialect(schema: Schema) -> Schema:
    """One schema, whose inner schemas are in the dialect already."""
    if schema.keys() <= _AS_IT_IS:
        return with_items(schema)
    for key, translate in _TRANSLATED.items():
        if key in schema and (key not in _LISTS or isinstance(schema[key], list)):
            schema = translate(schema)
    result = {key: value for key, value in schema.items() if key in _KEPT}
    if isinstance(result.get("additionalProperties"), bool):
        del result["additionalProperties"]
    told = {k: v for k, v in schema.items() if k in _TOLD and v is not None}
    if told:
        words = json.dumps(told, ensure_ascii=False, default=str)
        result["description"] = f"{schema.get('description') or ''} {words}".lstrip()
    return with_items(result)


def _const(schema: Schema) -> Schema:
    rest = {key: value for key, value in schema.items() if key != "const"}
    return {**rest, "enum": [schema["const"]]}


def _enum(schema: Schema) -> Schema:
    """Literals are texts and numbers; of true, false and null only the type can be said."""
    values = schema["enum"]
    rest = {key: value for key, value in schema.items() if key != "enum"}
    literals = [v for v in values if isinstance(v, (str, int, float)) and not isinstance(v, bool)]
    types = list(dict.fromkeys(_TYPES[type(v)] for v in values if type(v) in _TYPES))
    if "type" not in rest and types:
        rest["type"] = types[0] if len(types) == 1 else types
    return {**rest, "enum": literals} if len(literals) == len(values) else rest


def _all_of(schema: Schema) -> Schema:
    """The members and what stands beside them as one schema; what stands beside them wins."""
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    whole: Schema = {}
    for member in (*schema["allOf"], rest):
        if not isinstance(member, dict):
            continue
        properties = {**whole.get("properties", {}), **member.get("properties", {})}
        required = [*whole.get("required", ()), *member.get("required", ())]
        whole = {**whole, **member}
        if properties:
            whole["properties"] = properties
        if required:
            whole["required"] = list(dict.fromkeys(required))
    return whole


def _one_of(schema: Schema) -> Schema:
    rest = {key: value for key, value in schema.items() if key != "oneOf"}
    return {**rest, "anyOf": [*rest.get("anyOf", ()), *schema["oneOf"]]}


def _exclusive(key: str, inclusive: str, step: int) -> Callable[[Schema], Schema]:
    def translate(schema: Schema) -> Schema:
        bound = schema[key]
        if schema.get("type") != "integer" or type(bound) is not int:
            return schema
        rest = {name: value for name, value in schema.items() if name != key}
        return {inclusive: bound + step, **rest}

    return translate


_TRANSLATED: dict[str, Callable[[Schema], Schema]] = {
    "allOf": _all_of,
    "const": _const,
    "enum": _enum,
    "oneOf": _one_of,
    "exclusiveMinimum": _exclusive("exclusiveMinimum", "minimum", 1),
    "exclusiveMaximum": _exclusive("exclusiveMaximum", "maximum", -1),
}
