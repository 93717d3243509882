"""Which model answers: one with a key, or a small one in this process."""

from __future__ import annotations

import os

from pywrapai import LLM

NO_KEY = (
    "No key was found, so a small model in this process answers. It is quick to try and often "
    "wrong; the sources beside it are what a good model would be given too."
)


def choose_llm(provider: str | None, model: str | None) -> tuple[LLM, str]:
    """The model that was asked for, or the one whose key is set, or the local one; and a note."""
    keys = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
    found = next((name for name, key in keys.items() if os.environ.get(key)), None)
    if provider is None and found is None:
        options = {"stop": ["\n\n"]}  # from the second paragraph on it repeats itself
        return LLM("local", temperature=0, max_tokens=80, options=options), NO_KEY
    llm = LLM(provider or found or "local", model)
    return llm, f"The model is {llm.provider}/{llm.model}."
