"""The three modules: their types and rules, with a model that misbehaves by script."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from pywrapai import LLM
from pywrapai.core.flow import Flow
from pywrapai.embedder import Embedder
from pywrapai.lmstudio import ChatRequest, ChatResult
from pywrapai_graph import InMemoryVectorStore, VectorRetriever
from pywrapai_graph.rag import Document
from pywrapai_graph.workflows import (
    LLMClient,
    Workflow,
    WorkflowResult,
    rag_answer,
    shift_summary,
    triage,
)
from pywrapai_graph.workflows.rag_answer import (
    RAGRequest,
)
from pywrapai_graph.workflows.shift_summary import (
    MachineIssue,
    ShiftNote,
    ShiftSummary,
    SummaryResult,
)
from pywrapai_graph.workflows.triage import TriageOutput, TriageRequest, TriageResult
from tests.graph.workflow_cases import (
    ANSWERED,
    COMPLAINT,
    KNOWN,
    NOTE,
    QUESTION,
    SUMMARY,
    TRIAGED,
    is_safe,
    summarise,
)
from tests.graph.workflow_stubs import Script, answer

# Triage


def test_a_complaint_is_triaged():
    client = Script(TRIAGED)

    result = triage.run(COMPLAINT, **KNOWN, client=client)

    assert isinstance(result, TriageResult)
    assert result.output == TriageOutput(**TRIAGED)
    assert (result.meta.module_name, result.meta.module_version) == ("workflows.triage", "1.0.0")
    assert json.loads(client.last_said) == {
        "subject": "No internet",
        "body": "Since 9 this morning nothing works.",
        "customer_tier": "platinum",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"category": "internet"},
        {"category": None},
        {"priority": "P0"},
        {"priority": "p1"},
        {"confidence": 1.01},
        {"confidence": -0.1},
        {"confidence": "very"},
        {"confidence": "0.9"},
        {"confidence": True},
        {"confidence": float("nan")},
        {"suggested_owner": "\N{ZERO WIDTH SPACE}"},
        {"rationale": " "},
        {"suggested_owner": ""},
        {"suggested_owner": "x" * 101},
        {"rationale": "x" * 501},
    ],
)
def test_a_triage_that_breaks_a_rule_twice_goes_to_a_human(wrong):
    bad = {**TRIAGED, **wrong}

    assert triage.run(COMPLAINT, **KNOWN, client=Script(bad, TRIAGED)).validated
    result = triage.run(COMPLAINT, **KNOWN, client=Script(bad, bad))
    assert (result.output, result.validated) == (None, False)
    assert next(iter(wrong)) in result.reasons[0].message


def test_a_complaint_has_a_tier_and_may_have_a_time():
    assert COMPLAINT.timestamp is None
    assert TriageRequest(
        subject="", body="", customer_tier="gold", timestamp="2026-12-01T10:00:00Z"
    ).timestamp == datetime(2026, 12, 1, 10, tzinfo=UTC)
    with pytest.raises(ValidationError):
        TriageRequest(subject="s", body="b", customer_tier="bronze")


def test_a_request_with_half_a_character_is_served():
    client = Script(TRIAGED)
    odd = COMPLAINT.model_copy(update={"body": "caf\udce9 is offline"})

    assert triage.run(odd, **KNOWN, client=client).validated
    assert "is offline" in client.last_said
    client = Script(SUMMARY)
    odd_note = NOTE.model_copy(update={"raw_text": f"{NOTE.raw_text} caf\udce9"})
    assert shift_summary.run(odd_note, **KNOWN, client=client).validated


# Answers from a corpus


# Summaries of a shift


def test_a_note_is_summarised_in_its_own_words():
    result, client = summarise(SUMMARY)

    assert isinstance(result, SummaryResult)
    assert result.validated
    assert result.output == ShiftSummary(**SUMMARY)
    assert result.output.machine_issues == [
        MachineIssue(machine_id="P-7", severity=2, note="lost pressure twice")
    ]
    assert set(json.loads(client.last_said)) == {"line", "shift", "raw_text"}


def test_fields_without_a_text_need_none_in_the_note():
    empty = {"machine_issues": [], "qa_defects": [""], "focus_for_next_shift": ""}

    assert summarise({**SUMMARY, **empty})[0].validated


@pytest.mark.parametrize(
    ("wrong", "rule", "told"),
    [
        ({"qa_defects": ["13 caps with scratches"]}, "containment", "qa_defects: '13 caps"),
        ({"qa_defects": ["2 caps with scratches"]}, "containment", "qa_defects: '2 caps"),
        ({"safety_incidents": ["A worker slipped"]}, "containment", "safety_incidents"),
        ({"focus_for_next_shift": "Watch P-7 closely"}, "containment", "focus_for_next_shift"),
        (
            {"machine_issues": [{"machine_id": "P-8", "severity": 1, "note": "sealed at 03:40"}]},
            "containment",
            "machine_issues.machine_id: 'P-8'",
        ),
        (
            {"machine_issues": [{"machine_id": "P-7", "severity": 3, "note": "exploded"}]},
            "containment",
            "machine_issues.note: 'exploded'",
        ),
        (
            {"machine_issues": [{"machine_id": "P-7", "severity": 4, "note": "sealed"}]},
            "schema",
            "severity",
        ),
        (
            {"machine_issues": [{"machine_id": "P-7", "severity": True, "note": "sealed"}]},
            "schema",
            "severity",
        ),
        ({"line": "L2"}, "other_shift", "line L2, night shift"),
        ({"shift": "morning"}, "other_shift", "morning shift"),
        ({"shift": "day"}, "schema", "shift"),
        ({"qa_defects": "none"}, "schema", "qa_defects"),
    ],
)
def test_a_summary_that_breaks_a_rule_twice_goes_to_a_human(wrong, rule, told):
    bad = {**SUMMARY, **wrong}

    once, client = summarise(bad, SUMMARY)
    assert once.validated
    assert told in client.last_said
    twice, _ = summarise(bad, bad)
    assert (twice.validated, twice.output) == (False, None)
    assert {reason.rule for reason in twice.reasons} == {rule}


WORDS = st.sampled_from(
    [
        *NOTE.raw_text.split(),
        "13",
        "exploded",
        "P-77",
        "",
        "\u200b",
        "\N{FULLWIDTH DIGIT ONE}2",
        "Caps",
    ]
)
PHRASES = st.lists(WORDS, max_size=4).map(" ".join)


@given(st.builds(dict, qa_defects=st.lists(PHRASES, max_size=2), focus_for_next_shift=PHRASES))
@settings(max_examples=300, deadline=None)
def test_whatever_a_model_makes_of_the_words_only_the_notes_own_come_out(made):
    result, _ = summarise({**SUMMARY, **made}, {**SUMMARY, **made})

    note = " ".join(NOTE.raw_text.casefold().split())
    for text in [*made["qa_defects"], made["focus_for_next_shift"]]:
        plain = unicodedata.normalize("NFKC", text).replace("\u200b", " ").casefold().strip(" .")
        if result.validated:
            assert " ".join(plain.split()) in note
    assert result.validated is (result.output is not None)


def test_a_note_is_of_a_line_and_a_shift():
    for wrong in ({"line": "L3"}, {"shift": "day"}):
        with pytest.raises(ValidationError):
            ShiftNote(**{**NOTE.model_dump(), **wrong})


# Real parts


class Brief(LLMClient):
    """The small model rambles: a few words show as well as many what becomes of them."""

    def chat_flow(self, request: ChatRequest) -> Flow[ChatResult]:
        return super().chat_flow(request.model_copy(update={"max_tokens": 48}))


@pytest.fixture(scope="module")
def local() -> LLMClient:
    return Brief(LLM("local"))


@pytest.fixture(scope="module")
def corpus() -> VectorRetriever:
    retriever = VectorRetriever(Embedder("local"), InMemoryVectorStore())
    retriever.add_documents(
        [
            Document("Reset the VPN token in the portal.", {"source": "vpn.md", "version": "1.0"}),
            Document("Printers are on floor 3.", {"source": "printers.md"}),
        ]
    )
    return retriever


def keeps_the_contract(result: WorkflowResult[Any]) -> None:
    assert result.meta.attempts in (1, 2)
    assert result.meta.model_id
    assert result.meta.usage.output_tokens > 0
    assert result.meta.cost_usd == 0.0
    assert type(result).model_validate_json(result.model_dump_json()) == result
    if not result.validated:
        assert result.reasons


async def test_the_local_models_triage_is_validated_or_a_humans(local):
    result = await triage.arun(COMPLAINT, **KNOWN, client=local)
    await local.aclose()

    keeps_the_contract(result)
    assert result.validated is (result.output is not None)


def test_the_local_models_answer_is_validated_or_the_safe_one(local, corpus):
    result = rag_answer.run(QUESTION, **KNOWN, client=local, retrievers={"it": corpus})

    keeps_the_contract(result)
    if not result.validated or not result.output.citations:
        assert is_safe(result)
    else:
        assert all(
            cited.chunk_id in result.output.retrieval_trace for cited in result.output.citations
        )
        assert result.output.answer.strip(". ") in "Reset the VPN token in the portal"


def test_the_local_models_summary_is_validated_or_a_humans(local):
    result = shift_summary.run(NOTE, **KNOWN, client=local)

    keeps_the_contract(result)
    assert result.validated is (result.output is not None)


class Light(BaseModel):
    color: Literal["red", "green"]


def test_the_local_model_is_held_to_the_schema_of_a_workflow(local):
    workflow = Workflow(
        name="tests.light",
        version="1.0.0",
        request=str,
        output=Light,
        prompt=lambda said: f"Which color is it? {said}",
    )

    result = workflow.run("The light is green.", **KNOWN, client=local)

    assert result.validated
    assert result.output.color in ("red", "green")


def test_a_real_retriever_is_asked_for_what_scores_enough(corpus):
    client = Script(answer(ANSWERED))
    unrelated = RAGRequest(question="zebra migration patterns", corpus_id="it", min_score=0.9)

    result = rag_answer.run(unrelated, **KNOWN, client=client, retrievers={"it": corpus})

    assert is_safe(result)
    assert client.requests == []
