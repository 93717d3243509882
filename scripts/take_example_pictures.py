"""Take the pictures of the examples in docs/images.

    python scripts/take_example_pictures.py

The retail agent and the RAG chatbot run as programs, without a key; the desktop chat's model is
scripted. Needs the extra `dev` and a Chromium: /usr/bin/chromium, or what CHROMIUM names.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor
from scripts.take_screenshots import CHROMIUM, FLAGS, TARGET
from tests.examples.programs import EXAMPLES, running

MAX_BYTES = 150_000
WEB = (
    ("retail_agent", r"Shop: (http://\S+)", "What sells best, and what is low on stock?"),
    ("rag_chatbot", r"Chat: (http://\S+)", "What is the score of a vector of zeros?"),
)
TALK = (
    ("What is a good name for a cat?", "Marmalade, if it is orange. Otherwise: Biscuit."),
    ("It is grey.", "Then Ash, or Pebble: short names are easier to call."),
)


def take_web(browser: Browser, name: str, address: str, question: str) -> Path:
    """Ask one question of a program with a page, and show the page."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(name, "--port", 0, cwd=Path(folder)) as program,
    ):
        page = browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
        page.goto(program.wait_for(address)[1])
        _ask(page, question)
        path = TARGET / f"{name}.png"
        page.screenshot(path=path)
        page.close()
        program.end()
    return path


def _ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.locator("#send").click()
    page.locator("#chat .small").wait_for(timeout=60_000)  # how many tokens it took
    page.evaluate("document.activeElement.blur()")


def take_desktop() -> Path:
    """Hold a scripted conversation in the window, offscreen, and show it."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    sys.path.insert(0, str(EXAMPLES / "desktop_chat"))
    from chat_window import ChatWindow
    from PySide6.QtWidgets import QApplication

    app = QApplication([])
    with tempfile.TemporaryDirectory() as folder, Monitor(db_path=f"{folder}/c.db") as monitor:
        graph = GraphLLM(LLM(StubProvider([answer for _, answer in TALK])))
        graph_of_others = GraphLLM(LLM(StubProvider(lambda messages, tools: "Yes.")))
        for session in ("chat 2026-11-27 09:12:44.80", "chat 2026-11-28 17:30:02.15"):
            monitor.wrap(graph_of_others, "alice", session).chat("Is it raining?")
        window = ChatWindow(monitor, graph, "A scripted model answers.")
        window.new.click()
        window.sessions.currentItem().setText("chat 2026-11-30 16:42:07.31")
        window.show()
        for question, _ in TALK:
            window.question.setText(question)
            window.ask.click()
            _wait(app, window.ask.isEnabled)
        path = TARGET / "desktop_chat.png"
        window.grab().save(str(path))
        window.close()
    return path


def _wait(app: Any, condition: Callable[[], bool]) -> None:
    while not condition():
        app.processEvents()


def take_all() -> Iterator[Path]:
    """One picture after another."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, address, question in WEB:
            yield take_web(browser, name, address, question)
        browser.close()
    yield take_desktop()


def main() -> int:
    """Take them, and say how large they are."""
    large = False
    for path in take_all():
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes")
        large = large or size > MAX_BYTES
    if large:
        print(f"There are pictures of more than {MAX_BYTES:,} bytes.", file=sys.stderr)
    return int(large)


if __name__ == "__main__":
    sys.exit(main())
