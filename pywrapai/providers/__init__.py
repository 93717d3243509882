"""The providers by name.

A new one is a file beside this one and a line in `PROVIDERS`; a server that speaks OpenAI's wire
is a line alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from pywrapai.providers.base import BaseLLM
from pywrapai.providers.compatible import Compatible, compatible_class
from pywrapai.providers.embedding import EmbeddingProvider

PROVIDERS: dict[str, str | type[BaseLLM] | Compatible] = {
    "openai": "pywrapai.providers.openai:OpenAIProvider",
    "anthropic": "pywrapai.providers.anthropic:AnthropicProvider",
    "gemini": "pywrapai.providers.gemini:GeminiProvider",
    "local": "pywrapai.providers.local:LocalProvider",
    "lmstudio": "pywrapai.providers.lmstudio:LMStudioProvider",
    "ollama": "pywrapai.providers.ollama:OllamaProvider",
    "deepseek": Compatible(
        "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-flash", holds_schema=False
    ),
    "groq": Compatible("https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-20b"),
    "mistral": Compatible("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-small-latest"),
    "openrouter": Compatible(
        "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-4o-mini"
    ),
    "together": Compatible(
        "https://api.together.xyz/v1", "TOGETHER_API_KEY", "openai/gpt-oss-120b"
    ),
    "xai": Compatible("https://api.x.ai/v1", "XAI_API_KEY", "grok-4.3"),
}
"""Name to class, to where the class is (imported when the name is first used), or to the row of a
server that speaks OpenAI's wire."""

EMBEDDERS: dict[str, str | type[EmbeddingProvider]] = {
    "openai": "pywrapai.providers.openai:OpenAIProvider",
    "gemini": "pywrapai.providers.gemini:GeminiProvider",
    "ollama": "pywrapai.providers.ollama:OllamaProvider",
    "lmstudio": "pywrapai.providers.lmstudio:LMStudioProvider",
    "local": "pywrapai.providers.wordllama:WordLlamaProvider",
}
"""The same for embeddings. A name that is in `PROVIDERS` alone serves if its class can embed."""


def register_provider(name: str, cls: type[BaseLLM] | Compatible) -> None:
    """Make `LLM(provider=name)` use `cls`, also in place of one that is there."""
    known = isinstance(cls, Compatible) or (isinstance(cls, type) and issubclass(cls, BaseLLM))
    if not known:
        raise TypeError(
            f"a provider must be a subclass of BaseLLM or a Compatible, not {cls!r:.80}"
        )
    PROVIDERS[name] = cls


def provider_class(name: str) -> type[BaseLLM]:
    """The class of that name. ValueError that lists the known names."""
    found = PROVIDERS.get(name)
    if found is None:
        raise ValueError(
            f"unknown provider {name!r}: known are {', '.join(sorted(PROVIDERS))}; "
            "register_provider adds one, and LLM takes a BaseLLM of your own"
        )
    if isinstance(found, str):
        return cast("type[BaseLLM]", _imported(found))
    return compatible_class(name, found) if isinstance(found, Compatible) else found


def embedder_class(name: str) -> Any:
    """The class of that name for embeddings. ValueError that lists the known names."""
    found = EMBEDDERS.get(name)
    if isinstance(found, str):
        return _imported(found)
    if found is None and name in PROVIDERS:
        found = cast("Any", provider_class(name))
    if not hasattr(found, "embed_flow"):
        raise ValueError(
            f"provider {name!r} has no embeddings: known are {', '.join(sorted(EMBEDDERS))}; "
            "Embedder also takes a pywrapai.providers.EmbeddingProvider of your own"
        )
    return found


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


__all__ = [
    "EMBEDDERS",
    "PROVIDERS",
    "BaseLLM",
    "Compatible",
    "EmbeddingProvider",
    "embedder_class",
    "provider_class",
    "register_provider",
]
