"""The errors that this library raises, as one tree.

    PyWrapAIError
    ├── ConfigurationError            what the program was given cannot work
    │   └── MissingDependencyError    an optional package is not installed (also an ImportError)
    ├── ProviderError                 a model call failed
    │   ├── AuthError                 no key, a wrong key, no permission
    │   ├── RateLimitError            too many requests, or no quota left
    │   ├── InvalidRequestError       the provider refused what was sent
    │   │   └── ContextLengthError    ... because it was too long
    │   ├── ModelNotFoundError        no such model for this key
    │   ├── ContentFilterError        the provider declined to answer
    │   ├── ProviderTimeoutError      no answer, or no next chunk, in time
    │   ├── ProviderConnectionError   the server cannot be reached
    │   │   └── LMStudioUnreachable   ... and it is LM Studio's
    │   ├── ServerError               the provider failed
    │   └── StreamInterruptedError    a stream broke after its first chunk
    └── StructuredOutputError         the answer does not fit the schema

Every one can be pickled and carries what is known of the call as attributes; the SDK's own
error is its `__cause__`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pywrapai.core.base import LLMResponse


class PyWrapAIError(Exception):
    """Any error of this library that is not a plain ValueError or TypeError."""

    retryable: bool = False
    """Whether the same call may succeed later."""
    provider: str | None = None
    model: str | None = None
    status_code: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
    """Seconds that the server asked us to wait, where it said so."""
    earlier: tuple[PyWrapAIError, ...] = ()
    """Why the models that were asked before this one gave no answer, where there are fallbacks."""
    duration_ms: float = 0.0
    """How long the model was asked, where a fallback was asked next."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.__dict__.update(facts)

    @property
    def message(self) -> str:
        """What happened and what to do about it."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.message  # an ImportError or KeyError among the bases would decorate it

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {k: v for k, v in self.__dict__.items() if not k.startswith("__")}
        return _rebuild, (type(self), self.message, facts)

    def about(self, **facts: Any) -> Self:
        """Set what only the caller knows (provider, model, ...); what is set already stands."""
        for name, value in facts.items():
            if getattr(self, name, None) is None:
                setattr(self, name, value)
        return self


def _rebuild(cls: type[PyWrapAIError], message: str, facts: dict[str, Any]) -> PyWrapAIError:
    return cls(message, **facts)


class ConfigurationError(PyWrapAIError):
    """What the program was given cannot work: a missing file, settings that contradict."""


class MissingDependencyError(ConfigurationError, ImportError):
    """An optional package is needed for this feature; the message holds the pip line."""


class ProviderError(PyWrapAIError):
    """A model call failed. Its subclasses say how; `retryable` says whether trying again helps."""

    response: LLMResponse | None = None
    """What had been answered, and paid for, where the failure came after that."""


class AuthError(ProviderError):
    """No key, a wrong key, or a key that may not do this."""


class RateLimitError(ProviderError):
    """Too many requests, or no quota left; `retry_after` has the server's wish in seconds."""

    retryable = True


class InvalidRequestError(ProviderError):
    """The provider, or this library on its behalf, refused the request."""


class ContextLengthError(InvalidRequestError):
    """The messages are longer than the model can take."""


class ModelNotFoundError(ProviderError):
    """The provider knows no such model, or this key may not use it."""


class ContentFilterError(ProviderError):
    """The provider declined to answer for its content policy."""


class ProviderTimeoutError(ProviderError):
    """No first byte, or no next chunk, within `timeout` seconds."""

    retryable = True


class ProviderConnectionError(ProviderError):
    """The server could not be reached, or hung up."""

    retryable = True


class LMStudioUnreachable(ProviderConnectionError):
    """LM Studio's server does not answer: it is not started, or base_url is wrong."""


class ServerError(ProviderError):
    """The provider failed (5xx, overloaded), or answered with something that is not its API."""

    retryable = True


class StreamInterruptedError(ProviderError):
    """A stream broke after its first chunk; the mapped error is its `__cause__`."""

    partial: str = ""
    """The text that had arrived."""


class StructuredOutputError(PyWrapAIError):
    """The model's answer does not fit the schema, also after it was asked again."""

    raw: str = ""
    """The model's last answer, as it was."""
    errors: tuple[str, ...] = ()
    """What is wrong with it, one line each."""
    responses: Sequence[LLMResponse] = ()
    """Every answer that was given, and paid for."""
