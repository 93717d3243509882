"""Ollama's own API: POST /api/chat and /api/embed, streams as one JSON object a line.

Source: https://docs.ollama.com/api. Its OpenAI-compatible endpoint is not used, for that one
ignores `num_ctx` and cuts a long prompt in silence.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

from pywrapai.core.base import LLMResponse, Request, StreamEvent
from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow, StreamFlow, io
from pywrapai.core.received import parsed
from pywrapai.core.stream import StreamRecord
from pywrapai.exceptions import (
    ConfigurationError,
    ModelNotFoundError,
    ProviderError,
)
from pywrapai.providers import transport
from pywrapai.providers.embedding import EmbeddingReply
from pywrapai.providers.errors import from_connection, from_status
from pywrapai.providers.ollama_wire import StreamDecoder, from_wire, to_wire
from pywrapai.providers.wire import Decoder, Reply, WireProvider, encoded

if TYPE_CHECKING:
    import httpx

_PORT = 11434
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # hosts to listen on
# Text runs at two to six characters a token; a prompt far beyond that was not read to its end.
_CHARACTERS_PER_TOKEN = 8
_SMALLEST_WINDOW = 2048


class PromptCutWarning(UserWarning):
    """Ollama read less than it was sent: the prompt is longer than its context window."""


def server_url(address: str | None) -> str:
    """The server's URL, from a base_url or else OLLAMA_HOST: a host, `host:port`, or a URL.

    As Ollama reads it: without a scheme the port is 11434, and a host to listen on everywhere
    means this machine. ConfigurationError for what is no address.
    """
    text = (address or os.environ.get("OLLAMA_HOST") or f"localhost:{_PORT}").strip(" \t\r\n\"'")
    scheme, given, rest = text.rpartition("://")
    if not given and rest.count(":") > 1 and not rest.startswith("["):
        rest = f"[{rest}]"  # an IPv6 address alone
    try:
        url = urlsplit(f"{scheme or 'http'}://{rest}")
        port = url.port or (None if given else _PORT)
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is no address of an Ollama server ({error}): give base_url or OLLAMA_HOST "
            "as host, host:port or http://host:port"
        ) from error
    host = url.hostname or ""
    host = _EVERYWHERE.get(host, host)
    where = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    return f"{url.scheme}://{where}{url.path.rstrip('/').removesuffix('/api')}"


class OllamaProvider(WireProvider):
    """Models that an Ollama server runs. No key, unless the server stands behind something."""

    name = "ollama"
    default_model = "llama3.2"
    default_embedding_model: ClassVar[str] = "nomic-embed-text"
    max_texts: ClassVar[int] = 2048
    stream_type: ClassVar[str] = "application/x-ndjson"
    models_path: ClassVar[str] = "/api/tags"
    base_url: str

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        super().__init__(model, api_key=api_key, base_url=server_url(base_url), timeout=timeout)
        self._warned = False

    def path(self, request: Request, *, stream: bool) -> str:
        """One path for all."""
        return "/api/chat"

    def to_wire(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """The JSON body; what `tool_choice` asks for beyond "auto" and "none" is not to be had."""
        if request.tool_choice not in (None, "auto", "none") and not self._warned:
            self._warned = True
            warnings.warn(
                f"Ollama has no tool_choice: {request.tool_choice!r} is ignored, and the model is "
                "free to call any tool or none",
                UserWarning,
                stacklevel=2,
            )
        return to_wire(request, stream=stream)

    def from_wire(self, body: Any) -> LLMResponse:
        """The response in a whole reply."""
        return from_wire(body)

    def decoder(self, request: Request) -> Decoder:
        """What reads one stream of lines."""
        return StreamDecoder()

    def chat_flow(self, request: Request) -> Flow[LLMResponse]:
        """One request, one response; PromptCutWarning if the prompt did not fit."""
        response = yield from super().chat_flow(request)
        _warn_if_cut(request, response)
        return response

    def stream_flow(
        self, request: Request, record: StreamRecord
    ) -> StreamFlow[StreamEvent, LLMResponse]:
        """One request, and its events; PromptCutWarning if the prompt did not fit."""
        response = yield from super().stream_flow(request, record)
        _warn_if_cut(request, response)
        return response

    def embed_flow(
        self, texts: Sequence[str], *, dimensions: int | None, timeout: float
    ) -> Flow[EmbeddingReply]:
        """One request; a text that is too long for the model is an error, and not cut."""
        body: dict[str, Any] = {"model": self.model, "input": list(texts), "truncate": False}
        if dimensions is not None:
            body["dimensions"] = dimensions
        with self._mapping():
            reply = yield from io(
                self.post, self.apost, "/api/embed", body, timeout=timeout, stream=False
            )
            return _embedded(self._json(reply))

    def models_from_wire(self, body: Any) -> list[str]:
        """The names of the models that are installed."""
        return [str(model["name"]) for model in body["models"]]

    def post(self, path: str, body: dict[str, Any], *, timeout: float, stream: bool) -> Reply:
        """POST through the process's httpx client."""
        return self._send_now("POST", path, body, timeout=timeout, stream=stream)

    async def apost(
        self, path: str, body: dict[str, Any], *, timeout: float, stream: bool
    ) -> Reply:
        """`post`, awaited."""
        return await self._asend("POST", path, body, timeout=timeout, stream=stream)

    def get(self, path: str, *, timeout: float) -> Reply:
        """GET through the process's httpx client."""
        return self._send_now("GET", path, None, timeout=timeout, stream=False)

    async def aget(self, path: str, *, timeout: float) -> Reply:
        """`get`, awaited."""
        return await self._asend("GET", path, None, timeout=timeout, stream=False)

    def _send_now(
        self, method: str, path: str, body: Any, *, timeout: float, stream: bool
    ) -> Reply:
        with needs("ollama"):
            http = transport.HTTPX.pool().http
        reply = http.send(self._request_of(http, method, path, body, timeout), stream=stream)
        if not reply.is_success:
            reply.read()
            raise self._refused(reply)
        return cast("Reply", reply)

    async def _asend(
        self, method: str, path: str, body: Any, *, timeout: float, stream: bool
    ) -> Reply:
        with needs("ollama"):
            http = (await transport.HTTPX.apool()).http
        reply = await http.send(self._request_of(http, method, path, body, timeout), stream=stream)
        if not reply.is_success:
            await reply.aread()
            raise self._refused(reply)
        return cast("Reply", reply)

    def _request_of(
        self,
        http: httpx.Client | httpx.AsyncClient,
        method: str,
        path: str,
        body: Any,
        timeout: float,
    ) -> httpx.Request:
        content = None if body is None else encoded(body)
        url = f"{self.base_url}{path}"
        return http.build_request(
            method, url, content=content, headers=self._headers(), timeout=timeout
        )

    def _headers(self) -> dict[str, str]:
        key = {"authorization": f"Bearer {self.require_key()}"} if self.api_key else {}
        return {"content-type": "application/json", **key}

    def _refused(self, reply: httpx.Response) -> ProviderError:
        try:
            body = parsed(reply.content)
        except ValueError:
            if reply.status_code == 404:  # Ollama's own 404 says in JSON which model is missing
                return self._not_the_api(cast("Reply", reply), "JSON")
            body = reply.text
        error = from_status(reply.status_code, body, reply.headers)
        if isinstance(error, ModelNotFoundError):
            error.args = (f"{error.message}. To install it: ollama pull {self.model}",)
        return error

    def map_error(self, error: Exception) -> ProviderError | None:
        """Connection trouble by kind; statuses are mapped where they arrive."""
        import httpx

        return from_connection(
            httpx,
            error,
            where=str(self.base_url),
            advice="Is Ollama running (ollama serve), and base_url or OLLAMA_HOST right?",
        )


