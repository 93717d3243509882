"""Answers kept for equal requests."""

from __future__ import annotations

from pywrapai.cache.redis import RedisCache
from pywrapai.cache.store import BaseCache, ResponseCache

__all__ = ["BaseCache", "RedisCache", "ResponseCache"]
