"""The page and the stream behind it: first the sources of an answer, then the answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flask import Flask, Response, render_template, request
from library import source_of
from werkzeug.exceptions import BadRequest

from pywrapai import PyWrapAIError
from pywrapai_monitor import MonitoredGraph

MAX_QUESTION = 2000
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def create_app(graph_of: Callable[[str], MonitoredGraph], folder: Path, note: str) -> Flask:
    """The application. `graph_of` makes the graph of a session by its id."""
    app = Flask(__name__)
    # Whoever asks by another name is a web site that tries to reach this machine by a browser.
    app.config.update(TRUSTED_HOSTS=["127.0.0.1", "localhost"], MAX_CONTENT_LENGTH=64_000)

    @app.after_request
    def guard(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    @app.get("/")
    def page() -> str:
        return render_template("index.html", folder=folder.name, note=note)

    @app.post("/chat")
    def chat() -> Response:
        question, session = _asked(request.get_json())  # other sites cannot send JSON here
        events = answered(graph_of(session), question, folder)
        return Response(server_sent(events), mimetype="text/event-stream")

    return app


def _asked(body: Any) -> tuple[str, str]:
    match body:
        case {"question": str(question), "session": str(session)} if (
            0 < len(question.strip()) <= MAX_QUESTION and 0 < len(session.strip()) <= 64
        ):
            return question, session
        case _:
            raise BadRequest("question and session must be texts, neither empty nor very long")


def answered(graph: MonitoredGraph, question: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The events of one answer; the last one is "done" or "error"."""
    try:
        assembly = graph.assemble(question)  # the page has the sources while the model reads them
        sources = [source_of(found, folder) for found in assembly.rag_chunks]
        yield {"type": "sources", "sources": sources}
        with graph.stream(assembly) as pieces:
            for piece in pieces:
                yield {"type": "text", "text": piece}
        usage = pieces.response.usage if pieces.response else None
        yield {"type": "done", "tokens": usage.total_tokens if usage else 0}
    except PyWrapAIError:
        logging.exception("no answer")  # the page is not told what: it may hold addresses
        yield {"type": "error", "text": "The model cannot be asked now. Try again later."}


def server_sent(items: Iterator[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        yield f"data: {json.dumps(item)}\n\n"
