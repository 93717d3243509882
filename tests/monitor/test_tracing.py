from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pywrapai import (
    LLM,
    Image,
    LLMResponse,
    ServerError,
    StreamInterruptedError,
    TokenUsage,
    ToolCall,
)
from pywrapai.core.flow import blocking
from pywrapai.testing import StubProvider, StubServer, text
from pywrapai_graph import GraphLLM, ToolRegistry, tool
from pywrapai_monitor import MonitoredGraph
from pywrapai_monitor.agent import MonitoredAgent
from pywrapai_monitor.privacy import Privacy
from pywrapai_monitor.tracing import Tracing
from tests.monitor.notebook import Notebook, tracked_of


class Traced:
    """A program with OpenTelemetry, and what it exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("the program")

    def tracing(self, content: bool = False) -> Tracing:
        return Tracing(content=content, tracer_provider=self.provider)

    @property
    def spans(self):
        return [s for s in self._exporter.get_finished_spans() if s.name.startswith("chat")]

    @property
    def span(self):
        (only,) = self.spans
        return only


@pytest.fixture
def traced():
    return Traced()


REPLY = LLMResponse(
    "Hello!", usage=TokenUsage(10, 5, 4, 3, 2), model="stub-2", request_id="req-1", cost_usd=0.5
)


def test_a_call_is_one_span_by_the_conventions(traced):
    tracked, notebook, _ = tracked_of(
        REPLY, tracing=traced.tracing(), prompt_name="support", prompt_version="v2"
    )

    tracked.chat("hi", temperature=0.5, max_tokens=9, seed=1, stop=["x"])

    span = traced.span
    assert (span.name, span.kind) == ("chat stub-model", SpanKind.CLIENT)
    assert span.status.status_code == StatusCode.UNSET
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "stub",
        "gen_ai.request.model": "stub-model",
        "gen_ai.conversation.id": "s",
        "gen_ai.prompt.name": "support",
        "gen_ai.prompt.version": "v2",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.seed": 1,
        "gen_ai.response.model": "stub-2",
        "gen_ai.response.id": "req-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_write.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "pywrapai.call_id": notebook.tokens[0].call_id,
    }


def test_the_provider_has_the_name_that_the_conventions_give_it(traced):
    class Gemini(StubProvider):
        name = "gemini"

    llm = LLM(Gemini([REPLY]), fallbacks=[LLM(StubProvider([REPLY]))])
    tracked, _, _ = tracked_of(llm=llm, tracing=traced.tracing())

    tracked.chat("hi")

    assert traced.span.attributes["gen_ai.provider.name"] == "gcp.gemini"


async def read(tracked: MonitoredGraph, way: str) -> None:
    if way == "chat":
        tracked.chat("hi")
    elif way == "achat":
        await tracked.achat("hi")
    elif way == "stream":
        list(tracked.stream("hi"))
    else:
        _ = [piece async for piece in tracked.astream("hi")]


WAYS = pytest.mark.parametrize("way", ["chat", "achat", "stream", "astream"])


@WAYS
async def test_the_span_is_the_child_of_the_callers(traced, way):
    tracked, _, _ = tracked_of("one two", tracing=traced.tracing())

    with traced.tracer.start_as_current_span("request") as parent:
        await read(tracked, way)
        assert trace.get_current_span() is parent

    assert traced.span.parent.span_id == parent.get_span_context().span_id
    assert traced.span.context.trace_id == parent.get_span_context().trace_id


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_a_stream_is_the_child_of_whoever_asked_for_it_wherever_it_is_read(traced, way):
    tracked, _, _ = tracked_of("one two", tracing=traced.tracing())

    with traced.tracer.start_as_current_span("request") as parent:
        stream = getattr(tracked, way)("hi")
    with traced.tracer.start_as_current_span("elsewhere") as elsewhere:
        if way == "stream":
            for _ in stream:
                assert trace.get_current_span() is elsewhere
        else:
            _ = await asyncio.create_task(_listed(stream))

    assert traced.span.parent.span_id == parent.get_span_context().span_id


async def _listed(stream) -> list:
    return [piece async for piece in stream]


async def test_tasks_at_once_do_not_mix_their_spans(traced):
    tracked, _, _ = tracked_of(lambda messages, tools: "x", tracing=traced.tracing(), max_turns=0)
    parents = {}

    async def ask(number: int) -> None:
        with traced.tracer.start_as_current_span("request") as parent:
            response = await tracked.achat(str(number))
            parents[response.call_id] = parent.get_span_context().span_id

    await asyncio.gather(*(ask(number) for number in range(20)))

    found = {s.attributes["pywrapai.call_id"]: s.parent.span_id for s in traced.spans}
    assert found == parents


@WAYS
async def test_what_the_model_call_does_happens_within_its_span(traced, way):
    """So that an instrumented HTTP client's spans are its children."""
    current = []

    class Looking(StubProvider):
        def chat(self, *args, **kwargs):
            current.append(trace.get_current_span().get_span_context().span_id)
            return super().chat(*args, **kwargs)

    tracked, _, _ = tracked_of(llm=LLM(Looking(["one two"])), tracing=traced.tracing())

    await read(tracked, way)

    assert current == [traced.span.context.span_id]


