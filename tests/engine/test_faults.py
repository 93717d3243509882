"""Every way in which a server fails, made to happen: what the caller gets, asks and waits.

`FAULTS` is also the table of docs/faults.md, which `tests/test_docs.py` compares with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeAlias

import pytest

from pywrapai import (
    LLM,
    AuthError,
    LLMResponse,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    ServerError,
    StreamInterruptedError,
)
from pywrapai.providers import provider_class
from pywrapai.testing import StubServer, refusing_port
from pywrapai.testing.wires import Reply, events, hang_up, html, raw, status, text
from tests.contracts.provider import KEY

WIRES = ("openai", "anthropic", "gemini", "ollama")
SAID = "one two three four five six"
TIMEOUT = 0.4
SLACK = 2.5
"""Seconds that a busy machine may take beyond what is promised; what is timed are waits."""

Script: TypeAlias = Callable[[str], list[Reply]]
"""The replies in order, on the wire of that name; the last one is given again and again."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row of the table."""

    what: str
    replies: Script | None
    """None: nobody listens."""
    raises: type[ProviderError] | None = None
    """None: the caller gets the answer."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Attributes of the error; numbers may be two off."""
    cause: type[ProviderError] | None = None
    requests: int
    backup: int | None = None
    """Requests to the fallback; None: there is no fallback."""
    seconds: tuple[float, float]
    """At least, and at most."""
    stream: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    wires: tuple[str, ...] = WIRES

    @property
    def row(self) -> str:
        """The row as it stands in the docs."""
        asked = str(self.requests) if self.backup is None else f"{self.requests} + {self.backup}"
        return f"| {self.what} | {self._outcome} | {asked} | {self._wait} |"

    @property
    def _outcome(self) -> str:
        if self.raises is None:
            return "the answer" if self.backup is None else "the fallback's answer"
        said = f"`{self.raises.__name__}`"
        if self.facts:
            said += f" with {', '.join(f'`{name}={value}`' for name, value in self.facts.items())}"
        if self.cause:
            return f"the text until then, and {said} from `{self.cause.__name__}`"
        return said

    @property
    def _wait(self) -> str:
        least, most = self.seconds
        if most == 0:
            return "at once"
        if self.settings.get("timeout"):
            return "`timeout`" if self.requests == 1 else "3 times `timeout`, and 0.75 to 1.5 s"
        return f"{most:g} s" if least == most else f"{least:g} to {most:g} s"


def always(*replies: Reply) -> Script:
    return lambda wire: list(replies)


def once(reply: Reply) -> Script:
    return always(reply, text(SAID))


def date_in(**ahead: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(**ahead), usegmt=True)


def error_event(wire: str) -> Reply:
    """An error with status 200, in the form of each wire."""
    busy: dict[str, Any] = {"type": "overloaded_error", "message": "busy"}
    match wire:
        case "anthropic":
            return events({"type": "error", "error": busy}, done=False)
        case "gemini":
            busy = {"code": 503, "status": "UNAVAILABLE", "message": "busy"}
        case "ollama":
            return events({"error": "busy"}, done=False)
    return events({"error": busy}, done=False)


RETRIED = (0.75, 1.5)  # two waits: half a second and one, each shortened by up to a half
ONE_WAIT = (0.25, 0.5)
AT_ONCE = (0.0, 0.0)

