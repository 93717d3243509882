"""Talk to a server that speaks OpenAI's wire: vLLM, LM Studio, llama.cpp, a gateway.

Run: python examples/compatible_server.py [BASE_URL [MODEL]]
Needs: pip install ".[openai]"

Without BASE_URL a stub server answers, over HTTP on this machine. A key, where the server wants
one, is taken from OPENAI_API_KEY.
"""

from __future__ import annotations

import os
import sys

from pywrapai import LLM, ProviderError, load_user_pricing
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Request


def talk(base_url: str, model: str) -> None:
    load_user_pricing({model: {"input": 0.0, "output": 0.0}})  # the machine is our own
    key = os.environ.get("OPENAI_API_KEY", "none")
    llm = LLM("openai", model, base_url=base_url, api_key=key, timeout=30)
    try:
        with llm.stream("Who are you? One sentence.") as pieces:
            for piece in pieces:
                print(piece, end="", flush=True)
    except ProviderError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    response = pieces.response
    if response is not None:
        print(f"\n[{response.model}: {response.usage.total_tokens} tokens]")


def answer(request: Request) -> str:
    return f"I am a stub, I was asked for {request.json['model']}, and I know no more than this."


def main() -> None:
    if len(sys.argv) > 1:
        talk(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "default")
        return
    with StubServer(answer) as server:
        talk(server.url(), "our-model")


if __name__ == "__main__":
    main()
