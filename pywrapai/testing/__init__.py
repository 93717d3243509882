"""Doubles for tests: a provider that says what you tell it, with no network and no key."""

from __future__ import annotations

from pywrapai.testing.stub import StubProvider

__all__ = ["StubProvider"]
