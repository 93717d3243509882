"""What an agent's turn costs beside a bare loop on the raw openai SDK, against the same server.

Run: python -m benchmarks.agent_loop [--rounds 15]

The server asks for one of 20 tools ten times and then answers, so a loop is eleven calls. Both
loops run in the same process, turn and turn about, and call the same functions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.measuring import Figure, cheap_server, compare, report
from benchmarks.server import TEXT, TOOL_TURNS, TOOLS_PATH
from benchmarks.tool_schemas import functions

KEY = "sk-benchmark"
MODEL = "gpt-4o-mini"
QUESTION = "Do one thing after another."
CALLS = TOOL_TURNS + 1
GOAL = 0.30


class RawLoop:
    """What one writes without a library: no checks, no counting, no time-outs, no errors told."""

    def __init__(self, url: str, tools: list[dict[str, Any]]) -> None:
        import openai

        self._create: Any = openai.OpenAI(
            api_key=KEY, base_url=url, max_retries=0
        ).chat.completions.create
        self._functions = {function.__name__: function for function in functions()}
        self._tools = tools

    def run(self) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
        for _ in range(CALLS):
            asked = self._create(model=MODEL, messages=messages, tools=self._tools)
            message = asked.choices[0].message
            if not message.tool_calls:
                return str(message.content)
            called = [self._call(call) for call in message.tool_calls]
            said = {"role": "assistant", "content": message.content, "tool_calls": called}
            messages += [said, *map(self._result, message.tool_calls)]
        raise RuntimeError("the server has no answer")

    def _call(self, call: Any) -> dict[str, Any]:
        function = {"name": call.function.name, "arguments": call.function.arguments}
        return {"id": call.id, "type": "function", "function": function}

    def _result(self, call: Any) -> dict[str, Any]:
        content = self._functions[call.function.name](**json.loads(call.function.arguments))
        return {"role": "tool", "tool_call_id": call.id, "content": content}


def figures(address: str, rounds: int) -> list[Figure]:
    """Our loop and its awaited twin, each beside the raw one."""
    from pywrapai import LLM
    from pywrapai_graph import Agent, AgentConfig, GraphLLM, ToolRegistry, tool

    url = f"{address}{TOOLS_PATH}"
    registry = ToolRegistry()
    for function in functions():
        registry.register(tool(function))
    llm = LLM("openai", MODEL, api_key=KEY, base_url=url, max_retries=0)
    agent = Agent(GraphLLM(llm), registry, AgentConfig(max_turns=CALLS))
    raw = RawLoop(url, registry.to_openai_schema())
    _check(agent.run(QUESTION).content, raw.run())
    loop = asyncio.new_event_loop()

    def side(case: str, ours: Callable[[], Any], goal: float | None) -> Figure:
        return compare(case, ours, raw.run, calls=3, rounds=rounds, per=CALLS, goal=goal)

    return [
        side("tool loop, a turn", lambda: agent.run(QUESTION), GOAL),
        side("arun, a turn", lambda: loop.run_until_complete(agent.arun(QUESTION)), None),
    ]


def _check(*answers: str) -> None:
    assert set(answers) == {TEXT}, answers


def main() -> int:
    """Print the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with cheap_server() as address:
        return report(figures(address, arguments.rounds))


if __name__ == "__main__":
    sys.exit(main())
