"""JSON Schema in the dialects of Anthropic's API: one for a tool's input, one for an answer.

Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pywrapai.core.schema import Schema, changed, inlined, parameters_of

_FORMATS = frozenset(
    "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()  # noqa: SIM905
)
_SIMPLE = frozenset({"string", "integer", "number", "boolean", "null"})
_NOISE = ("$schema", "$id", "$comment", "$anchor", "discriminator")
_BEYOND = ("allOf", "patternProperties", "dependentSchemas", "prefixItems", "not", "if")
_CHOICES = ("allOf", "anyOf", "oneOf")


def tool_input(tool: Mapping[str, Any]) -> Schema:
    """A tool's `input_schema`: all of JSON Schema, but no choice between schemas at its top."""
    schema = parameters_of(tool)
    if not any(key in schema for key in _CHOICES):
        return schema
    whole = inlined(schema)
    properties, required = dict(whole["properties"]), set(whole.get("required") or ())
    for key in _CHOICES:
        branches = [part for part in whole.pop(key, ()) if isinstance(part, dict)]
        for branch in branches:
            _add_properties(properties, branch.get("properties") or {})
        needed = [set(branch.get("required") or ()) for branch in branches]
        if needed:  # of two alternatives, only what both ask for is always there
            required |= set.union(*needed) if key == "allOf" else set.intersection(*needed)
    return {**whole, "properties": properties, "required": sorted(required)}


def _add_properties(properties: Schema, more: Schema) -> None:
    for name, schema in more.items():
        known = properties.setdefault(name, schema)
        if known != schema:
            properties[name] = {"anyOf": [known, schema]}


def answer_format(schema: Schema) -> Schema | None:
    """What `output_config.format` says for this schema; the caller's own is not touched.

    Every object is closed, and limits such as `minimum`, which the API refuses, go into the
    description. None for a schema that the dialect cannot hold: one that refers to itself, a
    mapping with free keys, a tuple, anything without a type.
    """
    try:
        # A schema that refers to itself ends in an object of any keys, which has no form here.
        plain = inlined(schema, max_depth=1)
        return {"type": "json_schema", "schema": changed(plain, _dialect)}
    except ValueError:
        return None


class _BeyondTheDialectError(ValueError):
    """Raised inside for what has no form in the dialect."""


def _dialect(schema: Schema) -> Schema:
    """One schema, whose inner schemas are in the dialect already."""
    rest = {key: value for key, value in schema.items() if key not in _NOISE}
    if len(rest.get("allOf") or ()) == 1:  # how a reference with a description is often written
        rest = {**rest.pop("allOf")[0], **rest}
    if any(key in rest for key in _BEYOND):
        raise _BeyondTheDialectError
    texts: Schema = {key: rest.pop(key) for key in ("title", "description") if key in rest}
    result = _shape(rest)
    if rest:  # the model may still keep to it
        limits = json.dumps(rest, ensure_ascii=False, default=str)
        texts["description"] = f"{texts.get('description', '')}\n{limits}".strip()
    return {**result, **texts}


def _shape(rest: Schema) -> Schema:
    """What the dialect has words for, taken out of `rest`."""
    if "const" in rest or "enum" in rest:
        return _literals(rest)
    for key in ("anyOf", "oneOf"):
        if key in rest:
            return _alternatives(rest, rest.pop(key))
    kind = rest.pop("type", "object" if "properties" in rest else None)
    if isinstance(kind, list):
        return _types(rest, kind)
    if kind == "object":
        return _object(rest)
    if kind == "array":
        return _array(rest)
    if kind not in _SIMPLE:
        raise _BeyondTheDialectError
    known = {"format": rest.pop("format")} if rest.get("format") in _FORMATS else {}
    return {"type": kind, **known}


def _literals(rest: Schema) -> Schema:
    key = "const" if "const" in rest else "enum"
    literal = rest.pop(key)
    rest.pop("type", None)
    values = [literal] if key == "const" else literal
    if not values or any(isinstance(value, (dict, list)) for value in values):
        raise _BeyondTheDialectError
    return {key: literal}


def _alternatives(rest: Schema, variants: list[Any]) -> Schema:
    rest.pop("type", None)
    if "properties" in rest or "anyOf" in rest or not all(isinstance(v, dict) for v in variants):
        raise _BeyondTheDialectError
    return {"anyOf": variants}


def _types(rest: Schema, kinds: list[str]) -> Schema:
    """`"type": ["string", "null"]` as alternatives; the limits are the other types' alone."""
    of_value = dict(rest)
    rest.clear()
    return {
        "anyOf": [
            {"type": "null"} if kind == "null" else _dialect({**of_value, "type": kind})
            for kind in kinds
        ]
    }


def _object(rest: Schema) -> Schema:
    properties = rest.pop("properties", None) or {}
    more, required = rest.pop("additionalProperties", None), rest.pop("required", None)
    free_keys = isinstance(more, dict) or (not properties and more is not False)
    if free_keys or not all(isinstance(value, dict) for value in properties.values()):
        raise _BeyondTheDialectError
    shape = {"type": "object", "properties": properties, "additionalProperties": False}
    return shape if required is None else {**shape, "required": required}


def _array(rest: Schema) -> Schema:
    items = rest.pop("items", None)
    if not isinstance(items, dict):
        raise _BeyondTheDialectError
    least = {"minItems": rest.pop("minItems")} if rest.get("minItems") in (0, 1) else {}
    return {"type": "array", "items": items, **least}