@WAYS
async def test_a_span_begins_and_ends_when_the_call_does(traced, way):
    class Slow(StubProvider):
        def chat(self, *args, **kwargs):
            time.sleep(0.1)
            return super().chat(*args, **kwargs)

    tracked, notebook, _ = tracked_of(llm=LLM(Slow(["one two"])), tracing=traced.tracing())
    before = time.time_ns()

    await read(tracked, way)

    span, after = traced.span, time.time_ns()
    assert before <= span.start_time < span.start_time + 100_000_000 <= span.end_time <= after
    took = (span.end_time - span.start_time) / 1e6
    assert took == pytest.approx(notebook.tokens[0].duration_ms, abs=500)
    streams = "stream" in way
    assert span.attributes.get("gen_ai.request.stream") == (True if streams else None)
    first = span.attributes.get("gen_ai.response.time_to_first_chunk")
    assert first == (notebook.tokens[0].ttft_ms / 1000 if streams else None)


@WAYS
async def test_a_failed_call_has_the_errors_type_and_not_its_text(traced, way):
    tracked, _, _ = tracked_of(ServerError("it says s3cr3t"), tracing=traced.tracing())

    with pytest.raises(ServerError):
        await read(tracked, way)

    span = traced.span
    assert span.attributes["error.type"] == "ServerError"
    assert span.status.status_code == StatusCode.ERROR
    assert "s3cr3t" not in span.to_json()


def test_a_stream_that_breaks_is_an_error_with_what_is_known(traced):
    with StubServer() as server:
        server.reply(text("one two three").cut_after(2))
        llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)
        tracked, _, _ = tracked_of(llm=llm, tracing=traced.tracing())
        with pytest.raises(StreamInterruptedError):
            list(tracked.stream("hi"))

    attributes = traced.span.attributes
    assert attributes["error.type"] == "StreamInterruptedError"
    assert attributes["gen_ai.response.finish_reasons"] == ("error",)


def test_a_stream_that_is_left_is_no_error(traced):
    tracked, _, _ = tracked_of("one two three", tracing=traced.tracing())

    with tracked.stream("hi") as stream:
        next(stream)

    assert traced.span.status.status_code == StatusCode.UNSET
    assert "error.type" not in traced.span.attributes


async def test_a_cancelled_call_ends_its_span(traced):
    class Waiting(StubProvider):
        async def achat(self, *args, **kwargs):
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    tracked, _, _ = tracked_of(llm=LLM(Waiting()), tracing=traced.tracing())
    task = asyncio.create_task(tracked.achat("hi"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert traced.span.attributes["error.type"] == "CancelledError"


def test_a_stream_that_nobody_reads_has_no_span(traced):
    tracked, notebook, _ = tracked_of("never", tracing=traced.tracing())

    tracked.stream("hi")

    assert (traced.spans, len(notebook.entries)) == ([], 1)


def test_each_attempt_at_a_structured_answer_is_a_span(traced):
    tracked, notebook, _ = tracked_of("no", '{"a": 1}', tracing=traced.tracing())

    tracked.chat_structured("hi", {"type": "object"})

    assert [s.attributes["gen_ai.output.type"] for s in traced.spans] == ["json", "json"]
    ids = [s.attributes["pywrapai.call_id"] for s in traced.spans]
    assert ids == [token.call_id for token in notebook.tokens]


def test_a_cache_hit_is_marked(traced):
    llm = LLM(StubProvider(["x"]), cache=True)
    tracked, _, _ = tracked_of(llm=llm, tracing=traced.tracing(), max_turns=0)

    tracked.chat("hi")
    tracked.chat("hi")

    assert [s.attributes.get("pywrapai.cached") for s in traced.spans] == [None, True]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    where.append(trace.get_current_span())
    return a + b


where: list = []


def agent_of(notebook: Notebook, **more) -> MonitoredAgent:
    registry = ToolRegistry()
    registry.register(add)
    provider = StubProvider([[ToolCall("c1", "add", {"a": 1, "b": 2})], "3."])
    graph = GraphLLM(LLM(provider)).with_system_prompt("Use tools.")
    return MonitoredAgent(graph, registry, notebook.conversation(**more))


@pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])
async def test_each_model_call_of_an_agent_is_a_span_and_its_tools_run_in_none(traced, way):
    agent = agent_of(Notebook(), tracing=traced.tracing())
    where.clear()

    with traced.tracer.start_as_current_span("request") as parent:
        found = getattr(agent, way)("What is 1 + 2?")
        if way == "arun":
            await found
        elif way != "run":
            _ = await _listed(found) if way == "astream" else list(found)

    assert len(traced.spans) == 2
    assert {s.parent.span_id for s in traced.spans} == {parent.get_span_context().span_id}
    assert where == [parent]


