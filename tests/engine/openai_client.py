"""The openai SDK on a stub server, and bare HTTP where the SDK would hide what is sent."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from openai import AsyncOpenAI, OpenAI

from pywrapai.testing.server import StubServer

QUESTION: list[Any] = [{"role": "user", "content": "How are you?"}]


def sync_client(server: StubServer) -> OpenAI:
    return OpenAI(base_url=server.url("openai"), api_key="sk-1", max_retries=0, timeout=5)


def async_client(server: StubServer) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.url("openai"), api_key="sk-1", max_retries=0, timeout=10)


def ask(client: OpenAI, **settings: Any) -> Any:
    body = {"model": "gpt-4o-mini", "messages": QUESTION, **settings}
    return client.chat.completions.create(**body)


def post(server: StubServer, body: Any, key: str | None = "sk-1") -> tuple[int, Any]:
    """What a client without an SDK gets for a chat: the status and the JSON."""
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("POST", "/v1/chat/completions", content, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def bytes_of_stream(server: StubServer) -> bytes:
    """Everything that the server sends for one streamed chat, until it closes."""
    body = json.dumps({"model": "m", "messages": QUESTION, "stream": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: stub\r\nAuthorization: Bearer sk-1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(head.encode() + body)
        return b"".join(iter(lambda: client.recv(65536), b""))
