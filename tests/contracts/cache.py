"""What every cache does. Subclass it and give a fixture `cache`, empty, and `make(ttl=...)`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pywrapai import LLM, BaseCache, LLMResponse, TokenUsage, ToolCall
from pywrapai.testing import StubProvider

FULL = LLMResponse(
    "Bonjour 👋",
    [ToolCall("1", "f", {"x": [1, None, "é"]}, provider_data={"gemini": {"sig": "abc"}})],
    TokenUsage(5, 4, 3, 2, 1),
    "gpt-4o-mini",
    "openai",
    "tool_calls",
    "req-1",
    12.5,
    0.25,
    thinking="hmm",
    provider_data={"anthropic": {"thinking": []}},
)


class CacheContract:
    make: Callable[..., BaseCache]

    def test_what_was_kept_comes_back_as_it_was(self, cache: BaseCache):
        cache.set("a", FULL)

        assert cache.get("a") == FULL
        assert cache.get("b") is None
        assert len(cache) == 1

    def test_a_key_kept_again_has_the_newer_answer(self, cache: BaseCache):
        cache.set("a", LLMResponse("old"))
        cache.set("a", LLMResponse("new"))

        assert cache.get("a") == LLMResponse("new")
        assert len(cache) == 1

    def test_clear_forgets_everything(self, cache: BaseCache):
        for key in "abc":
            cache.set(key, FULL)

        cache.clear()

        assert len(cache) == 0
        assert cache.get("a") is None

    def test_an_answer_is_forgotten_after_its_ttl(self, cache: BaseCache):
        cache = self.make(ttl=0.05)
        cache.set("a", FULL)
        assert cache.get("a") is not None

        deadline = time.monotonic() + 5
        while cache.get("a") is not None and time.monotonic() < deadline:
            time.sleep(0.01)

        assert cache.get("a") is None
        assert len(cache) == 0

    @pytest.mark.parametrize("ttl", [0, -1])
    def test_a_ttl_must_be_positive(self, ttl: float, cache: BaseCache):
        with pytest.raises(ValueError, match="ttl"):
            self.make(ttl=ttl)

    async def test_an_equal_call_is_answered_from_it_for_free(self, cache: BaseCache):
        provider = StubProvider(["one", "never"])
        llm = LLM(provider, cache=cache)

        first = llm.chat("hi")
        again = llm.chat("hi")
        awaited = await llm.achat("hi")

        assert not first.cached
        for hit in (again, awaited):
            assert hit.cached
            assert (hit.content, hit.usage, hit.cost_usd) == (first.content, first.usage, 0.0)
        assert len(provider.requests) == 1
        assert llm.tokens.total_calls == 1

    def test_whoever_gets_a_hit_may_change_his_copy(self, cache: BaseCache):
        llm = LLM(StubProvider(["one"]), cache=cache)
        llm.chat("hi")

        hit, other = llm.chat("hi"), llm.chat("hi")

        assert hit is not other
        assert hit == other

    @pytest.mark.parametrize(
        "answer",
        [
            [ToolCall("1", "f", {})],
            LLMResponse("cut", finish_reason="length"),
            LLMResponse("", finish_reason="content_filter"),
        ],
    )
    def test_what_is_no_complete_answer_is_not_kept(self, cache: BaseCache, answer: Any):
        provider = StubProvider([answer, "whole"])
        llm = LLM(provider, cache=cache)

        llm.chat("hi")

        assert llm.chat("hi").content == "whole"

    def test_streams_pass_it_by(self, cache: BaseCache):
        provider = StubProvider(["one", "two"])
        llm = LLM(provider, cache=cache)

        assert list(llm.stream("hi")) == ["one"]
        assert llm.chat("hi").content == "two"

    def test_threads_that_ask_the_same_at_once_ask_once(self, cache: BaseCache):
        asked, release = threading.Event(), threading.Event()

        def answer(messages: Any, tools: Any) -> str:
            asked.set()
            release.wait(5)
            return "one"

        provider = StubProvider(answer)
        llm = LLM(provider, cache=cache)
        answers: list[LLMResponse] = []
        threads = [
            threading.Thread(target=lambda: answers.append(llm.chat("hi"))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        asked.wait(5)
        release.set()
        for thread in threads:
            thread.join()

        assert [response.content for response in answers] == ["one"] * 8
        assert len(provider.requests) == 1
        assert sum(response.cached for response in answers) == 7
        assert llm.tokens.total_calls == 1

    async def test_tasks_that_ask_the_same_at_once_ask_once(self, cache: BaseCache):
        class Slow(StubProvider):
            async def achat(self, messages, tools=None, tool_choice=None, **settings):  # type: ignore[no-untyped-def]
                await asyncio.sleep(0.05)
                return await super().achat(messages, tools, tool_choice, **settings)

        provider = Slow(["one"])
        llm = LLM(provider, cache=cache)

        answers = await asyncio.gather(*(llm.achat("hi") for _ in range(20)))

        assert len(provider.requests) == 1
        assert sum(response.cached for response in answers) == 19
