"""What the tests of workflows share: a client that answers from a script, and somebody who asks."""

from __future__ import annotations

import json
from typing import Any

from pywrapai import TokenUsage
from pywrapai.lmstudio import ChatRequest, ChatResult
from pywrapai_graph.workflows import Actor

ACTOR = Actor(user_id="u1", tenant_id="t1", role="operator")


def answer(content: Any, **known: Any) -> ChatResult:
    """An answer; what is no text goes out as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    usual = {"finish_reason": "stop", "usage": TokenUsage(100, 20), "model_id": "qwen"}
    return ChatResult(**{**usual, "latency_ms": 7, "request_id": "c1", **known, "content": text})


class Script:
    """Gives its answers in their order and keeps what it was asked. An exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []

    def chat(self, request: ChatRequest) -> ChatResult:
        self.requests.append(request)
        given = self.answers.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given if isinstance(given, ChatResult) else answer(given)

    @property
    def last_said(self) -> str:
        """What the model was told last."""
        return self.requests[-1].messages[-1]["content"]
