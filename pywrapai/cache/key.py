"""The key of a request: equal for requests that must get the same answer, and for no others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pywrapai.core.base import Message, Request
from pywrapai.core.image import Image


def request_key(request: Request, *, provider: str, base_url: str | None) -> str:
    """SHA-256 in hex over everything in the request that can change its answer.

    Texts go into the hash as they are, each behind its length: that is as unambiguous as JSON and
    costs a third of it. What is small goes in as JSON with sorted keys. The time-out is left out:
    it changes whether there is an answer, not which.
    """
    digest = hashlib.sha256()
    head = {
        "provider": provider,
        "base_url": base_url,
        "model": request.model,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "settings": request.settings,
        "schema": request.schema,
    }
    _feed(digest.update, canonical(head))
    for message in request.messages:
        _feed_message(digest.update, message)
    return digest.hexdigest()


def _feed(update: Any, text: str) -> None:
    encoded = text.encode("utf-8", "surrogatepass")
    update(b"%d:" % len(encoded))
    update(encoded)


def _feed_message(update: Any, message: Message) -> None:
    _feed(update, message.role)
    if isinstance(message.content, str):
        _feed(update, message.content)
    else:
        _feed(update, canonical([_part(part) for part in message.content]))
    if message.tool_calls or message.tool_result or message.provider_data:
        beside = {**message.to_dict(), "content": None}
        _feed(update, canonical(beside))


def _part(part: str | Image) -> list[str]:
    return ["text", part] if isinstance(part, str) else ["image", part.fingerprint]


def canonical(value: Any) -> str:
    """JSON that is equal for equal values: keys sorted, types told apart, never a TypeError."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case bytes():
            return {"bytes": hashlib.sha256(value).hexdigest()}
        case Mapping():
            return {_name(key): _plain(item) for key, item in value.items()}
        case set() | frozenset():
            return {"set": sorted(canonical(item) for item in value)}
        case type():
            return {"type": f"{value.__module__}.{value.__qualname__}"}
        case Iterable():
            return [_plain(item) for item in value]
    return {type(value).__qualname__: repr(value)}


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__}:{key!r}"
