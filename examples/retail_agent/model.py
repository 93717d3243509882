"""Which model to ask, and a stub that stands in for one when there is no key."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

from pywrapai import LLM, Message, Role, StreamEnd, ToolCall
from pywrapai.testing import StubProvider

NO_KEY = (
    "No key was found, so a stub plays the model: it picks a tool by the words of the question "
    "and reads out what the tool returns. The tools and the shop are real."
)
HELP = "I can look for products, sales figures, best sellers and stock. What do you want to know?"
STEMS = {
    "get_top_sellers": ("top", "best", "seller", "popular"),
    "get_sales_stats": ("sales", "revenue", "turnover", "categor"),
    "get_stock_status": ("stock", "reorder", "inventory", "left"),
}
SEARCHES = ("have", "find", "search", "sell", "show", "price", "cost")


def choose_llm(provider: str | None, model: str | None) -> tuple[LLM, str]:
    """The model that was asked for, or the one whose key is set, or the stub; and a note on it."""
    keys = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
    found = next((name for name, key in keys.items() if os.environ.get(key)), "stub")
    provider = provider or found
    if provider == "stub":
        return LLM(Slow(answer)), NO_KEY
    llm = LLM(provider, model)
    return llm, f"The model is {llm.provider}/{llm.model}."


class Slow(StubProvider):
    """Takes its time for each word, as a model does."""

    def stream(self, messages: list[Message], **settings: Any) -> Iterator[str | StreamEnd]:
        for piece in super().stream(messages, **settings):
            time.sleep(0.01)
            yield piece


def answer(messages: list[Message], tools: Any) -> str | list[ToolCall]:
    """Read out what the tools said; ask for tools after a question."""
    if messages[-1].role == Role.TOOL:
        return "\n\n".join(_told(message) for message in _last_results(messages))
    return _calls(messages[-1].text.lower()) or HELP


def _calls(question: str) -> list[ToolCall]:
    names = [name for name, stems in STEMS.items() if any(stem in question for stem in stems)]
    arguments: dict[str, Any] = {}
    if not names and any(word in question for word in SEARCHES):
        names, arguments = ["search_products"], {"text": _thing(question)}
    return [ToolCall(f"call_{i}", name, arguments) for i, name in enumerate(names)]


def _thing(question: str) -> str:
    """What is looked for: the last word, as singular as a stub can make it."""
    words = question.strip(" ?.!").split()
    return words[-1].removesuffix("s") if words else ""


def _last_results(messages: list[Message]) -> list[Message]:
    results = []
    for message in reversed(messages):
        if message.role != Role.TOOL:
            break
        results.append(message)
    return results[::-1]


def _told(message: Message) -> str:
    """A tool's result as sentences."""
    try:
        found = json.loads(message.text)
    except ValueError:
        return message.text  # an error, in words already
    match found:
        case {"inventory_value": value, "low": list(low)}:
            few = ", ".join(f"{row['name']} ({row['stock']})" for row in low)
            return f"The stock is worth {value:,.2f}. Few are left of: {few}."
        case [{"state": _}, *_]:
            lines = [f"{row['name']}: {row['price']:.2f}, {row['state']}" for row in found]
        case [{"revenue": _}, *_]:
            lines = [
                f"{row.get('name') or row['category']}: {row['units']} units, "
                f"{row['revenue']:,.2f} revenue"
                for row in found
            ]
        case _:
            return "Nothing of that kind is in the shop."
    return "Here is what I found:\n" + "\n".join(f"- {line}" for line in lines)
