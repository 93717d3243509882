"""LLM: one model, called the same way whoever serves it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from itertools import count
from time import perf_counter
from typing import Any, Self, TypeVar

from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, Message, Request, Role, StreamEvent
from pywrapai.core.flow import Emit, Flow, Step, StreamFlow
from pywrapai.core.messages import MessageInput, system_text, to_messages
from pywrapai.core.retry import RetryPolicy
from pywrapai.core.stream import AsyncTextStream, StreamRecord, TextStream
from pywrapai.exceptions import ProviderError, StreamInterruptedError
from pywrapai.providers import BaseLLM, provider_class
from pywrapai.tokens import TokenTracker, price_call

T = TypeVar("T")
Y = TypeVar("Y")
_OF_THE_LLM = frozenset(
    {"model", "provider", "api_key", "base_url", "system_prompt", "max_retries"}
)


class LLM:
    """One model of one provider. May be shared by threads and by tasks.

    Args:
        provider: a name ("openai", "local", or one given to `register_provider`), or a BaseLLM.
        model: the provider's name for the model; its default model if left out.
        api_key: the key; by default from the provider's environment variable.
        base_url: where the provider is, if not where its SDK looks.
        system_prompt: goes first, unless the messages bring a SYSTEM message of their own.
        temperature: sent only if given.
        max_tokens: the most output tokens; sent only if given.
        timeout: seconds to wait for the first byte and between two chunks.
        max_retries: further attempts after a failure that may pass. 0 is exactly one request.
        tracker: where calls are counted; one of its own by default.
        options: anything else that goes into every request as it is, such as {"seed": 1}.
    """

    def __init__(
        self,
        provider: str | BaseLLM,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        system_prompt: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        tracker: TokenTracker | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._timeout = _positive(timeout)
        self._retry = RetryPolicy(max_retries)
        if isinstance(provider, BaseLLM):
            self._provider = provider
        else:
            self._provider = provider_class(provider)(
                model=model, api_key=api_key, base_url=base_url, timeout=timeout
            )
        self.system_prompt = system_prompt
        self._system = (Message(Role.SYSTEM, system_prompt),) if system_prompt else ()
        given = {"temperature": temperature, "max_tokens": max_tokens}
        self._settings = {**(options or {}), **{k: v for k, v in given.items() if v is not None}}
        self._tracker = TokenTracker() if tracker is None else tracker

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider.name

    @property
    def model(self) -> str:
        """The model's name, as the provider knows it."""
        return self._provider.model

    @property
    def tokens(self) -> TokenTracker:
        """What the calls so far used and cost."""
        return self._tracker

    def chat(
        self,
        messages: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **overrides: Any,
    ) -> LLMResponse:
        """Ask, and wait for the whole answer.

        Args:
            messages: a string, a Message, or a list of Message or OpenAI-style dicts.
            tools: neutral tool definitions, `{"name", "description", "parameters"}` each.
            tool_choice: "auto", "required", "none", or the name of one of the tools.
            overrides: `temperature`, `max_tokens`, `timeout`, or any option, for this call alone.

        Raises:
            ValueError: for input that no provider could take, before any network.
            ProviderError: one of its kinds, when the call failed for good.
        """
        request = self.request(messages, tools, tool_choice, **overrides)
        return flow.run(self.chat_flow(request))

    async def achat(
        self,
        messages: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **overrides: Any,
    ) -> LLMResponse:
        """`chat`, awaited."""
        return await flow.arun(
            self.chat_flow(self.request(messages, tools, tool_choice, **overrides))
        )

    def stream(self, messages: MessageInput, **overrides: Any) -> TextStream:
        """Ask, and read the answer's text as it comes; its `.response` has the rest at the end.

        Raises what `chat` raises, and StreamInterruptedError if the stream breaks in the middle.
        """
        refuse_tools(overrides)
        request, record = self.request(messages, **overrides), StreamRecord()
        return TextStream(flow.stream(self.stream_flow(request, record)), record)

    def astream(self, messages: MessageInput, **overrides: Any) -> AsyncTextStream:
        """`stream`, for `async for`."""
        refuse_tools(overrides)
        request, record = self.request(messages, **overrides), StreamRecord()
        return AsyncTextStream(flow.astream(self.stream_flow(request, record)), record)

    def close(self) -> None:
        """Give back connections. The LLM may be used again and then opens new ones."""
        self._provider.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self._provider.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"LLM(provider={self.provider!r}, model={self.model!r})"

    def request(
        self,
        messages: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **overrides: Any,
    ) -> Request:
        """The call that `chat` would make of this, checked; raises what `chat` raises for it."""
        turns = to_messages(messages)
        if self._system and system_text(turns) is None:
            turns = self._system + turns
        _check_tools(tools, tool_choice)
        if misplaced := _OF_THE_LLM & overrides.keys():
            raise TypeError(f"{', '.join(sorted(misplaced))} belongs to LLM(...), not to one call")
        timeout = _positive(overrides.pop("timeout", self._timeout))
        settings = {**self._settings, **overrides} if overrides else self._settings
        return Request(self.model, turns, tools or None, tool_choice, settings, timeout)

    def chat_flow(self, request: Request) -> Flow[LLMResponse]:
        """`chat` as a flow, for a layer above that adds to it."""
        started = perf_counter()
        try:
            response = yield from self._attempts(lambda: self._provider.chat_flow(request))
        except ProviderError as error:
            if error.response is not None:
                error.response = self._account(error.response, _ms_since(started))
            raise
        return self._account(response, _ms_since(started))

    def stream_flow(self, request: Request, record: StreamRecord) -> StreamFlow[StreamEvent, None]:
        """`stream` as a flow, with all events, for a layer above that adds to it."""
        provider = self._provider
        try:
            yield from self._attempts(lambda: provider.stream_flow(request, record), record)
        except ProviderError as error:
            if not record.begun:
                raise
            raise _interrupted(error, record) from error
        finally:
            answered = record.response
            if answered is not None and (record.begun or answered.finish_reason is not None):
                record.response = self._account(answered, record.duration_ms)
        if record.response is not None:
            yield Emit(record.response)

    def _attempts(
        self,
        attempt: Callable[[], Generator[Y, Any, T]],
        record: StreamRecord | None = None,
    ) -> Generator[Y | Step, Any, T]:
        """The attempt's result, tried again by the policy until its stream has begun."""
        for number in count(1):
            try:
                return (yield from attempt())
            except ProviderError as error:
                error.about(provider=self.provider, model=self.model)
                wait = self._retry.delay(number, error)
                if wait is None or (record is not None and record.begun):
                    raise
            yield from flow.sleep(wait)
        raise AssertionError("unreachable: count() has no end")

    def _account(self, response: LLMResponse, duration_ms: float) -> LLMResponse:
        """The response with its price, counted."""
        model, usage = response.model or self.model, response.usage
        cost = price_call(
            model,
            usage.input_tokens,
            usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            provider=self.provider,
        )
        self._tracker.record(
            model,
            usage.input_tokens,
            usage.output_tokens,
            provider=self.provider,
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
            provider=self.provider,
            duration_ms=duration_ms,
            cost_usd=cost.usd,
            priced=cost.priced,
        )