# Content


def test_no_content_is_told_unless_asked_for(traced):
    tracked, _, _ = tracked_of("I say s3cr3t", tracing=traced.tracing())
    tracked.with_system_prompt("s3cr3t").chat("s3cr3t", tags=["s3cr3t"], metadata={"a": "s3cr3t"})

    assert "s3cr3t" not in traced.span.to_json()


def test_content_that_is_asked_for_is_in_the_conventions_form(traced):
    agent = agent_of(Notebook(), tracing=traced.tracing(content=True))

    agent.run("What is 1 + 2?")

    first, second = ({k: v for k, v in s.attributes.items()} for s in traced.spans)
    assert json.loads(first["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Use tools."}
    ]
    asked = {"role": "user", "parts": [{"type": "text", "content": "What is 1 + 2?"}]}
    call = {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}
    told = {"type": "tool_call_response", "id": "c1", "response": "3"}
    assert json.loads(first["gen_ai.input.messages"]) == [asked]
    assert json.loads(first["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [call], "finish_reason": "tool_calls"}
    ]
    assert json.loads(second["gen_ai.input.messages"]) == [
        asked,
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [told]},
    ]
    assert json.loads(second["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "3."}],
            "finish_reason": "stop",
        }
    ]


def test_content_passes_the_mask_and_images_are_not_in_it(traced):
    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 100)
    tracked, _, _ = tracked_of(
        "it is s3cr3t",
        tracing=traced.tracing(content=True),
        privacy=Privacy(lambda text: text.replace("s3cr3t", "***")),
    )

    tracked.chat([{"role": "user", "content": ["What is s3cr3t?", image]}])

    shown = traced.span.to_json()
    assert "s3cr3t" not in shown
    assert image.base64 not in shown
    assert "What is ***?" in shown
    assert "108 bytes" in shown


def test_what_no_exporter_could_send_is_written_otherwise(traced):
    half = "half \ud83d"
    calls = [ToolCall("c1", "f", {"x": float("nan"), "y": half})]
    tracked, _, _ = tracked_of(
        LLMResponse(half, tool_calls=calls),
        ServerError(half),
        tracing=traced.tracing(content=True),
        session_id=half,
        prompt_name=half,
    )
    tracked.chat(half)
    with pytest.raises(ServerError):
        tracked.chat(half)

    for span in traced.spans:
        span.to_json().encode()
        told = [*span.attributes.values(), span.status.description or ""]
        assert [value for value in told if isinstance(value, str) and half in value] == []
        assert span.attributes["gen_ai.conversation.id"] == "half \ufffd"
    answer = json.loads(traced.spans[0].attributes["gen_ai.output.messages"])[0]
    assert answer["parts"][1]["arguments"] == {"x": "NaN", "y": "half \ufffd"}


def test_an_error_text_that_is_asked_for_passes_the_mask(traced):
    tracked, _, _ = tracked_of(
        ServerError("no s3cr3t"),
        tracing=traced.tracing(content=True),
        privacy=Privacy(lambda text: text.replace("s3cr3t", "***")),
    )

    with pytest.raises(ServerError):
        tracked.chat("hi")

    assert traced.span.status.description == "no ***"


def test_where_no_content_is_stored_none_is_told(traced):
    tracked, _, _ = tracked_of(
        "s3cr3t", tracing=traced.tracing(content=True), privacy=Privacy(store_content=False)
    )

    tracked.chat("s3cr3t")

    assert "s3cr3t" not in traced.span.to_json()
    assert "gen_ai.input.messages" not in traced.span.attributes


# Without it


def test_without_tracing_opentelemetry_is_not_imported():
    code = """
import sys
from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor
import pywrapai_monitor.tracing
with Monitor(db_path=":memory:") as monitor:
    monitor.wrap(GraphLLM(LLM(StubProvider(["x"]))), user_id="u", session_id="s").chat("hi")
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"


def test_a_missing_opentelemetry_is_told_as_the_line_that_installs_it():
    code = """
import sys
sys.modules["opentelemetry"] = None
from pywrapai import MissingDependencyError
from pywrapai_monitor.tracing import Tracing
try:
    Tracing()
except MissingDependencyError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 'pip install "pywrapai[otel]"' in ended.stdout


async def test_steps_of_ones_own_keep_their_results_within_a_span(traced):
    class Flowing(StubProvider):
        def chat_flow(self, request):
            value = yield from blocking(lambda: trace.get_current_span().is_recording())
            return LLMResponse(str(value), model="m")

    tracked, _, _ = tracked_of(llm=LLM(Flowing()), tracing=traced.tracing())

    assert tracked.chat("hi").content == "True"
    assert (await tracked.achat("hi")).content == "True"
