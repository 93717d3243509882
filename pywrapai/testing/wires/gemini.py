"""The Gemini wire: generateContent, its stream, and batches of embeddings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pywrapai.testing.wires import (
    Answer,
    Call,
    Events,
    Failure,
    Refusal,
    Request,
    Response,
    json_body,
    json_bytes,
    sse,
)
from pywrapai.testing.wires.gemini_checks import (
    check_embeddings,
    check_generate,
    wants_signatures,
)
from pywrapai.testing.wires.vectors import word_vector

BASE_PATH = ""

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBzdHVi"
"""What signs the first call of a turn for a model that wants it back."""

_PATH = re.compile(
    r".*/v1\w*/(?P<model>(?:models|tunedModels)/[^/:]+)"
    r":(?P<verb>generateContent|streamGenerateContent|batchEmbedContents)"
)
_DIMENSIONS = 64
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
"""A test may give a reason by the library's own name."""


def handles(request: Request) -> bool:
    """Any path that ends as Google's do, whatever comes before."""
    if _is_models(request):
        return True
    return request.method == "POST" and _PATH.fullmatch(request.path) is not None


def _is_models(request: Request) -> bool:
    asked = request.method == "GET" and request.path.endswith("/models")
    return asked and "x-goog-api-key" in request.headers


def _target(request: Request) -> tuple[str, str]:
    """The model and the verb."""
    found = _PATH.fullmatch(request.path)
    assert found is not None  # it was handled
    return found["model"], found["verb"]


# Replies


def reply(
    *parts: Mapping[str, Any], finish_reason: str | None = "STOP", **fields: Any
) -> dict[str, Any]:
    """A whole reply, or one event of a stream; `fields` add to its top level or replace it."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
    return {"candidates": [candidate], "modelVersion": "stub", "responseId": "stub"} | fields


def answer(request: Request, answer: Answer) -> Response:
    """A reply, or its pieces where the verb is the streaming one."""
    model, verb = _target(request)
    if verb == "batchEmbedContents":
        message = f"a chat reply is queued, but {request.method} {request.path} came"
        return failure(request, Failure(500, message))
    parts = [*_texts(answer, verb), *_calls(model, answer)] or [{"text": ""}]
    finish = _FINISH.get(answer.finish_reason or "stop", answer.finish_reason)
    fields = _identity(request, answer)
    if verb == "generateContent":
        return Response.whole(json_bytes(reply(*parts, finish_reason=finish, **fields)))
    pieces = [
        reply(part, finish_reason=finish if at == len(parts) else None, **fields)
        for at, part in enumerate(parts, start=1)
    ]
    return events(request, Events(tuple(pieces)))


def events(request: Request, events: Events) -> Response:
    """Server-sent events, their lines ended as Google does. There is no mark after the last."""
    packets = (sse(event).replace(b"\n", b"\r\n") for event in events.events)
    return Response.streamed(packets, content_type="text/event-stream", headers={})


def failure(request: Request, failure: Failure) -> Response:
    """Google's error body; a code stands among its details, as the reason."""
    status = _STATUSES.get(failure.status, "UNKNOWN")
    error: dict[str, Any] = {
        "code": failure.status,
        "message": failure.message,
        "status": status,
    }
    if failure.code:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        error["details"] = [{"@type": kind, "reason": failure.code, "domain": "googleapis.com"}]
    return Response.whole(
        json_bytes({"error": error}), status=failure.status, headers=failure.headers
    )


def usual(request: Request) -> Response | None:
    """A vector for every text, in which texts that share words are close."""
    if _is_models(request):
        return Response.whole(json_bytes({"models": [{"name": "models/stub"}]}))
    _, verb = _target(request)
    if verb != "batchEmbedContents":
        return None
    vectors = [
        word_vector(
            _words(asked["content"]["parts"]), asked.get("outputDimensionality") or _DIMENSIONS
        )
        for asked in request.json["requests"]
    ]
    return Response.whole(json_bytes({"embeddings": [{"values": v} for v in vectors]}))


def _identity(request: Request, answer: Answer) -> dict[str, Any]:
    model, _ = _target(request)
    fields = {
        "modelVersion": answer.model or model.partition("/")[2],
        "responseId": f"response-{request.number}",
    }
    usage = _usage(request, answer)
    return {**fields, "usageMetadata": usage} if usage else fields


def _texts(answer: Answer, verb: str) -> list[dict[str, Any]]:
    if verb == "generateContent":
        return [{"text": answer.text}] if answer.text else []
    return [{"text": word} for word in re.findall(r"\s*\S+\s*|\s+", answer.text)]


def _calls(model: str, answer: Answer) -> Iterator[dict[str, Any]]:
    """The calls; as Google does it, the first one is signed for all."""
    for at, call in enumerate(answer.calls):
        identity = {"id": call.id} if call.id else {}
        signed = {"thoughtSignature": SIGNATURE} if wants_signatures(model) and at == 0 else {}
        yield {"functionCall": {**identity, "name": call.name, "args": _args(call)}, **signed}


def _args(call: Call) -> Any:
    return call.arguments if isinstance(call.arguments, str) else dict(call.arguments)


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    """What was given, or the words of prompt and answer; empty if it is to be left out."""
    if answer.usage is not None:
        return dict(answer.usage)
    contents = request.json.get("contents", ())
    prompt = sum(len(_words(content.get("parts") or ())) for content in contents)
    said = len(answer.text.split())
    said += sum(len(json.dumps(_args(call)).split()) for call in answer.calls)
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": said,
        "totalTokenCount": prompt + said,
    }


def _words(parts: Any) -> list[str]:
    return [word for part in parts for word in str(part.get("text") or "").lower().split()]


# Checks


def check(request: Request, *, require_key: bool) -> None:
    """Raise Refusal for a missing key and for a body that Google would answer with a 400."""
    if require_key and not request.headers.get("x-goog-api-key", "").strip():
        message = "Method doesn't allow unregistered callers: use an API key"
        raise Refusal(message, status=403)
    if _is_models(request):
        return
    model, verb = _target(request)
    if verb == "streamGenerateContent" and request.query.get("alt") != "sse":
        raise Refusal("without ?alt=sse the stream is a JSON array, which no client here reads")
    body = json_body(request)
    if verb == "batchEmbedContents":
        check_embeddings(body, model)
    else:
        check_generate(body, model)
