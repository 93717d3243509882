"""What a model is told of a function: name, description, parameters."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache, partial, wraps

import pytest

from pywrapai_graph import Tool, ToolRegistry, tool
from tests.graph.tool_types import Place, Route, parameters, properties

# The function stays


def test_a_decorated_function_is_the_function_itself():
    def add(x: int, y: int = 2) -> int:
        """Add two numbers."""
        return x + y

    decorated = tool(add)

    assert decorated is add
    assert (decorated(1), decorated.__name__, decorated.__doc__) == (3, "add", "Add two numbers.")
    assert str(inspect.signature(decorated)) == "(x: 'int', y: 'int' = 2) -> 'int'"


def test_a_decorated_function_carries_its_tool():
    @tool
    def add(x: int, y: int = 2) -> int:
        """Add two numbers.

        More of it.
        """
        return x + y

    made = add._pywrapai_tool

    assert isinstance(made, Tool)
    assert (made.name, made.description, made.requires_approval) == (
        "add",
        "Add two numbers.",
        False,
    )
    assert made.fn is add
    assert made(1, y=5) == 6


def test_name_description_and_approval_may_be_given():
    @tool(name="plus", description="Sum.", requires_approval=True)
    def add(x: int) -> int:
        """Add."""
        return x

    made = add._pywrapai_tool

    assert (made.name, made.description, made.requires_approval) == ("plus", "Sum.", True)


def test_one_function_is_decorated_once_and_may_have_more_tools():
    @tool
    def add(x: int) -> int:
        return x

    with pytest.raises(TypeError, match=r"add is a tool already.*Tool\.from_function"):
        tool(name="plus")(add)
    assert Tool.from_function(add, name="plus").name == "plus"


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_the_decorators_of_a_class_go_above_ours(kind):
    with pytest.raises(TypeError, match=f"put @{kind.__name__} above @tool"):
        tool(kind(lambda: None))


def test_decorating_imports_nothing():
    code = """
import sys
from pywrapai_graph import tool

@tool
def f(x: int) -> int:
    "Text."
    return x

print(*[m for m in ("pydantic", "asyncio", "docstring_parser") if m in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == ""


# What can be a tool


class Search:
    """Looks things up."""

    def __init__(self, corpus: str = "c") -> None:
        self.corpus = corpus

    @tool
    def find(self, query: str) -> str:
        """Find."""
        return f"{self.corpus}: {query}"

    @classmethod
    @tool
    def kind(cls, query: str) -> str:
        return f"{cls.__name__}: {query}"

    @staticmethod
    @tool
    def fixed(query: str) -> str:
        return query

    async def __call__(self, query: str, limit: int = 3) -> str:
        return f"{self.corpus} {query} {limit}"


def traced(fn):
    @wraps(fn)
    def wrapper(*args, **kwargs):
        return ["traced", fn(*args, **kwargs)]

    return wrapper


def test_self_and_cls_are_left_out():
    registry = ToolRegistry()
    for method in (Search("a").find, Search.kind, Search.fixed):
        registry.register(method)

    assert registry.names == ["find", "kind", "fixed"]
    assert all(list(t.parameters["properties"]) == ["query"] for t in registry)
    assert list(Search.find._pywrapai_tool.parameters["properties"]) == ["query"]


def test_callable_objects_partials_and_wrapped_functions_are_looked_into():
    def scale(x: int, factor: int, unit: str = "m") -> str:
        """Scale it."""
        return f"{x * factor}{unit}"

    made = {
        "object": Tool.from_function(Search()),
        "partial": Tool.from_function(partial(partial(scale, factor=3), unit="km")),
        "wrapped": Tool.from_function(traced(scale)),
        "cached": Tool.from_function(lru_cache(scale)),
    }

    assert {k: t.name for k, t in made.items()} == {
        "object": "Search",
        **dict.fromkeys(["partial", "wrapped", "cached"], "scale"),
    }
    assert made["object"].description == "Looks things up."
    assert made["partial"].description == "Scale it."
    taken = {kind: list(t.parameters["properties"]) for kind, t in made.items()}
    assert taken == {
        "object": ["query", "limit"],
        "partial": ["x"],
        "wrapped": ["x", "factor", "unit"],
        "cached": ["x", "factor", "unit"],
    }


def test_a_builtin_is_a_tool_if_python_knows_its_signature():
    assert properties(math.sqrt) == {"x": {"type": "string"}}
    with pytest.raises(TypeError, match=r"cannot be a tool.*put a function with type hints around"):
        parameters(min)


def test_a_class_is_a_tool_that_makes_an_instance():
    made = Tool.from_function(Route)

    assert set(made.parameters["properties"]) == {"start", "stops"}
    assert made.step({"start": {"city": "Oslo"}, "stops": []}).block() == Route(
        Place(city="Oslo"), []
    )


def test_what_cannot_be_marked_is_not_decorated():
    with pytest.raises(TypeError, match=r"@tool cannot mark .* use Tool\.from_function"):
        tool(math.sqrt)


def test_what_cannot_be_called_is_no_tool():
    with pytest.raises(TypeError, match="not of 'search'"):
        tool("search")
    with pytest.raises(TypeError, match="the fn of tool 'f' is no function"):
        Tool("f", "", {}, fn=None)


# Names


@pytest.mark.parametrize(
    ("given", "name"),
    [("größe", "groe"), ("convert[int]", "convert_int"), ("f" * 80, "f" * 64), ("a b.c", "a_b_c")],
)
def test_a_name_is_made_such_that_providers_take_it(given, name):
    def f(): ...

    f.__name__ = given

    assert Tool.from_function(f).name == name


@pytest.mark.parametrize("name", ["<lambda>", "名前", ""])
def test_a_function_without_a_usable_name_needs_one(name):
    def f(): ...

    f.__name__ = name
    with pytest.raises(ValueError, match="pass name="):
        Tool.from_function(f)
    assert Tool.from_function(f, name="named").name == "named"


@pytest.mark.parametrize("name", ["get weather", "x" * 65, "", "a.b", None])
def test_a_given_name_that_providers_refuse_is_refused(name):
    with pytest.raises(ValueError, match="cannot be a tool's name"):
        Tool(name, "", {"type": "object"}, fn=print)


# A Tool is a value


def test_a_tool_may_be_copied_with_changes():
    @tool
    def f(x: int) -> int:
        return x

    twin = replace(f._pywrapai_tool, name="g", requires_approval=True)

    assert (twin.name, twin.requires_approval) == ("g", True)
    assert twin.parameters == f._pywrapai_tool.parameters
    assert twin.step({"x": "3"}).block() == 3


def test_a_tool_has_no_other_attributes():
    made = Tool("f", "", {}, fn=print)

    with pytest.raises(AttributeError, match="no 'nothing'"):
        _ = made.nothing


# Without the packages of the extra


@pytest.mark.parametrize("missing", ["pydantic", "docstring_parser"])
def test_a_missing_package_is_told_at_registration_as_the_line_that_installs_it(missing):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from pywrapai import MissingDependencyError, ToolCall
from pywrapai_graph import Tool, ToolRegistry, tool

@tool
def f(x: int) -> int:
    '''Text.

    Args:
        x: a number
    '''
    return x

registry = ToolRegistry()
try:
    registry.register(f)
except MissingDependencyError as error:
    print(error)
registry.register(Tool("by_hand", "", {{"type": "object"}}, fn=lambda x: [x]))
print(registry.execute(ToolCall("c", "by_hand", {{"x": 1}})).content)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        f'{missing} is not installed: pip install "pywrapai[tools]"',
        "[1]",
    ]
