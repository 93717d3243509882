"""What happens between a model's arguments and the function: checks, conversion, the call."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import enum
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial, wraps
from typing import Annotated, Any, Literal, Optional, TypedDict, Unpack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from pywrapai_graph import Tool, tool
from pywrapai_graph.tools import ToolArgumentsError

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


class Color(enum.Enum):
    RED = "red"


class Place(BaseModel):
    city: str
    zip: str = "?"

    @field_validator("city")
    @classmethod
    def known(cls, value: str) -> str:
        if value == "Atlantis":
            raise ValueError("sunk")
        return value


@dataclass
class Size:
    width: int


class Options(TypedDict, total=False):
    depth: int


def echo(**given: Any) -> Any:
    return given


def call(fn: Callable[..., Any], **arguments: Any) -> Any:
    return Tool.from_function(fn, name="f").step(arguments).block()


def error_of(fn: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ToolArgumentsError) as raised:
        call(fn, **arguments)
    return str(raised.value)


# Conversion


def test_arguments_become_what_the_hints_say():
    def f(
        a: int,
        b: float,
        c: bool,
        d: Color,
        e: date,
        f: UUID,
        g: Decimal,
        h: tuple[int, str],
        i: set[int],
        j: bytes,
        k: str,
    ):
        return [a, b, c, d, e, f, g, h, i, j, k]

    found = call(
        f,
        **{"a": "3", "b": 2, "c": "true", "d": "red", "e": "2026-01-02", "g": "1.10"},
        f="12345678-1234-5678-1234-567812345678",
        **{"h": ["1", "x"], "i": [1, 1], "j": "x", "k": 12345},
    )

    assert found == [
        *[3, 2.0, True, Color.RED, date(2026, 1, 2)],
        UUID("12345678-1234-5678-1234-567812345678"),
        *[Decimal("1.10"), (1, "x"), {1}, b"x", "12345"],
    ]


def test_objects_become_instances_of_their_classes():
    def f(place: Place, size: Size, more: list[Place], options: Options):
        return place, size, more, options

    found = call(
        f, place={"city": "Oslo"}, size={"width": "3"}, more=[{"city": "Bergen"}], options={}
    )

    assert found == (Place(city="Oslo"), Size(3), [Place(city="Bergen")], {})


def test_what_has_no_hint_arrives_as_it_came():
    def f(a, b: Any, c: object):
        return a, b, c

    assert call(f, a={"x": [1]}, b=2, c=None) == ({"x": [1]}, 2, None)


def test_what_was_not_sent_has_its_default():
    def f(a: Optional[int], b: str | None, c: int = 3, d: int = Field(4, ge=1)):  # noqa: UP045
        return a, b, c, d

    assert call(f) == (None, None, 3, 4)


def test_a_default_factory_makes_a_new_one_each_time():
    def f(e: Annotated[list[int], Field(default_factory=lambda: [5])]):
        e.append(6)
        return e

    made = Tool.from_function(f)

    assert [made.step({}).block() for _ in range(2)] == [[5, 6], [5, 6]]


def test_null_is_taken_where_none_is_a_type():
    def f(a: int | None = 5, b: str | None = "x"):
        return a, b

    assert call(f, a=None, b=None) == (None, None)


# What does not fit


def test_each_argument_that_does_not_fit_is_named():
    def f(city: str, days: int, place: Place, unit: Literal["c", "f"]): ...

    said = error_of(f, days="many", place={"city": "Atlantis"}, unit="k", cty="Oslo")

    assert "city is missing" in said
    assert "days: Input should be a valid integer" in said
    assert "place.city: Value error, sunk" in said
    assert "unit: Input should be 'c' or 'f'" in said
    assert "there is no argument 'cty'; the arguments are city, days, place, unit" in said


def test_a_tool_without_parameters_takes_no_arguments():
    def now() -> str:
        return "12:00"

    assert call(now) == "12:00"
    assert error_of(now, zone="UTC") == "there is no argument 'zone'; the arguments are none"


def test_huge_input_is_not_echoed():
    def f(a: int, b: list[int]): ...

    said = error_of(f, a="x" * 100_000, b=["y" * 1000] * 1000, **{"z" * 100_000: 1})

    assert len(said) < 3000
    assert "and 992 more" in said


def test_nothing_is_called_when_arguments_do_not_fit():
    called = []

    def f(a: int):
        called.append(a)

    error_of(f, a="x")

    assert called == []


def test_arguments_are_given_by_name():
    with pytest.raises(TypeError, match=r"in a dict, not as \[1\]"):
        Tool.from_function(echo).step([1]).block()


# Kinds of parameters


def test_variadic_parameters_are_a_list_and_an_object():
    def f(r0: int, *values: int, **more: float):
        return r0, values, more

    made = Tool.from_function(f)

    assert made.parameters["properties"]["values"] == {
        "type": "array",
        "items": {"type": "integer"},
    }
    assert made.parameters["properties"]["more"]["additionalProperties"] == {"type": "number"}
    assert made.parameters["required"] == ["r0"]
    assert call(f, r0=1) == (1, (), {})
    assert call(f, r0=1, values=[0, "2"]) == (1, (0, 2), {})
    assert call(f, r0=1, more={"x": "1.5"}, y=2) == (1, (), {"x": 1.5, "y": 2.0})
    assert "more.y: Input should be a valid number" in error_of(f, r0=1, y="no")
    assert "more: Input should be a valid dictionary" in error_of(f, r0=1, more=[], z=1)


def test_what_stands_before_given_values_goes_by_position():
    def f(a: int, b: int = 2, *values: int, c: int = 3):
        return a, b, values, c

    assert call(f, a=1, values=[9], c=4) == (1, 2, (9,), 4)
    assert call(f, b=5, a=1) == (1, 5, (), 3)


def test_positional_only_parameters_are_given_by_position():
    def f(a: int, b: int | None, c: int = 3, /, d: int = 4):
        return a, b, c, d

    assert call(f, a=1, d=5) == (1, None, 3, 5)
    assert call(f, c="6", a=1, b=2) == (1, 2, 6, 4)


def test_unhinted_and_unpacked_variadics_are_served():
    def f(*words, **options: Unpack[Options]):
        return words, options

    assert Tool.from_function(f).parameters["properties"]["words"]["items"] == {"type": "string"}
    assert call(f, words=["a"], depth="3") == (("a",), {"depth": 3})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda v: st.lists(v) | st.dictionaries(st.text(), v),
)


@given(st.dictionaries(st.sampled_from(["r0", "values", "more", "x", "any"]), JSON))
def test_the_models_own_arguments_are_never_changed(arguments):
    def f(r0, *values: Any, any: Any = None, **more: Any):
        for taken in (r0, any, *values, *more.values()):
            if isinstance(taken, (list, dict)):
                taken.clear()

    kept = copy.deepcopy(arguments)
    with suppress(ToolArgumentsError):
        Tool.from_function(f).step(arguments).block()

    assert arguments == kept


def test_a_hand_made_tool_passes_the_arguments_on_and_keeps_them():
    def f(a, b=2):
        a.append(3)
        return a, b

    made = Tool("f", "", {"type": "object", "properties": {"a": {"type": "array"}}}, fn=f)
    arguments = {"a": [1]}

    assert made.step(arguments).block() == ([1, 3], 2)
    assert arguments == {"a": [1]}
    with pytest.raises(TypeError, match="'c'"):
        made.step({"a": [], "c": 1}).block()


async def test_a_tool_may_bring_its_own_check_and_its_own_schema():
    async def remote(**arguments: Any) -> Any:
        return arguments

    def bind(arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if "q" not in arguments:
            raise ToolArgumentsError("q is missing")
        return [], arguments

    made = Tool("remote", "", {"type": "object"}, fn=remote, bind=bind)

    assert made.step({"q": 1}).block() == {"q": 1}
    assert await made.step({"q": 1}).wait() == {"q": 1}
    with pytest.raises(ToolArgumentsError, match="q is missing"):
        await made.step({}).wait()


# Sync and async


class Remote:
    async def __call__(self, x: int) -> tuple[int, str]:
        await asyncio.sleep(0)
        return x, WHO.get()

    async def method(self, x: int) -> tuple[int, str]:
        return await self(x)


async def coroutine(x: int, y: int = 0) -> tuple[int, str]:
    await asyncio.sleep(0)
    return x, WHO.get()


@wraps(coroutine)
def wrapped(*args, **kwargs):
    return coroutine(*args, **kwargs)


def plain(x: int) -> tuple[int, str]:
    return x, WHO.get()


CALLABLES = {
    "sync": plain,
    "async": coroutine,
    "async object": Remote(),
    "async method": Remote().method,
    "partial of async": partial(coroutine, y=2),
    "sync function around async": wrapped,
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_every_callable_is_served_from_sync_code_in_the_callers_context(kind):
    made = Tool.from_function(CALLABLES[kind])

    def work() -> Any:
        WHO.set("alice")
        return made.step({"x": "1"}).block()

    assert contextvars.copy_context().run(work) == (1, "alice")


@pytest.mark.parametrize("kind", CALLABLES)
async def test_every_callable_is_served_from_async_code_in_the_callers_context(kind):
    WHO.set("bob")

    assert await Tool.from_function(CALLABLES[kind]).step({"x": "1"}).wait() == (1, "bob")


async def test_awaited_async_functions_run_in_the_callers_loop_and_sync_ones_do_not():
    async def here() -> Any:
        return asyncio.get_running_loop(), threading.get_ident()

    def there() -> int:
        return threading.get_ident()

    loop, ident = await Tool.from_function(here).step({}).wait()

    assert loop is asyncio.get_running_loop()
    assert ident == threading.get_ident()
    assert await Tool.from_function(there).step({}).wait() != ident


async def test_awaited_sync_functions_run_at_once():
    both = threading.Barrier(2, timeout=5)
    made = Tool.from_function(lambda: both.wait(), name="f")

    assert sorted(await asyncio.gather(made.step({}).wait(), made.step({}).wait())) == [0, 1]


async def test_cancelling_reaches_an_async_tool_and_leaves_a_sync_one_behind():
    started, cancelled, go_on = asyncio.Event(), asyncio.Event(), threading.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(Tool.from_function(slow).step({}).wait())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()

    task = asyncio.create_task(Tool.from_function(go_on.wait, name="w").step({}).wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()


@pytest.mark.parametrize("way", ["block", "wait"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_what_a_tool_raises_is_raised(way, kind):
    def fail() -> None:
        raise LookupError("no such city")

    async def afail() -> None:
        fail()

    step = Tool.from_function(fail if kind == "sync" else afail).step({})
    with pytest.raises(LookupError, match="no such city"):
        await step.wait() if way == "wait" else step.block()


@pytest.mark.parametrize("way", ["block", "wait"])
async def test_an_empty_iterator_in_a_tool_does_not_end_anything_else(way):
    def first() -> Any:
        return next(iter([]))

    step = Tool.from_function(first).step({})
    with pytest.raises(RuntimeError, match="the tool raised StopIteration"):
        await step.wait() if way == "wait" else step.block()


def test_a_step_may_be_taken_again():
    @tool
    def f(x: int) -> int:
        return x + 1

    step = f._pywrapai_tool.step({"x": 1})

    assert [step.block(), step.block()] == [2, 2]
