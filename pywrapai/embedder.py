"""Embedder: texts into vectors, called the same way whoever makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pywrapai.core import flow
from pywrapai.core.checks import at_least_1, timeout_seconds
from pywrapai.core.closing import Closing
from pywrapai.core.flow import Flow
from pywrapai.core.progress import progress
from pywrapai.core.retry import RetryPolicy, attempts
from pywrapai.core.text import well_formed
from pywrapai.core.vectors import checked_vectors, numpy_for_arrays, shortened, to_lists
from pywrapai.exceptions import ProviderError, ServerError
from pywrapai.providers import embedder_class
from pywrapai.providers.embedding import EmbeddingProvider, EmbeddingReply
from pywrapai.tokens import TokenTracker

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array, Vectors

# No tokenizer makes more tokens of a text than it has bytes, so that no request goes over the
# 300,000 tokens that OpenAI allows, nor over the few megabytes that others do.
_MAX_BYTES = 300_000
# Where every text is blank, a vector of this tells how many dimensions there are.
_PLACEHOLDER = "."


class Embedder(Closing):
    """One embedding model of one provider. May be shared by threads and by tasks.

    A blank text is never sent, because providers refuse it and with it all texts of its request.
    It gets a vector of zeros, which stores score 0: one empty page does not stop the indexing of
    a thousand, and is never found.

    Args:
        provider: "openai", "gemini", "ollama", "lmstudio", "local", another name that
            `pywrapai.providers` knows, or an EmbeddingProvider.
        model: the provider's name for the model; its default embedding model if left out.
        api_key: the key; by default from the provider's environment variable.
        base_url: where the provider is, if not where its SDK looks.
        track_tokens: count requests, tokens and cost in `tokens`.
        batch_size: the most texts in one request; the provider may allow fewer.
        dimensions: how many numbers a vector has; sent only if given. Where the model has more
            of them, the vectors are cut; in either case they are brought to length 1.
        timeout: seconds to wait for the first byte of each reply.
        max_retries: further attempts at a request after a failure that may pass.
        show_progress: a progress bar on stderr for work that takes more than half a second.
    """

    def __init__(
        self,
        provider: str | EmbeddingProvider,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        track_tokens: bool = True,
        batch_size: int = 100,
        dimensions: int | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        show_progress: bool = False,
    ) -> None:
        self._timeout = timeout = timeout_seconds(timeout)
        self._dimensions = None if dimensions is None else at_least_1("dimensions", dimensions)
        self._retry = RetryPolicy(max_retries)
        if isinstance(provider, str):
            self._provider = _made(provider, model, api_key, base_url, timeout)
        else:
            self._provider = _ready_made(provider, model, api_key, base_url)
        self._batch_size = min(at_least_1("batch_size", batch_size), self._provider.max_texts)
        self._track_tokens = track_tokens
        self._show_progress = show_progress
        self._tokens = TokenTracker()

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider.name

    @property
    def model(self) -> str:
        """The model's name, as the provider knows it."""
        return self._provider.model

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; None where it is left to the model."""
        return self._dimensions

    @property
    def batch_size(self) -> int:
        """The most texts in one request."""
        return self._batch_size

    @property
    def tokens(self) -> TokenTracker:
        """What the requests so far used and cost; nothing with `track_tokens=False`."""
        return self._tokens

    def embed(self, texts: Iterable[str]) -> list[list[float]]:
        """A vector for each text, in the order of the texts.

        Raises:
            TypeError: for one string, and for an item that is none, before any network.
            ProviderError: one of its kinds, when a request failed for good; its notes say which
                texts it was about.
        """
        return flow.run(self.lists_flow(_checked_texts(texts)))

    async def aembed(self, texts: Iterable[str]) -> list[list[float]]:
        """`embed`, awaited."""
        return await flow.arun(self.lists_flow(_checked_texts(texts)))

    def embed_one(self, text: str) -> list[float]:
        """The vector of one text. Raises what `embed` raises."""
        return flow.run(self.lists_flow([_one_text(text)]))[0]

    async def aembed_one(self, text: str) -> list[float]:
        """`embed_one`, awaited."""
        return (await flow.arun(self.lists_flow([_one_text(text)])))[0]

    def embed_array(self, texts: Iterable[str]) -> Array:
        """`embed` as a float32 numpy array of shape (texts, dimensions), with no lists in between.

        No texts give the shape (0, dimensions), or (0, 0) where `dimensions` was not given.
        """
        return flow.run(self.array_flow(_checked_texts(texts)))

    async def aembed_array(self, texts: Iterable[str]) -> Array:
        """`embed_array`, awaited."""
        return await flow.arun(self.array_flow(_checked_texts(texts)))

    def close(self) -> None:
        """Give back connections. The Embedder may be used again and then opens new ones."""
        self._provider.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        aclose = getattr(self._provider, "aclose", None)
        if aclose is None:
            self._provider.close()
        else:
            await aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(provider={self.provider!r}, model={self.model!r})"

    def lists_flow(self, texts: list[str]) -> Flow[list[list[float]]]:
        """`embed` as a flow, for a layer above that adds to it."""
        rows: list[list[float]] = []

        def put(places: list[int], vectors: Vectors) -> None:
            if not rows:
                rows.extend([0.0] * len(vectors[0]) for _ in texts)
            if places:
                for place, vector in zip(places, to_lists(vectors), strict=True):
                    rows[place] = vector

        yield from self._embed(texts, put)
        return rows

    def array_flow(self, texts: list[str]) -> Flow[Array]:
        """`embed_array` as a flow, for a layer above that adds to it."""
        numpy = numpy_for_arrays()
        rows: Array = numpy.empty((0, self._dimensions or 0), dtype=numpy.float32)

        def put(places: list[int], vectors: Vectors) -> None:
            nonlocal rows
            if len(places) == len(texts):
                rows = numpy.asarray(vectors, dtype=numpy.float32)
                return
            if not len(rows):
                rows = numpy.zeros((len(texts), len(vectors[0])), dtype=numpy.float32)
            if places:
                rows[places] = vectors

        yield from self._embed(texts, put)
        return rows

    def _embed(self, texts: list[str], put: Callable[[list[int], Vectors], None]) -> Flow[None]:
        """Ask batch by batch, and `put` each one's vectors in the places of its texts."""
        if not texts:
            return
        spoken = [place for place, text in enumerate(texts) if text and not text.isspace()]
        batches = list(_batches(texts, spoken, self._batch_size)) or [[]]
        size: int | None = None
        shown = self._show_progress and len(batches) > 1
        with progress(len(spoken), "text", shown=shown) as advance:
            for places in batches:
                try:
                    vectors = yield from self._batch([texts[place] for place in places])
                    size = _same_size(size, len(vectors[0]))
                except ProviderError as error:
                    error.about(provider=self.provider, model=self.model)
                    if len(batches) > 1:
                        error.add_note(f"in texts {places[0]} to {places[-1]} of {len(texts)}")
                    raise
                put(places, vectors)
                advance(len(places))

    def _batch(self, texts: list[str]) -> Flow[Vectors]:
        asked = [well_formed(text) for text in texts] or [_PLACEHOLDER]
        return attempts(self._retry, partial(self._ask, asked))

    def _ask(self, texts: list[str]) -> Flow[Vectors]:
        started = perf_counter()
        reply = yield from self._provider.embed_flow(
            texts, dimensions=self._dimensions, timeout=self._timeout
        )
        if self._track_tokens:
            self._count(reply, texts, (perf_counter() - started) * 1000.0)
        vectors = checked_vectors(reply.vectors, len(texts))
        return vectors if self._dimensions is None else shortened(vectors, self._dimensions)

    def _count(self, reply: EmbeddingReply, texts: list[str], duration_ms: float) -> None:
        tokens = reply.input_tokens
        self._tokens.record(
            reply.model or self.model,
            estimated_tokens(texts) if tokens is None else tokens,
            0,
            "embedding",
            provider=self.provider,
            duration_ms=duration_ms,
        )


