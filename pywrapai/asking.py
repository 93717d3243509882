"""How a call is made: cached, single-flighted, tried again, fallen back, and counted. As flows.

`LLM` is the face; this is what all its faces share. Nothing here knows sync from async.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from pywrapai.cache.flight import SingleFlight, waiting
from pywrapai.cache.key import request_key
from pywrapai.cache.recall import Recall
from pywrapai.cache.store import BaseCache
from pywrapai.core.base import LLMResponse, Request, StreamEvent
from pywrapai.core.flow import Flow, Step, StreamFlow, blocking
from pywrapai.core.retry import RetryPolicy, attempts
from pywrapai.core.stream import StreamRecord
from pywrapai.exceptions import (
    ConfigurationError,
    ContextLengthError,
    InvalidRequestError,
    ProviderError,
    PyWrapAIError,
    StreamInterruptedError,
)
from pywrapai.providers import BaseLLM
from pywrapai.tokens import Cost, TokenTracker, price_call

T = TypeVar("T")
Y = TypeVar("Y")

log = logging.getLogger("pywrapai")


@dataclass(frozen=True, slots=True)
class Source:
    """One model that may answer, with its own settings and retries."""

    provider: BaseLLM
    retry: RetryPolicy
    settings: Mapping[str, Any]
    timeout: float | None = None
    """Seconds, where they are not the provider's own."""

    def ask(self, request: Request) -> Flow[LLMResponse]:
        """One request of this model."""
        addressed = self._addressed(request)
        if request.schema is not None:
            return self.provider.structured_flow(addressed)
        return self.provider.chat_flow(addressed)

    def stream(
        self, request: Request, record: StreamRecord
    ) -> StreamFlow[StreamEvent, LLMResponse]:
        """One streamed request of this model."""
        return self.provider.stream_flow(self._addressed(request), record)

    def attempts(
        self,
        attempt: Callable[[], Generator[Y, Any, T]],
        record: StreamRecord | None = None,
    ) -> Generator[Y | Step, Any, T]:
        """The attempt's result, tried again by the policy until its stream has begun."""
        try:
            return (
                yield from attempts(
                    self.retry, attempt, begun=lambda: record is not None and record.begun
                )
            )
        except ProviderError as error:
            error.about(provider=self.provider.name, model=self.provider.model)
            raise

    def _addressed(self, request: Request) -> Request:
        """The request as this model gets it: its own settings, and what the call overrides."""
        timeout = self.timeout if request.timeout is None else request.timeout
        ours = request.settings is self.settings and request.model == self.provider.model
        if ours and timeout == request.timeout:
            return request
        return replace(
            request,
            timeout=timeout,
            model=self.provider.model,
            settings=settings_of_call(self.settings, request.overrides),
        )


