"""The key of a request: equal for requests that must get the same answer, and for no others."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from pywrapai.core.base import Content, Request
from pywrapai.core.image import Image

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def request_key(request: Request, *, provider: str, base_url: str | None) -> str:
    """SHA-256 in hex over everything in the request that can change its answer.

    Texts go into the hash as they are, each behind its length: that is as unambiguous as JSON and
    costs a third of it. What is small goes in as JSON with sorted keys. The time-out is left out:
    it changes whether there is an answer, not which.
    """
    head: dict[str, Any] = {
        "provider": provider,
        "base_url": base_url,
        "model": request.model,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "settings": request.settings,
        "schema": request.schema,
    }
    messages = request.messages
    texts = [m.content if type(m.content) is str else _parts(m.content) for m in messages]
    beside = [
        (at, {**m.to_dict(), "content": None})
        for at, m in enumerate(messages)
        if m.tool_calls or m.tool_result or m.provider_data or type(m.content) is not str
    ]
    head["beside"] = beside
    head["roles"] = ",".join([m.role for m in messages])
    # The lengths come first and say where each text ends, so no two conversations run together.
    digest = hashlib.sha256(canonical(head).encode())
    digest.update(array("Q", map(len, texts)).tobytes())
    digest.update("".join(texts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _parts(content: Content) -> str:
    return canonical([_part(part) for part in content])


def _part(part: str | Image) -> list[str]:
    return ["text", part] if isinstance(part, str) else ["image", part.fingerprint]


def canonical(value: Any) -> str:
    """JSON that is equal for equal values: keys sorted, types told apart, never a TypeError."""
    return _encode(_comparable(value))


def _comparable(value: Any) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case bytes():
            return {"bytes": hashlib.sha256(value).hexdigest()}
        case Mapping():
            return {_name(key): _comparable(item) for key, item in value.items()}
        case set() | frozenset():
            return {"set": sorted(canonical(item) for item in value)}
        case type():
            return {"type": f"{value.__module__}.{value.__qualname__}"}
        case Iterable():
            return [_comparable(item) for item in value]
    return {type(value).__qualname__: repr(value)}


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__}:{key!r}"
