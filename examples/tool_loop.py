"""Let a model call functions, and keep the conversation as JSON between two steps.

Run: python examples/tool_loop.py
Needs: pip install ".[openai]"

The model is a stub on this machine that asks for the weather in two cities. For a real one, make
the LLM with its model and key; the rest stays as it is.
"""

from __future__ import annotations

import json
from typing import Any

from pywrapai import LLM, Message, Role, ToolCall, ToolResult
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Call, tool_calls

SKY = {"Oslo": "rain", "Rome": "sun"}

WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Its English name"}},
        "required": ["city"],
    },
}


def weather(call: ToolCall) -> ToolResult:
    """What the model reads; a call that cannot be run is told too."""
    city = call.arguments.get("city")
    if city not in SKY:
        return ToolResult(call.id, call.name, f"Error: there is no city {city!r}", is_error=True)
    return ToolResult(call.id, call.name, SKY[city])


def converse(llm: LLM, question: str, max_turns: int = 5) -> str:
    """Ask until the model has no more calls, and give its answer."""
    turns = [Message(Role.USER, question)]
    for _ in range(max_turns):
        response = llm.chat(turns, tools=[WEATHER])
        if not response.tool_calls:
            return response.content
        turns.append(response.message)  # with all that the provider wants back
        for call in response.tool_calls:
            result = weather(call)
            print(f"{call.name}({call.arguments}) -> {result.content}")
            turns.append(Message(Role.TOOL, result.content, tool_result=result))
        turns = read(written(turns))
    raise RuntimeError(f"no answer after {max_turns} turns")


def written(turns: list[Message]) -> str:
    """The conversation as it could lie in a file, while the process ends and starts again."""
    return json.dumps([turn.to_dict() for turn in turns])


def read(kept: str) -> list[Message]:
    return [Message.from_dict(turn) for turn in json.loads(kept)]


def main() -> None:
    print("A stub plays the model; the function that it calls is real.\n")
    with StubServer() as server:
        server.reply(
            tool_calls(Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"})),
            "Take an umbrella to Oslo, and a hat to Rome.",
        )
        llm = LLM("openai", api_key="sk-test", base_url=server.url("openai"))
        print(converse(llm, "What should I take to Oslo, and what to Rome?"))


if __name__ == "__main__":
    main()
