"""What changed between two versions of a prompt."""

from __future__ import annotations

from difflib import unified_diff

from pywrapai_monitor.db.base import BaseStore


def diff(store: BaseStore, name: str, old: str, new: str = "active") -> str:
    """A unified diff; empty if nothing did. KeyError if there is no such version."""
    before, after = (store.get_prompt(name, version).splitlines() for version in (old, new))
    return "\n".join(unified_diff(before, after, f"{name} {old}", f"{name} {new}", lineterm=""))
