from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from pywrapai import LLM
from pywrapai.providers.anthropic_schema import answer_format, tool_input
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires.anthropic_checks import check_messages
from tests.contracts.provider import KEY


class Point(BaseModel):
    x: float = Field(ge=0, le=1)
    y: float = 0.5


class Drawing(BaseModel):
    """A drawing with a name."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, description="What it is called")
    kind: Literal["sketch", "plan"]
    points: list[Point] = Field(min_length=2)
    origin: Point | None = Field(default=None, description="Where it begins")


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def sent(schema: dict[str, Any]) -> Any:
    """The schema in the dialect; the stub server's strict checks have passed it."""
    form = answer_format(schema)
    assert form is not None
    message = {"role": "user", "content": "x"}
    body = {"model": "m", "max_tokens": 1, "messages": [message], "output_config": {"format": form}}
    check_messages(body)
    return form["schema"]


OPEN: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": True}},
    {"type": "object", "properties": {"a": {}}},
    {"type": "array"},
    {"type": "array", "items": {}},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
    {"allOf": [{"type": "object"}, {"required": ["a"]}]},
    {"enum": [[1], [2]]},
    {"not": {"type": "string"}},
    {"$ref": "#/$defs/Nowhere"},
    Tree.model_json_schema(),
]


def test_a_models_schema_is_closed_and_its_limits_become_words():
    schema = sent(Drawing.model_json_schema())

    assert schema["additionalProperties"] is False
    assert schema["required"] == ["title", "kind", "points"]
    properties = schema["properties"]
    assert properties["title"] == {
        "type": "string",
        "title": "Title",
        "description": 'What it is called\n{"minLength": 1}',
    }
    assert properties["kind"]["enum"] == ["sketch", "plan"]
    point = properties["points"]["items"]
    assert point["additionalProperties"] is False
    assert point["properties"]["x"]["description"] == '{"maximum": 1, "minimum": 0}'
    assert "minItems" not in properties["points"]
    assert properties["origin"]["anyOf"] == [point, {"type": "null"}]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "integer"}, {"type": "integer"}),
        ({"const": "a", "type": "string"}, {"const": "a"}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        (
            {"type": "string", "format": "hex"},
            {"type": "string", "description": '{"format": "hex"}'},
        ),
        (
            {"type": ["string", "null"], "maxLength": 3, "description": "d"},
            {
                "anyOf": [
                    {"type": "string", "description": '{"maxLength": 3}'},
                    {"type": "null"},
                ],
                "description": "d",
            },
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        (
            {"allOf": [{"type": "string", "description": "inner"}], "description": "outer"},
            {"type": "string", "description": "outer"},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "$schema": "x"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ),
        (
            {"properties": {"title": {"type": "string"}, "default": {"type": "integer"}}},
            {
                "type": "object",
                "properties": {"title": {"type": "string"}, "default": {"type": "integer"}},
                "additionalProperties": False,
            },
        ),
    ],
)
def test_what_the_dialect_has_another_form_for_is_rewritten(given, wanted):
    before = copy.deepcopy(given)

    assert sent(given) == wanted
    assert given == before


@pytest.mark.parametrize("schema", OPEN)
def test_what_has_no_form_in_the_dialect_is_not_sent_in_it(schema):
    assert answer_format(schema) is None


LEAVES = st.sampled_from(
    [
        {"type": "string", "maxLength": 3},
        {"type": ["integer", "null"], "minimum": 0},
        {"enum": ["a", 1, None]},
        {"type": "object"},
        {"type": "boolean", "default": True},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 9}, inner),
        st.builds(lambda a, b: {"anyOf": [a, b], "title": "Either"}, inner, inner),
        st.builds(
            lambda properties: {"type": "object", "properties": properties},
            st.dictionaries(st.text(max_size=5), inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_whatever_is_sent_in_the_dialect_is_what_the_api_takes(schema):
    if answer_format(schema) is not None:
        sent(schema)


def test_a_model_class_is_held_to_natively(server: StubServer):
    written = '{"title": "Home", "kind": "plan", "points": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]}'
    server.reply(written)

    drawing = LLM("anthropic", api_key=KEY, base_url=server.url()).chat_structured("Draw", Drawing)

    assert isinstance(drawing, Drawing)
    assert server.refusals == []
    assert server.requests[0].json["output_config"]["format"]["type"] == "json_schema"


async def test_a_recursive_schema_is_told_in_words(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), system_prompt="Be brief.")
    server.reply(*['{"name": "root", "children": [{"name": "leaf"}]}'] * 2)

    for tree in (llm.chat_structured("Grow", Tree), await llm.achat_structured("Grow", Tree)):
        assert tree == Tree(name="root", children=[Tree(name="leaf")])

    body = server.requests[0].json
    assert "output_config" not in body
    assert body["system"].startswith("Be brief.")
    assert "JSON Schema" in body["system"]
    assert server.refusals == []


def test_anthropic_itself_is_not_told_twice():
    from pywrapai.core.base import Message, Request, Role
    from pywrapai.providers.anthropic import to_wire

    request = Request("m", (Message(Role.USER, "x"),), schema=Point.model_json_schema())

    assert "system" not in to_wire(request, stream=False)
    assert "JSON Schema" in to_wire(request, stream=False, official=False)["system"]


# Tools


def test_a_choice_at_the_top_of_a_tools_input_becomes_one_object():
    by_id = {
        "properties": {"kind": {"const": "id"}, "id": {"type": "integer"}},
        "required": ["kind", "id"],
    }
    by_name = {
        "properties": {"kind": {"const": "name"}, "name": {"type": "string"}},
        "required": ["kind", "name"],
    }
    tool = {"name": "find", "parameters": {"oneOf": [{"$ref": "#/$defs/a"}, by_name]}}
    tool["parameters"]["$defs"] = {"a": by_id}

    schema = tool_input(tool)

    assert schema == {
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"const": "id"}, {"const": "name"}]},
            "id": {"type": "integer"},
            "name": {"type": "string"},
        },
        "required": ["kind"],
    }


def test_other_tools_keep_all_of_their_schema():
    parameters = {**Tree.model_json_schema(), "properties": {"n": {"type": "array"}}}

    schema = tool_input({"name": "grow", "parameters": parameters})

    assert schema["$defs"] == parameters["$defs"]
    assert schema["properties"]["n"] == {"type": "array", "items": {}}