@dataclass(frozen=True, slots=True)
class Asking:
    """A model with its fallbacks, its cache and its tracker."""

    sources: tuple[Source, ...]
    """The first is asked first."""
    tracker: TokenTracker
    cache: BaseCache | None = None
    flights: SingleFlight[LLMResponse] = field(default_factory=SingleFlight)
    recall: Recall = field(default_factory=Recall)

    def mark(self, *given: Any) -> bytes | None:
        """The mark by which `recalled` knows an input; None where there is nothing to recall."""
        return None if self.cache is None or self.cache.blocks else self.recall.mark(*given)

    def recalled(self, mark: bytes) -> LLMResponse | None:
        """The answer that an equal input got before, if the cache still has it."""
        key = self.recall.key(mark)
        if key is None or self.cache is None:
            return None
        try:
            kept = self.cache.get(key)
        except Exception:
            return None  # the call itself will meet it again, and warn
        return None if kept is None else _own_copy(kept)

    def chat(
        self,
        request: Request,
        keep: Callable[[LLMResponse], bool] = lambda response: True,
        mark: bytes | None = None,
    ) -> Flow[LLMResponse]:
        """One answer, from the cache if it is there; `keep` says whether it may go there, and by
        the `mark` of its input it is recalled.
        """
        cache = self.cache
        if cache is None:
            return (yield from self._answer(request))[0]
        first = self.sources[0].provider
        key = request_key(request, provider=first.name, base_url=first.base_url)
        if mark is not None:
            self.recall.remember(mark, key)
        if not cache.blocks and (kept := (yield from _from_cache(cache, key))) is not None:
            return _own_copy(kept)
        flight = self.flights.board(key)
        if flight is None:
            return (yield from self._fly(cache, key, request, keep))
        shared = yield from waiting(flight)
        if shared is not None:
            return _own_copy(shared)
        return (yield from self._answer(request))[0]

    def _fly(
        self,
        cache: BaseCache,
        key: str,
        request: Request,
        keep: Callable[[LLMResponse], bool],
    ) -> Flow[LLMResponse]:
        """Look and ask for all who want the same answer at once."""
        shared: LLMResponse | None = None
        try:
            # Looking comes after boarding: whoever landed before has put his answer there.
            shared = yield from _from_cache(cache, key)
            if shared is not None:
                return _own_copy(shared)
            response, source = yield from self._answer(request)
            if source is self.sources[0] and _complete(response) and keep(response):
                shared = response
                yield from _into_cache(cache, key, response)
            return response
        finally:
            self.flights.land(key, shared)

    def _answer(self, request: Request) -> Flow[tuple[LLMResponse, Source]]:
        failures: list[PyWrapAIError] = []
        for source in self.sources:
            started = perf_counter()
            try:
                response = yield from source.attempts(partial(source.ask, request))
            except PyWrapAIError as error:
                if isinstance(error, ProviderError) and error.response is not None:
                    error.response = self._account(error.response, source, _ms_since(started))
                if self._is_last_word(error, source):
                    _add_notes(error, failures)
                    raise
                error.duration_ms = _ms_since(started)
                failures.append(error)
            else:
                answer = self._account(response, source, _ms_since(started))
                return _with_earlier(failures, answer), source
        raise AssertionError("unreachable: the last source answers or raises")

    def stream(self, request: Request, record: StreamRecord) -> StreamFlow[StreamEvent, None]:
        """An answer's events as they come; the whole response is in the record at the end."""
        failures: list[PyWrapAIError] = []
        for source in self.sources:
            started = perf_counter()
            try:
                yield from self._streamed(source, request, record)
                record.response = record.response and _with_earlier(failures, record.response)
                break
            except PyWrapAIError as error:
                if record.begun and isinstance(error, ProviderError):
                    raise _interrupted(error, record, failures) from error
                if isinstance(error, ProviderError) and error.response is None:
                    error.response = record.response
                if self._is_last_word(error, source):
                    _add_notes(error, failures)
                    raise
                error.duration_ms = _ms_since(started)
                failures.append(error)

    def _streamed(
        self, source: Source, request: Request, record: StreamRecord
    ) -> StreamFlow[StreamEvent, None]:
        try:
            yield from source.attempts(partial(source.stream, request, record), record)
        finally:
            known = record.response
            answered = known is not None and (record.begun or known.finish_reason is not None)
            if sys.is_finalizing():  # a stream left open to the end of the program
                answered = False  # nobody can read what it cost, and no price can be looked up
            record.response = (
                self._account(known, source, record.duration_ms) if known and answered else None
            )

    def _is_last_word(self, error: PyWrapAIError, source: Source) -> bool:
        """Whether no other model is asked: there is none, or it would fail in the same way."""
        hopeless = isinstance(error, (InvalidRequestError, ConfigurationError))
        too_long = isinstance(error, ContextLengthError)  # another may have a larger window
        return source is self.sources[-1] or (hopeless and not too_long)

    def _account(self, response: LLMResponse, source: Source, duration_ms: float) -> LLMResponse:
        """The response with its price, counted."""
        provider, usage = source.provider.name, response.usage
        model = response.model or source.provider.model
        cost = _own_price(response) or price_call(
            model,
            usage.input_tokens,
            usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            provider=provider,
        )
        self.tracker.record(
            model,
            usage.input_tokens,
            usage.output_tokens,
            provider=provider,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            duration_ms=duration_ms,
            cost_usd=cost.usd,
            priced=cost.priced,
        )
        return replace(
            response,
            model=model,
            provider=provider,
            duration_ms=duration_ms,
            cost_usd=cost.usd,
            priced=cost.priced,
        )


def settings_of_call(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A model's settings for one call; an override of None leaves the setting out."""
    both = {**settings, **overrides}
    return {name: value for name, value in both.items() if value is not None}


def _own_price(response: LLMResponse) -> Cost | None:
    """What a provider of the user's own says that its answer cost."""
    return Cost(response.cost_usd, True) if response.cost_usd else None


def _from_cache(cache: BaseCache, key: str) -> Flow[LLMResponse | None]:
    try:
        if not cache.blocks:
            return cache.get(key)
        return (yield from blocking(cache.get, key))
    except Exception as error:
        log.warning("the cache cannot be read, the model is asked instead: %r", error)
        return None


def _into_cache(cache: BaseCache, key: str, response: LLMResponse) -> Flow[None]:
    kept = _own_copy(response)
    try:
        if not cache.blocks:
            cache.set(key, kept)
        else:
            yield from blocking(cache.set, key, kept)
    except Exception as error:
        log.warning("the cache cannot be written, the answer is not kept: %r", error)


def _complete(response: LLMResponse) -> bool:
    """Whether the answer is worth keeping: not cut off, and no wish for a tool."""
    return response.finish_reason == "stop" and not response.tool_calls


def _own_copy(response: LLMResponse) -> LLMResponse:
    """What a caller gets of an answer that others have too: free, and his to change."""
    calls = None if response.tool_calls is None else list(response.tool_calls)
    return replace(
        response,
        cached=True,
        cost_usd=0.0,
        tool_calls=calls,
        provider_data=deepcopy(response.provider_data),
        raw=None,
        earlier=(),
    )


def _with_earlier(failures: list[PyWrapAIError], response: LLMResponse) -> LLMResponse:
    return replace(response, earlier=tuple(failures)) if failures else response


def _add_notes(error: PyWrapAIError, failures: list[PyWrapAIError]) -> None:
    if failures:
        error.earlier = tuple(failures)
    for failure in failures:
        error.add_note(f"before that, {failure.provider}/{failure.model}: {failure!r}")


def _interrupted(
    error: ProviderError, record: StreamRecord, failures: list[PyWrapAIError]
) -> StreamInterruptedError:
    text = record.response.content if record.response else ""
    return StreamInterruptedError(
        f"the stream broke after {len(text)} characters: {error.message}",
        partial=text,
        response=record.response,
        provider=error.provider,
        model=error.model,
        status_code=error.status_code,
        request_id=error.request_id or (record.response and record.response.request_id),
        earlier=tuple(failures),
    )


def _ms_since(started: float) -> float:
    return (perf_counter() - started) * 1000.0
