"""One answer, asked for in a thread of its own, so that the window never waits."""

from __future__ import annotations

from PySide6.QtCore import QObject, QThread, Signal

from pywrapai import PyWrapAIError
from pywrapai_monitor import MonitoredGraph


class Answer(QThread):
    """Signals cross to the window's thread by themselves; nothing else is shared with it."""

    piece = Signal(str)
    told = Signal(str)
    """What it took, or why there is no answer; comes last."""

    def __init__(self, graph: MonitoredGraph, question: str, parent: QObject) -> None:
        super().__init__(parent)
        self._graph = graph
        self._question = question

    def run(self) -> None:
        """Called by Qt in the new thread."""
        try:
            self.told.emit(self._ask())
        except PyWrapAIError as error:
            self.told.emit(f"No answer: {error}")

    def _ask(self) -> str:
        with self._graph.stream(self._question) as pieces:
            for piece in pieces:
                self.piece.emit(piece)
                if self.isInterruptionRequested():  # leaving the block ends the stream
                    return "Stopped. What was shown is kept."
        if (response := pieces.response) is None:
            return ""
        usage = response.usage
        return (
            f"{usage.input_tokens} tokens in, {usage.output_tokens} out, "
            f"{response.duration_ms / 1000:.1f} s, ${response.cost_usd:.6f}"
        )
