from __future__ import annotations

import enum
import time
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field

from pywrapai_graph import Tool, ToolRegistry, tool
from tests.graph.tool_types import Place, Route, parameters, properties


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    children: list[Node] = []


class Point(TypedDict):
    x: int
    label: NotRequired[Annotated[str, Field(description="what it is called")]]


class Tree(TypedDict, total=False):
    left: Tree
    size: typing.Required[int]


# Types


def test_the_types_of_the_document():
    def f(a: str, b: int, c: float, d: bool, e: list, f: dict, g): ...

    found = parameters(f)

    types = {name: schema["type"] for name, schema in found["properties"].items()}
    assert types == {
        **{"a": "string", "b": "integer", "c": "number", "d": "boolean"},
        **{"e": "array", "f": "object", "g": "string"},
    }
    assert found["required"] == ["a", "b", "c", "d", "e", "f", "g"]
    assert found["type"] == "object"


def test_what_says_nothing_and_what_json_cannot_hold_is_asked_for_as_text():
    class Session: ...

    @tool
    def f(a: Any, b: object, c: Session, d: Callable[[], int], e: Session | None = None): ...

    assert properties(f) == {name: {"type": "string"} for name in "abcde"}
    assert parameters(f)["required"] == ["a", "b", "c", "d"]


