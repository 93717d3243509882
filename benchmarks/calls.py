"""What a call costs beside the raw SDK of its provider, against the same server on loopback.

Run: python -m benchmarks.calls [--only openai] [--rounds 15]

Both sides ask from the same process, turn and turn about, so a busy machine slows both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.measuring import Figure, cheap_server, compare, report
from benchmarks.server import CHUNKS

KEY = "sk-benchmark"
AT_ONCE = 100
ONE = [{"role": "user", "content": "Say hello."}]
SYSTEM = "Be brief. " + "words " * 80
HUNDRED = [
    {"role": "system", "content": SYSTEM},
    *(
        {"role": "user" if turn % 2 else "assistant", "content": f"Message {turn}: {SYSTEM}"}
        for turn in range(1, 100)
    ),
]
TOOLS = [
    {
        "name": f"tool_{number:02d}",
        "description": f"Does thing number {number} with the given arguments and returns text.",
        "parameters": {
            "type": "object",
            "properties": {
                "x": {"type": "integer", "description": "how many"},
                "label": {"type": "string", "description": "a label"},
                "ratio": {"type": "number", "description": "a ratio", "default": 0.5},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "tags"},
            },
            "required": ["x", "label"],
        },
    }
    for number in range(20)
]


class Side:
    """One provider's raw SDK and our LLM, on the same address."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.loop = asyncio.new_event_loop()

    def figure(self, case: str, ours: Any, theirs: Any, calls: int, **more: Any) -> Figure:
        return compare(case, ours, theirs, calls=calls, rounds=self.rounds, **more)

    def run(self, make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: self.loop.run_until_complete(make())

    def at_once(self, make: Callable[[], Any]) -> Callable[[], Any]:
        async def all_of_them() -> None:
            await asyncio.gather(*(make() for _ in range(AT_ONCE)))

        return self.run(all_of_them)


def openai(address: str, rounds: int) -> Iterator[Figure]:
    """Beside the openai SDK."""
    import openai
    from pydantic import BaseModel

    from pywrapai import LLM

    class Person(BaseModel):
        name: str
        age: int

    url, model = f"{address}/v1", "gpt-4o-mini"
    sdk = openai.OpenAI(api_key=KEY, base_url=url, max_retries=0)
    asdk = openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0)
    llm = LLM("openai", model, api_key=KEY, base_url=url, max_retries=0)
    side, create, acreate = Side(rounds), sdk.chat.completions.create, asdk.chat.completions.create
    wire_tools: Any = [{"type": "function", "function": tool} for tool in TOOLS]

    def chat(messages: Any, **more: Any) -> Callable[[], Any]:
        return lambda: create(model=model, messages=messages, **more)

    def read(chunks: Any) -> int:
        return sum(1 for c in chunks if c.choices and c.choices[0].delta.content)

    async def aread() -> int:
        chunks = await acreate(model=model, messages=ONE, stream=True)  # type: ignore[arg-type]
        return len([1 async for c in chunks if c.choices and c.choices[0].delta.content])

    async def ours() -> int:
        return len([piece async for piece in llm.astream(ONE)])

    yield side.figure("openai, 1 message", lambda: llm.chat(ONE), chat(ONE), 30, goal=0.70)
    yield side.figure("openai, 100 messages", lambda: llm.chat(HUNDRED), chat(HUNDRED), 6, goal=0.1)
    with_tools = chat(ONE, tools=wire_tools)
    yield side.figure("openai, 20 tools", lambda: llm.chat(ONE, TOOLS), with_tools, 15, goal=0.45)
    yield side.figure(
        "openai, structured",
        lambda: llm.chat_structured(ONE, Person),
        lambda: sdk.chat.completions.parse(model=model, messages=ONE, response_format=Person),  # type: ignore[arg-type]
        15,
        goal=0.50,
    )
    yield side.figure(
        f"openai, {AT_ONCE} async at once, a call",
        side.at_once(lambda: llm.achat(ONE)),
        side.at_once(lambda: acreate(model=model, messages=ONE)),  # type: ignore[arg-type]
        1,
        per=AT_ONCE,
        goal=0.85,
    )
    yield side.figure(
        "openai, stream, a chunk",
        lambda: list(llm.stream(ONE)),
        lambda: read(create(model=model, messages=ONE, stream=True)),  # type: ignore[arg-type]
        1,
        per=CHUNKS,
        goal=0.25,
    )
    yield side.figure(
        "openai, async stream, a chunk", side.run(ours), side.run(aread), 1, per=CHUNKS, goal=0.25
    )


