from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from pywrapai.exceptions import ServerError
from pywrapai.testing import StubEmbedder
from pywrapai_graph.rag.chunker import Chunker
from pywrapai_graph.rag.errors import DimensionMismatchError
from pywrapai_graph.rag.retriever import VectorRetriever
from pywrapai_graph.rag.types import Chunk, Document
from tests.graph.retrievers import CountingStore, OtherEmbedder, sent, texts

PARIS = "Paris is the capital of France."
TOWER = "The Eiffel Tower is 330 metres tall."
EURO = "France uses the Euro as its currency."


class FailingEmbedder(StubEmbedder):
    """Fails at one request, until it is told to work."""

    def __init__(self, fail_at: int) -> None:
        super().__init__(batch_size=100)
        self._retry = type(self._retry)(0)
        self.fail_at: int | None = fail_at

    def array_flow(self, texts: list[str]) -> Any:
        if self.fail_at is not None and len(self.requests) == self.fail_at:
            raise ServerError("the server is down")
        return super().array_flow(texts)


class Halves:
    """A chunker of a user's own, whose chunks have no ids of their own."""

    def split(self, document: Document) -> list[Chunk]:
        middle = len(document.text) // 2
        parts = (document.text[:middle], document.text[middle:])
        return [Chunk(part, metadata=document.metadata) for part in parts]


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def retriever(embedder: StubEmbedder, store: CountingStore) -> VectorRetriever:
    return VectorRetriever(embedder, store)


# Adding


def test_without_a_chunker_each_document_is_one_chunk(retriever, store):
    retriever.add_documents([Document(PARIS, {"page": 1}, id="doc")])

    (chunk,) = store.get(["doc:0"])
    assert (chunk.text, chunk.doc_id, chunk.metadata) == (PARIS, "doc", {"page": 1})
    assert (chunk.start, chunk.end) == (0, len(PARIS))
    assert chunk.embedded_by == "stub/stub-embedding/64"


def test_a_chunker_cuts_the_documents(retriever, store):
    text = "One sentence is here. " * 40

    count = retriever.add_documents([Document(text, id="doc")], Chunker(chunk_size=100, overlap=0))

    assert count == len(store) > 5
    assert store.get(["doc:1"])[0].text == text[store.get(["doc:1"])[0].start :][:88]


def test_any_object_with_split_is_a_chunker_and_its_chunks_get_lasting_ids(retriever, store):
    for _ in range(2):
        retriever.add_documents([Document(PARIS + TOWER, {"page": 1}, id="doc")], Halves())

    assert [c.doc_id for c in store.get(["doc:0", "doc:1"])] == ["doc", "doc"]
    assert len(store) == 2
    assert store.writes == [["doc:0", "doc:1"]]


def test_ids_that_a_chunker_gives_are_kept(retriever, store):
    class Named:
        def split(self, document: Document) -> Iterator[Chunk]:
            yield Chunk(document.text, id="mine", doc_id="elsewhere")

    retriever.add_documents([Document(PARIS, id="doc")], chunker=Named())

    assert store.get(["mine"])[0].doc_id == "elsewhere"


def test_two_chunks_with_one_id_are_refused_before_one_gets_lost(retriever):
    class Same:
        def split(self, document: Document) -> list[Chunk]:
            return [Chunk("a", id=document.id), Chunk("b", id=document.id)]

    with pytest.raises(ValueError, match="made two chunks with one id of document 'doc'"):
        retriever.add_documents([Document(PARIS, id="doc")], Same())


def test_nothing_that_was_handed_in_is_changed_or_kept(retriever):
    doc = Document(PARIS, {"tags": ["city"]}, id="doc")

    retriever.add_documents([doc])
    doc.metadata["tags"].append("changed")

    assert retriever.retrieve("Paris")[0].chunk.metadata == {"tags": ["city"]}
    assert doc == Document(PARIS, {"tags": ["city", "changed"]}, id="doc")


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        (PARIS, r"takes a list of Documents, also of one: \[Document\(text\)\]"),
        (Document(PARIS), r"takes a list of Documents, also of one"),
        ([Document(PARIS), TOWER], r"docs\[1\] is str; .* wrap a text as Document\(text\)"),
        ([None], r"docs\[0\] is NoneType; expected a Document"),
    ],
)
def test_what_is_no_document_is_told_how_to_become_one(retriever, docs, message):
    with pytest.raises(TypeError, match=message):
        retriever.add_documents(docs)


