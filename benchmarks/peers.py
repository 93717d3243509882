"""The libraries that are measured beside ours, as far as they are installed: one call each.

Each side is made as its own documentation makes it, client reuse included, on OpenAI's wire.
docs/benchmarks.md has the line that installs them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from benchmarks.calls import HUNDRED, KEY, ONE

MODEL = "gpt-4o-mini"


class Side(NamedTuple):
    """A library's way to send one message, and a hundred."""

    one: Callable[[], Any]
    hundred: Callable[[], Any]


def ours(url: str) -> Side:
    from pywrapai import LLM

    llm = LLM("openai", MODEL, api_key=KEY, base_url=url, max_retries=0)
    return Side(lambda: llm.chat(ONE).content, lambda: llm.chat(HUNDRED).content)


def openai(url: str) -> Side:
    import openai

    create: Any = openai.OpenAI(api_key=KEY, base_url=url, max_retries=0).chat.completions.create

    def ask(messages: Any) -> str | None:
        return create(model=MODEL, messages=messages).choices[0].message.content

    return Side(lambda: ask(ONE), lambda: ask(HUNDRED))


def litellm(url: str) -> Side:
    import litellm

    def ask(messages: Any) -> str | None:
        made = litellm.completion(f"openai/{MODEL}", messages, api_key=KEY, api_base=url)
        return made.choices[0].message.content

    return Side(lambda: ask(ONE), lambda: ask(HUNDRED))


def langchain(url: str) -> Side:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
    from langchain_openai import ChatOpenAI

    kinds: Any = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    chat = ChatOpenAI(model=MODEL, api_key=KEY, base_url=url)
    one, hundred = ([kinds[m["role"]](m["content"]) for m in given] for given in (ONE, HUNDRED))
    return Side(lambda: chat.invoke(one).content, lambda: chat.invoke(hundred).content)


def pydantic_ai(url: str) -> Side:
    from pydantic_ai import Agent
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key=KEY)))
    kinds: Any = {
        "system": lambda text: ModelRequest(parts=[SystemPromptPart(text)]),
        "user": lambda text: ModelRequest(parts=[UserPromptPart(text)]),
        "assistant": lambda text: ModelResponse(parts=[TextPart(text)]),
    }
    before = [kinds[m["role"]](m["content"]) for m in HUNDRED[:-1]]
    last = HUNDRED[-1]["content"]
    return Side(
        lambda: agent.run_sync(ONE[0]["content"]).output,
        lambda: agent.run_sync(last, message_history=before).output,
    )


def any_llm(url: str) -> Side:
    from any_llm import AnyLLM

    llm: Any = AnyLLM.create("openai", api_key=KEY, api_base=url)

    def ask(messages: Any) -> str | None:
        return llm.completion(model=MODEL, messages=messages).choices[0].message.content

    return Side(lambda: ask(ONE), lambda: ask(HUNDRED))


class Peer(NamedTuple):
    """A library by its names: ours for it, the module's, the distribution's; and its side."""

    name: str
    module: str
    distribution: str
    make: Callable[[str], Side]


PEERS = (
    Peer("pywrapai", "pywrapai", "pywrapai", ours),
    Peer("openai SDK", "openai", "openai", openai),
    Peer("any-llm", "any_llm", "any-llm-sdk", any_llm),
    Peer("LangChain", "langchain_openai", "langchain-openai", langchain),
    Peer("LiteLLM", "litellm", "litellm", litellm),
    Peer("pydantic-ai", "pydantic_ai", "pydantic-ai-slim", pydantic_ai),
)


def installed() -> list[Peer]:
    """Those that are here."""
    return [peer for peer in PEERS if find_spec(peer.module) is not None]
