from __future__ import annotations

import pytest

from pywrapai import (
    LLM,
    AuthError,
    ConfigurationError,
    ContextLengthError,
    InvalidRequestError,
    LLMResponse,
    Message,
    Role,
    ServerError,
    StreamEnd,
    StreamInterruptedError,
)
from pywrapai.testing import StubProvider
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import events, status


def pair(*replies, **settings) -> tuple[LLM, StubProvider, StubProvider]:
    first, second = StubProvider(list(replies), model="first"), StubProvider(["ok"], model="second")
    llm = LLM(first, max_retries=0, fallbacks=[LLM(second, temperature=0.9)], **settings)
    return llm, first, second


async def test_the_next_model_answers_when_the_first_fails():
    for way in ("chat", "achat"):
        llm, _, second = pair(ServerError("down"))
        response = getattr(llm, way)("hi")
        response = response if isinstance(response, LLMResponse) else await response

        assert (response.content, response.model, response.provider) == ("ok", "second", "stub")
        assert [record.model for record in llm.tokens.records] == ["second"]
        assert len(second.requests) == 1


async def test_streams_fall_back_before_their_first_chunk():
    llm, *_ = pair(ServerError("down"))
    pieces = llm.stream("hi")
    assert list(pieces) == ["ok"]
    assert pieces.response is not None
    assert pieces.response.model == "second"

    llm, *_ = pair(ServerError("down"))
    assert [piece async for piece in llm.astream("hi")] == ["ok"]


def test_a_stream_that_has_begun_never_falls_back():
    class Breaking(StubProvider):
        def stream(self, messages, **settings):
            yield "half"
            raise ServerError("gone")

    second = StubProvider(["never"])
    llm = LLM(Breaking(), fallbacks=[LLM(second)])

    with pytest.raises(StreamInterruptedError):
        list(llm.stream("hi"))
    assert second.requests == []


@pytest.mark.parametrize("error", [InvalidRequestError("bad"), ConfigurationError("bad")])
def test_what_would_fail_everywhere_is_not_tried_elsewhere(error):
    llm, _, second = pair(error)

    with pytest.raises(type(error)):
        llm.chat("hi")
    assert second.requests == []


@pytest.mark.parametrize("error", [AuthError("no"), ContextLengthError("long")])
def test_what_another_model_may_not_have_is_tried_there(error):
    llm, *_ = pair(error)

    assert llm.chat("hi").content == "ok"


def test_each_model_has_its_own_settings_and_the_calls_overrides():
    llm, first, second = pair(ServerError("down"), ServerError("down"), temperature=0.1)

    llm.chat("hi", max_tokens=5)

    assert first.requests[0].settings == {"temperature": 0.1, "max_tokens": 5}
    assert second.requests[0].settings == {"temperature": 0.9, "max_tokens": 5}


def test_the_conversation_goes_on_with_its_system_prompt():
    llm, _, second = pair(ServerError("down"), system_prompt="Be kind.")

    llm.chat("hi")

    assert second.requests[0].messages == (
        Message(Role.SYSTEM, "Be kind."),
        Message(Role.USER, "hi"),
    )


def test_when_all_fail_the_last_error_has_a_note_for_each_of_the_others():
    first = StubProvider([ServerError("first down")], model="first")
    second = StubProvider([ServerError("second down")], model="second")
    third = StubProvider([AuthError("no key")], model="third")
    llm = LLM(first, max_retries=0, fallbacks=[LLM(second, max_retries=0), LLM(third)])

    with pytest.raises(AuthError, match="no key") as caught:
        llm.chat("hi")

    assert [note.split(":")[0] for note in caught.value.__notes__] == [
        "before that, stub/first",
        "before that, stub/second",
    ]


def test_fallbacks_of_a_fallback_are_asked_too():
    last = LLM(StubProvider(["ok"], model="last"))
    middle = LLM(StubProvider([ServerError("x")]), max_retries=0, fallbacks=[last])

    llm = LLM(StubProvider([ServerError("x")]), max_retries=0, fallbacks=[middle])

    assert llm.chat("hi").model == "last"


def test_an_empty_but_valid_stream_is_an_answer():
    class Empty(StubProvider):
        def stream(self, messages, **settings):
            yield StreamEnd()

    second = StubProvider(["never"])
    llm = LLM(Empty(), fallbacks=[LLM(second)])

    assert list(llm.stream("hi")) == []
    assert second.requests == []


def test_a_fallbacks_answer_is_not_cached():
    llm, first, _ = pair(ServerError("down"), "back again", "never", cache=True)

    assert llm.chat("hi").content == "ok"
    assert llm.chat("hi").content == "back again"
    assert llm.chat("hi").cached
    assert len(first.requests) == 2


def test_a_first_model_that_always_fails_costs_its_own_attempts_and_no_more(server: StubServer):
    with StubServer("from the second") as second:
        backup = LLM("openai", "backup", api_key="k", base_url=second.url())
        llm = LLM(
            "openai",
            "gpt-4o-mini",
            api_key="k",
            base_url=server.url(),
            max_retries=2,
            fallbacks=[backup],
        )
        server.reply(*[status(429, retry_after=0)] * 9)
        with pytest.warns(UserWarning, match="backup"):
            assert llm.chat("hi").content == "from the second"

        assert len(server.requests) == 3
        assert len(second.requests) == 1


def test_a_first_model_that_asks_for_an_hour_is_left_at_once(server: StubServer):
    with StubServer("from the second") as second:
        backup = LLM("openai", "gpt-4o", api_key="k", base_url=second.url())
        llm = LLM("openai", api_key="k", base_url=server.url(), fallbacks=[backup])
        server.reply(status(429, retry_after=3600))

        assert llm.chat("hi").content == "from the second"
        assert len(server.requests) == 1


def test_errors_inside_a_200_stream_fall_back_before_the_first_chunk(server: StubServer):
    with StubServer("from the second") as second:
        backup = LLM("openai", "gpt-4o", api_key="k", base_url=second.url())
        llm = LLM("openai", api_key="k", base_url=server.url(), max_retries=1, fallbacks=[backup])
        server.reply(*[events({"error": {"message": "busy", "type": "overloaded_error"}})] * 2)

        assert "".join(llm.stream("hi")) == "from the second"
        assert len(server.requests) == 2
