from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from pywrapai import (
    LLM,
    BaseLLM,
    ConfigurationError,
    LLMResponse,
    Message,
    Role,
    ServerError,
    StreamEnd,
    StreamInterruptedError,
    TextDelta,
    TokenTracker,
    TokenUsage,
    ToolCall,
    register_provider,
)
from pywrapai.testing import StubProvider

# The provider below is nobody's price list's.
pytestmark = pytest.mark.filterwarnings("ignore::pywrapai.tokens.pricing.UnpricedModelWarning")

TOOL: dict[str, Any] = {"name": "f", "description": "", "parameters": {"type": "object"}}


class Echo(BaseLLM):
    """The provider that a user writes: four methods, and nothing of ours but the base class."""

    name = "echo"
    default_model = "echo-1"
    closed = 0

    def chat(self, messages, tools=None, tool_choice=None, **settings):
        self.seen = (messages, tools, tool_choice, settings)
        return LLMResponse(messages[-1].content.upper(), usage=TokenUsage(3, 2))

    async def achat(self, messages, tools=None, tool_choice=None, **settings):
        await asyncio.sleep(0)
        return self.chat(messages, tools, tool_choice, **settings)

    def stream(self, messages, **settings) -> Iterator[str | StreamEnd]:
        try:
            yield from messages[-1].content
            yield StreamEnd(TokenUsage(3, 2), "length")
        finally:
            self.closed += 1

    async def astream(self, messages, **settings) -> AsyncIterator[str | StreamEnd]:
        try:
            for letter in messages[-1].content:
                await asyncio.sleep(0)
                yield letter
            yield StreamEnd(TokenUsage(3, 2), "length")
        finally:
            self.closed += 1


async def test_a_provider_of_ones_own_needs_four_methods():
    llm = LLM(Echo("loud"))

    for response in (llm.chat("hey"), await llm.achat("hey")):
        assert response.content == "HEY"
        assert response.model == "loud"
        assert response.provider == "echo"
    assert llm.tokens.total_tokens == 10


async def test_its_streams_end_with_what_the_text_does_not_say():
    llm = LLM(Echo())
    pieces, apieces = llm.stream("hey"), llm.astream("hey")

    assert list(pieces) == [piece async for piece in apieces] == ["h", "e", "y"]
    for response in (pieces.response, apieces.response):
        assert response is not None
        assert response.content == "hey"
        assert response.usage == TokenUsage(3, 2)
        assert response.finish_reason == "length"


async def test_its_streams_are_closed_when_the_reader_leaves():
    provider = Echo()
    llm = LLM(provider)

    with llm.stream("hey") as pieces:
        next(pieces)
    async with llm.astream("hey") as apieces:
        await anext(apieces)

    assert provider.closed == 2
    assert pieces.response is not None
    assert pieces.response.content == "h"
    assert pieces.response.finish_reason is None
    assert llm.tokens.total_calls == 2


def test_it_gets_only_the_settings_that_were_given():
    provider = Echo()

    LLM(provider).chat("hey")
    assert provider.seen == ([Message(Role.USER, "hey")], None, None, {})

    LLM(provider, temperature=0.0, options={"seed": 1}).chat("hey", [TOOL], "f", max_tokens=5)
    assert provider.seen[1:] == ([TOOL], "f", {"seed": 1, "temperature": 0.0, "max_tokens": 5})


def test_it_may_be_registered_under_a_name():
    register_provider("echo", Echo)

    llm = LLM("echo", api_key="k", base_url="http://x", timeout=3)

    assert (llm.provider, llm.model) == ("echo", "echo-1")
    assert llm.chat("hey").content == "HEY"


@pytest.mark.parametrize("name", ["model", "api_key", "base_url"])
def test_what_belongs_to_a_provider_is_refused_beside_an_instance(name):
    with pytest.raises(ValueError, match="Echo"):
        LLM(Echo(), **{name: "x"})


def test_an_override_of_none_leaves_a_setting_out():
    provider = Echo()

    LLM(provider, temperature=0.5, max_tokens=9).chat("hey", temperature=None)

    assert provider.seen[3] == {"max_tokens": 9}


def test_what_a_provider_says_that_it_cost_is_believed():
    class Priced(Echo):
        def chat(self, messages, tools=None, tool_choice=None, **settings):
            return LLMResponse("hey", cost_usd=0.25)

    llm = LLM(Priced())

    assert llm.chat("hey").cost_usd == 0.25
    assert llm.tokens.total_cost == 0.25
    assert llm.tokens.unpriced_calls == 0


def test_only_a_provider_can_be_registered():
    with pytest.raises(TypeError, match="BaseLLM"):
        register_provider("x", dict)  # type: ignore[arg-type]


def test_an_unknown_provider_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'nope'.*local, .*openai"):
        LLM("nope")


