"""Ollama's wire: /api/chat with one JSON object a line, /api/embed and /api/tags."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pywrapai.testing.wires import (
    Answer,
    Call,
    Event,
    Events,
    Failure,
    Refusal,
    Request,
    Response,
    json_bytes,
)
from pywrapai.testing.wires.ollama_checks import check_chat, check_embed
from pywrapai.testing.wires.vectors import word_vector

BASE_PATH = ""

_CREATED = "2026-01-01T00:00:00Z"  # fixed, so that a reply is the same in every run
_DIMENSIONS = 64


def handles(request: Request) -> bool:
    """Any path that ends as Ollama's do, whatever comes before."""
    return _is_chat(request) or _is_embed(request) or _is_tags(request)


def _is_chat(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/api/chat")


def _is_embed(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/api/embed")


def _is_tags(request: Request) -> bool:
    return request.method == "GET" and request.path.endswith("/api/tags")


# Replies


def line(message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """One line of a stream, or with `done=True` a whole reply; `fields` add to its top level."""
    whole = {"role": "assistant", "content": "", **message}
    return {"model": "stub", "created_at": _CREATED, "message": whole, "done": False} | fields


def last_line(done_reason: str = "stop", **fields: Any) -> dict[str, Any]:
    """The end mark of a stream."""
    return line({}, done=True, done_reason=done_reason, **fields)


def answer(request: Request, answer: Answer) -> Response:
    """A reply in lines, as Ollama gives it unless `stream` is false."""
    if not _is_chat(request):
        message = f"a chat reply is queued, but {request.method} {request.path} came"
        return failure(request, Failure(500, message))
    model = answer.model or request.json.get("model")
    calls = [_tool_call(call) for call in answer.calls]
    reason = answer.finish_reason or "stop"
    end = {"done": True, "done_reason": reason, **_usage(request, answer)}
    if request.json.get("stream") is False:
        called = {"tool_calls": calls} if calls else {}
        whole = line({"content": answer.text, **called}, model=model, **end)
        return Response.whole(json_bytes(whole))
    parts = [{"content": word} for word in re.findall(r"\s*\S+\s*|\s+", answer.text)]
    parts += [{"tool_calls": [call]} for call in calls]
    lines = [line(part, model=model) for part in parts]
    return events(request, Events((*lines, line({}, model=model, **end)), done=False))


def events(request: Request, events: Events) -> Response:
    """Lines of JSON; the end mark is a line with `"done": true`."""
    sent: tuple[Event, ...] = (*events.events, last_line()) if events.done else events.events
    return Response.streamed(
        map(_line_bytes, sent), content_type="application/x-ndjson", headers={}
    )


def _line_bytes(event: Event) -> bytes:
    if isinstance(event, bytes):
        return event
    return (event.encode() if isinstance(event, str) else json_bytes(event)) + b"\n"


def failure(request: Request, failure: Failure) -> Response:
    """Ollama's error body."""
    body = json_bytes({"error": failure.message})
    return Response.whole(body, status=failure.status, headers=failure.headers)


def usual(request: Request) -> Response | None:
    """One model, and a vector for every input in which texts that share words are close."""
    if _is_tags(request):
        return Response.whole(json_bytes({"models": [{"name": "stub", "model": "stub"}]}))
    if _is_embed(request):
        return Response.whole(json_bytes(_embedded(request.json)))
    return None


def _embedded(body: Mapping[str, Any]) -> dict[str, Any]:
    given = body["input"]
    texts = [text.lower().split() for text in ([given] if isinstance(given, str) else given)]
    vectors = [word_vector(words, body.get("dimensions") or _DIMENSIONS) for words in texts]
    count = sum(map(len, texts))
    return {"model": body["model"], "embeddings": vectors, "prompt_eval_count": count}


def _tool_call(call: Call) -> dict[str, Any]:
    """Without an id, as Ollama sends it, unless the test gives one."""
    function = {"name": call.name, "arguments": call.arguments}
    return {**({"id": call.id} if call.id else {}), "function": function}


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    """What was given, or the words of prompt and answer."""
    if answer.usage is not None:
        return dict(answer.usage)
    sent = sum(len(message["content"].split()) for message in request.json["messages"])
    called = "".join(json.dumps(call.arguments) for call in answer.calls)
    return {"prompt_eval_count": sent, "eval_count": len(f"{answer.text} {called}".split())}


# Checks


def check(request: Request, *, require_key: bool) -> None:
    """Raise Refusal for a body that Ollama refuses, or of which it ignores a part in silence."""
    if not re.fullmatch(r"Bearer \S+", request.headers.get("authorization", "Bearer none")):
        raise Refusal("the Authorization header must be 'Bearer <key>'", status=401)
    if _is_chat(request):
        check_chat(_body(request))
    elif _is_embed(request):
        check_embed(_body(request))


def _body(request: Request) -> Any:
    try:
        return request.json
    except ValueError as error:
        raise Refusal(f"the body is not valid JSON: {error}") from error
