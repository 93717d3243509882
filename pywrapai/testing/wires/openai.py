"""The OpenAI wire: chat completions, embeddings and the list of models."""

from __future__ import annotations

import base64
import json
import re
import struct
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
from pywrapai.testing.wires.openai_checks import check_chat, check_embeddings
from pywrapai.testing.wires.vectors import word_vector

BASE_PATH = "/v1"

_CREATED = 1_700_000_000  # fixed, so that a reply is the same in every run
_DIMENSIONS = 64
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def handles(request: Request) -> bool:
    """Any path that ends as OpenAI's do, whatever comes before."""
    return _is_chat(request) or _is_embeddings(request) or _is_models(request)


def _is_chat(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/chat/completions")


def _is_embeddings(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/embeddings")


def _is_models(request: Request) -> bool:
    return request.method == "GET" and request.path.endswith("/models")


# Replies


def completion(
    message: Mapping[str, Any], finish_reason: str | None = "stop", **fields: Any
) -> dict[str, Any]:
    """A whole chat completion around one message; `fields` add to its top level or replace it."""
    whole = {"role": "assistant", "content": None, "refusal": None, **message}
    choice = {"index": 0, "message": whole, "logprobs": None, "finish_reason": finish_reason}
    return _envelope("chat.completion", choice) | fields


def chunk(
    delta: Mapping[str, Any], finish_reason: str | None = None, **fields: Any
) -> dict[str, Any]:
    """One event of a streamed completion; `fields` add to its top level or replace it."""
    choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish_reason}
    return _envelope("chat.completion.chunk", choice) | fields


def _envelope(kind: str, choice: Mapping[str, Any]) -> dict[str, Any]:
    base = {"id": "chatcmpl-stub", "object": kind, "created": _CREATED, "model": "stub"}
    return {**base, "choices": [choice]}


def answer(request: Request, answer: Answer) -> Response:
    """A completion, or its chunks where the request says `stream`."""
    if not _is_chat(request):
        message = f"a chat reply is queued, but {request.method} {request.path} came"
        return failure(request, Failure(500, message))
    if request.json.get("stream"):
        return events(request, Events(tuple(_chunks(request, answer))))
    usage = _usage(request, answer)
    reply = completion(
        _message(request, answer),
        _finish_reason(answer),
        **_identity(request, answer),
        **({"usage": usage} if usage else {}),
    )
    return Response.whole(json_bytes(reply), headers=_headers(request))


def events(request: Request, events: Events) -> Response:
    """Server-sent events; the end mark is `[DONE]`."""
    sent: tuple[Event, ...] = (*events.events, "[DONE]") if events.done else events.events
    return Response.streamed(
        map(sse, sent), content_type="text/event-stream", headers=_headers(request)
    )


def failure(request: Request, failure: Failure) -> Response:
    """OpenAI's error body."""
    kind = "server_error" if failure.status >= 500 else "invalid_request_error"
    code = failure.code or _CODES.get(failure.status)
    error = {"message": failure.message, "type": kind, "param": failure.param, "code": code}
    headers = {**_headers(request), **failure.headers}
    return Response.whole(json_bytes({"error": error}), status=failure.status, headers=headers)


def usual(request: Request) -> Response | None:
    """One model, and a vector for every input in which texts that share words are close."""
    if _is_models(request):
        model = {"id": "stub", "object": "model", "created": _CREATED, "owned_by": "stub"}
        reply = {"object": "list", "data": [model]}
        return Response.whole(json_bytes(reply), headers=_headers(request))
    if _is_embeddings(request):
        return Response.whole(json_bytes(_embeddings(request.json)), headers=_headers(request))
    return None


def _headers(request: Request) -> dict[str, str]:
    return {"x-request-id": f"req_{request.number}"}


def _identity(request: Request, answer: Answer) -> dict[str, Any]:
    model = answer.model or request.json.get("model")
    return {"id": f"chatcmpl-{request.number}", "model": model}


def _finish_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.calls else "stop")


def _message(request: Request, answer: Answer) -> dict[str, Any]:
    calls = [_tool_call(request, at, call) for at, call in enumerate(answer.calls)]
    content = answer.text or (None if calls else "")
    return {"content": content, **({"tool_calls": calls} if calls else {})}


def _tool_call(request: Request, index: int, call: Call) -> dict[str, Any]:
    call_id = f"call_{request.number}_{index}" if call.id is None else call.id
    function = {"name": call.name, "arguments": _arguments(call)}
    return {"id": call_id, "type": "function", "function": function}


def _arguments(call: Call) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def _chunks(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    identity = _identity(request, answer)
    counted = (request.json.get("stream_options") or {}).get("include_usage")
    usage = _usage(request, answer) if counted else None
    if usage:
        identity["usage"] = None
    deltas = [*_text_deltas(answer), *_call_deltas(request, answer)]
    deltas[0] = {"role": "assistant", **deltas[0]}
    for delta in deltas:
        yield chunk(delta, **identity)
    yield chunk({}, _finish_reason(answer), **identity)
    if usage:
        yield chunk({}, **identity) | {"choices": [], "usage": usage}


def _text_deltas(answer: Answer) -> list[dict[str, Any]]:
    if not answer.text:
        return [] if answer.calls else [{"content": ""}]
    return [{"content": word} for word in re.findall(r"\s*\S+\s*|\s+", answer.text)]


def _call_deltas(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(answer.calls):
        whole = _tool_call(request, index, call)
        start = {**whole, "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **start}]}
        for piece in re.findall(r"(?s).{1,8}", _arguments(call)):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    """What was given, or the words of prompt and answer; empty if it is to be left out."""
    if answer.usage is not None:
        usage = dict(answer.usage)
    else:
        prompt = sum(_words(message.get("content")) for message in request.json.get("messages", ()))
        said = _words(answer.text) + sum(_words(_arguments(call)) for call in answer.calls)
        usage = {"prompt_tokens": prompt, "completion_tokens": said}
    match usage:
        case {"prompt_tokens": int(sent), "completion_tokens": int(received)}:
            usage.setdefault("total_tokens", sent + received)
    return usage


def _words(content: Any) -> int:
    match content:
        case str():
            return len(content.split())
        case list():
            return sum(_words(part.get("text")) for part in content)
        case _:
            return 0


# Embeddings


def _embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    inputs = _inputs(body["input"])
    dimensions = body.get("dimensions") or _DIMENSIONS
    encode = _base64 if body.get("encoding_format") == "base64" else list
    data = [
        {"object": "embedding", "index": at, "embedding": encode(word_vector(words, dimensions))}
        for at, words in enumerate(inputs)
    ]
    count = sum(map(len, inputs))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _inputs(given: Any) -> list[list[str]]:
    """The words of every input; token numbers pass for words."""
    if isinstance(given, str):
        return [given.lower().split()]
    if all(isinstance(token, int) for token in given):
        return [[str(token) for token in given]]
    return [words for item in given for words in _inputs(item)]


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


# Checks


def check(request: Request, *, require_key: bool) -> None:
    """Raise Refusal for a missing key and for a body that OpenAI would answer with a 400."""
    if require_key and not re.fullmatch(r"Bearer \S+", request.headers.get("authorization", "")):
        message = "no API key: the Authorization header must be 'Bearer <key>'"
        raise Refusal(message, status=401, code="invalid_api_key")
    if _is_chat(request):
        check_chat(json_body(request))
    elif _is_embeddings(request):
        check_embeddings(json_body(request))
