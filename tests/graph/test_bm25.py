"""Retrieval by words: what counts as one, the scores, and an index that follows every change."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai_graph.rag.bm25 import BM25Retriever, words
from pywrapai_graph.rag.chunker import Chunker
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk

PARIS = "Paris is the capital of France."
TOWER = "The Eiffel Tower is 330 metres tall."
EURO = "France uses the Euro as its currency."


@pytest.fixture
def retriever() -> BM25Retriever:
    return BM25Retriever()


def texts(found: list[ScoredChunk]) -> list[str]:
    return [hit.chunk.text for hit in found]


def scores_by_hand(docs: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """BM25 as Lucene counts it."""
    mean = sum(map(len, docs)) / len(docs)
    totals = []
    for doc in docs:
        counts, total = Counter(doc), 0.0
        for word in query:
            having = sum(word in other for other in docs)
            if having:
                rare = math.log(1 + (len(docs) - having + 0.5) / (having + 0.5))
                total += rare * counts[word] / (counts[word] + k1 * (1 - b + b * len(doc) / mean))
        totals.append(total)
    return totals


# Finding


def test_the_rare_words_of_a_query_decide(retriever):
    assert retriever.add_documents([Document(PARIS), Document(TOWER), Document(EURO)]) == 3

    found = retriever.retrieve("France's currency?")

    assert texts(found)[0] == EURO
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_a_chunk_without_a_word_of_the_query_is_not_found(retriever):
    retriever.add_documents([Document(PARIS), Document(TOWER)])

    assert texts(retriever.retrieve("capital", k=10)) == [PARIS]
    assert retriever.retrieve("Rome") == []
    assert retriever.retrieve("?!") == []


@settings(max_examples=60, deadline=None)
@given(
    docs=st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), min_size=1, max_size=8),
    query=st.lists(st.sampled_from("abcdxyz"), min_size=1, max_size=4, unique=True),
    k1=st.sampled_from([0.5, 1.2, 1.5]),
    b=st.sampled_from([0.0, 0.75, 1.0]),
)
def test_scores_are_those_of_the_formula(docs, query, k1, b):
    docs = [doc for doc in docs if doc] or [["a"]]
    retriever = BM25Retriever(k1=k1, b=b)
    retriever.add_documents([Document(" ".join(doc), id=str(n)) for n, doc in enumerate(docs)])

    found = retriever.retrieve(" ".join(query), k=len(docs))

    expected = scores_by_hand(docs, query, k1, b)
    assert {hit.chunk.doc_id: hit.score for hit in found} == pytest.approx(
        {str(n): score for n, score in enumerate(expected) if score > 0}, rel=1e-4
    )


def test_ties_come_in_the_order_in_which_they_were_added(retriever):
    retriever.add_documents([Document("same text", id=str(number)) for number in range(50)])

    assert [hit.chunk.doc_id for hit in retriever.retrieve("text", 3)] == ["0", "1", "2"]


def test_a_filter_is_applied_before_the_best_are_taken(retriever):
    docs = [Document(PARIS, {"page": page}, id=str(page)) for page in range(30)]
    retriever.add_documents([*docs, Document("Paris! Paris!", {"page": "none"})])

    found = retriever.retrieve("Paris", 2, filter={"page": {"$in": [27, 9, 20]}})

    assert [hit.chunk.metadata["page"] for hit in found] == [9, 20]
    assert retriever.retrieve("Paris", filter={"page": 99}) == []
    with pytest.raises(ValueError, match="filter"):
        retriever.retrieve("Paris", filter={"page": {"$gt": 1}})


@pytest.mark.parametrize("query", ["", " \n"])
def test_a_blank_query_is_refused(retriever, query):
    with pytest.raises(ValueError, match="the query is blank"):
        retriever.retrieve(query)


@pytest.mark.parametrize("k", [0, -1, True])
def test_a_k_under_1_is_refused(retriever, k):
    with pytest.raises(ValueError, match="expected an int of 1 or more"):
        retriever.retrieve("Paris", k)
    with pytest.raises(ValueError, match="expected an int of 1 or more"):
        BM25Retriever(k)


@pytest.mark.parametrize("settings", [{"k1": -1}, {"b": 1.1}, {"b": -0.1}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValueError, match="expected k1 of 0 or more, b from 0 to 1"):
        BM25Retriever(**settings)


def test_what_is_handed_out_is_not_what_is_kept(retriever):
    retriever.add_documents([Document(PARIS, {"tags": ["city"]})])

    retriever.retrieve("Paris")[0].chunk.metadata["tags"].append("changed")

    assert retriever.retrieve("Paris")[0].chunk.metadata == {"tags": ["city"]}


# Changing


def test_an_empty_retriever_finds_nothing(retriever):
    assert retriever.retrieve("Paris") == []
    assert retriever.add_documents([Document(""), Document("...")]) == 2
    assert retriever.retrieve("Paris") == []
    assert len(retriever) == 2


def test_what_was_added_later_is_found_too(retriever):
    retriever.add_documents([Document(PARIS)])
    assert texts(retriever.retrieve("tower")) == []

    retriever.add_documents([Document(TOWER)])

    assert texts(retriever.retrieve("tower")) == [TOWER]


def test_a_document_that_is_added_again_replaces_its_older_version(retriever):
    cut = Chunker(chunk_size=20, overlap=0)
    retriever.add_documents([Document(PARIS + "\n\n" + TOWER, id="doc")], cut)
    assert len(retriever) > 1

    retriever.add_documents([Document("Rome is old.", id="doc")], cut)

    assert len(retriever) == 1
    assert retriever.retrieve("capital tower") == []
    assert texts(retriever.retrieve("Rome")) == ["Rome is old."]


def test_only_what_changed_is_counted(retriever):
    docs = [Document(PARIS, {"page": 1}, id="a"), Document(TOWER, id="b")]
    retriever.add_documents(docs)

    assert retriever.add_documents(docs) == 0
    assert retriever.add_documents([Document(PARIS, {"page": 2}, id="a"), docs[1]]) == 1
    assert retriever.retrieve("Paris")[0].chunk.metadata == {"page": 2}


def test_deleted_chunks_are_gone_and_unknown_ids_are_no_error(retriever):
    retriever.add_documents([Document(PARIS, id="a"), Document(EURO, id="b")])
    retriever.retrieve("France")

    retriever.delete(["a:0", "unknown"])

    assert texts(retriever.retrieve("France")) == [EURO]
    assert len(retriever) == 1
    with pytest.raises(TypeError, match="ids is a list of ids"):
        retriever.delete("b:0")


def test_a_cleared_retriever_starts_afresh(retriever):
    retriever.add_documents([Document(PARIS)])

    retriever.clear()

    assert len(retriever) == 0
    assert retriever.retrieve("Paris") == []
    assert retriever.add_documents([Document(PARIS)]) == 1
    assert texts(retriever.retrieve("Paris")) == [PARIS]


def test_a_failing_source_leaves_what_came_before_it(retriever):
    def read() -> Iterator[Document]:
        for number in range(1200):
            yield Document(f"text {number}", id=str(number))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        retriever.add_documents(read())

    assert len(retriever) == 1000
    assert len(retriever.retrieve("text", 2000)) == 1000


def test_readers_never_see_a_torn_index(retriever):
    retriever.add_documents([Document(f"text {number}", id=str(number)) for number in range(50)])
    errors: list[BaseException] = []

    def write(writer: int) -> None:
        for number in range(30):
            retriever.add_documents([Document(f"text by {writer}", id=f"{writer}-{number}")])
            retriever.delete([f"{writer}-{number - 5}:0"])

    def read() -> None:
        try:
            for _ in range(40):
                found = retriever.retrieve("text", 10)
                assert len(found) == 10
                assert all("text" in hit.chunk.text for hit in found)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(retriever) == 50 + 3 * 5


async def test_the_awaited_twins_do_the_same(retriever):
    assert await retriever.aadd_documents([Document(PARIS, {"page": 1}), Document(EURO)]) == 2

    assert await retriever.aretrieve("France") == retriever.retrieve("France")
    assert texts(await retriever.aretrieve("France", 1, filter={"page": 1})) == [PARIS]


def test_ids_of_a_chunker_of_ones_own_are_followed_too(retriever):
    class Lines:
        def split(self, document: Document) -> list[Chunk]:
            return [Chunk(line, document.id, id=line) for line in document.text.splitlines()]

    retriever.add_documents([Document("one\ntwo\nthree", id="doc")], Lines())
    retriever.add_documents([Document("one\nthree", id="doc")], Lines())

    assert retriever.retrieve("two") == []
    assert len(retriever) == 2


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The END, of snake_case: v3.11!", ["the", "end", "of", "snake_case", "v3", "11"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("Zeit\u00adschrift", ["zeitschrift"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Люди, ЛЮДИ", ["люди", "люди"]),
        ("日本の首都", ["日", "本", "首", "都", "日本", "本の", "の首", "首都"]),
        ("車", ["車"]),
        ("カメラ", ["カメ", "メラ"]),
        ("Python入門", ["python", "入", "門", "入門"]),
        ("한국어 책", ["한국", "국어", "책"]),
        ("ไทย", ["ไท", "ทย"]),
        ("\uff21\uff30\uff29", ["api"]),
        ("👍 …", []),
        ("", []),
    ],
)
def test_words_of_any_language(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("docs", "query", "place"),
    [
        (["東京都は日本の首都です。", "大阪は大きい街です。"], "首都はどこですか", 0),
        (["电车很快。", "自行车很慢。"], "电", 0),
        (["서울은 한국의 수도이다.", "부산에는 바다가 있다."], "바다", 1),
        (["Die Straße ist gesperrt.", "Der Weg ist frei."], "STRASSE", 0),
        (["กรุงเทพเป็นเมืองหลวง", "เชียงใหม่อยู่ทางเหนือ"], "เมืองหลวง", 0),
    ],
)
def test_other_languages_are_found(retriever, docs, query, place):
    retriever.add_documents([Document(doc) for doc in docs])

    assert texts(retriever.retrieve(query, 1)) == [docs[place]]


def test_stems_and_stop_words_are_the_callers():
    def stems(text: str) -> list[str]:
        return [word.removesuffix("s") for word in words(text) if word != "the"]

    retriever = BM25Retriever(tokenize=stems)
    retriever.add_documents([Document("The towers"), Document("The bridge")])

    assert texts(retriever.retrieve("the tower")) == ["The towers"]


# The library underneath


def test_the_library_writes_nothing_and_logs_nothing(retriever, capfd, caplog):
    with caplog.at_level(logging.DEBUG):
        retriever.add_documents([Document(PARIS), Document(TOWER)])
        retriever.retrieve("Paris")
        retriever.retrieve("?")

    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name != "asyncio"] == []


def test_a_missing_library_is_told_as_the_line_that_installs_it():
    code = """
import sys
sys.modules["bm25s"] = None
from pywrapai import MissingDependencyError
from pywrapai_graph.rag.bm25 import BM25Retriever
try:
    BM25Retriever()
except MissingDependencyError as error:
    print(error, "numpy" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ended.stdout == 'bm25s is not installed: pip install "pywrapai[bm25]" False\n'
