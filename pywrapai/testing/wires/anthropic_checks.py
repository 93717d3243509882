"""What Anthropic's server would refuse in a request, as far as a client's mistake shows in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pywrapai.testing.wires import Refusal

_KEYS = frozenset(
    {
        "max_tokens",
        "messages",
        "model",
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "metadata",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
_BLOCKS = {
    "user": {"text", "image", "document", "search_result", "tool_result"},
    "assistant": {
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "web_search_tool_result",
    },
}
_THINKING = ("thinking", "redacted_thinking")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_CHOICES = ("anyOf", "oneOf", "allOf")
_SIMPLE = ("string", "integer", "number", "boolean", "null")
_SCHEMA_KEYS = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "$ref",
        "$defs",
        "title",
        "description",
        "format",
        "minItems",
    }
)


def _require(fact: object, must: str, param: str) -> None:
    if not fact:
        raise Refusal(must, param)


def _filled(value: object, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def check_messages(body: Any) -> None:
    """Raise Refusal for a request body that the messages endpoint would not take."""
    if not isinstance(body, dict):
        raise Refusal("the body must be a JSON object")
    for key in body.keys() - _KEYS:
        raise Refusal("Extra inputs are not permitted", key)
    _require(_filled(body.get("model"), str), "must be the name of a model", "model")
    _check_numbers(body)
    if "system" in body:
        _check_system(body["system"])
    _require(_filled(body.get("messages"), list), "at least one message is required", "messages")
    turns = list(_turns(body["messages"]))
    _check_turns(turns)
    _check_tools(body, turns)
    _check_output(body.get("output_config") or {})


def _check_numbers(body: Mapping[str, Any]) -> None:
    most = body.get("max_tokens")
    _require(type(most) is int and most > 0, "must be a positive integer", "max_tokens")
    for name in ("temperature", "top_p"):
        if name in body:
            value = body[name]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            _require(number and 0 <= value <= 1, "must be from 0 to 1", name)
    _require(body.get("stream") in (None, True, False), "must be a boolean", "stream")
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens", 0)
        where = "thinking.enabled.budget_tokens"
        _require(budget >= 1024, "must be 1024 at least", where)
        _require(budget < body["max_tokens"], "`max_tokens` must be greater", where)


def _check_system(system: Any) -> None:
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    _require(_filled(blocks, list), "must be a text or a list of text blocks", "system")
    for index, block in enumerate(blocks):
        _require(block.get("type") == "text", "must be a text block", f"system.{index}")
        _check_text(block, f"system.{index}")


def _check_text(block: Mapping[str, Any], where: str) -> None:
    text = block.get("text")
    _require(isinstance(text, str), "must be a text", f"{where}.text")
    _require(str(text).strip(), "text content blocks must contain non-whitespace text", where)


def _turns(messages: list[Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Consecutive messages of one role are one turn."""
    last: tuple[str, list[dict[str, Any]]] | None = None
    for index, message in enumerate(messages):
        role = message.get("role")
        must = f"role '{role}' is not supported on this model"
        _require(role in _BLOCKS, must, f"messages.{index}.role")
        blocks = list(_checked_blocks(message, f"messages.{index}"))
        if last is not None and last[0] == role:
            last[1].extend(blocks)
            continue
        if last is not None:
            yield last
        last = (role, blocks)
    assert last is not None
    yield last


