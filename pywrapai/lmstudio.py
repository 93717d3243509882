"""LM Studio, and any LLM, behind two typed values: a ChatRequest goes in, a ChatResult comes out.

The shapes are kept: a change that breaks them is a new major version of the package.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal
from uuid import uuid4

from pywrapai.core import flow
from pywrapai.core.base import LLMResponse, Message, Role, TokenUsage
from pywrapai.core.checks import timeout_seconds
from pywrapai.core.closing import Closing
from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow
from pywrapai.core.text import well_formed
from pywrapai.exceptions import ContentFilterError, LMStudioUnreachable
from pywrapai.llm import LLM
from pywrapai.providers.lmstudio import DEFAULT_URL, LMStudioProvider

with needs("structured"):
    from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "ChatRequest",
    "ChatResult",
    "LLMClient",
    "LMStudioClient",
    "LMStudioUnreachable",
    "TokenUsage",
]

_ROLES = ("system", "user", "assistant")
_ANY_OBJECT = {"type": "object"}
# Providers whose API has another name for a setting, or none. All others take OpenAI's.
_NAMES: dict[str, dict[str, str | None]] = {
    "anthropic": {"stop": "stop_sequences", "seed": None},
    "gemini": {"stop": "stop_sequences"},
}
_SETTINGS = frozenset({"temperature", "max_tokens", "stop", "seed"})


class ChatRequest(BaseModel):
    """One call. Messages are `{"role": "system" | "user" | "assistant", "content": "..."}`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: list[dict[str, str]] = Field(min_length=1)
    temperature: float = Field(0.0, ge=0.0, le=2.0)
    max_tokens: int = Field(512, ge=1, le=4096)
    stop: list[str] | None = None
    seed: int | None = None
    """The same seed and messages give the same answer, where the server holds to that."""
    response_format: Literal["text", "json_object"] = "text"
    json_schema: dict[str, Any] | None = None
    """What a `json_object` must look like; without it any object will do."""

    @field_validator("messages")
    @classmethod
    def _are_messages(cls, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        for message in messages:
            if message.keys() != {"role", "content"} or message["role"] not in _ROLES:
                raise ValueError(
                    'a message is {"role": ..., "content": ...} with a role of '
                    f"{', '.join(_ROLES)}, not {message!r:.80}"
                )
        return messages

    @model_validator(mode="after")
    def _has_a_use_for_its_schema(self) -> ChatRequest:
        if self.json_schema is not None and self.response_format != "json_object":
            raise ValueError('a json_schema is for response_format="json_object"')
        return self


class ChatResult(BaseModel):
    """A model's answer, as it is: nothing has looked at `content` yet."""

    model_config = ConfigDict(frozen=True)

    content: str
    finish_reason: Literal["stop", "length", "error"]
    usage: TokenUsage
    model_id: str
    latency_ms: int = Field(ge=0)
    """From the request to the answer, waits between attempts included."""
    request_id: str
    """The server's id of the answer, to find it in its log; one of our own if it gives none."""
    cost_usd: float | None = None
    """None where nobody knows."""

    @field_validator("usage", mode="before")
    @classmethod
    def _by_openais_names(cls, usage: Any) -> Any:
        if not isinstance(usage, Mapping) or "prompt_tokens" not in usage:
            return usage
        return {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage.get("completion_tokens", 0),
        }


class LLMClient(Closing):
    """Any LLM as a client of typed calls: of another provider, of a local model, of a stub.

    Args:
        llm: what answers; it stays the caller's, with its tracker, cache and fallbacks.
        omit: what of `temperature`, `max_tokens`, `stop` and `seed` its model refuses.
    """

    def __init__(self, llm: LLM, *, omit: Collection[str] = ()) -> None:
        if not isinstance(llm, LLM):
            raise TypeError(f"LLMClient takes an LLM, not {llm!r:.80}")
        if unknown := set(omit) - _SETTINGS:
            raise ValueError(
                f"omit holds {', '.join(sorted(unknown))}; expected some of "
                f"{', '.join(sorted(_SETTINGS))}"
            )
        self.llm = llm
        self._omit = frozenset(omit)

    def chat(self, request: ChatRequest) -> ChatResult:
        """Ask, and wait for the answer.

        A refusal is an answer like any other. What fails on the way, or is refused as a request,
        is a ProviderError, after as many attempts as the LLM makes.
        """
        return flow.run(self.chat_flow(request))

    async def achat(self, request: ChatRequest) -> ChatResult:
        """`chat`, awaited."""
        return await flow.arun(self.chat_flow(request))

    def chat_flow(self, request: ChatRequest) -> Flow[ChatResult]:
        """`chat` as a flow, for a layer above."""
        asked = self.llm.request(_messages(request), **self._settings(request))
        if request.response_format == "json_object":
            asked = replace(asked, schema=request.json_schema or _ANY_OBJECT)
        try:
            response = yield from self.llm.chat_flow(asked)
        except ContentFilterError as error:
            if error.response is None:  # the request was refused, not answered with a refusal
                raise
            response = error.response
        return _result(response)

    def close(self) -> None:
        """Give back the LLM's connections; it may be used again and then opens new ones."""
        self.llm.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self.llm.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.llm!r})"

    def _settings(self, request: ChatRequest) -> dict[str, Any]:
        names = _NAMES.get(self.llm.provider, {})
        given = {name: getattr(request, name) for name in _SETTINGS - self._omit}
        renamed = {names.get(name, name): value for name, value in given.items()}
        return {name: value for name, value in renamed.items() if name and value is not None}


class LMStudioClient(LLMClient):
    """LM Studio on this machine, or at `base_url`. May be shared by threads and by tasks.

    Args:
        base_url: where its server is.
        timeout_s: seconds to wait for an answer.
        max_retries: further attempts after a failure that may pass: no connection, 5xx, 429.
        healthcheck_on_init: ask it for its models now, once, and raise if it does not answer: at
            the start of a program, not in the middle of its first request.
        model: which of its models; by default the one that is loaded.

    Raises:
        LMStudioUnreachable: nobody answers at `base_url`.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        timeout_s: float = 10.0,
        max_retries: int = 2,
        healthcheck_on_init: bool = True,
        model: str | None = None,
    ) -> None:
        provider = LMStudioProvider(model, base_url=base_url, timeout=timeout_seconds(timeout_s))
        super().__init__(LLM(provider, max_retries=max_retries))
        if healthcheck_on_init:
            try:
                flow.run(provider.models_flow())
            except BaseException:
                self.close()
                raise


def _messages(request: ChatRequest) -> list[Message]:
    return [Message(Role(turn["role"]), turn["content"]) for turn in request.messages]


def _result(response: LLMResponse) -> ChatResult:
    reason = response.finish_reason
    return ChatResult(
        content=well_formed(response.content),
        finish_reason="length" if reason == "length" else "error" if reason == "error" else "stop",
        usage=response.usage,
        model_id=well_formed(response.model),
        latency_ms=max(0, round(response.duration_ms)),
        request_id=well_formed(response.request_id or f"local-{uuid4()}"),
        cost_usd=response.cost_usd if response.priced else None,
    )
