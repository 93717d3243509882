"""Several retrievers as one: the fusion of ranks, and one cut for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai.testing import StubEmbedder
from pywrapai_graph.rag.bm25 import BM25Retriever
from pywrapai_graph.rag.chunker import Chunker
from pywrapai_graph.rag.hybrid import HybridRetriever, fused
from pywrapai_graph.rag.retriever import BaseRetriever, VectorRetriever
from pywrapai_graph.rag.store import InMemoryVectorStore
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk

PARIS = "Paris is the capital of France."
TOWER = "The Eiffel Tower is 330 metres tall."
EURO = "France uses the Euro as its currency."


class Fixed(BaseRetriever):
    """Finds what it is told to, and keeps what it is given."""

    def __init__(self, ids: str = "", error: Exception | None = None) -> None:
        self.ids = ids
        self.error = error
        self.asked: list[tuple[str, int]] = []
        self.added: list[Chunk] = []

    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        self.asked.append((query, k))
        if self.error is not None:
            raise self.error
        return [ScoredChunk(Chunk(id, id=id), 9.0) for id in self.ids[:k]]

    def add_documents(self, docs: Any, chunker: Any = None) -> int:
        if self.error is not None:
            raise self.error
        for doc in docs:
            for chunk in chunker.split(doc):
                self.added.append(chunk)
                chunk.metadata["touched"] = True
        return len(docs)


@pytest.fixture
def pair() -> tuple[VectorRetriever, BM25Retriever]:
    return VectorRetriever(StubEmbedder(), InMemoryVectorStore()), BM25Retriever()


def ids(found: list[ScoredChunk]) -> str:
    return "".join(hit.chunk.id for hit in found)


def ranking(order: str) -> list[ScoredChunk]:
    return [ScoredChunk(Chunk(id, id=id), 0.5) for id in order]


# Fusion


def test_what_several_find_comes_before_what_one_finds():
    found = HybridRetriever([Fixed("abc"), Fixed("dbe")]).retrieve("query", 5)

    assert ids(found) == "badce"


def test_the_score_is_the_share_of_being_first_everywhere():
    found = HybridRetriever([Fixed("ab"), Fixed("ac")]).retrieve("query")

    assert [hit.score for hit in found] == pytest.approx([1, 61 / 62 / 2, 61 / 62 / 2])


def test_weights_say_whom_to_believe():
    first, second = Fixed("ab"), Fixed("ba")

    assert ids(HybridRetriever([first, second], weights=[1, 3]).retrieve("query")) == "ba"
    assert ids(HybridRetriever([first, second], weights=[3, 1]).retrieve("query")) == "ab"


def test_a_small_rrf_k_trusts_first_places():
    rankings = [ranking("axyzb"), ranking("cdefb")]

    assert fused(rankings, [1, 1], 60)[0].chunk.id == "b"
    assert fused(rankings, [1, 1], 1)[0].chunk.id == "a"


@given(
    st.lists(
        st.lists(st.sampled_from("abcdefgh"), max_size=8).map("".join), min_size=1, max_size=4
    ),
    st.integers(1, 100),
)
def test_fused_scores_are_the_formula(orders, rrf_k):
    found = fused([ranking(order) for order in orders], [1.0] * len(orders), rrf_k)

    unique = ["".join(dict.fromkeys(order)) for order in orders]
    expected = {
        id: sum(1 / (rrf_k + 1 + order.index(id)) for order in unique if id in order)
        * (rrf_k + 1)
        / len(orders)
        for id in set("".join(orders))
    }
    assert {hit.chunk.id: hit.score for hit in found} == pytest.approx(expected)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_each_is_asked_for_more_than_is_wanted():
    retrievers = [Fixed("abcdefghijklmnopqrstuvwxyz"), Fixed()]
    hybrid = HybridRetriever(retrievers, k=2)

    assert len(hybrid.retrieve("query")) == 2
    assert len(hybrid.retrieve("query", 9)) == 9
    assert retrievers[1].asked == [("query", 10), ("query", 13)]


def test_a_retriever_that_fails_fails_the_whole():
    hybrid = HybridRetriever([Fixed("ab"), Fixed(error=OSError("gone"))])

    with pytest.raises(OSError, match="gone"):
        hybrid.retrieve("query")
    with pytest.raises(OSError, match="gone"):
        hybrid.add_documents([Document(PARIS)])


def test_a_blank_query_asks_nobody():
    fixed = Fixed("a")

    with pytest.raises(ValueError, match="the query is blank"):
        HybridRetriever([fixed]).retrieve(" ")
    with pytest.raises(ValueError, match="k is 0"):
        HybridRetriever([fixed]).retrieve("query", 0)

    assert fixed.asked == []


@pytest.mark.parametrize("retrievers", [[], [object()], [Fixed(), None], Fixed()])
def test_what_is_no_list_of_retrievers_is_refused(retrievers):
    with pytest.raises(TypeError, match="takes a list of retrievers"):
        HybridRetriever(retrievers)


@pytest.mark.parametrize("weights", [[], [1], [1, 2, 3], [1, 0], [1, -1], [1, float("inf")]])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(ValueError, match="a number above 0 for each retriever, 2 in all"):
        HybridRetriever([Fixed(), Fixed()], weights=weights)


@pytest.mark.parametrize("settings", [{"k": 0}, {"rrf_k": 0}])
def test_a_k_under_1_is_refused(settings):
    with pytest.raises(ValueError, match="expected an int of 1 or more"):
        HybridRetriever([Fixed()], **settings)


# Vectors and words together


def test_both_kinds_of_retriever_agree_on_what_a_chunk_is(pair):
    hybrid = HybridRetriever(pair)

    assert hybrid.add_documents([Document(PARIS), Document(TOWER), Document(EURO)]) == 3

    found = hybrid.retrieve("France currency")
    assert found[0].chunk.text == EURO
    assert found[0].score == pytest.approx(1)
    assert len({hit.chunk.id for hit in found}) == len(found) == 3


def test_a_filter_reaches_every_retriever(pair):
    hybrid = HybridRetriever(pair)
    hybrid.add_documents([Document(PARIS, {"page": n}, id=str(n)) for n in range(40)])

    found = hybrid.retrieve(PARIS, filter={"page": {"$in": [3, 33]}})

    assert [hit.chunk.metadata["page"] for hit in found] == [3, 33]


async def test_the_awaited_twins_do_the_same(pair):
    hybrid = HybridRetriever(pair)
    docs = [Document(PARIS, {"page": 1}), Document(TOWER, {"page": 2})]

    assert await hybrid.aadd_documents(iter(docs)) == 2
    assert await hybrid.aadd_documents(docs) == 0

    assert await hybrid.aretrieve("Paris", 1) == hybrid.retrieve("Paris", 1)
    assert len(await hybrid.aretrieve("Paris", filter={"page": 2})) == 1


async def test_awaited_retrievers_are_asked_at_once():
    meeting = asyncio.Barrier(2)

    class Meeting(Fixed):
        async def aretrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
            await asyncio.wait_for(meeting.wait(), 10)
            return self.retrieve(query, k)

    assert ids(await HybridRetriever([Meeting("ab"), Meeting("ac")]).aretrieve("query")) == "abc"


# Adding


def test_documents_are_read_and_cut_once_for_all(pair):
    cuts: list[str] = []

    class Counting:
        def split(self, document: Document) -> list[Chunk]:
            cuts.append(document.id)
            return Chunker(chunk_size=20, overlap=0).split(document)

    def read() -> Iterator[Document]:
        for number in range(5):
            yield Document(f"{PARIS} {number}", id=str(number))

    vector, bm25 = pair
    written = HybridRetriever(pair).add_documents(read(), Counting())

    assert cuts == list("01234")
    assert written == len(vector.store) == len(bm25) > 5


def test_chunks_without_ids_of_their_own_get_the_same_everywhere():
    class Whole:
        def split(self, document: Document) -> list[Chunk]:
            return [Chunk(document.text, metadata=document.metadata)]

    first, second = Fixed(), Fixed()
    doc = Document(PARIS, {"page": 1}, id="doc")

    HybridRetriever([first, second]).add_documents([doc], Whole())

    assert [chunk.id for chunk in first.added + second.added] == ["doc:0", "doc:0"]
    assert first.added[0].metadata is not second.added[0].metadata
    assert doc.metadata == {"page": 1}


def test_many_documents_are_added_in_portions(pair):
    most = 0
    alive = 0

    def read() -> Iterator[Document]:
        nonlocal alive, most
        for number in range(1500):
            alive += 1
            most = max(most, alive - len(pair[1]))
            yield Document(f"text {number}", id=str(number))

    assert HybridRetriever(pair).add_documents(read()) == 1500
    assert most <= 500
    assert len(pair[0].store) == 1500


def test_of_a_document_that_is_there_twice_the_later_one_stays(pair):
    HybridRetriever(pair).add_documents([Document(PARIS, id="a"), Document(TOWER, id="a")])

    assert len(pair[0].store) == len(pair[1]) == 1
    assert HybridRetriever(pair).retrieve("tower")[0].chunk.text == TOWER


def test_a_fresh_bm25_beside_a_full_store_costs_no_vectors(pair):
    vector, _ = pair
    docs = [Document(PARIS), Document(TOWER)]
    HybridRetriever(pair).add_documents(docs)
    before = vector.embedder.tokens.total_calls

    restarted = HybridRetriever([vector, BM25Retriever()])

    assert restarted.add_documents(docs) == 2
    assert vector.embedder.tokens.total_calls == before


def test_hybrids_may_hold_hybrids(pair):
    hybrid = HybridRetriever([HybridRetriever(pair), BM25Retriever()])

    hybrid.add_documents([Document(PARIS), Document(TOWER)])

    assert hybrid.retrieve("Paris")[0].chunk.text == PARIS


@pytest.mark.parametrize("docs", [PARIS, Document(PARIS), [PARIS]])
def test_what_is_no_document_is_refused(pair, docs):
    with pytest.raises(TypeError, match="Document"):
        HybridRetriever(pair).add_documents(docs)


def test_one_bar_is_shown_for_all(pair, capsys, monkeypatch):
    monkeypatch.setattr("pywrapai.core.progress.DELAY_SECONDS", 0)

    HybridRetriever(pair).add_documents([Document(PARIS), Document(TOWER)], show_progress=True)

    shown = capsys.readouterr().err
    assert shown.rstrip().rsplit("\r", 1)[-1].count("2/2") == 1
    assert "text" not in shown