def _checked_blocks(message: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    content: Any = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    _require(_filled(content, list), "must have non-empty content", where)
    for index, block in enumerate(content):
        at = f"{where}.content.{index}"
        kind = block.get("type") if isinstance(block, dict) else None
        _require(kind in _BLOCKS[message["role"]], f"{kind!r} is not for this role", f"{at}.type")
        _check_block(block, at)
        yield block


def _check_block(block: Mapping[str, Any], where: str) -> None:
    match block["type"]:
        case "text":
            _check_text(block, where)
        case "image":
            _check_image(block.get("source"), f"{where}.source")
        case "thinking":
            _require(isinstance(block.get("thinking"), str), "Field required", f"{where}.thinking")
            signed = _filled(block.get("signature"), str)
            _require(signed, "Invalid `signature` in `thinking` block", where)
        case "redacted_thinking":
            _require(_filled(block.get("data"), str), "Field required", f"{where}.data")
        case "tool_use":
            _require(_ID.fullmatch(str(block.get("id"))), "String should match pattern", where)
            _require(_NAME.fullmatch(str(block.get("name"))), "must be a name", f"{where}.name")
            object_ = isinstance(block.get("input"), dict)
            _require(object_, "Input should be a valid dictionary", f"{where}.input")
        case "tool_result":
            _check_result(block, where)


def _check_image(source: Any, where: str) -> None:
    match source:
        case {"type": "url", "url": str(url)} if re.match("https?:", url):
            return
        case {"type": "base64", "media_type": media_type, "data": str(data)} if data:
            _require(media_type in _MEDIA_TYPES, f"{media_type} is not taken", where)
        case _:
            raise Refusal("must be {type: url, url} or {type: base64, media_type, data}", where)


def _check_result(block: Mapping[str, Any], where: str) -> None:
    _require(_ID.fullmatch(str(block.get("tool_use_id"))), "must match a pattern", where)
    content = block.get("content", "")
    if not isinstance(content, str):
        for index, part in enumerate(content):
            at = f"{where}.content.{index}"
            _require(part.get("type") in ("text", "image"), "must be text or an image", at)
            _check_block(part, at)
    empty_error = block.get("is_error") and not content
    _require(not empty_error, "content cannot be empty if `is_error` is true", where)


def _check_turns(turns: list[tuple[str, list[dict[str, Any]]]]) -> None:
    seen: set[str] = set()
    waiting: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        where = f"messages.{index}"
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        first = [b["type"] for b in blocks[: len(results)]]
        _require(set(first) <= {"tool_result"}, "`tool_result` blocks must come first", where)
        _check_answers(waiting, results, where)
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
        unique = len(set(waiting)) == len(waiting) and not seen & set(waiting)
        _require(unique, "`tool_use` ids must be unique", where)
        seen |= set(waiting)
        if role == "assistant":
            final = blocks[-1]["type"]
            must = f"The final block in an assistant message cannot be `{final}`"
            _require(final not in _THINKING, must, where)
    _check_answers(waiting, [], f"messages.{len(turns)}")
    role, blocks = turns[-1]
    if role == "assistant" and blocks[-1]["type"] == "text":
        trailing = blocks[-1]["text"] != blocks[-1]["text"].rstrip()
        _require(not trailing, "final assistant content cannot end with whitespace", "messages")


def _check_answers(waiting: list[str], results: list[str], where: str) -> None:
    unanswered = [call for call in waiting if call not in results]
    must = f"`tool_use` ids were found without `tool_result` blocks: {', '.join(unanswered)}"
    _require(not unanswered, must, where)
    for call in results:
        must = f"unexpected `tool_use_id` found in `tool_result` blocks: {call}"
        _require(call in waiting, must, where)
    once = len(set(results)) == len(results)
    _require(once, "each tool_use must have a single result", where)


def _check_tools(body: Mapping[str, Any], turns: list[tuple[str, list[dict[str, Any]]]]) -> None:
    tools = body.get("tools")
    if not tools:
        used = any(b["type"] in ("tool_use", "tool_result") for _, blocks in turns for b in blocks)
        _require(not used, "must be defined when messages have tool blocks", "tools")
        _require("tool_choice" not in body, "may only be specified with tools", "tool_choice")
        return
    names = [_check_tool(tool, f"tools.{index}") for index, tool in enumerate(tools)]
    _require(len(set(names)) == len(names), "Tool names must be unique.", "tools")
    choice = body.get("tool_choice", {"type": "auto"})
    allowed = {"type", "disable_parallel_tool_use"}
    match choice:
        case {"type": "auto" | "any"}:
            pass
        case {"type": "none"}:
            allowed = {"type"}
        case {"type": "tool", "name": name} if name in names:
            allowed |= {"name"}
        case _:
            raise Refusal(f"must be auto, any, none or one of 'tools', not {choice}", "tool_choice")
    _require(choice.keys() <= allowed, "Extra inputs are not permitted", "tool_choice")


def _check_tool(tool: Any, where: str) -> str:
    name = str(tool.get("name"))
    _require(_NAME.fullmatch(name), "must be 1 to 128 letters, digits, _ or -", f"{where}.name")
    if tool.get("type") not in (None, "custom"):
        return name
    _require("parameters" not in tool, "Extra inputs are not permitted", f"{where}.parameters")
    if "description" in tool:
        _require(isinstance(tool["description"], str), "must be a text", f"{where}.description")
    schema = tool.get("input_schema")
    at = f"{where}.input_schema"
    _require(isinstance(schema, dict) and schema.get("type") == "object", "must be an object", at)
    top = [key for key in _CHOICES if key in schema]
    _require(not top, f"does not support {', '.join(top)} at the top level", at)
    return name


def _check_output(config: Mapping[str, Any]) -> None:
    match config.get("format"):
        case None:
            pass
        case {"type": "json_schema", "schema": dict(schema)} as form if len(form) == 2:
            _check_schema(schema, "output_config.format.schema")
        case _:
            raise Refusal("must be {type: json_schema, schema}", "output_config.format")


def _check_schema(schema: Any, where: str) -> None:
    _require(_filled(schema, dict), "must be a schema that says something", where)
    for key in schema.keys() - _SCHEMA_KEYS:
        raise Refusal(f"property '{key}' is not supported", where)
    for key in ("properties", "$defs"):
        for name, inner in schema.get(key, {}).items():
            _check_schema(inner, f"{where}.{name}")
    for key in ("anyOf", "allOf"):
        for index, inner in enumerate(schema.get(key, ())):
            _check_schema(inner, f"{where}.{key}.{index}")
    if any(key in schema for key in ("anyOf", "allOf", "enum", "const", "$ref")):
        return
    match schema.get("type"):
        case "object":
            closed = schema.get("additionalProperties") is False
            _require(closed, "'additionalProperties' must be explicitly set to false", where)
        case "array":
            _check_schema(schema.get("items"), f"{where}.items")
            _require(schema.get("minItems", 0) in (0, 1), "'minItems' is 0 or 1", where)
        case kind:
            _require(kind in _SIMPLE, f"type {kind!r} is not supported", where)
