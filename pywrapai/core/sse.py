"""Streams of lines and of server-sent events, from bytes as they arrive to whole payloads."""

from __future__ import annotations

from collections.abc import Iterator


class Lines:
    """Cuts bytes at line ends, and nowhere else, so no character is ever split."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # joined once: a line may be megabytes in a thousand pieces

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their ends."""
        first, *lines = chunk.split(b"\n")
        self._begun.append(first)
        if not lines:
            return lines
        whole = b"".join(self._begun)
        self._begun = [lines.pop()]
        return [whole, *lines]


class SSEDecoder:
    """Splits an event stream into the payloads of its `data:` lines.

    Event names, ids and comments are skipped: the payloads of all wires that we speak name their
    own type.
    """

    def __init__(self) -> None:
        self._lines = Lines()
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The payloads that `chunk` completes."""
        data = self._data
        for line in self._lines.feed(chunk):
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif data and line in (b"", b"\r"):
                payload = data[0] if len(data) == 1 else b"\n".join(data)
                data.clear()
                yield payload

    def flush(self) -> Iterator[bytes]:
        """A last payload that no blank line ended, if there is one."""
        yield from self.feed(b"\n\n")
