"""OpenAI's embeddings wire, which OpenAI-compatible servers speak too.

Source: https://platform.openai.com/docs/api-reference/embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pywrapai.core.flow import Flow, io
from pywrapai.core.vectors import from_base64
from pywrapai.exceptions import InvalidRequestError, ServerError
from pywrapai.providers.embedding import EmbeddingReply
from pywrapai.providers.errors import from_status
from pywrapai.providers.stainless import StainlessProvider


def embeddings_to_wire(
    model: str, texts: Sequence[str], *, dimensions: int | None, base64: bool
) -> dict[str, Any]:
    """The JSON body of POST /embeddings.

    As base64 a vector is read twenty times faster, and is half as large, as in JSON numbers.
    """
    body: dict[str, Any] = {"model": model} if model else {}
    body["input"] = list(texts)
    if base64:
        body["encoding_format"] = "base64"
    if dimensions is not None:
        body["dimensions"] = dimensions
    return body


def embeddings_from_wire(body: Any, request_id: str | None = None) -> EmbeddingReply:
    """The vectors in a reply, by their `index`, from base64 or JSON numbers.

    ServerError, or the error that the body tells of, for a reply that is none.
    """
    if not isinstance(body, dict) or not isinstance(body.get("data"), list):
        raise from_status(200, body)
    try:
        found = [item["embedding"] for item in _in_order(body["data"])]
        encoded = bool(found) and all(isinstance(vector, str) for vector in found)
        vectors = from_base64(found) if encoded else found
        # Some servers that do not count say 0.
        tokens = (body.get("usage") or {}).get("prompt_tokens") or None
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ServerError(f"the reply is not what the API promises: {error!r:.200}") from error
    return EmbeddingReply(vectors, tokens, body.get("model") or "", request_id)


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By index, where the server gives one. ValueError for indexes that are no count from 0."""
    places = [item.get("index", at) for at, item in enumerate(items)]
    ordered = list(range(len(items)))
    if places == ordered:
        return items
    if sorted(places) != ordered:
        raise ValueError(f"the vectors have the indexes {places!r:.80}")
    return [item for _, item in sorted(zip(places, items, strict=True), key=lambda pair: pair[0])]


class OpenAIEmbeddings(StainlessProvider):
    """The part of a provider that asks for embeddings."""

    default_embedding_model: ClassVar[str] = "text-embedding-3-small"
    max_texts: ClassVar[int] = 2048
    _knows_base64 = True

    def embed_flow(
        self, texts: Sequence[str], *, dimensions: int | None, timeout: float
    ) -> Flow[EmbeddingReply]:
        """One request; a second one if the server has never heard of `encoding_format`."""
        try:
            return (yield from self._embed(texts, dimensions, timeout, base64=self._knows_base64))
        except InvalidRequestError as error:
            if not self._knows_base64 or "encoding_format" not in error.message:
                raise
        self._knows_base64 = False
        return (yield from self._embed(texts, dimensions, timeout, base64=False))

    def _embed(
        self, texts: Sequence[str], dimensions: int | None, timeout: float, *, base64: bool
    ) -> Flow[EmbeddingReply]:
        body = embeddings_to_wire(self.model, texts, dimensions=dimensions, base64=base64)
        with self._mapping():
            reply = yield from io(
                self.post, self.apost, "/embeddings", body, timeout=timeout, stream=False
            )
            return embeddings_from_wire(self._json(reply), reply.headers.get("x-request-id"))
