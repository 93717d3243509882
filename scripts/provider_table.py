"""Write the tables of docs/providers.md from the providers themselves.

    python scripts/provider_table.py            # write the tables
    python scripts/provider_table.py --check    # exit 1 if they are stale, and show how

What a class says of itself is read; what only its wire shows (tools, schemas, thinking) is found
out by translating a small request and a small reply. Nothing is sent.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pywrapai.core.base import Message, Request, Role
from pywrapai.providers import EMBEDDERS, PROVIDERS, embedder_class, provider_class
from pywrapai.providers.openai import OpenAIProvider
from pywrapai.providers.wire import WireProvider
from pywrapai.tokens import price_call

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "providers.md"
BEGIN = "<!-- made by scripts/provider_table.py -->"
END = "<!-- end of what scripts/provider_table.py made -->"
NONE = "-"

# What would point a provider elsewhere than by default.
ELSEWHERE = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST")

TOOL = {"name": "weather_probe", "parameters": {"type": "object", "properties": {}}}
OTHER_TOOL = {"name": "other_probe", "parameters": {"type": "object", "properties": {}}}
SCHEMA = {
    "type": "object",
    "properties": {"answer_probe": {"type": "string"}},
    "required": ["answer_probe"],
}
REQUEST = Request("some-model", (Message(Role.USER, "Hello"),))

# A reply whose text comes after some thinking, on each wire.
REASONED: dict[str, Any] = {
    "openai": {"choices": [{"message": {"content": "Yes.", "reasoning_content": "Hm."}}]},
    "anthropic": {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "Yes."},
        ]
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "Hm.", "thought": True}, {"text": "Yes."}]}}]
    },
    "ollama": {"message": {"content": "Yes.", "thinking": "Hm."}, "done": True},
}
TAGGED = {"choices": [{"message": {"content": "<think>Hm.</think>Yes."}}]}


def wire_of(provider: WireProvider) -> str:
    """The name of the wire that it speaks."""
    return "openai" if isinstance(provider, OpenAIProvider) else provider.name


def extras() -> set[str]:
    """The extras that `pip install "pywrapai[...]"` knows."""
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return set(metadata["project"]["optional-dependencies"])


def extra_of(name: str, cls: type[Any], known: set[str], *, suffix: str = "") -> str:
    """The extra of a provider: one of its own name, or that of the SDK which it shares."""
    candidates = (name + suffix, name, getattr(cls, "sdk", ""))
    return next(extra for extra in candidates if extra in known)


def connections(providers: dict[str, WireProvider]) -> list[Sequence[str]]:
    """Where each provider is and what it needs."""
    known = extras()
    return [
        (
            code(name),
            code(extra_of(name, type(provider), known)),
            " or ".join(map(code, provider.key_env)) or "none",
            "in this process" if name == "local" else code(provider.base_url) or "the SDK's own",
            code(provider.model) or "the one that is loaded",
            price(provider),
        )
        for name, provider in providers.items()
    ]


def price(provider: WireProvider) -> str:
    """Whether the price of the default model is known."""
    cost = price_call(provider.model, 1_000_000, 1_000_000, provider=provider.name)
    return ("known" if cost.usd else "free") if cost.priced else "unknown"


def abilities(providers: dict[str, WireProvider]) -> list[Sequence[str]]:
    """What each provider's wire carries."""
    return [
        (
            code(name),
            "yes" if provider.takes_images else "no",
            "yes" if "weather_probe" in sent(provider, tools=[TOOL]) else "no",
            choices(provider),
            schemas(provider),
            thinking(provider),
            "SSE" if provider.stream_type == "text/event-stream" else "JSON lines",
            models(provider),
        )
        for name, provider in providers.items()
    ]


def sent(provider: WireProvider, **changes: Any) -> str:
    """The body of a request."""
    return json.dumps(provider.to_wire(replace(REQUEST, **changes), stream=False))


