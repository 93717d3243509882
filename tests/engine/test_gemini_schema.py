from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from pywrapai import (
    LLM,
)
from pywrapai.testing.server import StubServer
from tests.contracts.provider import KEY
from tests.engine.gemini_turns import MODEL, user, wire_of


@pytest.fixture
def gemini(server: StubServer) -> LLM:
    return LLM("gemini", MODEL, api_key=KEY, base_url=server.url("gemini"), max_retries=0)


def parameters(schema: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": "f", "description": "", "parameters": schema}
    before = deepcopy(tool)
    body = wire_of(user("go"), tools=[tool])
    assert tool == before
    (declaration,) = body["tools"][0]["functionDeclarations"]
    found: dict[str, Any] = declaration["parametersJsonSchema"]
    return found


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"const": "x"}, {"enum": ["x"], "type": "string"}),
        ({"const": 3, "type": "integer"}, {"enum": [3], "type": "integer"}),
        ({"const": True}, {"type": "boolean"}),
        ({"enum": [1, 2]}, {"enum": [1, 2], "type": "integer"}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1], "type": ["string", "integer"]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 5}, {"type": "integer", "maximum": 4}),
        (
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "number", "description": '{"exclusiveMinimum": 0}'},
        ),
        (
            {"type": "string", "description": "Its name.", "default": "a", "pattern": "^a"},
            {"type": "string", "description": 'Its name. {"default": "a", "pattern": "^a"}'},
        ),
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"]}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"$schema": "s", "$id": "i", "type": "string", "title": "T"}, {"type": "string"}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        (
            {"type": "object", "additionalProperties": {"type": "integer", "title": "T"}},
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
                    {"properties": {"b": {"type": "string"}}, "required": ["b"]},
                ],
                "description": "Both.",
            },
            {
                "type": "object",
                "properties": {
                    "a": {"enum": [1], "type": "integer"},
                    "b": {"type": "string"},
                },
                "required": ["a", "b"],
                "description": "Both.",
            },
        ),
    ],
)
def test_a_schema_is_put_into_the_dialect(given, sent):
    found = parameters({"type": "object", "properties": {"p": given}})

    assert found["properties"]["p"] == sent


def test_a_function_without_parameters_takes_an_empty_object():
    assert parameters({}) == {"type": "object", "properties": {}}
    body = wire_of(user("go"), tools=[{"name": "f", "parameters": None}])
    assert body["tools"][0]["functionDeclarations"] == [
        {"name": "f", "parametersJsonSchema": {"type": "object", "properties": {}}}
    ]


def test_parameters_that_are_called_like_keywords_stay():
    names = ["title", "properties", "type", "required", "default", "const", "enum", "allOf"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}

    assert list(parameters(schema)["properties"]) == names


def tree(children: int) -> dict[str, Any]:
    node = {f"child{at}": {"$ref": "#/$defs/Node"} for at in range(children)}
    return {
        "$defs": {"Node": {"type": "object", "properties": node}},
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
    }


@pytest.mark.parametrize("children", [1, 9])
def test_a_recursive_schema_is_unrolled_within_bounds(server: StubServer, gemini: LLM, children):
    schema = parameters(tree(children))

    assert "$ref" not in json.dumps(schema)
    assert schema["properties"]["tree"]["properties"]["child0"]["type"] == "object"
    server.reply("ok")
    gemini.chat("go", tools=[{"name": "f", "description": "d", "parameters": schema}])
    assert server.refusals == []


def test_a_schema_that_grows_out_of_bounds_is_refused():
    steps = {
        f"L{n}": {"type": "object", "properties": {s: {"$ref": f"#/$defs/L{n + 1}"} for s in "ab"}}
        for n in range(30)
    }
    bomb = {**steps["L0"], "$defs": {**steps, "L30": {"type": "string"}}}

    with pytest.raises(ValueError, match="grows past"):
        parameters(bomb)
