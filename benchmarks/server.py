"""The cheapest server that an SDK accepts: the same bytes for every request, on a core of its own.

Its work is part of every figure on both sides, so it does as little as HTTP/1.1 allows. Prints
its base URL, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import cast

REPLY = {
    "id": "chatcmpl-benchmark",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello from the stub.", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
}
_BODY = json.dumps(REPLY).encode()
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_benchmark\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class _Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._head = b""
        self._missing = 0

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, found, body = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            length = _LENGTH.search(head)
            self._missing = (int(length[1]) if length else 0) - len(body)
            self._head = b""
        if not self._missing:
            self._transport.write(_ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve on the last core, away from the client that is measured."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
