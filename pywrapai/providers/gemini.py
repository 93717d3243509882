"""Gemini's generateContent wire, and its embeddings.

Source: https://ai.google.dev/api/generate-content. google-genai has no verb that takes this JSON
as it is. Its `generate_content` builds a model of every message: 1.0 ms a call at one message,
15.5 at a hundred; with the messages as `extra_body` that is 1.3 and 1.8, but a stream comes as
models only, for 140 us a chunk. So the SDK is asked once, in memory, how it sends a request: to
which address, with which headers for the key, the version and itself. Ours go out in the same way
over the shared pool, and what is refused is raised as the SDK's error. That costs 0.7 ms at one
message, 1.3 at a hundred and 18 us a chunk, all of this library included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pywrapai.core.base import LLMResponse, Request
from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow, io
from pywrapai.core.received import parsed
from pywrapai.exceptions import ProviderError, ServerError
from pywrapai.providers import transport
from pywrapai.providers.embedding import EmbeddingReply
from pywrapai.providers.errors import from_connection, from_status
from pywrapai.providers.gemini_replies import PROVIDER, StreamDecoder, from_wire
from pywrapai.providers.gemini_requests import to_wire
from pywrapai.providers.wire import Decoder, Reply, WireProvider, encoded

if TYPE_CHECKING:
    import httpx2

_VERSION = re.compile(r"(\w+://.+)/(v\d+(?:alpha|beta)?\d*)")


def model_path(model: str) -> str:
    """The model as a resource: a bare name is one of Google's own."""
    return model if "/" in model else f"models/{model}"


@dataclass(frozen=True, slots=True)
class _Address:
    root: str
    """Ends in a slash."""
    headers: dict[str, str]


class GeminiProvider(WireProvider):
    """Gemini through Google's AI Studio API."""

    name = PROVIDER
    default_model = "gemini-3.8-flash"
    default_embedding_model: ClassVar[str] = "gemini-embedding-001"
    max_texts: ClassVar[int] = 100
    models_path = "models?pageSize=1000"
    key_env: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    def path(self, request: Request, *, stream: bool) -> str:
        """The model and its verb."""
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{model_path(request.model)}:{verb}"

    def to_wire(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """The JSON body, the same for both verbs."""
        return to_wire(request)

    def from_wire(self, body: Any) -> LLMResponse:
        """The response in a reply."""
        return from_wire(body)

    def decoder(self, request: Request) -> Decoder:
        """What reads one stream."""
        return StreamDecoder()

    def post(self, path: str, body: dict[str, Any], *, timeout: float, stream: bool) -> Reply:
        """POST as the SDK would; raises the SDK's APIError for a refusal."""
        return self._exchange("POST", path, encoded(body), timeout=timeout, stream=stream)

    async def apost(
        self, path: str, body: dict[str, Any], *, timeout: float, stream: bool
    ) -> Reply:
        """`post`, awaited."""
        return await self._aexchange("POST", path, encoded(body), timeout=timeout, stream=stream)

    def get(self, path: str, *, timeout: float) -> Reply:
        """GET as the SDK would."""
        return self._exchange("GET", path, None, timeout=timeout, stream=False)

    async def aget(self, path: str, *, timeout: float) -> Reply:
        """`get`, awaited."""
        return await self._aexchange("GET", path, None, timeout=timeout, stream=False)

    def models_from_wire(self, body: Any) -> list[str]:
        """The names, without the resource's prefix."""
        return [str(model["name"]).removeprefix("models/") for model in body["models"]]

    def _exchange(
        self, verb: str, path: str, content: bytes | None, *, timeout: float, stream: bool
    ) -> Reply:
        address, http = self._address, transport.pool().http
        request = http.build_request(
            verb, address.root + path, headers=address.headers, content=content, timeout=timeout
        )
        reply = http.send(request, stream=stream)
        if reply.status_code != 200:
            reply.read()
            _raise_refusal(reply)
        return cast("Reply", reply)

    async def _aexchange(
        self, verb: str, path: str, content: bytes | None, *, timeout: float, stream: bool
    ) -> Reply:
        address, http = self._address, (await transport.apool()).http
        request = http.build_request(
            verb, address.root + path, headers=address.headers, content=content, timeout=timeout
        )
        reply = await http.send(request, stream=stream)
        if reply.status_code != 200:
            await reply.aread()
            _raise_refusal(reply)
        return cast("Reply", reply)

    def embed_flow(
        self, texts: Sequence[str], *, dimensions: int | None, timeout: float
    ) -> Flow[EmbeddingReply]:
        """One request to batchEmbedContents."""
        model = model_path(self.model)
        more = {} if dimensions is None else {"outputDimensionality": dimensions}
        requests = [
            {"model": model, "content": {"parts": [{"text": text}]}, **more} for text in texts
        ]
        path, body = f"{model}:batchEmbedContents", {"requests": requests}
        with self._mapping():
            reply = yield from io(self.post, self.apost, path, body, timeout=timeout, stream=False)
            return _vectors(self._json(reply), self.model)

    def map_error(self, error: Exception) -> ProviderError | None:
        """Statuses by table, connection trouble by kind."""
        with needs("gemini"):
            import httpx2
            from google.genai.errors import APIError

        where = self.base_url or self.name
        if isinstance(error, APIError):
            headers = getattr(error.response, "headers", None)
            return from_status(error.code, error.details, headers)
        return from_connection(httpx2, error, where=where)

    @cached_property
    def _address(self) -> _Address:
        """Where and with which headers the SDK sends, read off a request that it makes."""
        with needs("gemini"):
            import httpx2
            from google import genai
        sent: list[httpx2.Request] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            sent.append(request)
            return httpx2.Response(200, json={})

        memory = httpx2.MockTransport(answer)
        options: Any = {
            **_place(self.base_url),
            "httpx_client": httpx2.Client(transport=memory, trust_env=False),
            "httpx_async_client": httpx2.AsyncClient(transport=memory, trust_env=False),
            "async_client_args": {"ssl": True},  # or it makes a TLS context, for 20 ms
        }
        client = genai.Client(api_key=self.require_key(), vertexai=False, http_options=options)
        client.models.generate_content(model="m", contents="?")
        headers = {k: v for k, v in sent[0].headers.items() if k not in ("host", "content-length")}
        return _Address(str(sent[0].url).removesuffix("models/m:generateContent"), headers)


def _place(base_url: str | None) -> dict[str, Any]:
    """The base URL as SDK options: a version at its end is the one to use."""
    if base_url is None:
        return {}
    root = base_url.strip().rstrip("/")
    if found := _VERSION.fullmatch(root):
        return {"base_url": found[1], "api_version": found[2]}
    return {"base_url": root}


def _raise_refusal(reply: httpx2.Response) -> None:
    from google.genai.errors import APIError

    try:
        body = parsed(reply.content)
    except ValueError:
        body = {"message": reply.text}
    if isinstance(body, list) and len(body) == 1:  # what a stream's error may be wrapped in
        body = body[0]
    APIError.raise_error(reply.status_code, body, reply)


def _vectors(body: Any, model: str) -> EmbeddingReply:
    try:
        vectors = [item["values"] for item in body["embeddings"]]
        tokens = (body.get("usageMetadata") or {}).get("promptTokenCount")
    except (LookupError, TypeError, AttributeError) as error:
        raise ServerError(f"the reply holds no embeddings: {body!r:.80}") from error
    return EmbeddingReply(vectors, tokens, model)


__all__ = ["GeminiProvider", "StreamDecoder", "from_wire", "to_wire"]
