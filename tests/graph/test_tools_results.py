"""The text that a model reads of what a tool returned or raised."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from pywrapai import ToolCall, ToolResult
from pywrapai_graph.tools.results import MAX_ERROR_LENGTH, failed, succeeded, to_text

CALL = ToolCall("c1", "f", {})


class Color(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    YES = "yes"


class Place(BaseModel):
    city: str
    since: date = date(2026, 1, 2)
    key: SecretStr = SecretStr("hidden")
    internal: int = Field(1, exclude=True)


@dataclass
class Route:
    places: list[Place]
    color: Color


class Odd:
    """Pretends to know JSON."""

    def json(self) -> str:
        raise AssertionError("nobody asked for this")

    to_dict = to_json = dict = model_dump = json


class Shown(Odd):
    def __repr__(self) -> str:
        return "Shown(1)"


class Broken(Odd):
    def __repr__(self) -> str:
        raise ValueError("no")


class Text(str):
    def __str__(self) -> str:
        return "wrong"


@pytest.mark.parametrize("text", ["16°C, cloudy", "日本語😀", '{"a": 1}', " x ", "null"])
def test_a_string_is_the_text(text):
    assert to_text(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ("", '""'),
        (" \n", '" \\n"'),
        ([], "[]"),
        ((), "[]"),
        ({}, "{}"),
        (0, "0"),
        (False, "false"),
        (b"", '""'),
    ],
)
def test_nothing_has_a_text_too(value, text):
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"名": "日本語😀"}, '{"名": "日本語😀"}'),
        ([1, 2.5, True, None, "x"], '[1, 2.5, true, null, "x"]'),
        (date(2026, 1, 2), "2026-01-02"),
        (
            [datetime(2026, 1, 2, 3, 4, tzinfo=UTC), time(5, 6)],
            '["2026-01-02T03:04:00+00:00", "05:06:00"]',
        ),
        (timedelta(days=1, hours=2), "1 day, 2:00:00"),
        ([Decimal("1.10"), UUID(int=1)], '["1.10", "00000000-0000-0000-0000-000000000001"]'),
        (PurePosixPath("/tmp/x"), "/tmp/x"),
        ([Color.RED, Word.YES], '["red", "yes"]'),
        (Color.RED, "red"),
        (Fraction(1, 4), "0.25"),
        ({3, 1, 2}, "[1, 2, 3]"),
        pytest.param(frozenset({"b", "a"}), '["a", "b"]', id="sorted"),
        (deque([1]), "[1]"),
        ("grüße".encode(), "grüße"),
        (bytearray(b"\xff\x00"), "<2 bytes that are no text>"),
        ([math.nan, math.inf, -math.inf], '["NaN", "Infinity", "-Infinity"]'),
        (namedtuple("P", "x y")(1, 2), '{"x": 1, "y": 2}'),
        (OrderedDict(b=1, a=2), '{"b": 1, "a": 2}'),
        (
            {1: "a", None: "b", date(2026, 1, 2): "d", (1, 2): "e"},
            '{"1": "a", "null": "b", "2026-01-02": "d", "[1, 2]": "e"}',
        ),
        (Text("right"), "right"),
    ],
    ids=repr,
)
def test_other_values_are_readable(value, text):
    assert to_text(value) == text


def test_an_integer_too_long_for_python_to_write_is_hexadecimal():
    assert to_text([10**5000]) == f'["{hex(10**5000)}"]'


def test_models_and_dataclasses_are_objects_without_what_they_hide():
    found = json.loads(to_text(Route([Place(city="Oslo")], Color.RED)))

    assert found == {
        "places": [{"city": "Oslo", "since": "2026-01-02", "key": "**********"}],
        "color": "red",
    }


def test_a_model_with_what_only_python_knows_is_served():
    class Holder(BaseModel, arbitrary_types_allowed=True):
        odd: Any
        ratio: float
        data: bytes = b"\xff"

    assert json.loads(to_text(Holder(odd=Shown(), ratio=math.nan, data=b"x"))) == {
        "odd": "Shown(1)",
        "ratio": "NaN",
        "data": "x",
    }
    assert "Holder(" in to_text(Holder(odd=1, ratio=1))


def test_unknown_objects_are_their_repr_and_none_of_their_methods_is_called():
    assert to_text(Odd()) == "<Odd>"
    assert to_text([Shown()]) == '["Shown(1)"]'
    assert to_text(Broken()) == "<Broken: its repr failed with ValueError>"
    assert to_text(Place).startswith("<class")


def test_what_contains_itself_ends():
    ring: list[Any] = [1]
    ring.append(ring)
    book: dict[str, Any] = {"name": "x"}
    book["self"] = [book]
    deep: Any = "end"
    for _ in range(10_000):
        deep = [deep]

    assert to_text(ring) == '[1, "..."]'
    assert to_text(book) == '{"name": "x", "self": ["..."]}'
    assert '"..."' in to_text(deep)


def test_the_same_object_twice_is_no_ring():
    part = {"a": 1}

    assert to_text([part, part]) == '[{"a": 1}, {"a": 1}]'


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats(), st.lists, max_leaves=9)
)
def test_json_values_come_back_as_they_are(value):
    (found,) = json.loads(to_text([value]))

    assert _same(found, value)


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, list):
        return len(found) == len(value) and all(map(_same, found, value))
    if isinstance(value, float) and not math.isfinite(value):
        return found in ("NaN", "Infinity", "-Infinity")
    return found == value


def test_results_carry_the_calls_id_and_name():
    assert succeeded(CALL, [1]) == ToolResult("c1", "f", "[1]")
    assert failed(CALL, ValueError("city not found")) == ToolResult(
        "c1", "f", "Error: city not found", is_error=True
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "Error: TimeoutError"),
        (KeyError("x"), "Error: 'x'"),
        (
            ExceptionGroup(
                "g", [ValueError("a"), ExceptionGroup("h", [OSError("b"), LookupError()])]
            ),
            "Error: a; b; LookupError",
        ),
    ],
)
def test_an_error_says_something(error, text):
    assert failed(CALL, error).content == text


def test_a_page_for_an_error_message_is_cut():
    content = failed(CALL, ValueError("x" * 1_000_000)).content

    assert len(content) == len("Error: ") + MAX_ERROR_LENGTH + len("...")
