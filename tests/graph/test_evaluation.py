"""Measuring a retriever, against TREC's own program and by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai_graph.rag.bm25 import BM25Retriever
from pywrapai_graph.rag.evaluation import aevaluate_retrieval, evaluate_retrieval
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk


class Fixed(BaseRetriever):
    """Finds what it is told to: for each query, the ids of chunks, "doc:number"."""

    def __init__(self, found: dict[str, list[str]]) -> None:
        self.found = found

    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        chunks = [Chunk(id, id.split(":")[0], id=id) for id in self.found[query]]
        return [ScoredChunk(chunk, 1 / n) for n, chunk in enumerate(chunks, 1)]

    def add_documents(self, docs: Any, chunker: Any = None) -> int:
        raise NotImplementedError


IDS = st.lists(st.sampled_from([f"{doc}:0" for doc in "abcdefghijkl"]), unique=True, max_size=12)
GAINS = st.dictionaries(
    st.sampled_from([f"{doc}:0" for doc in "abcdefghijklmnop"]),
    st.integers(1, 3),
    min_size=1,
    max_size=8,
)


@settings(max_examples=200)
@given(st.lists(st.tuples(IDS, GAINS), min_size=1, max_size=4), st.integers(1, 12))
def test_the_figures_are_those_of_trec_eval(cases, k):
    names = [f"q{number}" for number in range(len(cases))]
    retriever = Fixed({name: found for name, (found, _) in zip(names, cases, strict=True)})

    report = evaluate_retrieval(retriever, names, [gains for _, gains in cases], k)

    judge = pytrec_eval.RelevanceEvaluator(
        {name: gains for name, (_, gains) in zip(names, cases, strict=True)},
        {f"recall.{k}", f"ndcg_cut.{k}", "recip_rank"},
    )
    for name, (found, _), row in zip(names, cases, report.rows, strict=True):
        run = {id: 100.0 - place for place, id in enumerate(found[:k])}
        expected = judge.evaluate({name: run}).get(name) if run else None
        assert row.query == name
        assert row.found == tuple(found[:k])
        assert (row.recall, row.reciprocal_rank, row.ndcg) == pytest.approx(
            (expected[f"recall_{k}"], expected["recip_rank"], expected[f"ndcg_cut_{k}"])
            if expected
            else (0, 0, 0)
        )
    assert report.recall == pytest.approx(sum(row.recall for row in report.rows) / len(cases))
    assert report.mrr == pytest.approx(sum(r.reciprocal_rank for r in report.rows) / len(cases))
    assert report.ndcg == pytest.approx(sum(row.ndcg for row in report.rows) / len(cases))


def test_a_report_says_how_all_went_and_which_failed():
    retriever = Fixed({"one": ["a:0", "b:0"], "two": ["b:0", "a:0"], "three": ["b:0"]})

    report = evaluate_retrieval(retriever, ["one", "two", "three"], [{"a:0"}, {"a:0"}, {"a:0"}])

    assert (report.recall, report.mrr) == pytest.approx((2 / 3, (1 + 0.5) / 3))
    assert (report.k, report.queries) == (10, 3)
    assert [row.query for row in report.missed] == ["three"]
    assert "rows" not in repr(report)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.recall = 1


def test_documents_count_as_well_as_chunks():
    retriever = Fixed({"q": ["x:0", "a:3", "b:1"]})

    report = evaluate_retrieval(retriever, ["q"], [{"a", "b:1"}])

    assert report.recall == 1
    assert report.mrr == 0.5


def test_several_chunks_of_one_relevant_document_count_once():
    retriever = Fixed({"q": ["a:0", "a:1", "a:2", "b:0"]})

    report = evaluate_retrieval(retriever, ["q"], [["a", "b"]], k=3)

    assert report.recall == 0.5
    assert report.ndcg == pytest.approx(1 / (1 + 1 / 1.5849625))


def test_gains_tell_better_hits_from_good_ones():
    gains = {"best": 3.0, "good": 0.5}

    best_first = evaluate_retrieval(Fixed({"q": ["best:0", "good:0"]}), ["q"], [gains])
    good_first = evaluate_retrieval(Fixed({"q": ["good:0", "best:0"]}), ["q"], [gains])

    assert best_first.ndcg == 1
    assert 0 < good_first.ndcg < 1
    assert good_first.recall == good_first.mrr == 1


def test_what_a_retriever_gives_beyond_k_does_not_count():
    report = evaluate_retrieval(Fixed({"q": ["x:0", "a:0"]}), ["q"], [{"a"}], k=1)

    assert report.recall == report.mrr == report.ndcg == 0
    assert report.rows[0].found == ("x:0",)


@pytest.mark.parametrize(
    ("queries", "relevant", "message"),
    [
        ([], [], "there are 0 queries"),
        (["q"], [], "there are 1 queries and 0 sets of relevant ids"),
        (["q"], [set()], r"relevant to 'q' is set\(\); expected at least one id"),
        (["q"], [{"a": 0}], "gains above 0"),
        (["q"], [{"a": -1}], "gains above 0"),
        (["q"], [{"a": float("nan")}], "gains above 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(queries, relevant, message):
    with pytest.raises(ValueError, match=message):
        evaluate_retrieval(Fixed({"q": []}), queries, relevant)


@pytest.mark.parametrize(("queries", "relevant"), [("query", [{"a"}] * 5), (["q"], ["doc"])])
def test_one_text_in_place_of_a_list_is_refused(queries, relevant):
    with pytest.raises(TypeError, match="also of one"):
        evaluate_retrieval(Fixed({"q": []}), queries, relevant)


async def test_a_real_retriever_is_measured_in_sync_and_in_async_code():
    retriever = BM25Retriever()
    retriever.add_documents([Document("red apples", id="a"), Document("green pears", id="p")])
    queries, relevant = ["apples", "pears", "plums"], [{"a"}, {"p"}, {"a"}]

    report = evaluate_retrieval(retriever, queries, relevant)

    assert report.mrr == pytest.approx(2 / 3)
    assert await aevaluate_retrieval(retriever, queries, relevant) == report
