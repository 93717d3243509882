"""A three-turn conversation with the local model, streamed to the terminal and recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pywrapai.llm import LLM
from pywrapai_graph import GraphLLM
from pywrapai_monitor.graph import MonitoredGraph
from pywrapai_monitor.monitor import Monitor

QUESTIONS = (
    "What is the capital of France?",
    "Which river flows through it?",
    "What should I see there first?",
)
USER = "demo-user"


def talk(monitor: Monitor) -> None:
    """Hold the conversation, then print what the database now holds of it."""
    session = datetime.now(UTC).strftime("demo-%Y%m%d-%H%M%S-%f")
    with LLM("local", temperature=0, max_tokens=60) as llm:
        graph = GraphLLM(
            llm,
            enable_system_prompt_versioning=True,
            prompt_file="guide-v1.txt",
            prompts_dir=_prompts_dir(),
        )
        tracked = monitor.wrap(graph, user_id=USER, session_id=session)
        print(f"{llm.model}, in this process; session {session}\nsystem: {graph.system_prompt}")
        for question in QUESTIONS:
            _ask(tracked, question)
    _print_recorded(monitor, session)


def _ask(tracked: MonitoredGraph, question: str) -> None:
    print(f"\nyou:    {question}\nmodel:  ", end="", flush=True)
    with tracked.stream(question) as pieces:
        for piece in pieces:
            print(piece, end="", flush=True)
    if (response := pieces.response) is not None:
        usage = response.usage
        print(
            f"\n        [{usage.input_tokens} tokens in, {usage.output_tokens} out, "
            f"{response.duration_ms / 1000:.1f} s, {response.finish_reason}]"
        )


def _print_recorded(monitor: Monitor, session: str) -> None:
    rows = monitor.store.get_session_token_records(USER, session)
    messages = monitor.store.get_conversation(USER, session)
    tokens_in, tokens_out = (sum(r[f"{way}_tokens"] for r in rows) for way in ("input", "output"))
    cost = sum(row["cost_usd"] for row in rows)
    print(
        f"\nRecorded: {len(messages)} messages, {len(rows)} calls, {tokens_in} tokens in, "
        f"{tokens_out} out, ${cost:.6f}"
    )
    everything = monitor.store.get_overview()
    sessions = everything["sessions"]
    print(
        f"In the database: {everything['calls']} calls, {sessions} session{'s' * (sessions != 1)}, "
        f"{everything['total_tokens']} tokens, ${everything['cost_usd']:.6f}"
    )


def _prompts_dir() -> Path:
    """The example prompts: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "demo_prompts"
    return installed if installed.is_dir() else package.parent / "system_prompts_registry"