def test_a_chunker_that_gives_texts_is_told_of(retriever):
    class Texts:
        def split(self, document: Document) -> list[str]:
            return document.text.split()

    with pytest.raises(TypeError, match="a chunker's split gives Chunks, not str"):
        retriever.add_documents([Document(PARIS)], Texts())


def test_no_documents_are_no_error(retriever, embedder):
    assert retriever.add_documents([]) == 0
    assert retriever.add_documents(iter(())) == 0
    assert embedder.requests == []


def test_each_batch_is_stored_before_the_next_is_read(retriever, store):
    stored: list[int] = []

    def read() -> Iterator[Document]:
        for number in range(10):
            stored.append(len(store))
            yield Document(f"text {number}", id=str(number))

    retriever.add_documents(read(), batch_size=2)

    assert stored == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]


def test_after_an_error_the_next_run_pays_only_for_what_is_missing(store):
    embedder = FailingEmbedder(fail_at=3)
    retriever = VectorRetriever(embedder, store)
    docs = [Document(f"text {number}", id=str(number)) for number in range(10)]
    with pytest.raises(ServerError):
        retriever.add_documents(docs, batch_size=2)
    assert len(store) == 6

    embedder.fail_at = None

    assert retriever.add_documents(docs, batch_size=2) == 4
    assert sent(embedder) == [doc.text for doc in docs]


@pytest.mark.parametrize("size", [0, -5, 1.5])
def test_a_batch_size_under_1_is_refused(retriever, size):
    with pytest.raises(ValueError, match=r"batch_size is .*expected an int of 1 or more"):
        retriever.add_documents([Document(PARIS)], batch_size=size)


def test_a_text_that_is_there_twice_is_embedded_once(retriever, embedder):
    docs = [Document(PARIS, id=str(number)) for number in range(5)]

    assert retriever.add_documents(docs) == 5
    assert sent(embedder) == [PARIS]


def test_metadata_that_no_store_keeps_is_refused_before_it_is_paid_for(retriever, embedder):
    with pytest.raises(TypeError, match="metadata"):
        retriever.add_documents([Document(PARIS, {"when": object()})])

    assert embedder.requests == []


def test_another_number_of_dimensions_is_refused_before_it_is_paid_for(retriever, store):
    retriever.add_documents([Document(PARIS)])
    wider = StubEmbedder(dimension=128)

    with pytest.raises(DimensionMismatchError, match="128 dimensions, and the store 64"):
        VectorRetriever(wider, store).add_documents([Document(TOWER)])

    assert wider.requests == []


# Adding again


def test_what_is_unchanged_is_neither_embedded_nor_written(retriever, embedder, store):
    docs = [Document(PARIS, {"page": 1}), Document(TOWER)]
    retriever.add_documents(docs)
    before = sent(embedder)

    assert retriever.add_documents(docs) == 0
    assert sent(embedder) == before
    assert len(store.writes) == 1


def test_only_changed_chunks_of_a_document_are_embedded_again(retriever, embedder, store):
    parts = [f"Part {number:03} says something of its own." for number in range(200)]
    cut = Chunker(chunk_size=45, overlap=0)
    retriever.add_documents([Document("\n\n".join(parts), id="doc")], cut, batch_size=100)
    before = len(sent(embedder))

    parts[117] = parts[117].replace("something", "SOME THING")
    changed = retriever.add_documents([Document("\n\n".join(parts), id="doc")], cut, batch_size=99)

    assert sent(embedder)[before:] == [parts[117] + "\n\n"]
    assert changed == 200 - 117  # the later ones begin elsewhere in the document
    assert len(store) == 200


