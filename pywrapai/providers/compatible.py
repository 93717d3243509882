"""A server that speaks OpenAI's wire, as a row of the table of providers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pywrapai.providers.base import BaseLLM


@dataclass(frozen=True, slots=True)
class Compatible:
    """Where the server is and what it needs; `provider_class` makes the provider of it."""

    base_url: str
    key_env: str | None = None
    """The environment variable that may hold the key; None for a server that needs no key."""
    default_model: str = ""
    """Without one, and without `model=`, the request names no model: the server takes its only."""
    holds_schema: bool = True
    """Whether it takes `json_schema` as a response format; else the schema is told in words."""
    default_embedding_model: str = ""
    """Without one, `Embedder` needs `model=`."""


@cache
def compatible_class(name: str, row: Compatible) -> type[BaseLLM]:
    """The provider of that row, the same one each time."""
    from pywrapai.providers.openai import OpenAIProvider

    facts = {
        "__doc__": f"{name}, over OpenAI's wire.",
        "name": name,
        "default_base_url": row.base_url,
        "key_env": (row.key_env,) if row.key_env else (),
        "default_model": row.default_model,
        "holds_schema": row.holds_schema,
        "default_embedding_model": row.default_embedding_model,
    }
    return type("CompatibleProvider", (OpenAIProvider,), facts)
