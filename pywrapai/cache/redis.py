"""A cache that many processes and machines share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pywrapai.cache.store import BaseCache
from pywrapai.core.base import LLMResponse, TokenUsage, ToolCall
from pywrapai.core.checks import ttl_seconds
from pywrapai.core.extras import needs

if TYPE_CHECKING:
    import redis

_FORMAT = 1
"""Goes into every key, so that a version that writes otherwise never reads these entries."""


class RedisCache(BaseCache):
    """Responses in Redis, as JSON; `raw` is left out.

    Args:
        url: such as redis://localhost:6379/0.
        ttl: seconds after which a response is forgotten; None leaves that to the server.
        prefix: goes before every key, so that others can use the same database.
        timeout: seconds to wait for the server before the call goes on without it.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379/0",
        ttl: float | None = None,
        prefix: str = "pywrapai",
        timeout: float = 2.0,
    ) -> None:
        self.ttl = ttl_seconds(ttl)
        with needs("redis"):
            import redis
        self._prefix = f"{prefix}:response:{_FORMAT}:"
        self._client: redis.Redis = redis.Redis.from_url(
            url, socket_timeout=timeout, socket_connect_timeout=timeout
        )

    def get(self, key: str) -> LLMResponse | None:
        """What was kept under the key; an entry that cannot be read is none."""
        kept: Any = self._client.get(self._prefix + key)
        return None if kept is None else _from_json(kept)

    def set(self, key: str, response: LLMResponse) -> None:
        """Keep a response for `ttl` seconds."""
        ttl_ms = None if self.ttl is None else max(1, round(self.ttl * 1000))
        self._client.set(self._prefix + key, _to_json(response), px=ttl_ms)

    def clear(self) -> None:
        """Forget the responses under this prefix, and nothing else."""
        for key in self._keys():
            self._client.delete(key)

    def __len__(self) -> int:
        return sum(1 for _ in self._keys())

    def _keys(self) -> Iterator[Any]:
        return iter(self._client.scan_iter(match=f"{_literal(self._prefix)}*", count=1000))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _literal(prefix: str) -> str:
    """The prefix as a Redis pattern that matches itself alone."""
    return "".join(f"\\{c}" if c in "*?[]^-\\" else c for c in prefix)


def _to_json(response: LLMResponse) -> bytes:
    fields = {
        name: getattr(response, name)
        for name in LLMResponse.__dataclass_fields__
        if name not in ("raw", "usage", "tool_calls")
    }
    fields["usage"] = asdict(response.usage)
    fields["tool_calls"] = [call.to_dict() for call in response.tool_calls or ()]
    return json.dumps(fields).encode()


def _from_json(kept: bytes) -> LLMResponse | None:
    try:
        fields = json.loads(kept)
        fields["usage"] = TokenUsage(**fields["usage"])
        fields["tool_calls"] = [ToolCall.from_dict(c) for c in fields["tool_calls"]] or None
        return LLMResponse(**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