def test_rich_types_have_their_whole_schema():
    def f(
        a: Literal["x", "y"],
        b: Color,
        c: Annotated[int, Field(gt=0, description="how many")],
        d: int | str,
        e: list[int],
        f: dict[str, float],
        g: tuple[int, str],
    ): ...

    found = properties(f)

    assert found["a"] == {"type": "string", "enum": ["x", "y"]}
    assert found["b"] == {"type": "string", "enum": ["red", "blue"]}
    assert found["c"] == {"type": "integer", "exclusiveMinimum": 0, "description": "how many"}
    assert found["d"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert found["e"] == {"type": "array", "items": {"type": "integer"}}
    assert found["f"]["additionalProperties"] == {"type": "number"}
    assert [item["type"] for item in found["g"]["prefixItems"]] == ["integer", "string"]


def test_hints_that_python_takes_for_equal_are_told_apart():
    def f(a: Literal[1], b: Literal[True], c: Annotated[int, {"no": "hash"}]): ...

    found = properties(f)

    assert found["a"]["const"] is not found["b"]["const"]
    assert found["c"] == {"type": "integer"}


def test_a_mapping_has_properties_even_if_they_are_none():
    def f(a: dict[str, str], b: dict, c: list[dict[str, int]]): ...

    found = properties(f)

    assert found["a"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": {"type": "string"},
    }
    assert found["b"]["properties"] == found["c"]["items"]["properties"] == {}


def test_models_dataclasses_and_typed_dicts_are_objects_with_their_fields():
    def f(place: Place, route: Route, point: Point, points: list[Point] | None = None): ...

    found = parameters(f)
    definitions = found["$defs"]

    assert definitions["Place"]["description"] == "Where something is."
    assert definitions["Place"]["required"] == ["city"]
    assert set(definitions["Place"]["properties"]) == {"city", "title"}
    assert definitions["Route"]["properties"]["stops"]["items"] == {"$ref": "#/$defs/Place"}
    assert found["properties"]["route"] == {"$ref": "#/$defs/Route"}
    point = found["properties"]["point"]
    assert point["properties"]["label"] == {"type": "string", "description": "what it is called"}
    assert point["required"] == ["x"]


def test_typing_typed_dict_is_read_wherever_it_stands():
    def f(
        a: Point,
        b: list[Point],
        c: Point | None,
        d: dict[str, Annotated[Point, "x"]],
        e: Point | int,
    ): ...

    @tool
    def g(tree: Tree): ...

    found = properties(f)
    point = found["a"]
    assert point["properties"]["x"] == {"type": "integer"}
    assert point["required"] == ["x"]
    assert found["b"]["items"]["$ref"].startswith("#/$defs/Point")
    schema = parameters(g)
    tree = schema["properties"]["tree"]
    if "$ref" in tree:  # from Python 3.12 on, where Pydantic itself reads them
        tree = schema["$defs"]["Tree"]
    assert tree["required"] == ["size"]


def test_two_classes_of_one_name_are_kept_apart():
    def one() -> type:
        class Item(BaseModel):
            a: list[Place]

        return Item

    def two() -> type:
        class Item(BaseModel):
            b: list[Place]

        return Item

    def f(x, y): ...

    f.__annotations__ = {"x": list[one()], "y": list[two()]}
    found = parameters(f)

    refs = [found["properties"][name]["items"]["$ref"].rsplit("/")[-1] for name in "xy"]
    assert [list(found["$defs"][ref]["properties"]) for ref in refs] == [["a"], ["b"]]


def test_a_recursive_model_keeps_its_references_and_ends_soon():
    class Ladder(BaseModel):
        up: Ladder | None = None
        also: Ladder | None = None

    @tool
    def f(node: Node, ladder: Ladder): ...

    started = time.perf_counter()
    found = parameters(f)

    assert time.perf_counter() - started < 1
    assert found["$defs"]["Node"]["properties"]["children"]["items"]["$ref"] == "#/$defs/Node"


def test_parameters_may_be_called_what_json_schema_calls_its_keys():
    def f(title: str, properties: dict, type: str, required: bool, default: int, items: list): ...

    found = parameters(f)

    names = ["title", "properties", "type", "required", "default", "items"]
    assert list(found["properties"]) == found["required"] == names


def test_no_title_repeats_a_name_and_one_that_was_given_stays():
    def f(city_name: str, place: Place, color: Color, n: Annotated[int, Field(title="Number")]): ...

    found = properties(f)

    assert [name for name, schema in found.items() if "title" in schema] == ["n"]
    assert "title" not in found["place"]["properties"]["city"]


# Optional, default, required


def test_optional_parameters_need_not_be_sent_in_either_spelling():
    def f(
        a: Optional[int],  # noqa: UP045
        b: int | None,
        c: str | None = None,
        d: int | None = 5,
        e: int = 1,
    ): ...

    found = parameters(f)

    assert found["required"] == []
    assert found["properties"]["a"] == found["properties"]["b"] == {"type": "integer"}
    assert found["properties"]["c"] == {"type": "string"}
    assert found["properties"]["d"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert found["properties"]["e"] == {"type": "integer"}


def test_a_fields_default_counts_as_one():
    def f(
        a: int = Field(5, ge=1, description="how many"),
        b: Annotated[str, Field(default="x")] = "y",
        d: int = Field(description="needed"),
        *,
        c: Annotated[list[int], Field(default_factory=list)],
    ): ...

    found = parameters(f)

    assert found["required"] == ["d"]
    assert found["properties"]["a"] == {
        **{"type": "integer", "minimum": 1, "default": 5, "description": "how many"}
    }
    assert found["properties"]["d"]["description"] == "needed"


# Descriptions


GOOGLE = """Find things.

    Args:
        query (str): What to look for,
            in a few words.
        limit: How many.
        **more: The rest.

    Returns:
        A list.
    """
NUMPY = """Find things.

    Parameters
    ----------
    query : str
        What to look for,
        in a few words.
    limit : int, optional
        How many.
    **more
        The rest.
    """
SPHINX = """Find things.

    :param str query: What to look for,
        in a few words.
    :param limit: How many.
    :param more: The rest.
    :returns: A list.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_parameters_are_described_by_the_docstring(docstring):
    def search(query: str, limit: int = 5, **more: int): ...

    search.__doc__ = docstring
    made = Tool.from_function(search)

    assert made.description == "Find things."
    told = {n: s["description"] for n, s in made.parameters["properties"].items()}
    assert told == {
        "query": "What to look for, in a few words.",
        "limit": "How many.",
        "more": "The rest.",
    }


def test_what_is_said_at_the_parameter_wins_over_the_docstring():
    def f(a: Annotated[str, "at a"], b: Annotated[str, Field(description="at b")], c: Place):
        """Do.

        Args:
            a: doc a
            b: doc b
            c: doc c
        """

    told = [schema["description"] for schema in properties(f).values()]

    assert told == ["at a", "at b", "doc c"]


def test_numpy_may_describe_two_at_once():
    def f(x: int, y: int):
        """Add.

        Parameters
        ----------
        x, y : int
            A number.
        """

    assert [s["description"] for s in properties(f).values()] == ["A number."] * 2


def test_without_a_docstring_there_is_no_description():
    def f(x: int): ...

    assert Tool.from_function(f).description == ""
    assert properties(f) == {"x": {"type": "integer"}}


# Hints as strings


def test_local_names_in_string_hints_are_resolved():
    class Local(BaseModel):
        """A local one."""

        value: int

    @tool
    def f(item: Local, items: list[Local] | None = None) -> Missing: ...  # noqa: F821

    assert f._pywrapai_tool.parameters["properties"]["item"]["description"] == "A local one."


def test_a_hint_that_cannot_be_resolved_is_told_at_registration():
    @tool
    def f(x: Nowhere): ...  # noqa: F821

    with pytest.raises(TypeError, match="name 'Nowhere' is not defined"):
        ToolRegistry().register(f)


def test_an_incomplete_model_is_told_at_registration():
    class Later(BaseModel):
        part: Part  # noqa: F821

    @tool
    def f(x: int, later: Later): ...

    with pytest.raises(TypeError, match=r"f at .* its parameter 'later' has no schema"):
        ToolRegistry().register(f)


def test_a_generator_is_no_tool():
    @tool
    def f(x: int):
        yield x

    with pytest.raises(TypeError, match="let it return a list"):
        ToolRegistry().register(f)