@pytest.mark.parametrize("timeout", [0, -1, None, "5", float("nan"), True])
def test_a_timeout_must_be_a_positive_number_of_seconds(timeout):
    with pytest.raises(ValueError, match="timeout"):
        LLM("openai", timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        LLM(Echo()).chat("hey", timeout=timeout)


def test_a_negative_max_retries_is_refused():
    with pytest.raises(ValueError, match="max_retries"):
        LLM("openai", max_retries=-1)


@pytest.mark.parametrize("one", [LLM(Echo()), [Echo()]])
def test_fallbacks_that_are_no_list_of_llms_are_refused(one):
    with pytest.raises(TypeError, match="fallbacks is a list of LLM"):
        LLM(Echo(), fallbacks=one)


@pytest.mark.parametrize("tools", [7, "get_weather", {"name": "get_weather"}])
def test_tools_that_are_no_list_are_refused(tools):
    with pytest.raises(TypeError, match="tools is a list of dicts"):
        LLM(Echo()).chat("hey", tools=tools)


@pytest.mark.parametrize("name", ["model", "api_key", "system_prompt", "base_url"])
def test_what_belongs_to_the_llm_is_no_override(name):
    with pytest.raises(TypeError, match=name):
        LLM(Echo()).chat("hey", **{name: "x"})


def test_tool_choice_needs_tools_and_a_known_name():
    llm = LLM(Echo())

    with pytest.raises(ValueError, match="needs tools"):
        llm.chat("hey", tool_choice="auto")
    with pytest.raises(ValueError, match="'g'"):
        llm.chat("hey", tools=[TOOL], tool_choice="g")
    assert llm.chat("hey", tools=[TOOL], tool_choice="f").content == "HEY"


def test_streams_refuse_tools_at_the_call():
    llm = LLM(Echo())

    with pytest.raises(ValueError, match="chat"):
        llm.stream("hey", tools=[TOOL])
    with pytest.raises(ValueError, match="chat"):
        llm.astream("hey", tools=[TOOL])


@pytest.mark.parametrize("way", ["chat", "stream", "astream"])
def test_bad_input_is_refused_at_the_call_and_nothing_is_asked(way):
    provider = StubProvider(["never"])

    with pytest.raises(ValueError, match="empty"):
        getattr(LLM(provider), way)("")
    assert provider.requests == []


def test_the_callers_messages_are_never_changed():
    messages = [{"role": "user", "content": "hey"}]

    LLM(Echo(), system_prompt="Be loud.").chat(messages)

    assert messages == [{"role": "user", "content": "hey"}]


def test_llms_may_share_a_tracker():
    tracker = TokenTracker()

    for _ in range(2):
        LLM(Echo(), tracker=tracker).chat("hey")

    assert tracker.total_calls == 2


def test_a_stream_that_breaks_keeps_what_had_arrived():
    class Breaking(Echo):
        def stream(self, messages, **settings):
            yield "half"
            raise ServerError("gone")

    llm = LLM(Breaking())
    pieces = llm.stream("hey")

    with pytest.raises(StreamInterruptedError) as caught:
        list(pieces)

    assert caught.value.partial == "half"
    assert pieces.response is not None
    assert pieces.response.content == "half"
    assert pieces.response.finish_reason is None
    assert pieces.response.provider == "echo"
    assert caught.value.response == pieces.response


def test_an_error_of_the_users_own_passes_through_as_it_is():
    class Odd(Echo):
        def chat(self, messages, tools=None, tool_choice=None, **settings):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        LLM(Odd(), max_retries=5).chat("hey")


def test_a_stream_that_nobody_reads_asks_nothing():
    provider = StubProvider(["never"])

    LLM(provider).stream("hey").close()
    gc.collect()

    assert provider.requests == []


def test_an_llm_shows_no_key():
    assert repr(LLM("openai", "gpt-4o", api_key="sk-secret")) == (
        "LLM(provider='openai', model='gpt-4o')"
    )


async def test_an_llm_is_a_context_manager_in_both_worlds():
    with LLM(Echo()) as llm:
        assert llm.chat("hey").content == "HEY"
    async with LLM(Echo()) as llm:
        assert (await llm.achat("hey")).content == "HEY"


# StubProvider


def test_a_stub_gives_its_replies_in_order():
    calls = [ToolCall("1", "f", {})]
    provider = StubProvider(["one two", calls, LLMResponse("three", model="m"), ServerError("no")])
    llm = LLM(provider, max_retries=0)

    first = llm.chat("hey you", temperature=0.5)
    assert (first.content, first.usage) == ("one two", TokenUsage(2, 2))
    assert llm.chat("hey").tool_calls == calls
    assert llm.chat("hey").model == "m"
    with pytest.raises(ServerError):
        llm.chat("hey")
    with pytest.raises(AssertionError, match="no reply left for call 5"):
        llm.chat("hey")
    assert provider.requests[0].settings == {"temperature": 0.5}
    assert provider.requests[0].messages == (Message(Role.USER, "hey you"),)


async def test_a_stub_streams_word_by_word():
    llm = LLM(StubProvider(["one  two\nthree ", "one  two\nthree "]))

    pieces = list(llm.stream("hey"))

    assert pieces == [piece async for piece in llm.astream("hey")]
    assert len(pieces) == 3
    assert "".join(pieces) == "one  two\nthree "


def test_a_stub_may_answer_by_a_function():
    llm = LLM(StubProvider(lambda messages, tools: f"{messages[-1].content} {tools}"))

    assert llm.chat("hey").content == "hey None"


def test_a_bare_string_is_no_list_of_replies():
    with pytest.raises(TypeError, match="list"):
        StubProvider("hello")


async def test_with_tools_a_provider_of_text_streams_is_asked_whole():
    call = ToolCall("1", "f", {})
    llm = LLM(StubProvider([LLMResponse("Let me see.", [call], model="m")] * 2))

    events = list(llm.stream_events("hi", tools=[TOOL]))

    assert events[:2] == [TextDelta("Let me see."), call]
    assert events[2].tool_calls == [call]
    aevents = [event async for event in llm.astream_events("hi", tools=[TOOL])]
    assert aevents[:2] == events[:2]


def test_a_time_out_beside_a_ready_provider_is_obeyed():
    from pywrapai import ProviderTimeoutError
    from pywrapai.providers.openai import OpenAIProvider
    from pywrapai.testing import StubServer, text

    with StubServer() as server:
        provider = OpenAIProvider("gpt-4o-mini", api_key="k", base_url=server.url())
        server.reply(text("late").delayed(30))
        with pytest.raises(ProviderTimeoutError):
            LLM(provider, timeout=0.2, max_retries=0).chat("hi")


def test_a_list_of_models_is_tried_again():
    from pywrapai.testing import StubServer, status

    with StubServer() as server:
        server.reply(status(500, headers={"retry-after-ms": "1"}))
        llm = LLM("openai", api_key="k", base_url=server.url())

        assert llm.models() == ["stub"]
        assert len(server.requests) == 2


def test_structured_answers_take_no_tools():
    with pytest.raises(ValueError, match="tools"):
        LLM(StubProvider()).chat_structured("hi", {"type": "object"}, tools=[TOOL])


def test_what_a_stream_says_that_it_cost_is_believed():
    class Priced(Echo):
        def stream(self, messages, **settings):
            yield "hey"
            yield StreamEnd(cost_usd=0.25)

    llm = LLM(Priced())
    pieces = llm.stream("hey")

    assert list(pieces) == ["hey"]
    assert pieces.response is not None
    assert pieces.response.cost_usd == llm.tokens.total_cost == 0.25


@pytest.mark.parametrize(
    "messages",
    [Message(Role.USER, ""), [{"role": "user", "content": "  "}], [Message(Role.USER, "\n")]],
)
def test_an_empty_message_is_refused_in_whatever_form_it_comes(messages):
    provider = StubProvider(["never"])

    with pytest.raises(ValueError, match="empty"):
        LLM(provider).chat(messages)
    assert provider.requests == []


def test_an_older_empty_message_is_none_of_our_business():
    old = [Message(Role.USER, ""), Message(Role.ASSISTANT, ""), Message(Role.USER, "hi")]

    assert LLM(StubProvider(["ok"])).chat(old).content == "ok"


@pytest.mark.parametrize(
    "wrong",
    [{"provider": None}, {"provider": "openai", "fallbacks": ["openai"]}, {"provider": int}],
)
def test_what_is_no_provider_or_no_llm_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        LLM(**wrong)


@pytest.mark.parametrize("retries", ["2", 2.5, None])
def test_retries_are_a_whole_number(retries):
    with pytest.raises(ValueError, match="max_retries"):
        LLM("openai", max_retries=retries)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "lmstudio"])
def test_a_base_url_without_a_scheme_is_refused_at_once(provider):
    with pytest.raises(ConfigurationError, match="https://"):
        LLM(provider, base_url="localhost:9")


def test_a_fallback_keeps_its_own_time_out():
    from pywrapai.testing import StubServer, status, text

    with StubServer() as first, StubServer() as second:
        first.reply(status(500))
        second.reply(text("at last").delayed(0.6))
        backup = LLM("openai", "gpt-4o", api_key="k", base_url=second.url(), timeout=10)
        llm = LLM(
            "openai",
            api_key="k",
            base_url=first.url(),
            timeout=0.3,
            max_retries=0,
            fallbacks=[backup],
        )

        assert llm.chat("hi").content == "at last"