def choices(provider: WireProvider) -> str:
    """Which values of `tool_choice` change what is sent."""
    tools = [TOOL, OTHER_TOOL]
    bodies: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one says that a choice has no effect; so does the body
        for choice in ("auto", "required", "none", "weather_probe"):
            bodies[choice] = sent(provider, tools=tools, tool_choice=choice)
    forced = [choice for choice, body in bodies.items() if body != bodies["auto"]]
    if forced == ["required", "none", "weather_probe"]:
        return "all"
    return " and ".join(f'"{choice}"' for choice in ("auto", *forced)) + " alone"


def schemas(provider: WireProvider) -> str:
    """How a schema reaches the model: held to by the API, told in words, or both."""
    here = how_told(provider)
    if provider.base_url is not None or provider.name == "local":
        return here
    elsewhere = how_told(type(provider)(base_url="http://127.0.0.1:9/v1"))
    return here if here == elsewhere else f"{here}; with `base_url` {elsewhere}"


def how_told(provider: WireProvider) -> str:
    """The same for one address."""
    body = provider.to_wire(replace(REQUEST, schema=SCHEMA), stream=False)
    spoken = ("messages", "system", "contents", "systemInstruction")
    words = json.dumps({key: body[key] for key in spoken if key in body})
    rest = json.dumps({key: value for key, value in body.items() if key not in spoken})
    ways = {"native": "answer_probe" in rest, "in words": "answer_probe" in words}
    return " and ".join(way for way, used in ways.items() if used) or NONE


def thinking(provider: WireProvider) -> str:
    """Where in a reply the visible reasoning is found."""
    found = []
    if provider.from_wire(REASONED[wire_of(provider)]).thinking:
        found.append("its own field")
    if wire_of(provider) == "openai" and provider.from_wire(TAGGED).thinking:
        found.append("`<think>`")
    return ", ".join(found) or NONE


def models(provider: WireProvider) -> str:
    """Where `LLM.models()` looks; a flow that does no I/O gives the one model that there is."""
    try:
        next(provider.models_flow())
    except StopIteration:
        return "the one file"
    return code(f"GET /{provider.models_path.partition('?')[0].removeprefix('/')}")


def embeddings() -> list[Sequence[str]]:
    """Who turns texts into vectors without being told with which model."""
    known = extras()
    classes: dict[str, Any] = {
        **{name: embedder_class(name) for name in EMBEDDERS},
        **{name: provider_class(name) for name in PROVIDERS if name not in EMBEDDERS},
    }
    return [
        (
            code(name),
            code(extra_of(name, cls, known, suffix="-embeddings")),
            code(cls.default_embedding_model),
            f"{cls.max_texts:,}",
        )
        for name, cls in classes.items()
        if getattr(cls, "default_embedding_model", "")
    ]


def code(text: str | None) -> str:
    """The text in code; nothing stays nothing."""
    return f"`{text}`" if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def render() -> str:
    """The three tables."""
    providers: dict[str, Any] = {name: provider_class(name)() for name in PROVIDERS}
    where = ("provider", "extra", "key", "address", "model if none is given", "its price")
    what = ("provider", "images", "tools", "`tool_choice`", "schema", "thinking", "streams")
    embedders = ("provider", "extra", "model if none is given", "texts in one request at most")
    return "\n\n".join(
        (
            "### Where they are",
            table(where, connections(providers)),
            "### What they can",
            table((*what, "`models()`"), abilities(providers)),
            "### Who embeds",
            table(embedders, embeddings()),
        )
    )


def page_with(tables: str, page: str) -> str:
    """The page with these tables between its marks. ValueError if it has none."""
    head, begun, rest = page.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"{TARGET} has no {BEGIN!r} and {END!r} to write between")
    return f"{head}{BEGIN}\n\n{tables}\n\n{END}{tail}"


def main(arguments: list[str]) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 if the tables are stale")
    options = parser.parse_args(arguments)
    for name in ELSEWHERE:
        os.environ.pop(name, None)
    page = TARGET.read_text("utf-8")
    fresh = page_with(render(), page)
    if not options.check:
        TARGET.write_text(fresh, "utf-8", newline="\n")
        return 0
    if fresh == page:
        return 0
    print(*difflib.unified_diff(page.splitlines(), fresh.splitlines(), "page", "fresh"), sep="\n")
    print(f"{TARGET.name} is stale: run `python scripts/provider_table.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
