"""Read several streams at once in one event loop, each piece as it comes.

Run: python examples/stream_async.py
Needs: pip install ".[openai]"

The server is a stub on this machine that takes a twentieth of a second for each word. For a real
one, make the LLM with its model and key; the rest stays as it is.
"""

from __future__ import annotations

import asyncio

from pywrapai import LLM
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Reply, Request, text

QUESTIONS = {
    "red": "Roses, rubies and ripe cherries.",
    "green": "Grass, emeralds and unripe cherries.",
    "blue": "Violets, sapphires and no cherries at all.",
}


async def ask(llm: LLM, colour: str) -> str:
    async with llm.astream(f"What is {colour}?") as pieces:
        async for piece in pieces:
            print(f"{colour:6} {piece}")
    response = pieces.response
    assert response is not None  # it has been read to its end
    return f"{colour:6} {response.content}  [{response.duration_ms / 1000:.1f} s]"


async def ask_all(llm: LLM) -> None:
    answers = await asyncio.gather(*(ask(llm, colour) for colour in QUESTIONS))
    print("", *answers, sep="\n")
    print(f"{llm.tokens.total_calls} calls, {llm.tokens.total_tokens} tokens")


def answer(request: Request) -> Reply:
    asked = request.json["messages"][-1]["content"]
    said = next(said for colour, said in QUESTIONS.items() if colour in asked)
    return text(said).paced(0.05)


def main() -> None:
    print("A stub plays the model, a word each twentieth of a second.\n")
    with StubServer(answer) as server:
        asyncio.run(ask_all(LLM("openai", api_key="sk-test", base_url=server.url())))


if __name__ == "__main__":
    main()
