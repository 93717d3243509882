"""The wires that the stub server speaks, by the name of their provider."""

from __future__ import annotations

from pywrapai.testing.wires import Wire, anthropic, gemini, ollama, openai

WIRES: dict[str, Wire] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
}
