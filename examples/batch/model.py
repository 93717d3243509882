"""Which model to ask, and a stub that stands in for one when there is no key."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from pywrapai import LLM, LLMResponse, Message, load_user_pricing
from pywrapai.testing import StubProvider

NO_KEY = (
    "No key was found, so a stub plays the model: it takes 20 ms for an answer, and its prices are "
    "those that gpt-4o-mini had."
)
STUB_PRICES = {"input": 0.15, "output": 0.60}  # USD for a million tokens
PROMPT = "Is this review positive or negative? Answer with that one word."
BAD_WORDS = ("broke", "small", "late", "odd")


def choose_llm(provider: str | None, model: str | None) -> tuple[LLM, str]:
    """The model that was asked for, or the one whose key is set, or the stub; and a note on it."""
    keys = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
    found = next((name for name, key in keys.items() if os.environ.get(key)), "stub")
    provider = provider or found
    if provider == "stub":
        load_user_pricing({SlowStub.default_model: STUB_PRICES})
        return LLM(SlowStub(label), system_prompt=PROMPT), NO_KEY
    llm = LLM(provider, model, system_prompt=PROMPT, max_tokens=5, temperature=0)
    return llm, f"The model is {llm.provider}/{llm.model}."


class SlowStub(StubProvider):
    """Answers after a while, and as many at a time as are asked."""

    name = "slow-stub"  # a name of its own, since what the provider "stub" does is free

    async def achat(self, messages: list[Message], *given: Any, **settings: Any) -> LLMResponse:
        await asyncio.sleep(0.02)
        return await super().achat(messages, *given, **settings)


def label(messages: list[Message], tools: Any) -> str:
    review = messages[-1].text
    return "negative" if any(word in review for word in BAD_WORDS) else "positive"
