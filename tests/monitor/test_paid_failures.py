"""An answer that was paid for and of no use is recorded, too, when another model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from pywrapai import LLM, LLMResponse, TokenUsage
from pywrapai.exceptions import (
    ContentFilterError,
    InvalidRequestError,
    ServerError,
    StructuredOutputError,
)
from pywrapai.testing import StubProvider, StubServer
from pywrapai.testing.wires import status, text
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


def two_servers(monitor: Monitor, first: int, second: int | None, way: str) -> list[dict[str, Any]]:
    """The records of one call, where each model's server answers with a status, or well."""
    with StubServer() as one, StubServer() as two:
        one.reply(status(first).delayed(0.2))
        two.reply(text("Paris") if second is None else status(second))
        backup = LLM("anthropic", "claude-haiku-4-5", api_key="k", base_url=two.url("anthropic"))
        asked = LLM(
            *("openai", "gpt-4o-mini"),
            api_key="k",
            base_url=one.url(),
            max_retries=0,
            fallbacks=[backup],
        )
        tracked = monitor.wrap(GraphLLM(asked), "alice", "s1")
        with suppress(ServerError, InvalidRequestError):
            tracked.chat("Which?") if way == "chat" else list(tracked.stream("Which?"))
    return records(monitor)


@pytest.mark.parametrize("way", ["chat", "stream"])
def test_a_model_that_fails_before_the_fallback_answers_is_seen(monitor: Monitor, way: str) -> None:
    failed, answered = two_servers(monitor, 500, None, way)

    assert (failed["provider"], failed["model"]) == ("openai", "gpt-4o-mini")
    assert (failed["status"], failed["error_type"]) == ("error", "ServerError")
    assert (failed["cost_usd"], failed["priced"]) == (0, True)
    assert failed["duration_ms"] >= 200
    assert (answered["provider"], answered["status"]) == ("anthropic", "ok")


@pytest.mark.parametrize("way", ["chat", "stream"])
def test_when_all_fail_each_is_blamed_for_its_own(monitor: Monitor, way: str) -> None:
    found = two_servers(monitor, 500, 400, way)

    assert [(row["provider"], row["error_type"]) for row in found] == [
        ("openai", "ServerError"),
        ("anthropic", "InvalidRequestError"),
    ]


async def test_a_stream_whose_task_is_cancelled_has_shown_what_it_has(monitor: Monitor) -> None:
    with StubServer(text("one two three").paced(0.1)) as server:
        asked = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        tracked = monitor.wrap(GraphLLM(asked), "alice", "s1")
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in tracked.astream("Count"):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        await asyncio.sleep(0.02)  # into the wait for the next piece
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (row,) = records(monitor)
    assert (row["status"], row["error_type"]) == ("interrupted", None)
    shown = monitor.store.load_history("alice", "s1")
    assert [message.text for message in shown] == ["Count", "one "]


def test_whatever_a_provider_names_as_earlier_costs_nobody_the_answer(monitor: Monitor) -> None:
    asked = LLM(StubProvider([LLMResponse("Paris", earlier=(ValueError("odd"),))]))

    assert monitor.wrap(GraphLLM(asked), "alice", "s1").chat("Which?").content == "Paris"

    assert [(row["status"], row["error_type"]) for row in records(monitor)] == [
        ("error", "ValueError"),
        ("ok", None),
    ]
