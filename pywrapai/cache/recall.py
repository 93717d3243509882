"""Which key an input had before, found without reading the input again."""

from __future__ import annotations

import hashlib
import marshal
from collections import OrderedDict
from typing import Any

from pywrapai.core.process import ProcessLock


class Recall:
    """Keys by a mark of the raw input: messages given as plain dicts need not become messages,
    nor be checked once more, for an answer that is there. That is most of what a hit costs.
    """

    def __init__(self, size: int = 1000) -> None:
        self._size = size
        self._lock = ProcessLock()
        self._keys: OrderedDict[bytes, str] = OrderedDict()

    def mark(self, *given: Any) -> bytes | None:
        """The mark of equal inputs; None for one that holds more than plain values.

        Marshal's second version writes equal values of equal types alike, and nothing else so.
        """
        try:
            return hashlib.sha256(marshal.dumps(given, 2)).digest()
        except ValueError:
            return None

    def key(self, mark: bytes) -> str | None:
        """The key that goes with the mark, if it is known."""
        return self._keys.get(mark)

    def remember(self, mark: bytes, key: str) -> None:
        """Know the key from now on; the oldest one makes room."""
        with self._lock:
            self._keys[mark] = key
            if len(self._keys) > self._size:
                self._keys.popitem(last=False)