def test_a_vector_goes_with_its_text_when_the_text_moves(retriever, embedder, store):
    lines = [f"Line {number} is about number {number}." for number in range(20)]
    cut = Chunker(chunk_size=30, overlap=0)
    retriever.add_documents([Document("\n\n".join(lines), id="doc")], cut)
    before = len(sent(embedder))

    lines.insert(0, "A line before all others.")
    assert retriever.add_documents([Document("\n\n".join(lines), id="doc")], cut) == 21

    assert sent(embedder)[before:] == [lines[0] + "\n\n"]
    assert texts(retriever.retrieve("line 7 is about number 7", 1)) == [lines[8] + "\n\n"]
    assert len(store) == 21


def test_changed_metadata_is_written_with_the_vector_that_was_paid_for(retriever, embedder, store):
    retriever.add_documents([Document(PARIS, {"page": 1}, id="doc")])

    assert retriever.add_documents([Document(PARIS, {"page": 2}, id="doc")]) == 1
    assert sent(embedder) == [PARIS]
    assert store.get(["doc:0"])[0].metadata == {"page": 2}
    assert texts(retriever.retrieve(PARIS))[0] == PARIS


@pytest.mark.parametrize("left", [0, 1, 3])
@pytest.mark.parametrize("skip", [True, False])
def test_chunks_that_a_document_no_longer_has_are_removed(retriever, store, left, skip):
    cut = Chunker(chunk_size=30, overlap=0)
    parts = [f"Part {number} is a text of its own." for number in range(250)]
    neighbour = Document(TOWER, id="neighbour")
    retriever.add_documents([Document("\n\n".join(parts), id="doc"), neighbour], cut)
    kept = len(store.get([f"neighbour:{number}" for number in range(9)]))
    assert len(store) > 250

    shorter = Document("\n\n".join(parts[:left]), id="doc")
    retriever.add_documents([shorter], cut, skip_unchanged=skip)

    assert len(store) == len(cut.split(shorter)) + kept


def test_another_model_embeds_everything_again(retriever, store):
    retriever.add_documents([Document(PARIS), Document(TOWER)])
    other = OtherEmbedder()

    assert VectorRetriever(other, store).add_documents([Document(PARIS), Document(TOWER)]) == 2
    assert sent(other) == [PARIS, TOWER]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VectorRetriever(other, store).retrieve("Paris")


def test_everything_is_embedded_again_on_request(retriever, embedder, store):
    retriever.add_documents([Document(PARIS)])

    assert retriever.add_documents([Document(PARIS)], skip_unchanged=False) == 1
    assert sent(embedder) == [PARIS, PARIS]
    assert len(store) == 1


@pytest.mark.parametrize("batch_size", [1, 2, 500])
def test_of_a_document_that_is_there_twice_the_later_one_stays(retriever, store, batch_size):
    cut = Chunker(chunk_size=20, overlap=0)
    older = Document("A long text, in many chunks.\n\n" * 6, id="doc")
    newer = Document("A short text.", id="doc")

    retriever.add_documents([older, Document(TOWER), newer], cut, batch_size=batch_size)

    assert [chunk.text for chunk in store.get(["doc:0", "doc:1"])] == ["A short text."]
    assert len(store) == 1 + len(cut.split(Document(TOWER)))


# Progress


def test_a_bar_is_shown_on_request(retriever, capsys, monkeypatch):
    monkeypatch.setattr("pywrapai.core.progress.DELAY_SECONDS", 0)

    retriever.add_documents([Document(PARIS), Document(TOWER)], show_progress=True)
    retriever.add_documents(iter([Document(EURO)]), show_progress=True)

    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert "1document" in shown


def test_no_bar_is_shown_where_nobody_looks(retriever, capsys, monkeypatch):
    monkeypatch.setattr("pywrapai.core.progress.DELAY_SECONDS", 0)

    retriever.add_documents([Document(PARIS)])

    assert capsys.readouterr().err == ""
