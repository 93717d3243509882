"""What a vector store refuses or cannot do."""

from __future__ import annotations

from pywrapai.exceptions import PyWrapAIError


class VectorStoreError(PyWrapAIError):
    """The store cannot be opened, read or written; the message says what to do about it."""


class DimensionMismatchError(PyWrapAIError, ValueError):
    """A vector has another number of dimensions than the store's; both numbers are told.

    Vectors of two embedding models have nothing to do with each other, even of the same size:
    give each model a store of its own, or clear the store and add its documents again.
    """
