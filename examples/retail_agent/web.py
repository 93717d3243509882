"""The page and the stream behind it: what the agent says, and each tool that it calls."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import BadRequest

from pywrapai import PyWrapAIError, TextDelta, ToolCall, ToolResult
from pywrapai_graph import AgentResult
from pywrapai_monitor import MonitoredAgent

MAX_QUESTION = 2000
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def create_app(agent_of: Callable[[str], MonitoredAgent], dashboard: str, note: str) -> Flask:
    """The application. `agent_of` makes the agent of a session by its id."""
    app = Flask(__name__)
    # Whoever asks by another name is a web site that tries to reach this machine by a browser.
    app.config.update(TRUSTED_HOSTS=["127.0.0.1", "localhost"], MAX_CONTENT_LENGTH=64_000)

    @app.after_request
    def guard(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    @app.get("/")
    def page() -> str:
        return render_template("index.html", dashboard=dashboard, note=note)

    @app.post("/chat")
    def chat() -> Response:
        question, session = _asked(request.get_json())  # other sites cannot send JSON here
        events = agent_of(session).stream(question)
        return Response(server_sent(told(events)), mimetype="text/event-stream")

    return app


def _asked(body: Any) -> tuple[str, str]:
    match body:
        case {"question": str(question), "session": str(session)} if (
            0 < len(question.strip()) <= MAX_QUESTION and 0 < len(session.strip()) <= 64
        ):
            return question, session
        case _:
            raise BadRequest("question and session must be texts, neither empty nor very long")


def told(events: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """The agent's events, as the page wants them; the last one is "done" or "error"."""
    try:
        for event in events:
            match event:
                case TextDelta(text):
                    yield {"type": "text", "text": text}
                case ToolCall():
                    yield {
                        "type": "call",
                        "id": event.id,
                        "name": event.name,
                        "arguments": event.arguments,
                    }
                case ToolResult():
                    yield {
                        "type": "result",
                        "id": event.tool_call_id,
                        "text": event.content,
                        "failed": event.is_error,
                    }
                case AgentResult():
                    tokens, turns = event.total_usage.total_tokens, event.total_turns
                    yield {"type": "done", "turns": turns, "tokens": tokens}
    except PyWrapAIError:
        logging.exception("the agent failed")  # the page is not told what: it may hold addresses
        yield {"type": "error", "text": "The model cannot be asked now. Try again later."}


def server_sent(items: Iterator[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        yield f"data: {json.dumps(item)}\n\n"
