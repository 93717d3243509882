"""Visible reasoning that a server leaves in the text of an answer, taken apart from it.

A splitter is fed the text in pieces of any size and gives the same deltas' text for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from pywrapai.core.base import TextDelta, ThinkingDelta

Delta: TypeAlias = TextDelta | ThinkingDelta
_OPEN, _CLOSE = "<think>", "</think>"
_SPACE = " \t\r\n"  # models set the tags on lines of their own


class Splitter(Protocol):
    """Reads one answer."""

    def feed(self, text: str) -> Iterator[Delta]:
        """What is known of the text so far and was not given out yet."""

    def finish(self) -> Iterator[Delta]:
        """What was held back, when no more text comes."""


def split_thinking(text: str, splitter: Splitter) -> tuple[str, str]:
    """The thinking and the text of a whole answer."""
    parts = [*splitter.feed(text), *splitter.finish()]
    thinking = "".join(part.text for part in parts if isinstance(part, ThinkingDelta))
    return thinking, "".join(part.text for part in parts if isinstance(part, TextDelta))


class ThinkTags:
    """Reads `<think>...</think>` at the start of an answer as thinking.

    Later tags are text, so an answer that talks about them stays whole. A block that is never
    closed is thinking to its end; a tag that is never completed is what it would have stood in.
    """

    def __init__(self) -> None:
        self._held = ""
        self._reading: Callable[[], Iterator[Delta]] | None = self._before

    def feed(self, text: str) -> Iterator[Delta]:
        """Text and thinking as they come; at most a tag and the space around it are held."""
        if self._reading is None:
            if text:
                yield TextDelta(text)
            return
        self._held += text
        yield from self._reading()

    def finish(self) -> Iterator[Delta]:
        """The tag that was not completed."""
        if self._held and self._reading == self._before:
            yield TextDelta(self._held)
        elif self._held and self._reading == self._inside:
            yield ThinkingDelta(self._held)
        self._held = ""

    def _before(self) -> Iterator[Delta]:
        start = self._held.lstrip(_SPACE)
        if start.startswith(_OPEN):
            yield from self._go_on(self._opened, start[len(_OPEN) :])
        elif not _OPEN.startswith(start):
            yield from self._rest(self._held)

    def _opened(self) -> Iterator[Delta]:
        if thought := self._held.lstrip(_SPACE):
            yield from self._go_on(self._inside, thought)

    def _inside(self) -> Iterator[Delta]:
        thought, closed, rest = self._held.partition(_CLOSE)
        if not closed:
            keep = _begun(thought, _CLOSE)
            thought, self._held = thought[: len(thought) - keep], thought[len(thought) - keep :]
        if thought:
            yield ThinkingDelta(thought)
        if closed:
            yield from self._go_on(self._after, rest)

    def _after(self) -> Iterator[Delta]:
        if text := self._held.lstrip(_SPACE):
            yield from self._rest(text)

    def _go_on(self, reading: Callable[[], Iterator[Delta]], text: str) -> Iterator[Delta]:
        self._reading, self._held = reading, text
        return reading()

    def _rest(self, text: str) -> Iterator[Delta]:
        self._reading, self._held = None, ""
        yield TextDelta(text)


def _begun(text: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of the tag."""
    sizes = range(min(len(text), len(tag) - 1), 0, -1)
    return next((size for size in sizes if tag.startswith(text[-size:])), 0)


class Separated:
    """Reads all before a separator as thinking; without one, as `ThinkTags` does.

    Until it comes, or the answer ends, nothing is known, so nothing is given out.
    """

    def __init__(self, separator: re.Pattern[str], last: str) -> None:
        """`last` is the separator's last character: without it a piece completes no separator."""
        self._separator = separator
        self._last = last
        self._held: list[str] | None = []

    def feed(self, text: str) -> Iterator[Delta]:
        """All at once when the separator comes, then as it comes."""
        if self._held is None:
            if text:
                yield TextDelta(text)
            return
        self._held.append(text)
        if self._last not in text:
            return
        whole = "".join(self._held)
        if found := self._separator.search(whole):
            self._held = None
            if thought := whole[: found.start()].strip(_SPACE):
                yield ThinkingDelta(thought)
            yield from self.feed(whole[found.end() :])

    def finish(self) -> Iterator[Delta]:
        """The whole answer, if it held no separator."""
        if self._held:
            tags = ThinkTags()
            yield from tags.feed("".join(self._held))
            yield from tags.finish()
        self._held = []
