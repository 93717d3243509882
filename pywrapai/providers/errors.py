"""From what a server or an SDK says went wrong to one of our errors. Pure functions.

Status first, the server's own code next, words last: "Your API key is invalid" in a 400 says
nothing about the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pywrapai.core import received
from pywrapai.exceptions import (
    AuthError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    ModelNotFoundError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    ServerError,
)

_CODES: dict[str, type[ProviderError]] = {
    "invalid_api_key": AuthError,
    "authentication_error": AuthError,
    "permission_error": AuthError,
    "context_length_exceeded": ContextLengthError,
    "exceed_context_size_error": ContextLengthError,
    "request_too_large": ContextLengthError,
    "model_not_found": ModelNotFoundError,
    "not_found_error": ModelNotFoundError,
    "content_filter": ContentFilterError,
    "content_policy_violation": ContentFilterError,
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "billing_error": RateLimitError,
    "timeout_error": ProviderTimeoutError,
    "API_KEY_INVALID": AuthError,
    "UNAUTHENTICATED": AuthError,
    "PERMISSION_DENIED": AuthError,
    "NOT_FOUND": ModelNotFoundError,
    "RESOURCE_EXHAUSTED": RateLimitError,
    "overloaded_error": ServerError,
    "server_error": ServerError,
    "api_error": ServerError,
}
_WORDS: tuple[tuple[str, type[ProviderError]], ...] = (
    ("context length", ContextLengthError),
    ("context size", ContextLengthError),
    ("prompt is too long", ContextLengthError),
    ("maximum context", ContextLengthError),
    ("context limit", ContextLengthError),
    ("credit balance", RateLimitError),
    ("exceeds the maximum number of tokens", ContextLengthError),
    ("api key", AuthError),
    ("does not exist", ModelNotFoundError),
)
_NO_QUOTA = frozenset({"insufficient_quota", "billing_error"})
_QUOTA_ADVICE = "there is no credit left on the account: waiting does not help"
_ADVICE: dict[type[ProviderError], str] = {
    AuthError: "check the key and what it may do",
    ContextLengthError: "send fewer or shorter messages, or take a model with a larger window",
    ModelNotFoundError: "check the model's name and whether this key may use it",
    RateLimitError: "slow down, or raise the account's limit",
    ServerError: "the fault is on the server's side; try again later or add fallbacks=[...]",
}


def from_status(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """The error for an HTTP reply, or for an error object inside a stream."""
    headers = headers or {}
    if 300 <= status < 400:
        return _redirect(status, headers)
    said, code = _message(body), _code(body)
    kind = _kind(status, code, said.lower())
    text = f"{said or 'no message'} (HTTP {status}{f', {code}' if code else ''})"
    no_quota = code in _NO_QUOTA or (status == 400 and kind is RateLimitError)
    if advice := _QUOTA_ADVICE if no_quota else _ADVICE.get(kind):
        text = f"{text}; {advice}"
    error = kind(text, status_code=status, request_id=_request_id(headers, body))
    wait = retry_after(headers)
    if (wait := _retry_delay(body) if wait is None else wait) is not None:
        error.retry_after = wait
    error.retryable = _retryable(status, code, kind, headers)
    return error


def _redirect(status: int, headers: Mapping[str, str]) -> InvalidRequestError:
    """Redirects are not followed: the key would go along, to wherever they lead."""
    return InvalidRequestError(
        f"the server sends its callers on to {headers.get('location') or 'nowhere'} (HTTP "
        f"{status}): if that is the API, give it as base_url",
        status_code=status,
        request_id=_request_id(headers, None),
    )


def from_event(body: Any) -> ProviderError:
    """The error for an error object that came with status 200, in a stream mostly."""
    error = body.get("error") if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 200
    return from_status(status, body)


def _kind(status: int, code: str | None, words: str) -> type[ProviderError]:
    if status in (401, 403):
        return AuthError
    if status == 404:
        return ModelNotFoundError
    if status == 408:
        return ProviderTimeoutError
    if status == 429:
        return RateLimitError
    if code in _CODES:
        return _CODES[code]
    if status >= 500 or (status < 400 and code != "invalid_request_error"):
        return ServerError
    return next((kind for word, kind in _WORDS if word in words), InvalidRequestError)


def _retryable(
    status: int, code: str | None, kind: type[ProviderError], headers: Mapping[str, str]
) -> bool:
    if code in _NO_QUOTA:  # a 429 that no waiting mends
        return False
    asked = headers.get("x-should-retry")
    if asked in ("true", "false"):
        return asked == "true"
    return status in (408, 409, 429) or status >= 500 or (status < 400 and kind.retryable)


def _request_id(headers: Mapping[str, str], body: Any) -> str | None:
    inside = body.get("request_id") if isinstance(body, dict) else None
    return headers.get("x-request-id") or headers.get("request-id") or received.name(inside)


def _message(body: Any) -> str:
    match body:
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text[:2000]
        case str():
            return body[:2000]
    return "" if not body else str(body)[:2000]


def _code(body: Any) -> str | None:
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    reasons = [detail.get("reason") for detail in _details(body)]
    found = (*reasons, error.get("code"), error.get("type"), error.get("status"))
    return next((c for c in found if isinstance(c, str) and c), None)


def _details(body: Any) -> list[dict[str, Any]]:
    """Google's error details: objects that name their own `@type`."""
    match body:
        case {"error": {"details": list(details)}}:
            return [detail for detail in details if isinstance(detail, dict)]
    return []


def _retry_delay(body: Any) -> float | None:
    """The wait in seconds that Google puts into the body, such as "7s"."""
    delays = [detail.get("retryDelay") for detail in _details(body)]
    found = next((delay for delay in delays if isinstance(delay, str)), "")
    return _seconds(found.removesuffix("s"))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The wait in seconds that headers ask for; None where they ask for none or for nonsense."""
    if (ms := _seconds(headers.get("retry-after-ms"))) is not None:
        return ms / 1000.0
    value = headers.get("retry-after")
    seconds = _seconds(value)
    return seconds if seconds is not None else _until(value)


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return seconds if 0.0 <= seconds < float("inf") else None


def _until(date: str | None) -> float | None:
    if not date:
        return None
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(date)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    wait = (when - datetime.now(UTC)).total_seconds()
    return wait if wait > 0 else None


def from_connection(
    http: Any,
    error: Exception,
    *,
    where: str,
    advice: str = "Is the server running, and base_url right?",
) -> ProviderError | None:
    """The error for trouble on the way; None for an error of another kind.

    `http` is the library that raised it: httpx or httpx2.
    """
    said = (str(error) or type(error).__name__).rstrip(".")
    if isinstance(error, http.TimeoutException):
        return ProviderTimeoutError(
            f"{where} sent nothing for as long as `timeout` allows: raise it, or ask a faster model"
        )
    if isinstance(error, (http.ConnectError, http.InvalidURL)):
        return ProviderConnectionError(f"cannot reach {where}: {said}. {advice}")
    if isinstance(error, http.HTTPError):
        return ProviderConnectionError(f"the connection to {where} broke: {said}")
    return None


_SHORTEST_KEY = 8
"""A shorter one is a placeholder such as "none", and a word of many a message."""


def redacted(text: str, key: str | None) -> str:
    """The text without the key that a server may have echoed."""
    return text.replace(key, "[key]") if key and len(key) >= _SHORTEST_KEY else text
