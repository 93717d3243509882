"""A request of each workflow, with a right answer of the model to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pywrapai_graph import BaseRetriever, Chunk, ScoredChunk
from pywrapai_graph.workflows import rag_answer, shift_summary
from pywrapai_graph.workflows.rag_answer import SAFE_ANSWER, RAGRequest, RAGResult
from pywrapai_graph.workflows.shift_summary import ShiftNote, SummaryResult
from pywrapai_graph.workflows.triage import TriageRequest
from tests.graph.workflow_stubs import ACTOR, Script

KNOWN: dict[str, Any] = {"actor": ACTOR, "request_id": "r1"}

COMPLAINT = TriageRequest(
    subject="No internet", body="Since 9 this morning nothing works.", customer_tier="platinum"
)
TRIAGED = {
    "category": "connectivity",
    "priority": "P1",
    "suggested_owner": "network-operations",
    "confidence": 0.9,
    "rationale": "The customer has had no service since 9.",
}

ANSWERED = {
    "answer": "Reset the VPN token in the portal.",
    "citations": [{"chunk_id": "c1", "source_doc": "invented.md", "version": "9.9.9"}],
}


NOTE = ShiftNote(
    line="L1",
    shift="night",
    raw_text=(
        "Press P-7 lost pressure twice, sealed at 03:40.\n"
        "12 caps with scratches. Nobody hurt.  Please watch P-7 and refill the glue."
    ),
    written_at=datetime(2026, 12, 1, 6, tzinfo=UTC),
    author_id="w.meyer",
)
SUMMARY: dict[str, Any] = {
    "line": "L1",
    "shift": "night",
    "machine_issues": [{"machine_id": "P-7", "severity": 2, "note": "lost pressure twice"}],
    "qa_defects": ["12 caps with scratches"],
    "safety_incidents": [],
    "focus_for_next_shift": "please watch P-7 and refill the glue",
}


VPN = Chunk(
    "Reset the VPN token in the portal. It takes 15 minutes.",
    "doc-1",
    {"source": "sop-12.md", "version": "2.1.0"},
    "c1",
)
PRINTER = Chunk(
    "Printers are on floor 3. Call 4711 for toner.", "doc-2", {"date": "2026-01-31"}, "c2"
)
QUESTION = RAGRequest(question="How do I reset the VPN token?", corpus_id="it")
UNSUPPORTED = {**ANSWERED, "answer": "Reset the VPN token in the portal. It takes 5 minutes."}


class Shelf(BaseRetriever):
    """Finds what it was given, with falling scores."""

    def __init__(self, *chunks: Chunk, scores: tuple[float, ...] = (0.9, 0.5, 0.3)) -> None:
        self.hits = [ScoredChunk(*pair) for pair in zip(chunks, scores, strict=False)]
        self.asked: list[tuple[str, int]] = []

    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        self.asked.append((query, k))
        return self.hits[:k]

    def add_documents(self, docs: Any, chunker: Any = None) -> int:
        raise NotImplementedError


def ask(*answers: Any, shelf: Shelf | None = None, **request: Any) -> tuple[RAGResult, Script]:
    client = Script(*answers)
    asked = QUESTION.model_copy(update=request)
    retrievers = {"it": shelf or Shelf(VPN, PRINTER)}
    return rag_answer.run(asked, **KNOWN, client=client, retrievers=retrievers), client


def is_safe(result: RAGResult) -> bool:
    return (result.output.answer, result.output.citations) == (SAFE_ANSWER, [])


def summarise(*answers: Any) -> tuple[SummaryResult, Script]:
    client = Script(*answers)
    return shift_summary.run(NOTE, **KNOWN, client=client), client
