"""What OpenAI's server would refuse in a request, as far as a client's mistake shows in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pywrapai.testing.wires import Refusal

_ROLES = {
    "developer": {"text"},
    "system": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
_COUNTS = ("max_tokens", "max_completion_tokens", "n", "dimensions")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REASONING_MODEL = re.compile(r"gpt-5|o\d")


def _require(fact: object, must: str, param: str) -> None:
    if not fact:
        raise Refusal(f"Invalid value for '{param}': {must}", param)


def _filled(value: object, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def _check_numbers(body: Mapping[str, Any]) -> None:
    for name, (low, high) in _RANGES.items():
        if (value := body.get(name)) is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            _require(number and low <= value <= high, f"must be from {low} to {high}", name)
    for name in _COUNTS:
        if (value := body.get(name)) is not None:
            _require(type(value) is int and value > 0, "must be a positive integer", name)


def _check_input(given: Any, where: str = "input") -> None:
    if isinstance(given, list) and not all(isinstance(token, int) for token in given):
        _require(len(given) <= 2048, "must have 2048 items at most", where)
        for index, item in enumerate(given):
            _check_input(item, f"{where}.{index}")
    else:
        must = "must be a text or a list of tokens that is not empty"
        _require(_filled(given, str) or _filled(given, list), must, where)


def _check_model(body: Any) -> None:
    if not isinstance(body, dict):
        raise Refusal("the body must be a JSON object")
    _require(_filled(body.get("model"), str), "must be the name of a model", "model")


def check_embeddings(body: Any) -> None:
    """Raise Refusal for a request body that the embeddings endpoint would not take."""
    _check_model(body)
    _check_numbers(body)
    _check_input(body.get("input"))


def check_chat(body: Any) -> None:
    """Raise Refusal for a request body that the chat endpoint would not take."""
    _check_model(body)
    _check_numbers(body)
    _check_messages(body.get("messages"))
    _check_tools(body)
    _check_response_format(body)
    if "stream_options" in body:
        _require(body.get("stream") is True, "is only for a stream", "stream_options")
    if body.get("max_tokens") is not None:
        both = body.get("max_completion_tokens") is not None
        _require(not both, "cannot stand beside max_completion_tokens", "max_tokens")
        if _REASONING_MODEL.match(body["model"]):
            message = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            )
            raise Refusal(message, "max_tokens", code="unsupported_parameter")


def _check_messages(messages: Any) -> None:
    _require(_filled(messages, list), "must be a list that is not empty", "messages")
    unanswered: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        _check_message(message, where)
        if message["role"] == "tool":
            call = message.get("tool_call_id")
            must = f"must be a call of the assistant message before that waits; {call!r} is not"
            _require(call in unanswered, must, f"{where}.tool_call_id")
            unanswered.remove(call)
            continue
        _require_answers(unanswered, where)
        unanswered = [call["id"] for call in message.get("tool_calls") or ()]
    _require_answers(unanswered, f"messages.{len(messages)}")


def _require_answers(unanswered: list[str], where: str) -> None:
    calls = ", ".join(unanswered)
    _require(not unanswered, f"must be a tool message that answers one of: {calls}", where)


def _check_message(message: Any, where: str) -> None:
    role = message.get("role") if isinstance(message, dict) else None
    _require(role in _ROLES, f"must be one of {', '.join(_ROLES)}, not {role!r}", f"{where}.role")
    content = message.get("content")
    if "tool_calls" in message:
        _require(role == "assistant", "is for the assistant", f"{where}.tool_calls")
        _check_calls(message["tool_calls"], f"{where}.tool_calls")
    if content is None and (message.get("tool_calls") or message.get("refusal")):
        return
    if isinstance(content, str):
        return
    _require(_filled(content, list), "must be a text or a list of parts", f"{where}.content")
    for index, part in enumerate(content):
        _check_part(part, message["role"], f"{where}.content.{index}")


def _check_part(part: Any, role: str, where: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    _require(kind in _ROLES[role], f"the {role} cannot send {kind!r}", f"{where}.type")
    _require(kind in part, f"is missing in a part of type {kind!r}", f"{where}.{kind}")
    if kind == "text":
        _require(isinstance(part["text"], str), "must be a text", f"{where}.text")
    if kind == "image_url":
        url = part["image_url"].get("url") if isinstance(part["image_url"], dict) else None
        valid = isinstance(url, str) and re.match("https?:|data:image/", url)
        _require(valid, "must be an http(s) or data:image/ URL", f"{where}.image_url.url")


def _check_calls(calls: Any, where: str) -> None:
    _require(_filled(calls, list), "must be a list that is not empty", where)
    for index, call in enumerate(calls):
        match call:
            case {
                "id": str(call_id),
                "type": "function",
                "function": {"name": str(name), "arguments": str()},
            } if call_id and _NAME.fullmatch(name):
                continue
        must = "must be {id, type: 'function', function: {name, arguments as text}}"
        raise Refusal(f"Invalid value for '{where}.{index}': {must}", f"{where}.{index}")
    unique = {call["id"] for call in calls}
    _require(len(unique) == len(calls), "must have an id each of its own", where)


def _check_tools(body: Mapping[str, Any]) -> None:
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            _require(name not in body, "is only allowed when 'tools' are given", name)
        return
    _require(_filled(body["tools"], list), "must be a list that is not empty", "tools")
    names = [_check_tool(tool, f"tools.{index}") for index, tool in enumerate(body["tools"])]
    _require(len(set(names)) == len(names), "must have a name each of its own", "tools")
    match body.get("tool_choice"):
        case None | "none" | "auto" | "required":
            pass
        case {"type": "function", "function": {"name": name}} if name in names:
            pass
        case choice:
            must = f"must be none, auto, required or a function of 'tools', not {choice!r}"
            _require(False, must, "tool_choice")


def _check_tool(tool: Any, where: str) -> str:
    match tool:
        case {"type": "function", "function": {"name": str(name), **function}}:
            must = f"must be 1 to 64 letters, digits, _ or -, not {name!r}"
            _require(_NAME.fullmatch(name), must, f"{where}.function.name")
        case _:
            raise Refusal(
                f"Invalid value for '{where}': must be {{type, function: {{name}}}}", where
            )
    if (parameters := function.get("parameters")) is not None:
        at = f"{where}.function.parameters"
        is_object = isinstance(parameters, dict) and parameters.get("type") == "object"
        _require(is_object, "must be a schema of type 'object'", at)
        _check_schema(parameters, at, strict=function.get("strict") is True)
    return name


def _check_response_format(body: Mapping[str, Any]) -> None:
    match body.get("response_format"):
        case None | {"type": "text"}:
            pass
        case {"type": "json_object"}:
            asked = "json" in json.dumps(body["messages"]).lower()
            _require(asked, "must come with the word 'json' in the messages", "response_format")
        case {
            "type": "json_schema",
            "json_schema": {"name": str(name), "schema": dict(schema)} as f,
        }:
            at = "response_format.json_schema"
            _require(_NAME.fullmatch(name), "must be 1 to 64 letters, digits, _ or -", f"{at}.name")
            _check_schema(schema, f"{at}.schema", strict=f.get("strict") is True)
        case other:
            _require(False, f"is not a known format: {other!r}", "response_format")


def _check_schema(schema: Any, where: str, *, strict: bool) -> None:
    _require(isinstance(schema, dict | bool), "must be a schema", where)
    if isinstance(schema, bool):
        return
    _require(schema.get("type") != "array" or "items" in schema, "an array needs 'items'", where)
    properties = schema.get("properties") or {}
    if strict and schema.get("type") == "object":
        _require(schema.get("additionalProperties") is False, "strict: must be closed", where)
        all_required = set(schema.get("required", ())) == set(properties)
        _require(all_required, "strict: 'required' must name every property", where)
    for name, part in _subschemas(schema, properties):
        _check_schema(part, f"{where}.{name}", strict=strict)


def _subschemas(
    schema: Mapping[str, Any], properties: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    yield from properties.items()
    yield from (schema.get("$defs") or {}).items()
    if "items" in schema:
        yield "items", schema["items"]
    for key in ("anyOf", "oneOf", "allOf"):
        for index, part in enumerate(schema.get(key) or ()):
            yield f"{key}.{index}", part
