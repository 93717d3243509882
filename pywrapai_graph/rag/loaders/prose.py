"""Text put together out of the elements of a page: words, lines, paragraphs, rows of tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pywrapai.core.text import well_formed


class Prose:
    """A text that grows: words are put into lines, lines into paragraphs.

    Between two pieces stands the largest gap that anything between them asked for.
    """

    bullet = ""
    """Put before the next piece."""
    newlines = 0
    """How many are owed before the next piece."""
    _space = False  # the same, if no newline is owed

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What was put in so far, without the gap at its end."""
        return "".join(self._pieces)

    def gap(self, newlines: int) -> None:
        """Keep the next piece at least so many newlines away."""
        self.newlines = max(self.newlines, newlines)

    def flow(self, text: str) -> None:
        """Add text to the line, its white space collapsed."""
        self._space = self._space or text[:1].isspace()
        if words := " ".join(text.split()):
            self._put(words)
            self._space = text[-1:].isspace()

    def block(self, text: str, newlines: int) -> None:
        """Add text as it is, with so many newlines before and after it."""
        if text.strip():
            self.gap(newlines)
            self._put(text.strip("\n"))
            self.gap(newlines)

    def row(self, text: str) -> None:
        """Add what `row_of` made of a table's row: a line, or paragraphs."""
        self.block(text, newlines=2 if "\n" in text.strip() else 1)

    def _put(self, text: str) -> None:
        if self._pieces and self.newlines:
            self._pieces.append("\n" * self.newlines)
        elif self._pieces and self._space:
            self._pieces.append(" ")
        self._pieces.append(self.bullet + text)
        self.bullet, self.newlines, self._space = "", 0, False


def row_of(cells: Sequence[str]) -> str:
    """A table's row as a line; as paragraphs, where the table only lays out a page."""
    line = " | ".join(" ".join(cell.split()) for cell in cells)
    lays_out = len(line) > 500 and any("\n\n" in cell for cell in cells)
    if lays_out or len(cells) == 1:
        return paragraphs_of(cells)
    return line if line.strip(" |") else ""


def paragraphs_of(texts: Sequence[str]) -> str:
    """Texts with a blank line between them, without those that are blank."""
    return "\n\n".join(text for text in texts if text.strip())


def clean(text: str) -> str:
    """Without what cuts words (soft hyphens) and what stores refuse (NUL, lone surrogates)."""
    whole = re.sub("\xad\n?", "", text).replace("\0", "").replace("\xa0", " ")
    return well_formed(whole).strip()
