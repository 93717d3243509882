"""Vectors without a model, for the wires that have embeddings."""

from __future__ import annotations

import math
import zlib


def word_vector(words: list[str], dimensions: int) -> list[float]:
    """A vector of length 1, the same in every run; texts that share words are close."""
    vector = [0.0] * dimensions
    for word in words or [""]:
        vector[zlib.crc32(word.encode()) % dimensions] += 1.0
    norm = math.sqrt(sum(x * x for x in vector))
    return [x / norm for x in vector]
