"""An answer that was paid for and of no use is recorded, too, when another model is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from pywrapai import LLM, LLMResponse, TokenUsage
from pywrapai.exceptions import ContentFilterError, StructuredOutputError
from pywrapai.testing import StubProvider
from pywrapai.tokens import load_user_pricing
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor


class City(BaseModel):
    name: str


@pytest.fixture(autouse=True)
def _prices() -> None:
    load_user_pricing({"stub-model": {"input": 1000.0, "output": 1000.0}})


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with Monitor(":memory:") as opened:
        yield opened


def llm(first: list[Any], second: list[Any]) -> LLM:
    backup = LLM(StubProvider(second), max_retries=0)
    return LLM(StubProvider(first), max_retries=0, fallbacks=[backup])


def refused() -> ContentFilterError:
    answer = LLMResponse("", usage=TokenUsage(50, 0), finish_reason="content_filter")
    return ContentFilterError("refused", response=answer)


def records(monitor: Monitor) -> list[dict[str, Any]]:
    monitor.flush()
    return monitor.store.get_session_token_records("alice", "s1")


def assert_every_cent_is_there(monitor: Monitor, asked: LLM, statuses: list[str]) -> None:
    found = records(monitor)
    assert [row["status"] for row in found] == statuses
    assert len({row["call_id"] for row in found}) == len(statuses)
    assert sum(row["cost_usd"] for row in found) == pytest.approx(asked.tokens.total_cost)
    assert sum(row["input_tokens"] for row in found) == asked.tokens.total_input_tokens


def test_both_attempts_at_structured_output(monitor: Monitor) -> None:
    asked = llm(["no JSON", "no JSON"], [])

    with pytest.raises(StructuredOutputError):
        monitor.wrap(GraphLLM(asked), "alice", "s1").chat_structured("Which?", City)

    assert_every_cent_is_there(monitor, asked, ["ok", "error"])


def test_a_refusal_before_the_fallback_answers(monitor: Monitor) -> None:
    asked = llm([refused()], ["Paris"])

    answer = monitor.wrap(GraphLLM(asked), "alice", "s1").chat("Which?")

    assert answer.content == "Paris"
    assert [type(error) for error in answer.earlier] == [ContentFilterError]
    assert_every_cent_is_there(monitor, asked, ["error", "ok"])
    assert [m.text for m in monitor.store.load_history("alice", "s1")] == ["Which?", "Paris"]


async def test_a_refusal_before_the_fallback_streams(monitor: Monitor) -> None:
    asked = llm([refused(), refused()], ["Paris", "Paris"])
    tracked = monitor.wrap(GraphLLM(asked), "alice", "s1")

    assert "".join(tracked.stream("Which?")) == "Paris"
    assert "".join([text async for text in tracked.astream("Which?")]) == "Paris"

    found = records(monitor)
    assert sum(row["cost_usd"] for row in found) == pytest.approx(asked.tokens.total_cost)
