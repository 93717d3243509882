"""What Ollama's server would refuse in a request, or ignore without a word.

It skips unknown keys and options in silence, so a setting in the wrong place has no effect there;
here it is refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pywrapai.testing.wires import Refusal

_CHAT_KEYS = frozenset(
    [
        "model",
        "messages",
        "tools",
        "stream",
        "format",
        "options",
        "keep_alive",
        "think",
        "truncate",
        "shift",
        "logprobs",
        "top_logprobs",
    ]
)
_EMBED_KEYS = frozenset(["model", "input", "truncate", "dimensions", "options", "keep_alive"])
_MESSAGE_KEYS = frozenset(
    ["role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"]
)
_ROLES = ("system", "user", "assistant", "tool")
_INTEGERS = frozenset(
    [
        "num_ctx",
        "num_predict",
        "num_keep",
        "num_batch",
        "num_gpu",
        "main_gpu",
        "num_thread",
        "seed",
        "top_k",
        "repeat_last_n",
        "mirostat",
    ]
)
_FLOATS = frozenset(
    [
        "temperature",
        "top_p",
        "min_p",
        "typical_p",
        "tfs_z",
        "repeat_penalty",
        "presence_penalty",
        "frequency_penalty",
        "mirostat_tau",
        "mirostat_eta",
    ]
)
_FLAGS = frozenset(["numa", "low_vram", "vocab_only", "use_mmap", "use_mlock", "penalize_newline"])


def _require(fact: object, where: str, must: str) -> None:
    if not fact:
        raise Refusal(f"{where} {must}", where)


def _refuse_other_keys(value: Mapping[str, Any], keys: frozenset[str], where: str) -> None:
    unknown = sorted(value.keys() - keys)
    _require(not unknown, where, f"has keys that Ollama ignores: {', '.join(unknown)}")


def check_chat(body: Any) -> None:
    """Raise Refusal for a request body that /api/chat would not take as it is meant."""
    _check_model(body)
    _refuse_other_keys(body, _CHAT_KEYS, "the body")
    _check_options(body.get("options", {}))
    _require(isinstance(body.get("messages"), list), "messages", "must be a list")
    called: set[str] = set()
    for at, message in enumerate(body["messages"]):
        _check_message(message, f"messages[{at}]", called)
    for at, tool in enumerate(body.get("tools", ())):
        _check_tool(tool, f"tools[{at}]")
    _require(isinstance(body.get("stream", True), bool), "stream", "must be a bool")
    form = body.get("format", "json")
    _require(form in ("", "json") or isinstance(form, dict), "format", "must be json or a schema")
    think = body.get("think", True)
    levels = ("low", "medium", "high", "max")
    _require(isinstance(think, bool) or think in levels, "think", f"must be a bool, or of {levels}")


def check_embed(body: Any) -> None:
    """Raise Refusal for a request body that /api/embed would not take as it is meant."""
    _check_model(body)
    _refuse_other_keys(body, _EMBED_KEYS, "the body")
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    _require(texts and all(isinstance(t, str) for t in texts), "input", "must be text, or texts")


def _check_model(body: Any) -> None:
    _require(isinstance(body, dict), "the body", "must be a JSON object")
    _require(isinstance(body.get("model"), str) and body["model"], "model", "is required")


def _check_options(options: Any) -> None:
    _require(isinstance(options, dict), "options", "must be an object")
    for name, value in options.items():
        where, number = f"option {name!r}", type(value) in (int, float)
        if name in _INTEGERS:
            _require(type(value) is int, where, "must be of type integer")
        elif name in _FLOATS:
            _require(number, where, "must be of type float32")
        elif name in _FLAGS:
            _require(isinstance(value, bool), where, "must be of type boolean")
        else:
            _require(name == "stop", where, "is none of the model's options: Ollama ignores it")
            strings = isinstance(value, list) and all(isinstance(s, str) for s in value)
            _require(strings, where, "must be an array of strings")


def _check_message(message: Any, where: str, called: set[str]) -> None:
    """`called` are the tools of the messages before this one."""
    _require(isinstance(message, dict), where, "must be an object")
    _refuse_other_keys(message, _MESSAGE_KEYS, where)
    role = message.get("role")
    _require(role in _ROLES, where, f"has the role {role!r}, not one of {', '.join(_ROLES)}")
    content = message.get("content")
    _require(isinstance(content, str), f"{where}.content", "must be a string")
    carries = content or message.get("images") or message.get("tool_calls")
    _require(role != "assistant" or carries, where, "is an assistant message with nothing in it")
    for image in message.get("images", ()):
        _check_image(image, f"{where}.images")
    for call in message.get("tool_calls", ()):
        _check_call(call, f"{where}.tool_calls")
        called.add(call["function"]["name"])
    if role == "tool":
        name = message.get("tool_name")
        _require(name in called, f"{where}.tool_name", f"is {name!r}, which nobody called before")


def _check_image(image: Any, where: str) -> None:
    try:
        base64.b64decode(image, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise Refusal(f"{where}: illegal base64 data: {error}", where) from error


def _check_call(call: Any, where: str) -> None:
    match call:
        case {"function": {"name": str(name), "arguments": dict()}} if name:
            return
    raise Refusal(f"{where} must be {{function: {{name, arguments as an object}}}}", where)


def _check_tool(tool: Any, where: str) -> None:
    match tool:
        case {
            "type": "function",
            "function": {"name": str(name), "parameters": {"type": "object", "properties": dict()}},
        } if name:
            return
    must = "must be {type: function, function: {name, parameters: {type: object, properties}}}"
    raise Refusal(f"{where} {must}", where)