def _embedded(body: Any) -> EmbeddingReply:
    vectors = body.get("embeddings") if isinstance(body, dict) else None
    if not isinstance(vectors, list):
        raise from_status(200, body)
    return EmbeddingReply(vectors, body.get("prompt_eval_count"), body.get("model") or "")


def _warn_if_cut(request: Request, response: LLMResponse) -> None:
    settings = request.settings
    options: Mapping[str, Any] = settings.get("options") or {}
    window = settings.get("num_ctx") or options.get("num_ctx")
    read, sent = response.usage.input_tokens, sum(len(m.text) for m in request.messages)
    too_long = sent > _CHARACTERS_PER_TOKEN * max(read, _SMALLEST_WINDOW)
    full = isinstance(window, int) and read >= window
    if read and (full or too_long):
        # With warnings turned into errors, this one must not lose an answer that is there.
        with suppress(PromptCutWarning):
            warnings.warn(
                f"Ollama read {read} tokens of a prompt of {sent} characters, so its context "
                f"window ({window or 'its default'}) was full and the prompt was cut: raise it "
                'with options={"num_ctx": ...}',
                PromptCutWarning,
                stacklevel=2,
            )


__all__ = ["OllamaProvider", "PromptCutWarning", "StreamDecoder", "from_wire", "to_wire"]
