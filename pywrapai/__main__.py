"""The command line of the engine: `python -m pywrapai chat "..." --provider local`."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from pywrapai.exceptions import PyWrapAIError
from pywrapai.llm import LLM
from pywrapai.providers import PROVIDERS
from pywrapai.tokens import UnpricedModelWarning, price_call


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a call that failed, 2 a wrong command line."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (PyWrapAIError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def chat(arguments: argparse.Namespace) -> int:
    """Stream one answer to the terminal, and its tokens and cost to stderr."""
    llm = LLM(
        arguments.provider,
        arguments.model,
        base_url=arguments.base_url,
        system_prompt=arguments.system,
        temperature=arguments.temperature,
        max_tokens=arguments.max_tokens,
        timeout=arguments.timeout,
    )
    message = sys.stdin.read() if arguments.message == "-" else arguments.message
    with llm.stream(message) as pieces:
        for piece in pieces:
            print(piece, end="", flush=True)
    print(flush=True)  # before anything goes to stderr
    if (response := pieces.response) is not None:
        usage = response.usage
        cost = f"${response.cost_usd:.6f}" if response.priced else "price unknown"
        print(
            f"[{response.provider}/{response.model}: {usage.input_tokens} tokens in, "
            f"{usage.output_tokens} out, {cost}, {response.duration_ms / 1000:.1f} s]",
            file=sys.stderr,
        )
    return 0


def models(arguments: argparse.Namespace) -> int:
    """One model a line."""
    for name in LLM(arguments.provider, base_url=arguments.base_url).models():
        print(name)
    return 0


def embed(arguments: argparse.Namespace) -> int:
    """One vector a line, as JSON."""
    import json

    from pywrapai.embedder import Embedder

    embedder = Embedder(arguments.provider, arguments.model, base_url=arguments.base_url)
    texts = sys.stdin.read().splitlines() if arguments.texts == ["-"] else arguments.texts
    for vector in embedder.embed(texts):
        print(json.dumps(vector))
    tokens = embedder.tokens
    cost = "price unknown" if tokens.unpriced_calls else f"${tokens.total_cost:.6f}"
    print(
        f"[{embedder.provider}/{embedder.model}: {tokens.total_tokens} tokens, {cost}]",
        file=sys.stderr,
    )
    return 0


def price(arguments: argparse.Namespace) -> int:
    """What one call would cost."""
    if arguments.cache_read + arguments.cache_write > arguments.input:
        raise ValueError("--input counts the cached tokens too, and so is no less than they are")
    with warnings.catch_warnings(action="ignore", category=UnpricedModelWarning):
        cost = price_call(
            arguments.model,
            arguments.input,
            arguments.output,
            cache_read_tokens=arguments.cache_read,
            cache_write_tokens=arguments.cache_write,
            provider=arguments.provider,
        )
    if not cost.priced:
        print(
            f"error: no price is known for {arguments.model!r}: look at the name, or give prices "
            "of your own with load_user_pricing",
            file=sys.stderr,
        )
        return 1
    print(f"${cost.usd:.6f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pywrapai", description="Call a model.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _command(commands, "chat", chat, "ask once and stream the answer")
    command.add_argument("message", help="what to ask; - reads it from standard input")
    _add_provider(command)
    command.add_argument("--model", help="default: the provider's own default")
    command.add_argument("--system", help="a system prompt")
    command.add_argument("--temperature", type=float)
    command.add_argument("--max-tokens", type=int)
    command.add_argument("--timeout", type=float, default=60.0, help="seconds; default: 60")

    command = _command(commands, "models", models, "list what a provider offers")
    _add_provider(command)

    command = _command(commands, "embed", embed, "turn texts into vectors, one JSON list a line")
    command.add_argument("texts", nargs="+", help="the texts; - reads one a line from stdin")
    _add_provider(command)
    command.add_argument("--model", help="default: the provider's own default")

    command = _command(commands, "price", price, "what a call would cost")
    command.add_argument("model")
    command.add_argument(
        "--provider", choices=sorted(PROVIDERS), help="whose price; default: the vendor's"
    )
    command.add_argument("--input", type=_count, default=0, help="tokens in, cached ones included")
    command.add_argument("--output", type=_count, default=0, help="tokens out")
    command.add_argument("--cache-read", type=_count, default=0, help="of these, read from a cache")
    command.add_argument("--cache-write", type=_count, default=0, help="of these, written to one")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError(f"{count} is below 0")
    return count


def _command(commands: Any, name: str, run: Any, told: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=told, description=told)
    command.set_defaults(run=run)
    return command


def _add_provider(command: argparse.ArgumentParser) -> None:
    command.add_argument("--provider", default="openai", help="default: openai; local needs no key")
    command.add_argument("--base-url", help="where the provider or a compatible server is")


if __name__ == "__main__":
    sys.exit(main())
