"""A request as the JSON body of Gemini's generateContent."""

from __future__ import annotations

import json
import mimetypes
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, NoReturn, TypeAlias

from pywrapai.core.base import Message, Request, Role, ToolCall, ToolResult
from pywrapai.core.image import Image
from pywrapai.exceptions import InvalidRequestError
from pywrapai.providers.gemini_replies import PROVIDER
from pywrapai.providers.gemini_schema import in_dialect

Part: TypeAlias = dict[str, Any]

_GENERATION = frozenset(
    (
        "candidateCount",
        "frequencyPenalty",
        "imageConfig",
        "logprobs",
        "maxOutputTokens",
        "mediaResolution",
        "presencePenalty",
        "responseJsonSchema",
        "responseLogprobs",
        "responseMimeType",
        "responseModalities",
        "responseSchema",
        "seed",
        "speechConfig",
        "stopSequences",
        "temperature",
        "thinkingConfig",
        "topK",
        "topP",
    )
)
"""The options that belong into `generationConfig`; all others stand at the top of the body."""
_CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
# From Gemini 3 on, the first call of a turn must be signed. What another model called, or a user
# wrote, has no signature; this one is documented for it:
# https://ai.google.dev/gemini-api/docs/thought-signatures
_SIGNED_MODEL = re.compile(r"(.*/)?gemini-([3-9]|\d\d|.*latest)")
_UNSIGNED = "skip_thought_signature_validator"


def to_wire(request: Request) -> dict[str, Any]:
    """The request as the JSON body of generateContent; the model stands in the path."""
    leading = list(takewhile(lambda message: message.role == Role.SYSTEM, request.messages))
    system = [part for message in leading for part in _content_to_wire(message)]
    contents = list(_contents(request.messages[len(leading) :], request.model))
    if not contents:  # the API wants one; a system prompt alone is what there is to answer
        contents, system = [{"role": "user", "parts": system}] if system else [], []
    if not contents:
        raise InvalidRequestError("the messages hold no text: give the model something to answer")
    body: dict[str, Any] = {"systemInstruction": {"parts": system}} if system else {}
    body["contents"] = contents
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool_to_wire(tool) for tool in request.tools]}]
        if request.tool_choice is not None:
            body["toolConfig"] = {"functionCallingConfig": _tool_choice(request.tool_choice)}
    generation: dict[str, Any] = {}
    if request.schema is not None:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = in_dialect(request.schema)
    _add_settings(body, generation, request.settings)
    return body


def _add_settings(
    body: dict[str, Any], generation: dict[str, Any], settings: Mapping[str, Any]
) -> None:
    for key, value in settings.items():
        name = "maxOutputTokens" if key == "max_tokens" else _camel(key)
        if name == "generationConfig":
            generation.update(value)
        elif name in _GENERATION:
            generation[name] = value
        else:
            body[name] = value
    if generation:
        body["generationConfig"] = generation


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _contents(messages: Iterable[Message], model: str) -> Iterator[dict[str, Any]]:
    """The turns. All results in a row are one turn, for the API wants as many as there were
    calls; a turn that says nothing is left out.
    """
    names: defaultdict[str, deque[str]] = defaultdict(deque)
    for results, group in groupby(messages, key=lambda message: message.tool_result is not None):
        if results:
            found = [message.tool_result for message in group if message.tool_result is not None]
            yield {
                "role": "user",
                "parts": [_result_to_wire(r, names[r.tool_call_id]) for r in found],
            }
            continue
        for message in group:
            for call in message.tool_calls or ():
                names[call.id].append(call.name)
            said = message.role == Role.ASSISTANT
            parts = _answer_to_wire(message, model) if said else _content_to_wire(message)
            if parts:
                yield {"role": "model" if said else "user", "parts": parts}


def _content_to_wire(message: Message) -> list[Part]:
    content = message.content
    pieces = [content] if isinstance(content, str) else content
    return [_piece_to_wire(piece) for piece in pieces if piece]


def _piece_to_wire(piece: str | Image) -> Part:
    if isinstance(piece, str):
        return {"text": piece}
    if piece.data is not None:
        return {"inlineData": {"mimeType": piece.media_type, "data": piece.base64}}
    url = str(piece.url)
    if not url.startswith("https://"):
        raise InvalidRequestError(
            f"Gemini fetches images from https URLs alone, not {url[:80]!r}: fetch it yourself "
            "and use Image.from_bytes"
        )
    media_type = piece.media_type or mimetypes.guess_type(url.partition("?")[0])[0]
    kind = {"mimeType": media_type} if media_type else {}
    return {"fileData": {**kind, "fileUri": url}}


def _answer_to_wire(message: Message, model: str) -> list[Part]:
    """An answer's parts, each with the signature that it came with."""
    signatures = _kept(message.provider_data).get("signatures")
    parts = list(_signed(message.text, signatures)) if signatures else _content_to_wire(message)
    calls = [_call_to_wire(call) for call in message.tool_calls or ()]
    if calls and _SIGNED_MODEL.match(model):
        calls[0].setdefault("thoughtSignature", _UNSIGNED)
    return parts + calls


def _signed(text: str, signatures: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    at = 0
    for place in signatures:
        signature = place["thoughtSignature"]
        if "thought" in place:
            yield {"text": place["thought"], "thought": True, "thoughtSignature": signature}
            continue
        if before := text[at : place["start"]]:
            yield {"text": before}
        at = place["end"]
        yield {"text": text[place["start"] : at], "thoughtSignature": signature}
    if rest := text[at:]:
        yield {"text": rest}


def _kept(provider_data: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (provider_data or {}).get(PROVIDER) or {}


def _call_to_wire(call: ToolCall) -> Part:
    broken = call.raw_arguments is not None
    args = {"INVALID_JSON": call.raw_arguments} if broken else call.arguments
    identity = {"id": call.id} if call.id else {}
    signature = _kept(call.provider_data).get("thoughtSignature")
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {**identity, "name": call.name, "args": args}, **signed}


def _result_to_wire(result: ToolResult, names: deque[str]) -> Part:
    """`names` are the functions that were called by the result's id, the first one first."""
    name = (names.popleft() if names else "") or result.name
    if not name:
        raise InvalidRequestError(
            f"the result {result.tool_call_id!r} answers no call among the messages: send the "
            "assistant message with its tool_calls too, or name the function in the ToolResult"
        )
    identity = {"id": result.tool_call_id} if result.tool_call_id else {}
    return {"functionResponse": {**identity, "name": name, "response": _response(result)}}


def _response(result: ToolResult) -> dict[str, Any]:
    """What a function returned, as the object that the API wants."""
    value: Any = result.content or ""
    try:
        parsed = json.loads(value, parse_constant=_not_json)
    except ValueError:
        parsed = None
    if isinstance(parsed, (dict, list)):
        value = parsed
    if result.is_error:
        return {"error": value}
    return value if isinstance(value, dict) else {"result": value}


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _tool_to_wire(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **(tool.get("parameters") or {})}
    described = {key: tool[key] for key in ("name", "description") if tool.get(key)}
    return {**described, "parametersJsonSchema": in_dialect(schema)}


def _tool_choice(choice: str) -> dict[str, Any]:
    if choice in _CHOICES:
        return {"mode": _CHOICES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}
