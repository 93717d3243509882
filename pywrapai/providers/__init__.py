"""The providers by name. A new one is a file beside this one and a line in `PROVIDERS`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from pywrapai.providers.base import BaseLLM

PROVIDERS: dict[str, str | type[BaseLLM]] = {
    "openai": "pywrapai.providers.openai:OpenAIProvider",
    "local": "pywrapai.providers.local:LocalProvider",
}
"""Name to class, or to where the class is: it is imported when the name is first used."""


def register_provider(name: str, cls: type[BaseLLM]) -> None:
    """Make `LLM(provider=name)` use `cls`, also in place of one that is there."""
    if not (isinstance(cls, type) and issubclass(cls, BaseLLM)):
        raise TypeError(f"a provider must be a subclass of BaseLLM, not {cls!r:.80}")
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
        module, _, attribute = found.partition(":")
        return cast("type[BaseLLM]", getattr(import_module(module), attribute))
    return found


__all__ = ["PROVIDERS", "BaseLLM", "provider_class", "register_provider"]
