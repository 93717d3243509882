"""Server-sent events, from bytes as they arrive to whole payloads."""

from __future__ import annotations

from collections.abc import Iterator


class SSEDecoder:
    """Splits an event stream into the payloads of its `data:` lines.

    Only bytes are cut here, and only at line ends, so no character is ever split. Event names,
    ids and comments are skipped: the payloads of all wires that we speak name their own type.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The payloads that `chunk` completes."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif data and line in (b"", b"\r"):
                payload = data[0] if len(data) == 1 else b"\n".join(data)
                data.clear()
                yield payload

    def flush(self) -> Iterator[bytes]:
        """A last payload that no blank line ended, if there is one."""
        yield from self.feed(b"\n\n")