FAULTS = [
    Fault(
        what="429 with `Retry-After: 1`, then an answer",
        replies=once(status(429, retry_after=1)),
        requests=2,
        seconds=(1, 1),
    ),
    Fault(
        what="429 with `Retry-After: 1`, again and again",
        replies=always(status(429, retry_after=1)),
        raises=RateLimitError,
        facts={"retry_after": 1.0},
        requests=3,
        seconds=(2, 2),
    ),
    Fault(
        what="429 with `Retry-After: 3600`",
        replies=always(status(429, retry_after=3600)),
        raises=RateLimitError,
        facts={"retry_after": 3600.0},
        requests=1,
        seconds=AT_ONCE,
    ),
    Fault(
        what="429 with a date as `Retry-After`, two seconds ahead, then an answer",
        replies=lambda wire: [status(429, retry_after=date_in(seconds=2)), text(SAID)],
        requests=2,
        seconds=(1, 2),  # a date in HTTP has no fractions of a second
    ),
    Fault(
        what="429 with a date as `Retry-After`, an hour ahead",
        replies=lambda wire: [status(429, retry_after=date_in(hours=1))],
        raises=RateLimitError,
        facts={"retry_after": 3600.0},
        requests=1,
        seconds=AT_ONCE,
    ),
    Fault(
        what="429 without `Retry-After`, again and again",
        replies=always(status(429)),
        raises=RateLimitError,
        facts={"status_code": 429},
        requests=3,
        seconds=RETRIED,
    ),
    Fault(
        what="429 because the account has no credit (OpenAI)",
        replies=always(status(429, code="insufficient_quota")),
        raises=RateLimitError,
        facts={"retryable": False},
        requests=1,
        seconds=AT_ONCE,
        wires=("openai",),
    ),
    Fault(
        what="401",
        replies=always(status(401)),
        raises=AuthError,
        facts={"status_code": 401},
        requests=1,
        seconds=AT_ONCE,
    ),
    Fault(
        what="529, the provider is overloaded, again and again",
        replies=always(status(529)),
        raises=ServerError,
        facts={"status_code": 529},
        requests=3,
        seconds=RETRIED,
    ),
    Fault(
        what="500, then an answer",
        replies=once(status(500)),
        requests=2,
        seconds=ONE_WAIT,
    ),
    Fault(
        what="500 with `max_retries=0`",
        replies=always(status(500)),
        raises=ServerError,
        facts={"status_code": 500},
        requests=1,
        seconds=AT_ONCE,
        settings={"max_retries": 0},
    ),
    Fault(
        what="connection refused",
        replies=None,
        raises=ProviderConnectionError,
        requests=3,
        seconds=RETRIED,
    ),
    Fault(
        what="the server hangs up without an answer",
        replies=always(hang_up()),
        raises=ProviderConnectionError,
        requests=3,
        seconds=RETRIED,
    ),
    Fault(
        what="no byte within `timeout`",
        replies=always(text(SAID).delayed(30)),
        raises=ProviderTimeoutError,
        requests=3,
        seconds=(3 * TIMEOUT + 0.75, 3 * TIMEOUT + 1.5),
        settings={"timeout": TIMEOUT},
    ),
    Fault(
        what="HTML with status 200, such as a login page",
        replies=always(html("<html>Please log in</html>")),
        raises=ServerError,
        facts={"retryable": False},
        requests=1,
        seconds=AT_ONCE,
    ),
    Fault(
        what="HTML with status 200 where a stream should be",
        replies=always(html("<html>Please log in</html>")),
        raises=ServerError,
        facts={"retryable": False},
        requests=1,
        seconds=AT_ONCE,
        stream=True,
    ),
    Fault(
        what="JSON with status 200 that is no answer, again and again",
        replies=always(raw([])),
        raises=ServerError,
        requests=3,
        seconds=RETRIED,
    ),
    Fault(
        what="a stream that is cut before its first chunk, then a whole one",
        replies=once(text(SAID).cut_after(0)),
        requests=2,
        seconds=ONE_WAIT,
        stream=True,
    ),
    Fault(
        what="a stream that is cut before its first chunk, again and again",
        replies=always(text(SAID).cut_after(0)),
        raises=ProviderConnectionError,
        requests=3,
        seconds=RETRIED,
        stream=True,
    ),
    Fault(
        what="a stream that is cut after some chunks",
        replies=always(text(SAID).cut_after(4)),
        raises=StreamInterruptedError,
        cause=ProviderConnectionError,
        requests=1,
        seconds=AT_ONCE,
        stream=True,
    ),
    Fault(
        what="a stream that falls silent after some chunks",
        replies=always(text(SAID).stall_after(4)),
        raises=StreamInterruptedError,
        cause=ProviderTimeoutError,
        requests=1,
        seconds=(TIMEOUT, TIMEOUT),
        stream=True,
        settings={"timeout": TIMEOUT},
    ),
    Fault(
        what="an error inside a 200 stream before any text, then a whole one",
        replies=lambda wire: [error_event(wire), text(SAID)],
        requests=2,
        seconds=ONE_WAIT,
        stream=True,
    ),
    Fault(
        what="an error inside a 200 stream before any text, again and again",
        replies=lambda wire: [error_event(wire)],
        raises=ServerError,
        requests=3,
        seconds=RETRIED,
        stream=True,
    ),
    Fault(
        what="a fallback, and a first model that always fails (500)",
        replies=always(status(500)),
        requests=3,
        backup=1,
        seconds=RETRIED,
    ),
    Fault(
        what="the same with `max_retries=0` on the first",
        replies=always(status(500)),
        requests=1,
        backup=1,
        seconds=AT_ONCE,
        settings={"max_retries": 0},
    ),
    Fault(
        what="a fallback, and a first model that answers 429 with `Retry-After: 3600`",
        replies=always(status(429, retry_after=3600)),
        requests=1,
        backup=1,
        seconds=AT_ONCE,
    ),
    Fault(
        what="a fallback, and a first model whose streams are cut before their first chunk",
        replies=always(text(SAID).cut_after(0)),
        requests=3,
        backup=1,
        seconds=RETRIED,
        stream=True,
    ),
    Fault(
        what="a fallback, and a first model whose stream is cut after some chunks",
        replies=always(text(SAID).cut_after(4)),
        raises=StreamInterruptedError,
        cause=ProviderConnectionError,
        requests=1,
        backup=0,
        seconds=AT_ONCE,
        stream=True,
    ),
]


