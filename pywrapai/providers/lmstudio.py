"""LM Studio: OpenAI's wire on this machine, with a few turns of its own.

Source: https://lmstudio.ai/docs/developer/openai-compat.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, ClassVar

from pywrapai.core.base import LLMResponse, Request
from pywrapai.core.flow import Flow, run
from pywrapai.core.thinking import Separated, Splitter
from pywrapai.exceptions import (
    LMStudioUnreachable,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
)
from pywrapai.providers.openai import OpenAIProvider, StreamDecoder, from_wire
from pywrapai.providers.wire import Decoder

DEFAULT_URL = "http://localhost:1234/v1"
# Where an answer's form is asked for, the reasoning stands in the text, up to this.
_END_OF_REASONING = re.compile("__LM_STUDIO_INTERNAL_LSEP_SYNTHETIC_REASONING_END_[0-9a-fA-F]+__")


class LMStudioProvider(OpenAIProvider):
    """The model that LM Studio has loaded, or loads for the name. No key.

    Without `model=` the request names none, and LM Studio takes the one that is loaded; with
    several of them it asks for a name. `response.model` says who answered.
    """

    name = "lmstudio"
    default_model = ""
    default_embedding_model: ClassVar[str] = "text-embedding-nomic-embed-text-v1.5"
    default_base_url = DEFAULT_URL
    key_env: ClassVar[tuple[str, ...]] = ()

    def to_wire(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """As OpenAI takes it; a tool that must be called is the only one, for lack of a choice."""
        if request.tool_choice in (None, "auto", "required", "none"):
            return super().to_wire(request, stream=stream)
        tools = [tool for tool in request.tools or () if tool["name"] == request.tool_choice]
        forced = replace(request, tools=tools, tool_choice="required")
        return super().to_wire(forced, stream=stream)

    def from_wire(self, body: Any) -> LLMResponse:
        """The response in a chat completion, without the reasoning that its text may begin with."""
        return from_wire(body, splitter=_reasoning_first(), provider=self.name)

    def structured_flow(self, request: Request) -> Flow[LLMResponse]:
        """The answer, also where LM Studio took it for reasoning."""
        return _answer_first((yield from super().structured_flow(request)))

    def decoder(self, request: Request) -> Decoder:
        """Gives text as it comes; where its form is asked for, once the reasoning is over."""
        if request.schema is None and "response_format" not in request.settings:
            return super().decoder(request)
        return StreamDecoder(_reasoning_first(), self.name)

    def models_flow(self) -> Flow[list[str]]:
        """The models on offer, which says too that LM Studio runs; else LMStudioUnreachable."""
        try:
            return (yield from super().models_flow())
        except ProviderTimeoutError as error:
            raise LMStudioUnreachable(error.message).about(provider=self.name) from error

    def map_error(self, error: Exception) -> ProviderError | None:
        """As for OpenAI, and a server that is not there by its own name."""
        mapped = super().map_error(error)
        if isinstance(mapped, ProviderConnectionError):
            return LMStudioUnreachable(
                f"{mapped.message} LM Studio's server is started in its Developer tab, or with "
                "lms server start"
            )
        return mapped


def healthcheck(base_url: str | None = None, timeout: float = 10.0) -> list[str]:
    """The models on offer, by GET /v1/models. LMStudioUnreachable if LM Studio does not answer."""
    return run(LMStudioProvider(base_url=base_url, timeout=timeout).models_flow())


def _reasoning_first() -> Splitter:
    return Separated(_END_OF_REASONING, "_")


def _answer_first(response: LLMResponse) -> LLMResponse:
    """LM Studio 0.4 files a formed answer of some reasoning models under reasoning, all of it."""
    if response.content or response.tool_calls or not response.thinking:
        return response
    try:
        json.loads(response.thinking)
    except ValueError:
        return response
    return replace(response, content=response.thinking, thinking=None)
