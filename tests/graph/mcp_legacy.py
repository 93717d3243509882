"""An MCP server of the year 2025, written by hand: over stdio, or with `--http` on a free port.

Over HTTP it has sessions, which it forgets when a tool asks it to, and prints each that is ended.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = ("hello", "ask.twice", "ask_twice") if "--alike" in sys.argv else ("hello", "forget")
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32601, -32602, -32603
sessions = {"s1"}


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    """None for a notification."""
    if "id" not in request:
        return None
    found = outcome(request["method"], request.get("params") or {})
    return {"jsonrpc": "2.0", "id": request["id"], **found}


def outcome(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            about = {"name": "legacy", "version": "1"}
            told = {"protocolVersion": "2025-06-18", "serverInfo": about}
            return {"result": {**told, "capabilities": {} if "--bare" in sys.argv else TOOLS}}
        case "tools/list":
            at = int(params.get("cursor", 0))
            tool = {"name": NAMES[at], "title": NAMES[at], "inputSchema": {"type": "object"}}
            more = {"nextCursor": str(at + 1)} if at + 1 < len(NAMES) else {}
            return {"result": {"tools": [tool], **more}}
        case "tools/call":
            return called(params["name"], params.get("arguments") or {})
    return {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}}


TOOLS: dict[str, Any] = {"tools": {}}
CUT = {"content": "cut"}


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match name, arguments:
        case "hello", {"self": who}:
            return {"result": {"content": [{"type": "text", "text": f"Hello {who}"}]}}
        case "hello", {"broken": True}:
            return {"error": {"code": INTERNAL, "message": "out of order"}}
        case "hello", {"cut": True}:
            return {"result": CUT}
        case "forget", _:
            sessions.clear()
            return {"result": {"content": []}}
    return {"error": {"code": INVALID_PARAMS, "message": "self is missing"}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_new = request["method"] in ("initialize", "server/discover")
        if not is_new and self.headers["Mcp-Session-Id"] not in sessions:
            return self.reply(404, b"")
        found = answer(request)
        if found is None:
            return self.reply(202, b"")
        if found.get("result") == CUT:
            return self.reply(200, b": and no more\n\n", "text/event-stream")
        return self.reply(200, json.dumps(found).encode())

    def do_GET(self) -> None:
        self.reply(405, b"")

    def do_DELETE(self) -> None:
        print("ended", self.headers["Mcp-Session-Id"], flush=True)
        self.reply(200, b"")

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Mcp-Session-Id", "s1")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    if "--http" in sys.argv:
        listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(listening.server_port, flush=True)
        listening.serve_forever()
    for line in sys.stdin:
        if (told := answer(json.loads(line))) is not None:
            print(json.dumps(told), flush=True)
