from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from pywrapai_graph.workflows import (
    CitationNotInRetrieval,
    OutputRejectedError,
    check_citations,
    check_cited,
    check_contained,
    check_supported,
)


class Part(BaseModel):
    name: str
    weight: float
    grade: int = 1
    tags: dict[str, str] = Field(default_factory=dict)


class Box(BaseModel):
    parts: list[Part]
    fragile: bool = True
    when: datetime | None = None
    kind: Literal["crate", "bag"] | None = None


SOURCE = "Crate with bolt M4, 2.5 kg, and 3 nuts of 1 kg. Colour: red. Packed 2026-12-01."


def box(**part: Any) -> Box:
    return Box(parts=[Part(**{"name": "bolt M4", "weight": 2.5, **part})])


def test_every_text_and_number_wherever_it_stands_must_be_in_the_source():
    check_contained(box(tags={"colour": "RED"}), [SOURCE])

    for wrong, path in [
        (box(name="bolt M5"), "parts.name"),
        (box(weight=2.4), "parts.weight"),
        (box(weight=5), "parts.weight"),
        (box(grade=2), "parts.grade"),
        (box(tags={"colour": "blue"}), "parts.tags"),
        (box(tags={"size": "red"}), "parts.tags"),
        (Box(parts=[], kind="bag"), "kind"),
        (Box(parts=[], when=datetime(2026, 12, 2, tzinfo=UTC)), "when"),
    ]:
        with pytest.raises(OutputRejectedError, match=f"^{path}: ") as caught:
            check_contained(wrong, [SOURCE])
        assert caught.value.rule == "containment"


def test_what_says_nothing_needs_no_source():
    check_contained(box(tags={"colour": " \n"}), [SOURCE])
    check_contained(Box(parts=[]), [])


def test_a_judgement_is_left_out_by_its_path():
    check_contained(
        box(grade=9, tags={"x": "y"}), [SOURCE], leave_out=["parts.grade", "parts.tags"]
    )
    check_contained(box(name="ghost"), [SOURCE], leave_out=["parts"])
    with pytest.raises(OutputRejectedError):
        check_contained(box(grade=9), [SOURCE], leave_out=["grade", "part"])


def test_a_phrase_stands_in_one_source_and_not_across_two():
    halves = ["The pump", "is off."]
    with pytest.raises(OutputRejectedError):
        check_supported("The pump is off.", halves)
    check_supported("The pump is off.", [*halves, "Now the pump is off, again."])


def test_every_phrase_that_is_missing_is_told():
    with pytest.raises(OutputRejectedError) as caught:
        check_supported("It is red. It is blue. It is green.", ["It is blue."])

    assert len(caught.value.reasons) == 2
    assert "'It is red.'" in caught.value.reasons[0]


@pytest.mark.parametrize("nothing", ["", " ", "...", "?!", "\N{THUMBS UP SIGN}"])
def test_an_answer_that_says_nothing_is_not_supported(nothing):
    with pytest.raises(OutputRejectedError):
        check_supported(nothing, ["Some text"])


def test_citations_are_of_what_was_retrieved():
    check_citations([], [])
    check_citations(["a", "b"], ["b", "a"])
    with pytest.raises(CitationNotInRetrieval, match="'c'"):
        check_citations(["a", "c"], ["a", "b"])
    with pytest.raises(OutputRejectedError) as caught:
        check_cited([])
    assert caught.value.rule == "citation_required"
    assert issubclass(CitationNotInRetrieval, OutputRejectedError)