def anthropic(address: str, rounds: int) -> Iterator[Figure]:
    """Beside the anthropic SDK."""
    import anthropic

    from pywrapai import LLM

    model, side = "claude-haiku-4-5-20251001", Side(rounds)
    sdk = anthropic.Anthropic(api_key=KEY, base_url=address, max_retries=0)
    asdk = anthropic.AsyncAnthropic(api_key=KEY, base_url=address, max_retries=0)
    llm = LLM("anthropic", model, api_key=KEY, base_url=address, max_retries=0)
    asked: Any = {"model": model, "max_tokens": 1000}

    def chat(messages: Any, **more: Any) -> Callable[[], Any]:
        return lambda: sdk.messages.create(**asked, messages=messages, **more)

    def read() -> int:
        events = sdk.messages.create(**asked, messages=ONE, stream=True)
        return sum(1 for event in events if event.type == "content_block_delta")

    def name(case: str) -> str:
        return f"anthropic, {case}"

    yield side.figure(name("1 message"), lambda: llm.chat(ONE), chat(ONE), 30, goal=0.80)
    theirs = chat(HUNDRED[1:], system=SYSTEM)
    yield side.figure(name("100 messages"), lambda: llm.chat(HUNDRED), theirs, 10, goal=0.85)
    yield side.figure(
        name(f"{AT_ONCE} async at once, a call"),
        side.at_once(lambda: llm.achat(ONE)),
        side.at_once(lambda: asdk.messages.create(**asked, messages=ONE)),
        1,
        per=AT_ONCE,
        goal=0.95,
    )
    yield side.figure(
        name("stream, a chunk"), lambda: list(llm.stream(ONE)), read, 1, per=CHUNKS, goal=0.60
    )


def gemini(address: str, rounds: int) -> Iterator[Figure]:
    """Beside the google-genai SDK."""
    from google import genai

    from pywrapai import LLM

    model, side = "gemini-2.5-flash", Side(rounds)
    sdk = genai.Client(api_key=KEY, http_options={"base_url": address})
    llm = LLM("gemini", model, api_key=KEY, base_url=address, max_retries=0)
    hundred: Any = [
        {"role": "user" if m["role"] == "user" else "model", "parts": [{"text": m["content"]}]}
        for m in HUNDRED[1:]
    ]

    def chat(contents: Any) -> Callable[[], Any]:
        return lambda: sdk.models.generate_content(model=model, contents=contents)

    def read() -> int:
        stream = sdk.models.generate_content_stream(model=model, contents="Say hello.")
        return sum(1 for chunk in stream if chunk.text)

    yield side.figure("gemini, 1 message", lambda: llm.chat(ONE), chat("Say hello."), 30)
    yield side.figure("gemini, 100 messages", lambda: llm.chat(HUNDRED), chat(hundred), 6)
    yield side.figure("gemini, stream, a chunk", lambda: list(llm.stream(ONE)), read, 1, per=CHUNKS)


def ollama(address: str, rounds: int) -> Iterator[Figure]:
    """Beside httpx itself, on which our Ollama provider stands."""
    import httpx

    from pywrapai import LLM

    model, side = "llama3.2", Side(rounds)
    http = httpx.Client(base_url=address, timeout=60.0)
    llm = LLM("ollama", model, base_url=address, max_retries=0)

    def chat(messages: Any) -> Callable[[], Any]:
        body = {"model": model, "messages": messages, "stream": False}
        return lambda: http.post("/api/chat", json=body).json()["message"]["content"]

    def read() -> int:
        body = {"model": model, "messages": ONE, "stream": True}
        with http.stream("POST", "/api/chat", json=body) as reply:
            return sum(1 for line in reply.iter_lines() if json.loads(line)["message"]["content"])

    yield side.figure("ollama beside httpx, 1 message", lambda: llm.chat(ONE), chat(ONE), 30)
    yield side.figure(
        "ollama beside httpx, 100 messages", lambda: llm.chat(HUNDRED), chat(HUNDRED), 10
    )
    yield side.figure(
        "ollama beside httpx, stream, a chunk", lambda: list(llm.stream(ONE)), read, 1, per=CHUNKS
    )


PROVIDERS = {"openai": openai, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=PROVIDERS, help="one provider alone")
    arguments = parser.parse_args()
    chosen = [arguments.only] if arguments.only else list(PROVIDERS)
    with cheap_server() as address:
        return report([f for name in chosen for f in PROVIDERS[name](address, arguments.rounds)])


if __name__ == "__main__":
    sys.exit(main())
