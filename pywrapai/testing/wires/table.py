"""The wires that the stub server speaks, by the name of their provider."""

from __future__ import annotations

from pywrapai.testing.wires import Wire, anthropic, gemini, ollama, openai

# OpenAI's comes last: its paths are the most general, and the others know theirs by a header.
WIRES: dict[str, Wire] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai": openai,
}
