"""The Anthropic wire: messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
    json_body,
    json_bytes,
    sse,
)
from pywrapai.testing.wires.anthropic_checks import check_messages

BASE_PATH = ""

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_KINDS = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}


def handles(request: Request) -> bool:
    """Any path that ends as Anthropic's does, whatever comes before."""
    return _is_models(request) or (request.method == "POST" and request.path.endswith("/messages"))


def _is_models(request: Request) -> bool:
    asked = request.method == "GET" and request.path.endswith("/models")
    return asked and "anthropic-version" in request.headers


# Replies


def message(*blocks: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A whole message around content blocks; `fields` add to its top level or replace it."""
    whole = {"id": "msg_stub", "type": "message", "role": "assistant", "model": "stub"}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**whole, "content": list(blocks), **ending, "usage": usage, **fields}


def message_events(
    *blocks: Mapping[str, Any], start: Mapping[str, Any], end: Mapping[str, Any], **fields: Any
) -> Iterator[Event]:
    """The events of a streamed message but for its end mark; `fields` as for `message`.

    `start` and `end` are the usage that its first and its last event tell.
    """
    whole = message(**fields)
    ending = {key: whole[key] for key in ("stop_reason", "stop_sequence")}
    opening = {**whole, "stop_reason": None, "usage": dict(start)}
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(blocks):
        yield from _block_events(index, block)
    yield {"type": "message_delta", "delta": ending, "usage": dict(end)}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[Event]:
    opening = {"type": "content_block_start", "index": index, "content_block": _emptied(block)}
    yield _framed(opening) + (_framed({"type": "ping"}) if index == 0 else b"")
    for delta in _deltas(block):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _emptied(block: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    match block:
        case {"type": "text", "text": str(text)}:
            for word in re.findall(r"\s*\S+\s*|\s+", text):
                yield {"type": "text_delta", "text": word}
        case {"type": "thinking", "thinking": str(thinking), "signature": str(signature)}:
            for word in re.findall(r"\s*\S+\s*|\s+", thinking):
                yield {"type": "thinking_delta", "thinking": word}
            yield {"type": "signature_delta", "signature": signature}
        case {"input": given}:
            whole = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in re.findall(r"(?s).{1,8}", "" if given == {} else whole):
                yield {"type": "input_json_delta", "partial_json": piece}


def answer(request: Request, answer: Answer) -> Response:
    """A message, or its events where the request says `stream`."""
    usage = _usage(request, answer)
    fields = {
        "id": f"msg_{request.number}",
        "model": answer.model or request.json.get("model"),
        "stop_reason": _stop_reason(answer),
    }
    blocks = list(_blocks(request, answer))
    if not request.json.get("stream"):
        whole = message(*blocks, **fields, usage=usage)
        return Response.whole(json_bytes(whole), headers=_headers(request))
    start = {**usage, "output_tokens": 1} if usage else usage
    return events(request, Events(tuple(message_events(*blocks, start=start, end=usage, **fields))))


def events(request: Request, events: Events) -> Response:
    """Server-sent events, each with its type as its name; the end mark is `message_stop`."""
    end: tuple[Event, ...] = ({"type": "message_stop"},) if events.done else ()
    return Response.streamed(
        map(_framed, (*events.events, *end)),
        content_type="text/event-stream; charset=utf-8",
        headers=_headers(request),
    )


def _framed(event: Event) -> bytes:
    return sse(event, event.get("type") if isinstance(event, Mapping) else None)


def failure(request: Request, failure: Failure) -> Response:
    """Anthropic's error body."""
    usual = "api_error" if failure.status >= 500 else "invalid_request_error"
    kind = failure.code or _TYPES.get(failure.status, usual)
    where = f"{failure.param}: " if failure.param else ""
    body = {
        "type": "error",
        "error": {"type": kind, "message": f"{where}{failure.message}"},
        "request_id": f"req_{request.number}",
    }
    headers = {**_headers(request), **failure.headers}
    return Response.whole(json_bytes(body), status=failure.status, headers=headers)


def usual(request: Request) -> Response | None:
    """One model."""
    if not _is_models(request):
        return None
    model = {"type": "model", "id": "stub", "display_name": "Stub"}
    return Response.whole(json_bytes({"data": [model], "has_more": False}))


def _headers(request: Request) -> dict[str, str]:
    return {"request-id": f"req_{request.number}"}


def _stop_reason(answer: Answer) -> str:
    reason = answer.finish_reason or ("tool_calls" if answer.calls else "stop")
    return _STOP_REASONS.get(reason, reason)


def _blocks(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.text:
        yield {"type": "text", "text": answer.text}
    for index, call in enumerate(answer.calls):
        call_id = f"toolu_{request.number}_{index}" if call.id is None else call.id
        yield {"type": "tool_use", "id": call_id, "name": call.name, "input": _input(call)}


def _input(call: Call) -> Any:
    return call.arguments if isinstance(call.arguments, str) else dict(call.arguments)


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    """What was given, or the words of prompt and answer; empty if it is to be left out."""
    if answer.usage is not None:
        return dict(answer.usage)
    prompt = _words(request.json.get("system")) + _words(request.json.get("messages"))
    said = _words(answer.text) + sum(len(str(call.arguments).split()) for call in answer.calls)
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": prompt, **cached, "output_tokens": said}


def _words(content: Any) -> int:
    match content:
        case str():
            return len(content.split())
        case list():
            return sum(map(_words, content))
        case {"content": inner} | {"text": inner}:
            return _words(inner)
        case _:
            return 0


# Checks


def check(request: Request, *, require_key: bool) -> None:
    """Raise Refusal for a missing key and for a body that Anthropic would answer with a 400."""
    if require_key and not _has_key(request.headers):
        raise Refusal("x-api-key header is required", status=401)
    if "anthropic-version" not in request.headers:
        raise Refusal("header is required", "anthropic-version")
    if _is_models(request):
        return
    check_messages(json_body(request))


def _has_key(headers: Mapping[str, str]) -> bool:
    bearer = re.fullmatch(r"Bearer \S+", headers.get("authorization", ""))
    return bool(headers.get("x-api-key") or bearer)
