"""A cheap model first, another one when it fails, and no question paid for twice.

Run: python examples/cheap_and_safe.py
Needs: pip install ".[openai,anthropic]"

Two stubs on this machine stand for the providers, and the first is out of order for a while. For
real ones, leave api_key and base_url out, and set OPENAI_API_KEY and ANTHROPIC_API_KEY.
"""

from __future__ import annotations

from pywrapai import LLM, ResponseCache, TokenTracker
from pywrapai.testing import StubServer
from pywrapai.testing.wires import status


def ask(llm: LLM, question: str) -> None:
    response = llm.chat(question)
    who = "the cache" if response.cached else f"{response.provider}/{response.model}"
    print(f"{question}\n  {response.content}  [{who}, ${response.cost_usd:.6f}]\n")


def main() -> None:
    print("Two stubs play the providers: the prices are real, and nothing is paid.\n")
    with StubServer("Blue, mostly.") as openai, StubServer("Blue. Or grey.") as anthropic:
        careful = LLM("anthropic", api_key="sk-test", base_url=anthropic.url("anthropic"))
        llm = LLM(
            "openai",
            api_key="sk-test",
            base_url=openai.url("openai"),
            max_retries=0,  # there is another one to ask, so why wait
            fallbacks=[careful],
            cache=ResponseCache(max_size=500, ttl=3600),
            tracker=TokenTracker(),
        )
        openai.reply(status(529, "overloaded"))
        ask(llm, "What colour is the sky?")  # from the fallback, so it is not kept
        ask(llm, "What colour is the sky?")
        ask(llm, "What colour is the sky?")
        print(llm.tokens.summary())


if __name__ == "__main__":
    main()
