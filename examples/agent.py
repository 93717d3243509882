"""An agent that looks into a shop's orders, and asks before it cancels one.

Run: python examples/agent.py
Needs: pip install ".[openai,tools]"

The model is a stub on this machine. For a real one, make the LLM with its model and key; the rest
stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pywrapai import LLM, TextDelta, ToolCall, ToolResult
from pywrapai.testing import StubServer
from pywrapai.testing.wires import Call, tool_calls
from pywrapai_graph import Agent, AgentConfig, AgentResult, GraphLLM, ToolRegistry, tool


@dataclass(frozen=True)
class Order:
    number: int
    item: str
    state: str


ORDERS = {
    7: Order(7, "lamp", "packed"),
    8: Order(8, "chair", "packed"),
    9: Order(9, "desk", "shipped"),
}


@tool
def find_orders(item: str | None = None) -> list[Order]:
    """Find the customer's orders.

    Args:
        item: Only those of this item.
    """
    return [order for order in ORDERS.values() if item in (None, order.item)]


@tool(requires_approval=True)
def cancel_order(number: int) -> Order:
    """Cancel an order that is not yet shipped."""
    if ORDERS[number].state == "shipped":
        raise ValueError(f"order {number} is on its way")
    ORDERS[number] = replace(ORDERS[number], state="cancelled")
    return ORDERS[number]


def allow(call: ToolCall) -> bool:
    """Where a real program would ask a person."""
    return call.arguments["number"] != 8


def show(agent: Agent, question: str) -> None:
    for event in agent.stream(question):
        match event:
            case TextDelta(text):
                print(text, end="", flush=True)
            case ToolCall():
                print(f"{event.name}({event.arguments})")
            case ToolResult():
                print(f"-> {event.content}")
            case AgentResult():
                print(f"\n{event.total_turns} turns, {event.total_usage.total_tokens} tokens")


def main() -> None:
    print("A stub plays the model; the tools and the approval are real.\n")
    registry = ToolRegistry()
    registry.register(find_orders)
    registry.register(cancel_order)
    with StubServer() as server:
        server.reply(
            tool_calls(Call("find_orders", {"item": None})),
            tool_calls(*(Call("cancel_order", {"number": number}) for number in ORDERS)),
            "Order 7 is cancelled. I may not cancel 8, and 9 is on its way.",
        )
        llm = LLM("openai", api_key="sk-test", base_url=server.url("openai"))
        graph = GraphLLM(llm).with_system_prompt("You help customers of a shop.")
        agent = Agent(graph, registry, AgentConfig(max_turns=5, approve=allow))
        show(agent, "Cancel all that I have ordered.")


if __name__ == "__main__":
    main()
