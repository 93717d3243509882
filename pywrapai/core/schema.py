"""JSON Schemas of tools and answers, changed into a provider's dialect without touching them.

A change is applied where a schema stands, and never to the name of a property: a parameter that
is called "title" or "default" stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
MAX_NODES = 20_000
"""More than this after inlining is a schema that references itself out of all bounds."""

_DEFINITIONS = ("$defs", "definitions")
_BY_NAME = frozenset({"properties", *_DEFINITIONS, "patternProperties", "dependentSchemas"})
_SINGLE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains"})
_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})


def parameters_of(tool: Mapping[str, Any]) -> Schema:
    """A tool's parameters as an object schema in which every array says what its items are."""
    given = tool.get("parameters") or {}
    if given.get("type") != "object" or "properties" not in given:
        given = {"type": "object", "properties": {}, **given}
    whole: Schema = changed(given, with_items)
    return whole


def with_items(schema: Schema) -> Schema:
    """An array without `items` is refused by several providers; it holds anything."""
    if schema.get("type") != "array" or "items" in schema or "prefixItems" in schema:
        return schema
    return {**schema, "items": {}}


def changed(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy with `change` applied to every schema in it, the inner ones first."""
    if not isinstance(schema, dict):
        return schema  # `true`, `false`, or a list of types
    return change(_with_inner(schema, lambda inner: changed(inner, change)))


def _with_inner(schema: Schema, visit: Callable[[Any], Any]) -> Schema:
    """A copy in which each schema that stands directly in this one is what `visit` gives for it."""
    copy = dict(schema)
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, dict):
            copy[key] = {name: visit(inner) for name, inner in value.items()}
        elif key in _SINGLE and isinstance(value, dict):
            copy[key] = visit(value)
        elif key in _LISTS and isinstance(value, list):
            copy[key] = [visit(inner) for inner in value]
    return copy


def inlined(schema: Schema, *, max_depth: int = 5) -> Schema:
    """A copy in which no `$ref` is left; one that refers to itself ends `max_depth` levels down.

    Raises ValueError for a reference that leads nowhere, or for more than MAX_NODES schemas.
    """
    whole: Schema = _Inliner(schema, max_depth).resolve(schema, ())
    return whole


class _Inliner:
    def __init__(self, root: Schema, max_depth: int) -> None:
        self._root = root
        self._max_depth = max_depth
        self._nodes = 0

    def resolve(self, schema: Any, path: tuple[str, ...]) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"the schema grows past {MAX_NODES} parts when its $refs are inlined")
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._referred(schema, path)
        rest = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
        return _with_inner(rest, lambda inner: self.resolve(inner, path))

    def _referred(self, schema: Schema, path: tuple[str, ...]) -> Any:
        reference = str(schema["$ref"])
        beside = {k: v for k, v in schema.items() if k not in ("$ref", *_DEFINITIONS)}
        if path.count(reference) >= self._max_depth:
            return {"type": "object", **beside}
        target = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if name and not (isinstance(target, dict) and name in target):
                raise ValueError(f"the schema refers to {reference!r}, which it does not hold")
            target = target[name] if name else target
        found = self.resolve(target, (*path, reference))
        return {**found, **beside} if isinstance(found, dict) else found
