from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import pywrapai
from pywrapai import (
    AuthError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LLMResponse,
    MissingDependencyError,
    ModelNotFoundError,
    ProviderTimeoutError,
    PyWrapAIError,
    RateLimitError,
    ServerError,
    StreamInterruptedError,
)
from pywrapai.core.retry import RetryPolicy
from pywrapai.providers.errors import from_status, redacted, retry_after


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, InvalidRequestError, False),
        (401, AuthError, False),
        (403, AuthError, False),
        (404, ModelNotFoundError, False),
        (408, ProviderTimeoutError, True),
        (409, InvalidRequestError, True),
        (413, InvalidRequestError, False),
        (422, InvalidRequestError, False),
        (429, RateLimitError, True),
        (500, ServerError, True),
        (502, ServerError, True),
        (503, ServerError, True),
        (529, ServerError, True),
    ],
)
def test_a_status_decides_the_kind_and_whether_to_retry(status, kind, retryable):
    error = from_status(status, {"error": {"message": "no"}})

    assert type(error) is kind
    assert error.retryable is retryable
    assert error.status_code == status


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"code": "context_length_exceeded", "message": "too long"}, ContextLengthError),
        ({"code": 400, "type": "exceed_context_size_error", "message": "x"}, ContextLengthError),
        ({"message": "This model's maximum context length is 4096 tokens"}, ContextLengthError),
        ({"code": "content_filter", "message": "x"}, ContentFilterError),
        ({"code": "invalid_api_key", "message": "x"}, AuthError),
        ({"message": "Your API key is invalid"}, AuthError),
        ({"code": "model_not_found", "message": "x"}, ModelNotFoundError),
        ({"message": "temperature is too hot"}, InvalidRequestError),
        ("plain text", InvalidRequestError),
        (None, InvalidRequestError),
        ([1, 2], InvalidRequestError),
    ],
)
def test_a_400_is_told_apart_by_code_and_then_by_words(body, kind):
    assert type(from_status(400, body)) is kind


def test_words_never_overrule_a_status():
    assert type(from_status(429, {"error": {"message": "bad api key"}})) is RateLimitError


def test_an_empty_account_is_not_worth_a_retry():
    error = from_status(429, {"error": {"code": "insufficient_quota", "message": "pay"}})

    assert isinstance(error, RateLimitError)
    assert not error.retryable


def test_the_server_may_say_whether_to_retry():
    assert not from_status(500, None, {"x-should-retry": "false"}).retryable
    assert from_status(400, None, {"x-should-retry": "true"}).retryable


def test_an_overload_inside_a_200_stream_is_a_server_error():
    error = from_status(200, {"error": {"type": "overloaded_error", "message": "busy"}})

    assert isinstance(error, ServerError)
    assert error.retryable


def test_a_message_says_what_to_do():
    assert "check the key" in str(from_status(401, {"message": "wrong key"}))


def test_a_key_is_blanked_wherever_it_stands():
    assert redacted("wrong key sk-secret-1: sk-secret-1", "sk-secret-1") == "wrong key [key]: [key]"
    assert redacted("abc", None) == "abc"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "abc"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_retry_after_is_seconds_or_nothing(headers, seconds):
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date():
    soon = datetime.now(UTC) + timedelta(seconds=30)

    wait = retry_after({"retry-after": format_datetime(soon, usegmt=True)})

    assert wait is not None
    assert 28 <= wait <= 30


def test_the_wait_doubles_with_jitter_and_has_a_ceiling():
    policy = RetryPolicy(max_retries=50)
    error = ServerError("down")

    waits = [policy.delay(attempt, error) for attempt in range(1, 51)]

    assert 0.25 <= waits[0] <= 0.5
    assert 0.5 <= waits[1] <= 1.0
    assert all(wait <= policy.max_wait for wait in waits)
    assert policy.delay(51, error) is None


def test_a_servers_wish_is_obeyed_up_to_the_cap():
    policy = RetryPolicy()

    assert policy.delay(1, RateLimitError("wait", retry_after=2.0)) == 2.0
    assert policy.delay(1, RateLimitError("wait", retry_after=60.0)) == 60.0
    assert policy.delay(1, RateLimitError("wait", retry_after=61.0)) is None


def test_what_cannot_pass_is_not_tried_again():
    assert RetryPolicy().delay(1, AuthError("no key")) is None
    assert RetryPolicy(0).delay(1, ServerError("down")) is None


def test_a_negative_number_of_retries_is_refused():
    with pytest.raises(ValueError, match="max_retries"):
        RetryPolicy(-1)


ALL_ERRORS = [
    cls
    for cls in map(pywrapai.__dict__.get, pywrapai.__all__)
    if isinstance(cls, type) and issubclass(cls, PyWrapAIError)
]


@pytest.mark.parametrize("cls", ALL_ERRORS)
def test_every_error_survives_pickling_with_its_facts(cls):
    error = cls("what happened", provider="openai", model="m", status_code=500, request_id="r1")
    error.retryable = True

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is cls
    assert str(again) == "what happened"
    assert vars(again) == vars(error)


def test_an_interrupted_stream_keeps_what_had_arrived():
    error = StreamInterruptedError("broke", partial="half", response=LLMResponse("half"))

    again = pickle.loads(pickle.dumps(error))

    assert again.partial == "half"
    assert again.response == LLMResponse("half")


def test_a_missing_package_is_an_import_error_too():
    assert issubclass(MissingDependencyError, ImportError)
    assert str(MissingDependencyError("pip install x")) == "pip install x"
