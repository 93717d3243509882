"""What a FAISSVectorStore does with files that another library wrote, or an enemy."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.faiss import FAISSVectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import X, Y, Z, chunk, ids

PLAIN = [{"id": "a", "text": "A"}, {"id": "b", "text": "B", "doc_id": "d", "metadata": {"n": 1}}]


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """The index and the metadata."""
    return tmp_path / "docs.faiss", tmp_path / "docs_meta.pkl"


def of_others(paths, metadata: Any, vectors: Any = (X, [0.0, 2.0, 0.0]), index: Any = None) -> None:
    index = index or faiss.IndexFlatIP(3)
    index.add(np.array(vectors, dtype=np.float32))
    faiss.write_index(index, str(paths[0]))
    paths[1].write_bytes(metadata if isinstance(metadata, bytes) else pickle.dumps(metadata))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_of_plain_data_is_read_and_the_first_change_replaces_it(paths, protocol):
    of_others(paths, pickle.dumps(PLAIN, protocol))

    store = FAISSVectorStore(*paths)
    assert [(one.chunk.id, one.score) for one in store.search(Y)] == [("b", 1.0), ("a", 0.0)]
    assert store.get(["b"]) == [Chunk("B", "d", {"n": 1}, "b")]
    assert pickle.loads(paths[1].read_bytes()) == PLAIN
    store.add([chunk("c", Z)])

    assert ids(FAISSVectorStore(*paths).search(X, k=9)) == ["a", "b", "c"]
    assert paths[1].read_bytes().startswith(b'{"format":"pywrapai-faiss"')


class Payload:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call = call, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_pickle_that_would_run_something_runs_nothing(
    paths, tmp_path, monkeypatch, protocol, wrapped
):
    monkeypatch.chdir(tmp_path)
    payload = Payload(os.system, "touch harm")
    content = [*PLAIN[:1], {"id": "b", "text": payload}] if wrapped else payload
    of_others(paths, pickle.dumps(content, protocol))
    before = [path.read_bytes() for path in paths]

    with pytest.raises(VectorStoreError, match=r"docs_meta\.pkl .*asks for posix\.system"):
        FAISSVectorStore(*paths)

    assert not (tmp_path / "harm").exists()
    assert [path.read_bytes() for path in paths] == before


ITSELF: list[Any] = []
ITSELF.append({"id": "a", "text": "A", "metadata": {"itself": ITSELF}})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"a": 1}, "a pickle of something else"),
        (PLAIN[0], "2 rows, and its metadata 1"),
        ([*PLAIN, {"id": "c", "text": "C"}], "2 rows, and its metadata 3"),
        ([{"text": "A"}, {"text": "B"}], "a pickle of something else"),
        ([{**PLAIN[0], "embedding": X}, PLAIN[1]], "a pickle of something else"),
        (["A", "B"], "a pickle of something else"),
        ([PLAIN[0], {"id": "b", "text": 5}], "no plain data: text of"),
        ([PLAIN[0], {"id": "b", "text": "B", "metadata": {"a": (1, 2)}}], "no plain data: meta"),
        ([*ITSELF, PLAIN[1]], "lists or dicts deep"),
        ([Chunk("A"), Chunk("B")], r"asks for pywrapai_graph\.rag\.types\.Chunk"),
        (b"", "neither a metadata file .* nor a pickle"),
        (b"\x80\x04", "neither a metadata file .* nor a pickle"),
        (b"text\n", "neither a metadata file .* nor a pickle"),
        (b'{"format": "another"}\n', "neither a metadata file .* nor a pickle"),
        (b"[" * 100_000, "neither a metadata file .* nor a pickle"),
        (b"\x80\x04\x8d" + b"\xff" * 8, "neither a metadata file .* nor a pickle"),
    ],
)
def test_what_is_no_list_of_chunks_is_refused(paths, content: Any, told: str):
    of_others(paths, content)

    with pytest.raises(VectorStoreError, match=told):
        FAISSVectorStore(*paths)


def test_an_index_of_another_kind_is_refused(paths):
    of_others(paths, PLAIN, index=faiss.IndexHNSWFlat(3, 8))

    with pytest.raises(VectorStoreError, match="is a IndexHNSWFlat; expected a flat index"):
        FAISSVectorStore(*paths)


def test_a_flat_index_of_distances_is_read_too(paths):
    of_others(paths, PLAIN, index=faiss.IndexFlatL2(3))

    assert [(one.chunk.id, one.score) for one in FAISSVectorStore(*paths).search(Y)] == [
        ("b", 1.0),
        ("a", 0.0),
    ]
