"""What Google's server would refuse in a request, as far as a client's mistake shows in it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pywrapai.testing.wires import Refusal

_TOP = {
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "serviceTier",
    "store",
}
_RANGES = {"temperature": (0, 2), "topP": (0, 1)}
_COUNTS = ("maxOutputTokens", "candidateCount", "topK")
_GENERATION = {
    *_RANGES,
    *_COUNTS,
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "presencePenalty",
    "frequencyPenalty",
    "seed",
    "responseLogprobs",
    "logprobs",
    "thinkingConfig",
    "mediaResolution",
    "speechConfig",
    "imageConfig",
}
_DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
_OF_USER = _DATA - {"functionCall"}
_OF_MODEL = {"text", "inlineData", "functionCall"}
_SCHEMA = {
    "type",
    "format",
    "description",
    "title",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
    "propertyOrdering",
}
_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NEWER = re.compile(r".*/gemini-([3-9]|\d\d)")


def wants_signatures(model: str) -> bool:
    """Whether the model answers no call of its own that comes back without its signature."""
    return _NEWER.match(model) is not None


def _require(fact: object, must: str, where: str) -> None:
    if not fact:
        raise Refusal(f"Invalid value at '{where}': {must}", where)


def _refuse_other_keys(value: Any, names: Iterable[str], where: str) -> None:
    _require(isinstance(value, dict), "must be an object", where)
    for name in value:
        if name not in names:
            raise Refusal(
                f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': "
                "Cannot find field.",
                where,
            )


def _filled(value: object, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def check_embeddings(body: Any, model: str) -> None:
    """Raise Refusal for a request body that batchEmbedContents would not take."""
    _refuse_other_keys(body, {"requests"}, "")
    requests = body.get("requests")
    _require(_filled(requests, list), "must be a list that is not empty", "requests")
    _require(len(requests) <= 100, "at most 100 requests can be in one batch", "requests")
    for index, asked in enumerate(requests):
        where = f"requests[{index}]"
        names = {"model", "content", "outputDimensionality", "taskType", "title"}
        _refuse_other_keys(asked, names, where)
        _require(asked.get("model") == model, f"must be {model!r}", f"{where}.model")
        _check_content({"role": "user", **asked.get("content", {})}, f"{where}.content")
        if (size := asked.get("outputDimensionality")) is not None:
            positive = type(size) is int and size > 0
            _require(positive, "must be positive", f"{where}.outputDimensionality")


def check_generate(body: Any, model: str) -> None:
    """Raise Refusal for a request body that generateContent would not take."""
    _refuse_other_keys(body, _TOP, "")
    contents = body.get("contents")
    _require(_filled(contents, list), "contents is not specified", "contents")
    for index, content in enumerate(contents):
        _check_content(content, f"contents[{index}]")
    _check_turns(contents)
    if wants_signatures(model):
        _check_signatures(contents)
    if (system := body.get("systemInstruction")) is not None:
        _check_content({"role": "user", **system}, "systemInstruction")
        only_text = all("text" in part for part in system["parts"])
        _require(only_text, "only text is supported", "systemInstruction")
    _check_tools(body)
    _check_generation(body.get("generationConfig") or {})


def _check_content(content: Any, where: str) -> None:
    _refuse_other_keys(content, {"role", "parts"}, where)
    role = content.get("role", "user")
    _require(role in ("user", "model"), f"use user or model, not {role!r}", f"{where}.role")
    _require(_filled(content.get("parts"), list), "must not be empty", f"{where}.parts")
    for index, part in enumerate(content["parts"]):
        at = f"{where}.parts[{index}]"
        _refuse_other_keys(part, _DATA | {"thought", "thoughtSignature"}, at)
        data = part.keys() & _DATA
        allowed = _OF_USER if role == "user" else _OF_MODEL
        _require(len(data) == 1 and data <= allowed, f"{role} cannot send {sorted(part)}", at)
        _check_part(part, at)


def _check_part(part: Mapping[str, Any], where: str) -> None:
    if (signature := part.get("thoughtSignature")) is not None:
        _require(_filled(signature, str), "must be base64 text", f"{where}.thoughtSignature")
    match part:
        case {"text": text}:
            empty = text == "" and "thoughtSignature" not in part
            _require(isinstance(text, str) and not empty, "must be text, not empty", where)
        case {"inlineData": {"mimeType": str(), "data": str(data)}}:
            _require(_is_base64(data), "must be base64", f"{where}.inlineData.data")
        case {"fileData": {"fileUri": str(uri)}}:
            _require(uri.startswith("https://"), "must be https", f"{where}.fileData.fileUri")
        case {"functionCall": {"name": str(name), "args": dict()}}:
            _require(_NAME.fullmatch(name), "must be a function's name", f"{where}.functionCall")
        case {"functionResponse": {"name": str(name), "response": dict()}}:
            _require(_NAME.fullmatch(name), "must be a function's name", where)
        case _:
            raise Refusal(f"Invalid value at '{where}': {sorted(part)} has another form", where)


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    return bool(data)


def _names(content: Mapping[str, Any], kind: str) -> list[str]:
    return [part[kind]["name"] for part in content["parts"] if kind in part]


def _check_turns(contents: list[dict[str, Any]]) -> None:
    called: list[str] = []
    for index, content in enumerate(contents):
        where = f"contents[{index}]"
        answered = _names(content, "functionResponse")
        _require(
            answered == called,
            "the number of function response parts must be equal to the number of function call "
            f"parts of the function call turn, in its order: {called}, not {answered}",
            where,
        )
        called = _names(content, "functionCall")


def _check_signatures(contents: list[dict[str, Any]]) -> None:
    for index, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls:
            _require(
                calls[0].get("thoughtSignature"),
                "Function call is missing a thought_signature in functionCall parts",
                f"contents[{index}]",
            )


def _check_tools(body: Mapping[str, Any]) -> None:
    declared = []
    for index, tool in enumerate(body.get("tools") or ()):
        for at, declaration in enumerate(tool.get("functionDeclarations") or ()):
            where = f"tools[{index}].functionDeclarations[{at}]"
            declared.append(_check_declaration(declaration, where))
    _require(len(set(declared)) == len(declared), "duplicate function declaration", "tools")
    config = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is None:
        return
    where = "toolConfig.functionCallingConfig"
    _refuse_other_keys(config, {"mode", "allowedFunctionNames"}, where)
    _require(declared, "must not be set without function declarations", where)
    _require(config.get("mode") in ("AUTO", "ANY", "NONE", "VALIDATED"), "unknown mode", where)
    if (allowed := config.get("allowedFunctionNames")) is not None:
        _require(config["mode"] in ("ANY", "VALIDATED"), "needs the mode ANY", where)
        fits = _filled(allowed, list) and set(allowed) <= set(declared)
        _require(fits, "must be among the declarations", f"{where}.allowedFunctionNames")


def _check_declaration(declaration: Any, where: str) -> str:
    _refuse_other_keys(declaration, {"name", "description", "parametersJsonSchema"}, where)
    name = declaration.get("name")
    _require(isinstance(name, str) and _NAME.fullmatch(name), "must be a name", f"{where}.name")
    if (schema := declaration.get("parametersJsonSchema")) is not None:
        at = f"{where}.parametersJsonSchema"
        _check_schema(schema, at)
        _require(schema.get("type") == "object", "must describe an object", at)
    return str(name)


def _check_generation(config: Any) -> None:
    where = "generationConfig"
    _refuse_other_keys(config, _GENERATION, where)
    for name, (low, high) in _RANGES.items():
        if (value := config.get(name)) is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            fits = number and low <= value <= high
            _require(fits, f"must be from {low} to {high}", f"{where}.{name}")
    for name in _COUNTS:
        if (value := config.get(name)) is not None:
            fits = type(value) is int and value > 0
            _require(fits, "must be a positive integer", f"{where}.{name}")
    if (schema := config.get("responseJsonSchema")) is not None:
        as_json = config.get("responseMimeType") == "application/json"
        _require(as_json, "needs the responseMimeType application/json", where)
        _check_schema(schema, f"{where}.responseJsonSchema")


def _check_schema(schema: Any, where: str) -> None:
    _refuse_other_keys(schema, _SCHEMA, where)
    types = schema.get("type", [])
    for kind in types if isinstance(types, list) else [types]:
        _require(kind in _TYPES, f"{kind!r} is no type", f"{where}.type")
    if (literals := schema.get("enum")) is not None:
        plain = all(isinstance(v, str | int | float) and v is not True for v in literals)
        _require(literals and plain, "must hold texts and numbers", f"{where}.enum")
    if types == "array":
        _require("items" in schema or "prefixItems" in schema, "missing field 'items'", where)
    for name, part in _subschemas(schema):
        _check_schema(part, f"{where}.{name}")


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from (schema.get("properties") or {}).items()
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield key, schema[key]
    for key in ("anyOf", "oneOf", "prefixItems"):
        for index, part in enumerate(schema.get(key) or ()):
            yield f"{key}[{index}]", part
