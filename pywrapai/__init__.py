"""Call a model, whoever serves it, and know what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.cache import BaseCache, RedisCache, ResponseCache
from pywrapai.core.base import (
    LLMResponse,
    Message,
    Role,
    StreamEnd,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.core.extras import lazy
from pywrapai.core.image import Image
from pywrapai.core.stream import AsyncEventStream, AsyncTextStream, EventStream, TextStream
from pywrapai.exceptions import (
    AuthError,
    ConfigurationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LMStudioUnreachable,
    MissingDependencyError,
    ModelNotFoundError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    PyWrapAIError,
    RateLimitError,
    ServerError,
    StreamInterruptedError,
    StructuredOutputError,
)
from pywrapai.llm import LLM
from pywrapai.providers import BaseLLM, Compatible, register_provider
from pywrapai.tokens import (
    CallRecord,
    PricingError,
    TokenTracker,
    UnpricedModelWarning,
    get_cost,
    load_user_pricing,
)

if TYPE_CHECKING:
    from pywrapai.embedder import Embedder
    from pywrapai.prompts import PromptTemplate

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "AsyncEventStream",
    "AsyncTextStream",
    "AuthError",
    "BaseCache",
    "BaseLLM",
    "CallRecord",
    "Compatible",
    "ConfigurationError",
    "ContentFilterError",
    "ContextLengthError",
    "Embedder",
    "EventStream",
    "Image",
    "InvalidRequestError",
    "LLMResponse",
    "LMStudioUnreachable",
    "Message",
    "MissingDependencyError",
    "ModelNotFoundError",
    "PricingError",
    "PromptTemplate",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderTimeoutError",
    "PyWrapAIError",
    "RateLimitError",
    "RedisCache",
    "ResponseCache",
    "Role",
    "ServerError",
    "StreamEnd",
    "StreamInterruptedError",
    "StructuredOutputError",
    "TextDelta",
    "TextStream",
    "ThinkingDelta",
    "TokenTracker",
    "TokenUsage",
    "ToolCall",
    "ToolResult",
    "UnpricedModelWarning",
    "get_cost",
    "load_user_pricing",
    "register_provider",
]

# Not every program needs them, and Embedder alone takes five milliseconds to import.
__getattr__ = lazy(
    __name__, {"Embedder": "pywrapai.embedder", "PromptTemplate": "pywrapai.prompts"}
)
