"""The window: users and their conversations on the left, the one that is open on the right."""

from __future__ import annotations

from datetime import datetime

from answers import Answer
from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent, QFont, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMainWindow,
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor

ME, MODEL = "You", "Model"
SPEAKERS = {"user": ME, "assistant": MODEL}
FIRST_USER = "alice"


class ChatWindow(QMainWindow):
    """All that it lists comes from the monitor, so another start of the program shows it again."""

    def __init__(self, monitor: Monitor, graph: GraphLLM, note: str) -> None:
        super().__init__()
        self.setWindowTitle("Desktop chat")
        self.resize(860, 540)
        self._monitor = monitor
        self._graph = graph
        self._answer: Answer | None = None
        self._build(note)
        users = sorted(row["user_id"] for row in monitor.store.get_users())
        self.users.addItems(users or [FIRST_USER])
        self.users.activated.connect(self.show_user)
        self.sessions.currentItemChanged.connect(self.show_conversation)
        self.show_user()

    # What the user does

    def show_user(self) -> None:
        """List the conversations of the user that is chosen, the newest on top, and open it."""
        self.sessions.clear()
        for row in self._monitor.store.get_sessions(self.user):
            self._list(row["session_id"])
        if self.sessions.count() == 0:
            self.start_conversation()
        self.sessions.setCurrentRow(0)

    def start_conversation(self) -> None:
        """A new one on top of the list; the monitor knows it after its first answer."""
        self._list(f"chat {datetime.now():%Y-%m-%d %H:%M:%S.%f}"[:-4], top=True)
        self.sessions.setCurrentRow(0)
        self.question.setFocus()

    def show_conversation(self) -> None:
        """The messages of the conversation that is chosen."""
        self.transcript.clear()
        self.status.clear()
        if not self.session:
            return
        for row in self._monitor.store.get_conversation(self.user, self.session):
            if row["role"] in SPEAKERS:
                self._say(SPEAKERS[row["role"]], row["content"])

    def send(self) -> None:
        """Ask what is in the line. The pieces come by signals, while the window goes on."""
        question = self.question.text().strip()
        if not question or self._answer is not None:
            return
        self.question.clear()
        self._say(ME, question)
        self._say(MODEL, "")
        tracked = self._monitor.wrap(self._graph, self.user, self.session)
        self._answer = Answer(tracked, question, self)
        self._answer.piece.connect(self._add)
        self._answer.told.connect(self.status.setText)
        self._answer.finished.connect(self._finished)
        self._set_busy(True)
        self._answer.start()

    def stop(self) -> None:
        """End the answer that is coming."""
        if self._answer is not None:
            self._answer.requestInterruption()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let the answer's thread end first: Qt does not allow to drop a running one."""
        self.stop()
        if self._answer is not None:
            self._answer.wait()
        event.accept()

    # What is shown

    @property
    def user(self) -> str:
        return self.users.currentText().strip() or FIRST_USER

    @property
    def session(self) -> str:
        item = self.sessions.currentItem()
        return item.text() if item is not None else ""

    def _finished(self) -> None:
        if self._answer is not None:
            self._answer.deleteLater()
        self._answer = None
        self._set_busy(False)
        self.question.setFocus()

    def _set_busy(self, busy: bool) -> None:
        """While an answer comes, its conversation stays open."""
        for widget in (self.users, self.sessions, self.new, self.ask):
            widget.setEnabled(not busy)
        self.halt.setEnabled(busy)

    def _list(self, session: str, *, top: bool = False) -> None:
        self.sessions.insertItem(0 if top else self.sessions.count(), QListWidgetItem(session))

    def _say(self, who: str, text: str) -> None:
        bold = QTextCharFormat()
        bold.setFontWeight(QFont.Weight.Bold)
        start = "" if self.transcript.document().isEmpty() else "\n\n"
        self._add(f"{start}{who}\n", bold)
        self._add(text)

    def _add(self, text: str, style: QTextCharFormat | None = None) -> None:
        """At the end, as plain text: what a model writes is never read as HTML."""
        cursor = self.transcript.textCursor()
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text, style or QTextCharFormat())
        self.transcript.setTextCursor(cursor)
        self.transcript.ensureCursorVisible()

    def _build(self, note: str) -> None:
        self.users = QComboBox(editable=True)  # a name that is typed is a new user
        self.sessions = QListWidget()
        self.new = QPushButton("New conversation", clicked=self.start_conversation)
        self.transcript = QPlainTextEdit(readOnly=True)
        self.question = QLineEdit(placeholderText="Ask something", returnPressed=self.send)
        self.ask = QPushButton("Ask", clicked=self.send)
        self.halt = QPushButton("Stop", clicked=self.stop, enabled=False)
        self.status = QLabel()
        left, right, line = QWidget(), QWidget(), QHBoxLayout()
        for widget in (self.question, self.ask, self.halt):
            line.addWidget(widget)
        on_left, on_right = QVBoxLayout(left), QVBoxLayout(right)
        for widget in (QLabel("User"), self.users, QLabel("Conversations"), self.sessions):
            on_left.addWidget(widget)
        on_left.addWidget(self.new)
        on_right.addWidget(QLabel(note, wordWrap=True))
        on_right.addWidget(self.transcript)
        on_right.addLayout(line)
        on_right.addWidget(self.status)
        halves = QSplitter(Qt.Orientation.Horizontal)
        halves.addWidget(left)
        halves.addWidget(right)
        halves.setSizes([250, 610])
        self.setCentralWidget(halves)
