"""The window, driven offscreen, with a model that is scripted and takes its time."""

from __future__ import annotations

import re
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pywrapai import LLM, Message, ServerError, StreamEnd
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor
from tests.examples.programs import EXAMPLES, running

FOLDER = EXAMPLES / "desktop_chat"
MISSING = "no PySide6 that loads: pip install PySide6-Essentials, apt-get install libegl1 libgl1"
widgets = pytest.importorskip("PySide6.QtWidgets", reason=MISSING, exc_type=ImportError)
from PySide6.QtCore import QTimer  # noqa: E402
from PySide6.QtTest import QTest  # noqa: E402


class Slow(StubProvider):
    """Takes its time for each word."""

    def stream(self, messages: list[Message], **settings: Any) -> Iterator[str | StreamEnd]:
        for piece in super().stream(messages, **settings):
            time.sleep(0.02)
            yield piece


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QT_QPA_PLATFORM", "offscreen")
        yield widgets.QApplication.instance() or widgets.QApplication([])


@pytest.fixture(scope="module")
def window_class() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield runpy.run_path(str(FOLDER / "chat_window.py"))["ChatWindow"]
    sys.modules.pop("answers", None)


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    with Monitor(db_path=tmp_path / "chat.db") as opened:
        yield opened


@pytest.fixture
def opened(app: Any, window_class: Any, monitor: Monitor) -> Iterator[Callable[..., Any]]:
    """Opens windows on one database, each with what its model says."""
    windows = []

    def start(*replies: Any) -> Any:
        graph = GraphLLM(LLM(Slow(replies), max_retries=0)).with_system_prompt("Be brief.")
        windows.append(window_class(monitor, graph, "a note"))
        windows[-1].show()
        return windows[-1]

    yield start
    for window in windows:
        window.close()
        window.deleteLater()
    app.processEvents()


def ask(window: Any, question: str, *, wait: bool = True) -> None:
    QTest.keyClicks(window.question, question)
    window.ask.click()
    if wait:
        assert until(window.ask.isEnabled)


def until(condition: Callable[[], bool], timeout: float = 10) -> bool:
    """Let Qt work until the condition holds."""
    deadline = time.monotonic() + timeout
    while not condition() and time.monotonic() < deadline:
        QTest.qWait(5)
    return condition()


def sessions(window: Any) -> list[str]:
    return [window.sessions.item(row).text() for row in range(window.sessions.count())]


def test_an_answer_comes_piece_by_piece_and_the_window_goes_on(opened):
    window = opened(" ".join(f"word{n}" for n in range(40)))
    ticks, lengths = [time.monotonic()], set()
    timer = QTimer(interval=5)
    timer.timeout.connect(lambda: ticks.append(time.monotonic()))
    timer.timeout.connect(lambda: lengths.add(len(window.transcript.toPlainText())))
    timer.start()

    ask(window, "Count.")
    timer.stop()

    assert window.transcript.toPlainText().startswith("You\nCount.\n\nModel\nword0 word1")
    assert window.transcript.toPlainText().endswith("word39")
    assert len(lengths) > 20
    assert ticks[-1] - ticks[0] > 0.7
    assert max(later - earlier for earlier, later in pairwise(ticks)) < 0.5
    assert re.match(r"\d+ tokens in, 40 out, ", window.status.text())


def test_the_conversation_goes_on_and_another_start_shows_it_again(opened, monitor):
    window = opened("Hello Ann.", "Ann.")
    ask(window, "I am Ann.")
    ask(window, "Who am I?")
    shown = window.transcript.toPlainText()

    again = opened()

    assert again.session == window.session
    assert again.transcript.toPlainText() == shown
    assert [row["role"] for row in monitor.store.get_conversation("alice", window.session)] == [
        "user",
        "assistant",
    ] * 2
    assert [m.text for m in monitor.store.load_history("alice", window.session, 9)][-1] == "Ann."


def test_each_user_has_conversations_of_his_own(opened):
    window = opened("One.", "Two.", "Three.")
    ask(window, "first")
    window.new.click()
    ask(window, "second")
    assert len(sessions(window)) == 2

    window.users.setEditText("bob")
    QTest.keyClick(window.users, "\r")
    assert window.user == "bob"
    assert window.transcript.toPlainText() == ""
    ask(window, "third")

    window.users.setCurrentText("alice")
    window.show_user()
    assert len(sessions(window)) == 2
    assert "second" in window.transcript.toPlainText()
    window.sessions.setCurrentRow(1)
    assert window.transcript.toPlainText() == "You\nfirst\n\nModel\nOne."
    users = opened().users
    assert [users.itemText(row) for row in range(users.count())] == ["alice", "bob"]


def test_stop_ends_the_answer_and_what_was_shown_is_kept(opened, monitor):
    window = opened("word " * 500)
    ask(window, "Go on.", wait=False)
    assert until(lambda: "word word" in window.transcript.toPlainText())
    assert not window.sessions.isEnabled()

    window.halt.click()

    assert until(window.ask.isEnabled)
    assert window.status.text().startswith("Stopped.")
    assert not window.halt.isEnabled()
    kept = monitor.store.get_conversation("alice", window.session)[-1]
    assert (kept["status"], kept["role"]) == ("interrupted", "assistant")
    assert window.transcript.toPlainText().split("Model\n")[1].strip() == kept["content"].strip()


def test_closing_the_window_while_an_answer_comes_ends_its_thread(opened):
    window = opened("word " * 500)
    ask(window, "Go on.", wait=False)
    assert until(lambda: "word word" in window.transcript.toPlainText())

    started = time.monotonic()
    window.close()

    assert time.monotonic() - started < 2


def test_an_error_is_told_and_the_next_question_can_be_asked(opened):
    window = opened(ServerError("it burns"), "Better.")

    ask(window, "How are you?")
    assert window.status.text() == "No answer: it burns"
    ask(window, "And now?")

    assert window.transcript.toPlainText().endswith("Better.")


def test_what_a_model_writes_is_shown_as_text(opened):
    window = opened("<b>bold</b> <img src='file:///etc/passwd'>")

    ask(window, "Write <i>HTML</i>.")

    text = window.transcript.toPlainText()
    assert "Write <i>HTML</i>." in text
    assert "<b>bold</b> <img src='file:///etc/passwd'>" in text


def test_the_program_opens_a_window_says_that_there_is_no_key_and_ends_on_ctrl_c(tmp_path):
    with running("desktop_chat", cwd=tmp_path, QT_QPA_PLATFORM="offscreen") as program:
        program.wait_for(r"The window is open\.")

        assert program.end() == 0
    assert "No key was found" in program.output
    assert "Traceback" not in program.output
    assert [path.name for path in tmp_path.iterdir()] == ["desktop_chat.db"]
