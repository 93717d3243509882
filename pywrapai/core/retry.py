"""When to try again after a failure, and how long to wait before that."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from pywrapai.core import flow
from pywrapai.core.flow import Step
from pywrapai.exceptions import ProviderError, PyWrapAIError

T = TypeVar("T")
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """One policy for all providers: exponential backoff with jitter, or what the server asks for.

    Waits are in seconds. `max_retries=0` is exactly one request.
    """

    max_retries: int = 2
    first_wait: float = 0.5
    max_wait: float = 8.0
    max_retry_after: float = 60.0
    """A server that asks for more than this is not waited for; the error is raised at once."""

    def __post_init__(self) -> None:
        if type(self.max_retries) is not int or self.max_retries < 0:
            raise ValueError(f"max_retries must be 0 or more, not {self.max_retries!r}")

    def delay(self, attempt: int, error: PyWrapAIError) -> float | None:
        """Seconds to wait after the `attempt`-th failure (from 1), or None to give up."""
        import random

        if not error.retryable or attempt > self.max_retries:
            return None
        if error.retry_after:  # 0 is no wish: without a wait the next request is refused as well
            return error.retry_after if error.retry_after <= self.max_retry_after else None
        ceiling = min(self.max_wait, self.first_wait * 2.0 ** min(attempt - 1, 32))
        return ceiling * random.uniform(0.5, 1.0)


def attempts(
    policy: RetryPolicy,
    attempt: Callable[[], Generator[Y, Any, T]],
    *,
    begun: Callable[[], bool] = lambda: False,
) -> Generator[Y | Step, Any, T]:
    """The attempt's result, tried again by the policy; not so once it has `begun` to give it."""
    for number in count(1):
        try:
            return (yield from _ungrouped(attempt()))
        except ProviderError as error:
            wait = policy.delay(number, error)
            if wait is None or begun():
                raise
        yield from flow.sleep(wait)
    raise AssertionError("unreachable: count() has no end")


def _ungrouped(attempt: Generator[Y, Any, T]) -> Generator[Y, Any, T]:
    """The attempt; an error that a task group of the provider wrapped leaves it unwrapped."""
    try:
        return (yield from attempt)
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if not isinstance(error, ProviderError):
            raise
        raise error from error.__cause__
