"""What crosses the border of a workflow: who asks, the result, and what is known of the run."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Generic, Protocol, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pywrapai import TokenUsage, __version__
from pywrapai.lmstudio import ChatRequest, ChatResult
from pywrapai_graph.workflows.containment import normalised

Out = TypeVar("Out", bound=BaseModel)


def _not_blank(text: str) -> str:
    if not normalised(text):
        raise ValueError("it is blank")
    return text


Name = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
"""A text in which something can be read."""

# https://semver.org, its own regular expression.
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*))*)?"
    r"(\+[\da-zA-Z-]+(\.[\da-zA-Z-]+)*)?",
    re.ASCII,
)


class Client(Protocol):
    """What a workflow asks. `achat`, where a client has one, serves `arun`; else a thread does."""

    def chat(self, request: ChatRequest, /) -> ChatResult:
        """One answer."""


class Actor(BaseModel):
    """Who is asking, as the application has established it."""

    model_config = ConfigDict(frozen=True)

    user_id: Name
    tenant_id: Name
    """Whose data this is: no tenant ever sees another's."""
    role: Name
    """What the user is to the application: "operator", "service", "system"."""


class ModuleMeta(BaseModel):
    """What is known of one run, for the audit log and whoever debugs it."""

    model_config = ConfigDict(frozen=True)

    module_name: str
    module_version: str
    """Semver: a major version for each change that breaks the request or the output."""
    request_id: str
    started_at: datetime
    finished_at: datetime
    model_id: str
    """Who answered; empty where no model was asked."""
    usage: TokenUsage
    """Of all calls of this run, as are latency and cost."""
    latency_ms: int
    cost_usd: float | None = None
    """None where nobody knows."""
    attempts: int = 1
    """How often the model was asked: 0, 1 or 2."""
    model_request_ids: tuple[str, ...] = ()
    """The server's ids of these calls, in their order."""
    package_version: str = __version__
    """Of pywrapai, when it ran."""


class Reason(BaseModel):
    """One thing that was wrong with an answer."""

    model_config = ConfigDict(frozen=True)

    rule: str
    """Which rule it broke; never holds anything that a user or a model wrote."""
    message: str
    """What was wrong, in words; may quote the answer."""


class WorkflowResult(BaseModel, Generic[Out]):
    """What a workflow returns.

    An output that is `validated` has passed every check. One that is not needs a human: `reasons`
    say why, and `output` is None, or a text that is safe to show.
    """

    model_config = ConfigDict(frozen=True)

    output: Out | None
    meta: ModuleMeta
    validated: bool
    reasons: tuple[Reason, ...] = ()

    @model_validator(mode="after")
    def _holds_what_was_validated(self) -> Self:
        if self.validated and self.output is None:
            raise ValueError("a validated result has an output")
        return self

    @classmethod
    def of(cls, result: WorkflowResult[Any]) -> Self:
        """The same result, as this class."""
        return cls(
            output=result.output,
            meta=result.meta,
            validated=result.validated,
            reasons=result.reasons,
        )


def semver(version: str) -> str:
    """The same version. ValueError if it is none of https://semver.org."""
    if not isinstance(version, str) or not _SEMVER.fullmatch(version):
        raise ValueError(f"version is {version!r:.80}; expected semver, such as '1.0.0'")
    return version
