"""LLM: one model, called the same way whoever serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pywrapai.asking import Asking, Source, settings_of_call
from pywrapai.cache import BaseCache, ResponseCache
from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, Message, Request, Role, StreamEvent
from pywrapai.core.checks import at_least_1, check_tools, timeout_seconds
from pywrapai.core.closing import Closing
from pywrapai.core.flow import Emit, Flow, StreamFlow
from pywrapai.core.messages import MessageInput, system_text, to_messages
from pywrapai.core.retry import RetryPolicy
from pywrapai.core.stream import (
    AsyncEventStream,
    AsyncTextStream,
    EventStream,
    StreamRecord,
    TextStream,
)
from pywrapai.core.structured import Ask, Shape, fitting, shape_of
from pywrapai.providers import BaseLLM, provider_class
from pywrapai.tokens import TokenTracker

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

DEFAULT_TIMEOUT_S = 60.0
_OF_THE_LLM = frozenset(
    {"provider", "model", "api_key", "base_url", "system_prompt", "max_retries", "fallbacks"}
)


class LLM(Closing):
    """One model of one provider. May be shared by threads and by tasks.

    Args:
        provider: a name ("openai", "local", ..., or one given to `register_provider`), or a
            BaseLLM.
        model: the provider's name for the model; its default model if left out.
        api_key: the key; by default from the provider's environment variable.
        base_url: where the provider is, if not where its SDK looks.
        system_prompt: goes first, unless the messages bring a SYSTEM message of their own.
        temperature: sent only if given.
        max_tokens: the most output tokens; sent only if given.
        timeout: seconds to wait for the first byte and between two chunks.
        max_retries: further attempts after a failure that may pass. 0 is exactly one request.
        cache: True keeps the last 1,000 complete answers in memory; or a BaseCache.
        fallbacks: LLMs to ask, in order, when this one fails for a reason that they may not have.
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
        timeout: float = DEFAULT_TIMEOUT_S,
        max_retries: int = 2,
        cache: bool | BaseCache = False,
        fallbacks: Sequence[LLM] = (),
        tracker: TokenTracker | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        timeout = timeout_seconds(timeout)
        if isinstance(provider, str):
            provider = provider_class(provider)(
                model=model, api_key=api_key, base_url=base_url, timeout=timeout
            )
        else:
            _check_ready_made(provider, model, api_key, base_url)
        given = {"temperature": temperature, "max_tokens": max_tokens}
        settings = {**(options or {}), **{k: v for k, v in given.items() if v is not None}}
        self._system = (Message(Role.SYSTEM, system_prompt),) if system_prompt else ()
        # A provider that was made already has a time-out of its own, unless another is asked for.
        own_timeout = None if timeout == DEFAULT_TIMEOUT_S else timeout
        self._source = Source(provider, RetryPolicy(max_retries), settings, own_timeout)
        if isinstance(fallbacks, LLM) or not all(isinstance(llm, LLM) for llm in fallbacks):
            raise TypeError(f"fallbacks is a list of LLM, not {fallbacks!r:.80}")
        others = [source for llm in fallbacks for source in llm._asking.sources]
        self._asking: Asking = Asking(
            (self._source, *others), TokenTracker() if tracker is None else tracker, _cache(cache)
        )

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._source.provider.name

    @property
    def model(self) -> str:
        """The model's name, as the provider knows it."""
        return self._source.provider.model

    @property
    def system_prompt(self) -> str | None:
        """What goes first, unless the messages bring a SYSTEM message of their own."""
        return self._system[0].text if self._system else None

    @property
    def tokens(self) -> TokenTracker:
        """What the calls so far used and cost."""
        return self._asking.tracker

    @property
    def cache(self) -> BaseCache | None:
        """Where answers are kept, if they are."""
        return self._asking.cache

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
        mark = self._asking.mark(messages, tools, tool_choice, overrides)
        if mark is not None and (hit := self._asking.recalled(mark)) is not None:
            return hit
        request = self.request(messages, tools, tool_choice, **overrides)
        return flow.run(self._asking.chat(request, mark=mark))

    async def achat(
        self,
        messages: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **overrides: Any,
    ) -> LLMResponse:
        """`chat`, awaited."""
        mark = self._asking.mark(messages, tools, tool_choice, overrides)
        if mark is not None and (hit := self._asking.recalled(mark)) is not None:
            return hit
        request = self.request(messages, tools, tool_choice, **overrides)
        return await flow.arun(self._asking.chat(request, mark=mark))

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

    def stream_events(
        self,
        messages: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **overrides: Any,
    ) -> EventStream:
        """Ask, and read everything as it comes: TextDelta, ThinkingDelta, each ToolCall once it is
        whole, and the LLMResponse last.
        """
        request = self.request(messages, tools, tool_choice, **overrides)
        record = StreamRecord()
        return EventStream(flow.stream(self.events_flow(request, record)), record)

    def astream_events(
        self,
        messages: MessageInput,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        **overrides: Any,
    ) -> AsyncEventStream:
        """`stream_events`, for `async for`."""
        request = self.request(messages, tools, tool_choice, **overrides)
        record = StreamRecord()
        return AsyncEventStream(flow.astream(self.events_flow(request, record)), record)

    @overload
    def chat_structured(
        self, messages: MessageInput, schema: type[M], *, max_attempts: int = 2, **overrides: Any
    ) -> M: ...

    @overload
    def chat_structured(
        self,
        messages: MessageInput,
        schema: Mapping[str, Any],
        *,
        max_attempts: int = 2,
        **overrides: Any,
    ) -> dict[str, Any]: ...

    def chat_structured(
        self, messages: MessageInput, schema: Any, *, max_attempts: int = 2, **overrides: Any
    ) -> Any:
        """Ask for an answer that fits a schema; the model is held to it where it can be.

        Args:
            messages: as for `chat`.
            schema: a Pydantic model class, whose instance is returned; or a JSON Schema dict, and
                a dict that was validated against it is returned.
            max_attempts: how often to ask; each time with what was wrong before.
            overrides: as for `chat`.

        Raises:
            StructuredOutputError: the last answer does not fit either; with `raw` and `errors`.
            TypeError, ValueError: for a schema that is none.
        """
        request, shape = self.structured_request(messages, schema, overrides)
        return flow.run(self.structured_flow(request, shape, max_attempts))[0]

    @overload
    async def achat_structured(
        self, messages: MessageInput, schema: type[M], *, max_attempts: int = 2, **overrides: Any
    ) -> M: ...

    @overload
    async def achat_structured(
        self,
        messages: MessageInput,
        schema: Mapping[str, Any],
        *,
        max_attempts: int = 2,
        **overrides: Any,
    ) -> dict[str, Any]: ...

    async def achat_structured(
        self, messages: MessageInput, schema: Any, *, max_attempts: int = 2, **overrides: Any
    ) -> Any:
        """`chat_structured`, awaited."""
        request, shape = self.structured_request(messages, schema, overrides)
        return (await flow.arun(self.structured_flow(request, shape, max_attempts)))[0]

    def structured_request(
        self, messages: MessageInput, schema: Any, overrides: dict[str, Any]
    ) -> tuple[Request, Shape]:
        """The call that `chat_structured` would make of this, checked, and what must come of it."""
        if overrides.get("tools") or overrides.get("tool_choice"):
            raise ValueError("chat_structured takes no tools: use chat(tools=...), then ask for it")
        return self.request(messages, **overrides), shape_of(schema)

    def models(self) -> list[str]:
        """The names of the models that the provider offers, sorted."""
        return flow.run(self._source.attempts(self._source.provider.models_flow))

    async def amodels(self) -> list[str]:
        """`models`, awaited."""
        return await flow.arun(self._source.attempts(self._source.provider.models_flow))

    def close(self) -> None:
        """Give back connections. The LLM may be used again and then opens new ones."""
        self._source.provider.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self._source.provider.aclose()

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
        check_tools(tools, tool_choice)
        if misplaced := _OF_THE_LLM & overrides.keys():
            raise TypeError(f"{', '.join(sorted(misplaced))} belongs to LLM(...), not to one call")
        timeout = timeout_seconds(overrides.pop("timeout")) if "timeout" in overrides else None
        own = self._source.settings
        return Request(
            self.model,
            turns,
            tools or None,
            tool_choice,
            settings_of_call(own, overrides) if overrides else own,
            timeout,
            overrides=overrides,
        )

    def chat_flow(
        self, request: Request, keep: Callable[[LLMResponse], bool] = lambda response: True
    ) -> Flow[LLMResponse]:
        """`chat` as a flow, for a layer above that adds to it; `keep` says what may be cached."""
        return self._asking.chat(request, keep)

    def stream_flow(self, request: Request, record: StreamRecord) -> StreamFlow[StreamEvent, None]:
        """A stream as a flow, for a layer above that adds to it: the deltas and the tool calls.

        The whole response is in the record at the end.
        """
        return self._asking.stream(request, record)

    def events_flow(self, request: Request, record: StreamRecord) -> StreamFlow[StreamEvent, None]:
        """`stream_flow`, with the whole response as its last event."""
        yield from self.stream_flow(request, record)
        if record.response is not None:
            yield Emit(record.response)

    def structured_flow(
        self, request: Request, shape: Shape, max_attempts: int, ask: Ask | None = None
    ) -> Flow[tuple[Any, list[LLMResponse]]]:
        """`chat_structured` as a flow: the value, and every response that led to it.

        Whatever is raised has those responses, too, as `responses`: they were paid for. A layer
        above may `ask` in place of `chat_flow`.
        """
        at_least_1("max_attempts", max_attempts)
        responses: list[LLMResponse] = []
        try:
            value = yield from fitting(
                request, shape, max_attempts, ask or self.chat_flow, responses.append
            )
        except BaseException as error:
            error.__dict__["responses"] = tuple(responses)
            raise
        return value, responses


def refuse_tools(overrides: dict[str, Any]) -> None:
    """ValueError if a text stream is given tools: their calls are no text."""
    if overrides.pop("tools", None) is not None:
        raise ValueError(
            "a stream of text takes no tools: use stream_events(tools=...) or chat(tools=...)"
        )


def _check_ready_made(provider: Any, *settings: str | None) -> None:
    if not isinstance(provider, BaseLLM):
        raise TypeError(f"provider is a name or a BaseLLM, not {provider!r:.80}")
    if any(setting is not None for setting in settings):
        raise ValueError(
            "model, api_key and base_url belong to the provider, and this one is made already: "
            f"give them to {type(provider).__name__}(...)"
        )


def _cache(cache: bool | BaseCache) -> BaseCache | None:
    if isinstance(cache, bool):
        return ResponseCache() if cache else None
    if not isinstance(cache, BaseCache):
        raise TypeError(f"cache is True, False or a BaseCache, not {cache!r:.80}")
    return cache
