"""The command line of the engine: `python -m pywrapai chat "..." --provider local`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pywrapai.exceptions import PyWrapAIError
from pywrapai.llm import LLM


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
    print()
    if (response := pieces.response) is not None:
        usage = response.usage
        cost = f"${response.cost_usd:.6f}" if response.priced else "price unknown"
        print(
            f"[{response.provider}/{response.model}: {usage.input_tokens} tokens in, "
            f"{usage.output_tokens} out, {cost}, {response.duration_ms / 1000:.1f} s]",
            file=sys.stderr,
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pywrapai", description="Call a model.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("chat", help="ask once and stream the answer")
    command.set_defaults(run=chat)
    command.add_argument("message", help="what to ask; - reads it from standard input")
    command.add_argument("--provider", default="openai", help="default: openai; local needs no key")
    command.add_argument("--model", help="default: the provider's own default")
    command.add_argument("--base-url", help="where a compatible server is")
    command.add_argument("--system", help="a system prompt")
    command.add_argument("--temperature", type=float)
    command.add_argument("--max-tokens", type=int)
    command.add_argument("--timeout", type=float, default=60.0, help="seconds; default: 60")
    return parser


if __name__ == "__main__":
    sys.exit(main())
