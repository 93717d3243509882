"""Structured answers of a monitored graph: each attempt is paid for, and recorded."""

from __future__ import annotations

import inspect

import pytest
from pydantic import BaseModel, field_validator

from pywrapai import LLM, ServerError, StructuredOutputError
from pywrapai.testing import StubProvider
from pywrapai_monitor import MonitoredGraph
from tests.monitor.notebook import priced, tracked_of
from tests.monitor.ways import ANN, Person


async def structured(tracked: MonitoredGraph, way: str, schema=Person, **more):
    found = getattr(tracked, way)("Who?", schema, **more)
    return await found if inspect.isawaitable(found) else found


STRUCTURED = pytest.mark.parametrize("way", ["chat_structured", "achat_structured"])


@STRUCTURED
async def test_each_attempt_is_a_record_and_the_turn_is_kept_once(way):
    tracked, notebook, _ = tracked_of(priced("no", 0.25), priced(ANN, 0.5))

    assert await structured(tracked, way) == Person(name="Ann")

    assert notebook.statuses == ["ok", "ok"]
    assert [token.cost_usd for token in notebook.tokens] == [0.25, 0.5]
    assert notebook.said() == [("user", "Who?", "ok"), ("assistant", ANN, "ok")]
    assert sum(token.cost_usd for token in notebook.tokens) == tracked.tokens.total_cost
    assert len({token.call_id for token in notebook.tokens}) == 2


@STRUCTURED
async def test_when_no_attempt_fits_the_last_is_the_error(way):
    tracked, notebook, _ = tracked_of(priced("no", 0.25), priced("nor this", 0.5))

    with pytest.raises(StructuredOutputError):
        await structured(tracked, way)

    assert notebook.statuses == ["ok", "error"]
    last = notebook.tokens[-1]
    assert (last.error_type, last.partial, last.cost_usd) == (
        "StructuredOutputError",
        "nor this",
        0.5,
    )
    assert notebook.said() == []


@STRUCTURED
async def test_a_first_attempt_is_recorded_when_the_second_fails(way):
    tracked, notebook, _ = tracked_of(priced("no", 0.25), ServerError("down"))

    with pytest.raises(ServerError) as caught:
        await structured(tracked, way)

    assert notebook.statuses == ["ok", "error"]
    assert [token.cost_usd for token in notebook.tokens] == [0.25, 0.0]
    assert [r.cost_usd for r in caught.value.responses] == [0.25]


@STRUCTURED
async def test_an_answer_on_which_the_users_own_check_fails_was_still_paid_for(way):
    class Odd(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, value: str) -> str:
            raise RuntimeError("a bug in the check")

    tracked, notebook, _ = tracked_of(priced(ANN, 0.25))

    with pytest.raises(RuntimeError, match="a bug") as caught:
        await structured(tracked, way, Odd)

    assert [(t.status, t.error_type, t.cost_usd) for t in notebook.tokens] == [
        ("error", "RuntimeError", 0.25)
    ]
    assert len(caught.value.responses) == 1


@STRUCTURED
async def test_a_structured_answer_out_of_the_cache_is_free(way):
    llm = LLM(StubProvider([priced(ANN, 0.25)]), cache=True)
    tracked, notebook, _ = tracked_of(llm=llm, max_turns=0)

    await structured(tracked, way)
    await structured(tracked, way)

    assert [(t.cached, t.cost_usd) for t in notebook.tokens] == [(False, 0.25), (True, 0.0)]