@dataclass
class Outcome:
    """What one caller got."""

    requests: int
    arrived: int
    backup: int
    seconds: float
    error: ProviderError | None = None
    pieces: str = ""
    response: LLMResponse | None = None


class Scene:
    """One failing server, a working one behind it, and an LLM that asks them on one wire."""

    def __init__(self, fault: Fault, wire: str, stack: ExitStack) -> None:
        self.fault = fault
        self.backup = stack.enter_context(StubServer(SAID))
        self.server: StubServer | None = None
        if fault.replies is None:
            url = f"http://127.0.0.1:{stack.enter_context(refusing_port())}"
        else:
            first, *rest = fault.replies(wire)
            self.server = stack.enter_context(StubServer(lambda request: (rest or [first])[-1]))
            self.server.reply(first)
            url = self.server.url(wire)
        self.llm = self._llm(wire, url)
        self.posts = 0

    def _llm(self, wire: str, url: str) -> LLM:
        fault, fallbacks = self.fault, []
        if fault.backup is not None:
            spare = LLM("openai", "gpt-4o", api_key=KEY, base_url=self.backup.url("openai"))
            fallbacks = [spare]
        settings = {k: v for k, v in fault.settings.items() if k != "timeout"}
        timeout = fault.settings.get("timeout", 60.0)
        provider = counting(wire, self._count)(api_key=KEY, base_url=url, timeout=timeout)
        return LLM(provider, fallbacks=fallbacks, **settings)

    def _count(self) -> None:
        self.posts += 1

    def ask(self) -> Outcome:
        started, error, pieces, response = time.monotonic(), None, "", None
        try:
            if self.fault.stream:
                for piece in (stream := self.llm.stream("Count.")):
                    pieces += piece
                response = stream.response
            else:
                response = self.llm.chat("Count.")
        except ProviderError as caught:
            error = caught
        return self._outcome(time.monotonic() - started, error, pieces, response)

    async def aask(self) -> Outcome:
        started, error, pieces, response = time.monotonic(), None, "", None
        try:
            if self.fault.stream:
                async for piece in (stream := self.llm.astream("Count.")):
                    pieces += piece
                response = stream.response
            else:
                response = await self.llm.achat("Count.")
        except ProviderError as caught:
            error = caught
        return self._outcome(time.monotonic() - started, error, pieces, response)

    def _outcome(self, seconds: float, *what: Any) -> Outcome:
        arrived = len(self.server.requests) if self.server else 0
        return Outcome(self.posts, arrived, len(self.backup.requests), seconds, *what)


def counting(wire: str, count: Callable[[], None]) -> Any:
    """The provider, which counts its attempts too: those to a refusing port arrive nowhere."""
    real: Any = provider_class(wire)

    class Counting(real):
        def post(self, *args: Any, **more: Any) -> Any:
            count()
            return super().post(*args, **more)

        async def apost(self, *args: Any, **more: Any) -> Any:
            count()
            return await super().apost(*args, **more)

    return Counting


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """What is timed below are waits, and not the first import of an SDK."""
    with StubServer("ok") as server:
        for wire in WIRES:
            LLM(wire, api_key=KEY, base_url=server.url(wire)).chat("Hello")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
async def test_a_fault_costs_what_the_table_says_on_every_wire_sync_and_async(fault: Fault):
    with ExitStack() as stack:
        scenes = [Scene(fault, wire, stack) for wire in fault.wires for _ in range(2)]
        outcomes = await asyncio.gather(
            *(asyncio.to_thread(scene.ask) for scene in scenes[::2]),
            *(scene.aask() for scene in scenes[1::2]),
        )

    for outcome in outcomes:
        check(outcome, fault)


def check(outcome: Outcome, fault: Fault) -> None:
    least, most = fault.seconds
    assert outcome.requests == fault.requests
    assert outcome.arrived == (0 if fault.replies is None else fault.requests)
    assert outcome.backup == (fault.backup or 0)
    assert least - 0.02 <= outcome.seconds <= most + SLACK
    if fault.raises is None:
        assert outcome.error is None
        assert outcome.response is not None
        assert outcome.response.content == SAID
        return
    check_error(outcome, fault)


def check_error(outcome: Outcome, fault: Fault) -> None:
    error = outcome.error
    assert type(error) is fault.raises
    for name, value in fault.facts.items():
        found = getattr(error, name)
        assert abs(found - value) <= 2 if isinstance(value, float) else found == value
    if fault.cause is not None:
        assert isinstance(error, StreamInterruptedError)
        assert isinstance(error.__cause__, fault.cause)
        assert error.partial == outcome.pieces != ""


def test_every_row_is_another_one():
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
