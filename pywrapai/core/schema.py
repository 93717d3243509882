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
    if _lacks_items(given):
        given = changed(given, with_items)
    whole: Schema = given
    return whole


def with_items(schema: Schema) -> Schema:
    """An array without `items` is refused by several providers; it holds anything."""
    return {**schema, "items": {}} if _has_no_items(schema) else schema


def _has_no_items(schema: Schema) -> bool:
    return schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema


def _lacks_items(schema: Any) -> bool:
    """Whether an array anywhere in the schema says nothing of its items."""
    if not isinstance(schema, dict):
        return False
    if _has_no_items(schema):
        return True
    for key, value in schema.items():
        if key in _BY_NAME:
            if isinstance(value, dict) and any(map(_lacks_items, value.values())):
                return True
        elif key in _SINGLE:
            if _lacks_items(value):
                return True
        elif key in _LISTS and isinstance(value, list) and any(map(_lacks_items, value)):
            return True
    return False


def changed(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy with `change` applied to every schema in it, the inner ones first."""
    if not isinstance(schema, dict):
        return schema  # `true`, `false`, or a list of types
    copy = dict(schema)
    for key in _BY_NAME:
        if isinstance(copy.get(key), dict):
            copy[key] = {name: changed(inner, change) for name, inner in copy[key].items()}
    for key in _SINGLE:
        if isinstance(copy.get(key), dict):
            copy[key] = changed(copy[key], change)
    for key in _LISTS:
        if isinstance(copy.get(key), list):
            copy[key] = [changed(inner, change) for inner in copy[key]]
    return change(copy)


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
        copy = {k: v for k, v in schema.items() if k not in _DEFINITIONS}
        for key in _BY_NAME:
            if isinstance(copy.get(key), dict):
                copy[key] = {name: self.resolve(s, path) for name, s in copy[key].items()}
        for key in _SINGLE:
            if isinstance(copy.get(key), dict):
                copy[key] = self.resolve(copy[key], path)
        for key in _LISTS:
            if isinstance(copy.get(key), list):
                copy[key] = [self.resolve(s, path) for s in copy[key]]
        return copy

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
