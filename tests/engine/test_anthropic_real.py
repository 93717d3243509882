"""The Anthropic wire against a real model: llama.cpp's own /v1/messages, no key, no network."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from pydantic import BaseModel

from pywrapai import LLM, ContextLengthError, Message, Role, StructuredOutputError, TextDelta
from pywrapai.providers.local import LocalProvider

CAPITAL = "What is the capital of France? Answer in one word."


@pytest.fixture(scope="module")
def address() -> str:
    """Where llama.cpp serves the bundled model in this process, without a path."""
    local = LocalProvider()
    local.chat([Message(Role.USER, "Hello")], max_tokens=1)  # which starts it
    return str(local.base_url).removesuffix("/v1")


@pytest.fixture
def claude(address: str) -> LLM:
    return LLM(
        "anthropic",
        "SmolLM2-135M-Instruct",
        base_url=address,
        api_key="none",
        temperature=0.0,
        max_tokens=16,
        options={"seed": 1},
    )


pytestmark = pytest.mark.filterwarnings("ignore::pywrapai.tokens.UnpricedModelWarning")


async def test_a_real_model_answers_sync_and_async(claude: LLM):
    for response in (claude.chat(CAPITAL), await claude.achat(CAPITAL)):
        assert response.content.strip()
        assert response.provider == "anthropic"
        assert response.model == "SmolLM2-135M-Instruct"
        assert response.usage.input_tokens > 10
        assert 0 < response.usage.output_tokens <= 16
        assert response.finish_reason in ("stop", "length")
        assert response.request_id


async def test_a_real_stream_is_the_whole_answer_in_pieces(claude: LLM):
    whole = claude.chat(CAPITAL)
    pieces, apieces = claude.stream(CAPITAL), claude.astream(CAPITAL)

    assert "".join(pieces) == whole.content
    assert "".join([piece async for piece in apieces]) == whole.content
    for response in (pieces.response, apieces.response):
        assert response is not None
        assert response.usage.input_tokens == whole.usage.input_tokens
        assert response.usage.output_tokens == whole.usage.output_tokens
        assert response.finish_reason == whole.finish_reason


def test_input_served_from_the_cache_is_still_input(claude: LLM):
    first, again = claude.chat(CAPITAL), claude.chat(CAPITAL)

    assert again.usage.cache_read_tokens > 0
    assert again.usage.input_tokens == first.usage.input_tokens


def test_the_wires_of_openai_and_anthropic_give_the_same_answer(claude: LLM, address: str):
    openai = LLM(
        "openai",
        "SmolLM2-135M-Instruct",
        base_url=address,
        api_key="none",
        temperature=0.0,
        max_tokens=16,
        options={"seed": 1},
    )
    messages = [
        Message(Role.SYSTEM, "You are a geographer."),
        Message(Role.USER, "Hello"),
        Message(Role.ASSISTANT, "Hi there, ask me anything."),
        Message(Role.USER, CAPITAL),
    ]

    theirs, ours = openai.chat(messages), claude.chat(messages)

    assert ours.content == theirs.content
    assert ours.usage.input_tokens == theirs.usage.input_tokens
    assert ours.usage.output_tokens == theirs.usage.output_tokens


def test_the_system_prompt_reaches_the_model(claude: LLM):
    short = claude.chat([Message(Role.SYSTEM, "Hi."), Message(Role.USER, CAPITAL)])
    system = Message(Role.SYSTEM, "You are a pirate who says arr. " * 5)

    long = claude.chat([system, Message(Role.USER, CAPITAL)])

    assert long.usage.input_tokens > short.usage.input_tokens + 20


def test_the_conversation_so_far_reaches_the_model(claude: LLM):
    history = [Message(Role.USER, "My name is Alice."), Message(Role.ASSISTANT, "Hello Alice.")]
    asked = Message(Role.USER, "What is my name?")

    alone, told = claude.chat([asked]), claude.chat([*history, asked])

    assert told.usage.input_tokens > alone.usage.input_tokens
    assert told.content != alone.content


def test_a_system_message_in_the_middle_is_taken(claude: LLM):
    response = claude.chat(
        [
            Message(Role.USER, "Hello"),
            Message(Role.ASSISTANT, "Hi"),
            Message(Role.SYSTEM, "Answer in one word."),
            Message(Role.USER, "What is the capital of France?"),
        ]
    )

    assert response.content


async def test_calls_at_once_share_the_one_model(claude: LLM):
    responses = await asyncio.gather(*(claude.achat(f"Say {n}", max_tokens=4) for n in range(4)))

    assert all(response.usage.output_tokens > 0 for response in responses)


def test_a_stream_may_be_left_early(claude: LLM):
    with claude.stream("Tell me a very long story.", max_tokens=2000) as pieces:
        next(pieces)

    assert pieces.response is not None
    assert pieces.response.usage.input_tokens > 0
    assert claude.chat(CAPITAL).content


def test_too_long_a_prompt_says_so_also_in_a_stream(claude: LLM):
    with pytest.raises(ContextLengthError):
        claude.chat("word " * 6000)
    with pytest.raises(ContextLengthError):
        list(claude.stream("word " * 6000))


def test_events_end_with_the_response(claude: LLM):
    *deltas, response = claude.stream_events(CAPITAL)

    assert {type(event) for event in deltas} == {TextDelta}
    assert "".join(event.text for event in deltas) == response.content


class City(BaseModel):
    name: str


def test_a_server_that_passes_over_the_format_is_told_it_in_words(claude: LLM):
    plain = claude.chat("Name a city.").usage.input_tokens

    with suppress(StructuredOutputError):  # a model this small may fail, but has been told
        claude.chat_structured("Name a city.", City, max_attempts=1)

    assert claude.tokens.records[-1].input_tokens > plain + 20
