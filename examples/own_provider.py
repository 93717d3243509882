"""A provider of your own: here a list of questions and answers, and no model at all.

Run: python examples/own_provider.py

It is called, retried, streamed and counted like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pywrapai import (
    LLM,
    BaseLLM,
    LLMResponse,
    Message,
    RateLimitError,
    StreamEnd,
    TokenUsage,
    load_user_pricing,
    register_provider,
)

ANSWERS = {
    "When are you open?": "From nine to five, Monday to Friday.",
    "Where is my parcel?": "The link in our e-mail shows where it is.",
    "How do I send something back?": "Put the label on the box and take it to any post office.",
}


class FAQ(BaseLLM):
    """Gives the answer to the known question that shares most words with the message."""

    name = "faq"
    default_model = "faq-1"

    def __init__(self, model: str | None = None, **connection: Any) -> None:
        super().__init__(model, **connection)
        self._calls = 0

    def chat(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        self._calls += 1
        if self._calls == 2:  # LLM waits and asks again
            raise RateLimitError("too many questions at once", retry_after=0.1)
        asked = words(messages[-1].text)
        best = max(ANSWERS, key=lambda question: len(words(question) & asked))
        answer = ANSWERS[best]
        return LLMResponse(answer, usage=TokenUsage(len(asked), len(answer.split())))

    async def achat(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **settings: Any,
    ) -> LLMResponse:
        return self.chat(messages)

    def stream(self, messages: list[Message], **settings: Any) -> Iterator[str | StreamEnd]:
        response = self.chat(messages)
        for word in response.content.split():
            yield f"{word} "
        yield StreamEnd(response.usage)

    async def astream(
        self, messages: list[Message], **settings: Any
    ) -> AsyncIterator[str | StreamEnd]:
        for item in self.stream(messages):
            yield item


def words(text: str) -> set[str]:
    return set(text.lower().strip("?!. ").split())


def main() -> None:
    print("No model is asked: a provider of our own answers from its list.\n")
    register_provider("faq", FAQ)
    load_user_pricing({"faq-1": {"input": 0.0, "output": 0.0}})
    llm = LLM("faq")

    print(llm.chat("Are you open on Monday?").content)
    print(asyncio.run(llm.achat("Where can my parcel be?")).content)
    for piece in llm.stream("How can I send it back?"):
        print(piece, end="", flush=True)
    print(f"\n\n{llm.tokens.summary()}")


if __name__ == "__main__":
    main()