def estimated_tokens(texts: Iterable[str]) -> int:
    """Four characters to a token, rounded up, for a provider that does not say."""
    return -(-sum(map(len, texts)) // 4)


def _batches(texts: list[str], places: list[int], most: int) -> Iterator[list[int]]:
    """The places in runs of at most so many texts, and bytes unless one text alone has more."""
    batch: list[int] = []
    held = 0
    for place in places:
        size = _bytes(texts[place])
        if batch and (len(batch) == most or held + size > _MAX_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(place)
        held += size
    if batch:
        yield batch


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _same_size(before: int | None, now: int) -> int:
    if before is not None and now != before:
        raise ServerError(f"the server sent vectors of {before} numbers, and then of {now}")
    return now


def _checked_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError("embed takes a list of texts; for one text use embed_one(text)")
    given = list(texts)
    for place, text in enumerate(given):
        if not isinstance(text, str):
            raise TypeError(f"texts[{place}] is {type(text).__name__}; expected a str")
    return given


def _one_text(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"embed_one takes one text, not {type(text).__name__}; embed takes a list")
    return text


def _made(
    name: str, model: str | None, api_key: str | None, base_url: str | None, timeout: float
) -> EmbeddingProvider:
    cls = embedder_class(name)
    chosen = model or cls.default_embedding_model
    if not chosen:
        raise ValueError(f"provider {name!r} has no default embedding model: give model=...")
    made: EmbeddingProvider = cls(model=chosen, api_key=api_key, base_url=base_url, timeout=timeout)
    return made


def _ready_made(provider: Any, *settings: str | None) -> EmbeddingProvider:
    if not callable(getattr(provider, "embed_flow", None)):
        raise TypeError(f"provider is a name or an EmbeddingProvider, not {provider!r:.80}")
    if any(setting is not None for setting in settings):
        raise ValueError(
            "model, api_key and base_url belong to the provider, and this one is made already: "
            f"give them to {type(provider).__name__}(...)"
        )
    made: EmbeddingProvider = provider
    return made