def refuse_tools(overrides: dict[str, Any]) -> None:
    """ValueError if a text stream is given tools: their calls are no text."""
    if overrides.pop("tools", None) is not None:
        raise ValueError("a stream gives text alone and takes no tools: use chat(tools=...)")


def _interrupted(error: ProviderError, record: StreamRecord) -> StreamInterruptedError:
    text = record.response.content if record.response else ""
    return StreamInterruptedError(
        f"the stream broke after {len(text)} characters: {error.message}",
        partial=text,
        response=record.response,
        provider=error.provider,
        model=error.model,
        status_code=error.status_code,
        request_id=error.request_id,
    )


def _check_tools(tools: Iterable[Mapping[str, Any]] | None, tool_choice: str | None) -> None:
    if tool_choice is None:
        return
    if not tools:
        raise ValueError(f"tool_choice={tool_choice!r} needs tools=[...] to choose from")
    names = [tool.get("name") for tool in tools]
    if tool_choice not in ("auto", "required", "none", *names):
        raise ValueError(
            f"tool_choice={tool_choice!r} is neither 'auto', 'required', 'none' nor one of the "
            f"tools: {', '.join(map(str, names))}"
        )


def _positive(timeout: Any) -> float:
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout > 0:
        raise ValueError(f"timeout is in seconds and must be above 0, not {timeout!r}")
    return float(timeout)


def _ms_since(started: float) -> float:
    return (perf_counter() - started) * 1000.0
