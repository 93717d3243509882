"""Workflow: one typed request, one model, one typed output that was checked, or a human.

The run is written once, as a flow: ask, read, check, ask once more with what was wrong, give up.
Its only I/O is the client; the time of day comes from `clock`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from pywrapai import TokenUsage
from pywrapai.core import flow
from pywrapai.core.flow import Flow, blocking, io
from pywrapai.core.structured import CUT_OFF, in_words
from pywrapai.core.text import well_formed
from pywrapai.exceptions import ContextLengthError
from pywrapai.lmstudio import ChatRequest, ChatResult
from pywrapai_graph.workflows.types import (
    Actor,
    Client,
    ModuleMeta,
    Reason,
    WorkflowResult,
    semver,
)
from pywrapai_graph.workflows.validators import OutputRejectedError, parse

In = TypeVar("In")
Out = TypeVar("Out", bound=BaseModel)
Turns: TypeAlias = list[dict[str, str]]

ATTEMPTS = 2
_MOST_TOKENS = 4096


def utc_now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow(Generic[In, Out]):
    """A task for a model, with the checks that its answer must pass. May be shared by all.

    Args:
        name: what it is called in the audit log, "support.triage" say.
        version: semver of its request and output.
        request: the class of what comes in.
        output: the Pydantic model that the answer must be. Its schema is told to the model, and a
            client that can hold the model to it does.
        prompt: the messages for a request, OpenAI's dicts; or a text, which is one user message.
        validators: functions of (request, output) that raise OutputRejectedError, and return None.
        temperature: of each call.
        max_tokens: of each answer.
        seed: of each call. The same seed and input give the same output, where the server holds to
            that.
        clock: the time of day; for tests.
    """

    name: str
    version: str
    request: type[In]
    output: type[Out]
    prompt: Callable[[In], str | Sequence[dict[str, str]]]
    validators: Sequence[Callable[[In, Out], None]] = ()
    temperature: float = 0.0
    max_tokens: int = 512
    seed: int | None = 0
    clock: Callable[[], datetime] = field(default=utc_now, repr=False)

    def __post_init__(self) -> None:
        semver(self.version)
        if not self.name.strip():
            raise ValueError("a workflow needs a name: it is what the audit log knows it by")
        if not 1 <= self.max_tokens <= _MOST_TOKENS:
            raise ValueError(f"max_tokens is {self.max_tokens}; expected 1 to {_MOST_TOKENS}")

    def run(
        self, request: In, *, actor: Actor, request_id: str, client: Client
    ) -> WorkflowResult[Out]:
        """Answer a request, or say why a human must. Whatever the model writes, this returns.

        Raises:
            TypeError, ValueError: for a request, actor or request_id that is none; TypeError for a
                validator that returns something.
            ProviderError: one of its kinds, when the client could not ask the model at all.
        """
        return flow.run(self.run_flow(request, actor=actor, request_id=request_id, client=client))

    async def arun(
        self, request: In, *, actor: Actor, request_id: str, client: Client
    ) -> WorkflowResult[Out]:
        """`run`, awaited."""
        return await flow.arun(
            self.run_flow(request, actor=actor, request_id=request_id, client=client)
        )

    def run_flow(
        self, request: In, *, actor: Actor, request_id: str, client: Client
    ) -> Flow[WorkflowResult[Out]]:
        """`run` as a flow, for a layer above."""
        check_call(self.request, request, actor, request_id)
        started = self.clock()
        asked = self._first(request)
        calls: list[ChatResult] = []
        reasons: tuple[Reason, ...] = ()
        while len(calls) < ATTEMPTS:
            try:
                answer = yield from _ask(client, asked)
            except ContextLengthError as error:
                if not calls:
                    raise
                reasons += (Reason(rule="context_length", message=error.message),)
                break
            calls.append(answer)
            try:
                output = self._checked_output(request, answer)
            except OutputRejectedError as error:
                reasons = _reasons(error)
                asked = _again(asked, answer, reasons)
            else:
                meta = self.meta(request_id, started, calls)
                return WorkflowResult(output=output, meta=meta, validated=True)
        meta = self.meta(request_id, started, calls)
        return WorkflowResult(output=None, meta=meta, validated=False, reasons=reasons)

    def meta(self, request_id: str, started: datetime, calls: Sequence[ChatResult]) -> ModuleMeta:
        """What is known of a run that ends now, after these calls."""
        costs = [call.cost_usd for call in calls]
        return ModuleMeta(
            module_name=self.name,
            module_version=self.version,
            request_id=request_id,
            started_at=started,
            finished_at=self.clock(),
            model_id=well_formed(calls[-1].model_id) if calls else "",
            usage=reduce(add, (call.usage for call in calls), TokenUsage()),
            latency_ms=sum(call.latency_ms for call in calls),
            cost_usd=None if None in costs else sum(cost for cost in costs if cost),
            attempts=len(calls),
            model_request_ids=tuple(well_formed(call.request_id) for call in calls),
        )

    def _first(self, request: In) -> ChatRequest:
        prompt = self.prompt(request)
        turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        schema = self.output.model_json_schema()
        return ChatRequest(
            messages=_sendable(_with_schema(turns, schema)),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            response_format="json_object",
            json_schema=schema,
        )

    def _checked_output(self, request: In, answer: ChatResult) -> Out:
        if answer.finish_reason == "error":
            raise OutputRejectedError("the model failed in the middle of it", rule="model_error")
        try:
            output = parse(answer.content, self.output)
        except OutputRejectedError as error:
            if answer.finish_reason != "length":
                raise
            raise OutputRejectedError(CUT_OFF, rule="length") from error
        for check in self.validators:
            if (said := check(request, output)) is not None:  # False, or an async one's coroutine
                raise TypeError(
                    f"the validator {check!r:.80} returned {said!r:.80}; expected None, or an "
                    "OutputRejectedError to be raised"
                )
        return output


def check_call(kind: type[Any], request: Any, actor: Any, request_id: Any) -> None:
    """TypeError or ValueError if a workflow cannot be run with these."""
    if not isinstance(request, kind):
        raise TypeError(f"the request is {request!r:.80}; expected a {kind.__name__}")
    if not isinstance(actor, Actor):
        raise TypeError(f"the actor is {actor!r:.80}; expected an Actor")
    if not isinstance(request_id, str) or not request_id.strip():
        raise ValueError(f"request_id is {request_id!r:.80}; expected a text that is not blank")
    if well_formed(request_id) != request_id:
        raise ValueError(f"request_id is {request_id!r:.80}, which has half of a character")


def _ask(client: Any, request: ChatRequest) -> Flow[ChatResult]:
    if hasattr(client, "achat"):
        return io(client.chat, client.achat, request)
    return blocking(client.chat, request)


def _with_schema(turns: Sequence[dict[str, str]], schema: dict[str, Any]) -> Turns:
    """The messages with the schema told in words, for a client that cannot hold the model to it."""
    told = in_words(schema)
    if turns and turns[0].get("role") == "system":
        first = {"role": "system", "content": f"{turns[0]['content']}\n\n{told}"}
        return [first, *turns[1:]]
    return [{"role": "system", "content": told}, *turns]


def _again(asked: ChatRequest, answer: ChatResult, reasons: Sequence[Reason]) -> ChatRequest:
    """The same conversation, with the answer and what was wrong with it."""
    wrong = "\n".join(f"- {reason.message}" for reason in reasons)
    turns = [
        {"role": "assistant", "content": answer.content or "(no text)"},
        {
            "role": "user",
            "content": f"This answer was rejected:\n{wrong}\n"
            "Answer again, with the corrected JSON alone.",
        },
    ]
    return asked.model_copy(update={"messages": [*asked.messages, *_sendable(turns)]})


def _sendable(turns: Sequence[dict[str, str]]) -> Turns:
    return [{name: well_formed(text) for name, text in turn.items()} for turn in turns]


def _reasons(error: OutputRejectedError) -> tuple[Reason, ...]:
    messages = error.reasons or (error.message,)
    return tuple(Reason(rule=error.rule, message=well_formed(text)) for text in messages)
