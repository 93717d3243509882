"""The store on Qdrant: the contract, in memory, in a folder and over HTTP, and what is its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.stores.qdrant import QdrantVectorStore
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, chunk, chunks, ids
from tests.contracts.vector_store_machine import agree_with_a_dict
from tests.graph.memory_directory import in_memory  # noqa: F401
from tests.graph.qdrant_stub import QdrantStub, qdrant_stub
from tests.graph.store_kills import check_kills

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


class TestInMemory(VectorStoreContract):
    persistent = False

    @pytest.fixture
    def store(self) -> Iterator[QdrantVectorStore]:
        with QdrantVectorStore("docs", location=":memory:") as store:
            yield store


class TestOfAGivenDimension(VectorStoreContract):
    persistent = False
    dimension_is_fixed = True

    @pytest.fixture
    def store_of(self) -> Iterator[Callable[[int], QdrantVectorStore]]:
        stores: list[QdrantVectorStore] = []

        def of(dimension: int) -> QdrantVectorStore:
            stores.append(QdrantVectorStore("docs", location=":memory:", dimension=dimension))
            return stores[-1]

        yield of
        for store in stores:
            store.close()

    @pytest.fixture
    def store(self, store_of: Callable[[int], QdrantVectorStore]) -> QdrantVectorStore:
        return store_of(3)


@pytest.fixture
def folder(in_memory: Path) -> Iterator[Callable[[], QdrantVectorStore]]:  # noqa: F811
    """Opens the folder of this test, closing what it opened before."""
    stores: list[QdrantVectorStore] = []
    path = in_memory / uuid4().hex

    def open_() -> QdrantVectorStore:
        for store in stores:
            store.close()
        stores.append(QdrantVectorStore("docs", location=path))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


class TestFolder(VectorStoreContract):
    @pytest.fixture
    def store(self, folder: Callable[[], QdrantVectorStore]) -> QdrantVectorStore:
        return folder()

    @pytest.fixture
    def reopen(self, folder: Callable[[], QdrantVectorStore]) -> Callable[[], QdrantVectorStore]:
        return folder


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantStub]:
    with qdrant_stub() as stub:
        yield stub


@pytest.fixture
def remote(server: QdrantStub) -> Iterator[Callable[[], QdrantVectorStore]]:
    """Opens a collection of this test, closing what it opened before."""
    stores: list[QdrantVectorStore] = []
    name = uuid4().hex

    def open_() -> QdrantVectorStore:
        for store in stores:
            store.close()
        stores.append(QdrantVectorStore(name, url=server.url))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


class TestOverHTTP(VectorStoreContract):
    @pytest.fixture
    def store(self, remote: Callable[[], QdrantVectorStore]) -> QdrantVectorStore:
        return remote()

    @pytest.fixture
    def reopen(self, remote: Callable[[], QdrantVectorStore]) -> Callable[[], QdrantVectorStore]:
        return remote


def test_it_agrees_with_a_plain_dict(in_memory: Path) -> None:  # noqa: F811
    agree_with_a_dict(lambda: partial(QdrantVectorStore, "docs", in_memory / uuid4().hex))


# What is opened


@pytest.mark.parametrize("where", [{}, {"location": "a", "url": "http://localhost:6333"}], ids=str)
def test_either_a_location_or_a_url_is_given(where: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"either location.*or url"):
        QdrantVectorStore("docs", **where)


@pytest.mark.parametrize("url", ["localhost:6333", "grpc://localhost", "http://", "./folder"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="http://localhost:6333"):
        QdrantVectorStore("docs", url=url)


def test_a_url_is_no_location() -> None:
    with pytest.raises(ValueError, match="as url"):
        QdrantVectorStore("docs", location="http://localhost:6333")


@pytest.mark.parametrize("wrong", [0, -1, True, "3", 3.0], ids=repr)
def test_a_dimension_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="dimension is"):
        QdrantVectorStore("docs", location=":memory:", dimension=wrong)


def test_a_folder_is_one_stores_until_it_is_closed(tmp_path: Path) -> None:
    first = QdrantVectorStore("docs", location=tmp_path / "a" / "b")
    first.add([chunk("a")])
    with pytest.raises(VectorStoreError, match=r"another store has the Qdrant folder.*close\(\)"):
        QdrantVectorStore("docs", location=tmp_path / "a" / "b")
    first.close()

    with QdrantVectorStore("docs", location=str(tmp_path / "a" / "b")) as second:
        assert ids(second.search(X)) == ["a"]


def made_by_others(path: Path, **config: Any) -> Path:
    client = QdrantClient(path=str(path))
    client.create_collection("docs", **config)
    client.close()
    return path


def params(size: int, distance: models.Distance) -> models.VectorParams:
    return models.VectorParams(size=size, distance=distance)


def test_a_collection_of_another_size_is_refused(tmp_path: Path) -> None:
    made_by_others(tmp_path, vectors_config=params(2, models.Distance.COSINE))

    with pytest.raises(DimensionMismatchError, match=r"\b3\b.*\b2\b"):
        QdrantVectorStore("docs", location=tmp_path, dimension=3)
    with QdrantVectorStore("docs", location=tmp_path) as store:
        assert store.dimension == 2
        with pytest.raises(DimensionMismatchError):
            store.add([chunk("a")])


def test_a_collection_of_another_distance_is_refused(tmp_path: Path) -> None:
    made_by_others(tmp_path, vectors_config=params(3, models.Distance.EUCLID))

    with pytest.raises(VectorStoreError, match=r"'docs'.*Euclid.*Cosine"):
        QdrantVectorStore("docs", location=tmp_path)


def test_a_collection_of_named_vectors_is_refused(tmp_path: Path) -> None:
    made_by_others(tmp_path, vectors_config={"text": params(3, models.Distance.COSINE)})

    with pytest.raises(VectorStoreError, match=r"'docs'.*named"):
        QdrantVectorStore("docs", location=tmp_path)


@pytest.mark.parametrize("distance", [models.Distance.COSINE, models.Distance.DOT])
def test_an_empty_collection_of_others_is_taken(tmp_path: Path, distance: models.Distance) -> None:
    made_by_others(tmp_path, vectors_config=params(3, distance))

    with QdrantVectorStore("docs", location=tmp_path) as store:
        store.add([chunk("a", [30.0, 40.0, 0.0]), chunk("b", Y)])
        found = store.search([0.5, 0.0, 0.0])

    assert [(one.chunk.id, one.score) for one in found] == [("a", pytest.approx(0.6)), ("b", 0.0)]


def test_points_of_others_are_told(tmp_path: Path) -> None:
    made_by_others(tmp_path, vectors_config=params(3, models.Distance.COSINE))
    client = QdrantClient(path=str(tmp_path))
    client.upsert("docs", [models.PointStruct(id=1, vector=X, payload={"text": "theirs"})])
    client.close()

    with QdrantVectorStore("docs", location=tmp_path) as store:
        store.add([chunk("a", Y)])
        with pytest.raises(VectorStoreError, match="record 1 was not written by"):
            store.search(X)
        assert store.get(["a"]) == [chunk("a")]


def test_what_is_no_storage_is_told(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("")

    with pytest.raises(VectorStoreError, match="Expecting value"):
        QdrantVectorStore("docs", location=tmp_path)


def test_a_point_has_the_uuid_of_its_id(tmp_path: Path) -> None:
    with QdrantVectorStore("docs", location=tmp_path) as store:
        store.add([chunk("chunk-1", metadata={"page": 1, "more": [1]}), chunk("ü")])

    client = QdrantClient(path=str(tmp_path))
    keys = [str(uuid.uuid5(uuid.NAMESPACE_OID, id)) for id in ("chunk-1", "ü")]
    first, second = client.retrieve("docs", keys)
    client.close()

    assert (first.payload["text"], first.payload["tags"]) == ("text of chunk-1", ['["page",1]'])
    assert second.payload["text"] == "text of ü"


# Who else has it


@needs_fork
def test_a_forked_child_leaves_a_folder_to_its_parent(tmp_path: Path) -> None:
    code = """
import os, signal, subprocess, sys
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.qdrant import QdrantVectorStore
from pywrapai_graph.rag.types import Chunk
store = QdrantVectorStore("docs", location=sys.argv[1])
store.add([Chunk("t", id="a", embedding=[1.0, 0.0])])
if not (child := os.fork()):
    signal.alarm(20)
    try:
        store.search([1.0, 0.0])
    except VectorStoreError as error:
        assert "forked" in str(error)
    else:
        raise AssertionError
    store.close()
    del store
    sys.exit(0)
print(os.waitpid(child, 0)[1])
try:
    QdrantVectorStore("docs", location=sys.argv[1])
except VectorStoreError as error:
    print("still locked" if "another store has" in str(error) else error)
store.add([Chunk("t", id="b", embedding=[1.0, 0.0])])
print(len(store.search([1.0, 0.0])))
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)

    assert (ended.stdout, ended.stderr) == ("0\nstill locked\n2\n", "")


@needs_fork
def test_a_forked_child_can_go_on_in_memory_and_with_a_server(server: QdrantStub) -> None:
    with (
        QdrantVectorStore("docs", location=":memory:") as memory,
        QdrantVectorStore(uuid4().hex, url=server.url) as remote,
    ):
        for store in (memory, remote):
            store.add([chunk("a")])
        if not (child := os.fork()):
            status = 1
            try:
                for store in (memory, remote):
                    store.add([chunk("child")])
                    assert ids(store.search(X)) == ["a", "child"]
                status = 0
            finally:
                os._exit(status)

        assert os.waitpid(child, 0)[1] == 0
        assert ids(memory.search(X)) == ["a"]
        assert ids(remote.search(X)) == ["a", "child"]


def test_another_store_may_clear_the_collection(server: QdrantStub) -> None:
    name = uuid4().hex
    with (
        QdrantVectorStore(name, url=server.url) as store,
        QdrantVectorStore(name, url=server.url) as other,
    ):
        store.add([chunk("a")])
        other.search(X)

        store.clear()
        assert other.search(X) == other.get(["a"]) == []
        assert len(other) == 0
        other.delete(["a"])
        store.add([chunk("b", [1.0, 0.0])])

        assert ids(other.search([1.0, 0.0])) == ["b"]
        store.clear()
        other.add([chunk("c", [0.0, 1.0])])
        with pytest.raises(DimensionMismatchError):
            other.add([chunk("d")])
        assert ids(store.search([0.0, 1.0])) == ["c"]


# What a server is asked


def test_a_collection_is_made_with_cosines_and_an_index_for_filters(server: QdrantStub) -> None:
    name = uuid4().hex
    with QdrantVectorStore(name, url=server.url, dimension=3):
        assert server.bodies("PUT", f"/collections/{name}") == [
            {"vectors": {"size": 3, "distance": "Cosine"}}
        ]
        assert server.bodies("PUT", f"/{name}/index?wait=true") == [
            {"field_name": "tags", "field_schema": "keyword"}
        ]


def test_chunks_are_sent_as_points(server: QdrantStub) -> None:
    name = uuid4().hex
    with QdrantVectorStore(name, url=server.url) as store:
        store.add([chunk("a", [3.0, 4.0, 0.0], "Text\x00.", metadata={"page": 1})])
        [body] = server.bodies("PUT", f"/{name}/points?wait=true")

    [point] = body["points"]
    assert point["id"] == str(uuid.uuid5(uuid.NAMESPACE_OID, "a"))
    np.testing.assert_allclose(point["vector"], [0.6, 0.8, 0.0], atol=1e-7)
    assert (point["payload"]["text"], point["payload"]["tags"]) == ("Text.", ['["page",1]'])


def test_a_large_batch_is_sent_in_parts_of_8_megabytes(server: QdrantStub) -> None:
    name = uuid4().hex
    vectors = np.random.default_rng(1).standard_normal((600, 1_536))
    with QdrantVectorStore(name, url=server.url) as store:
        store.add([chunk(str(i), vector) for i, vector in enumerate(vectors)])
        bodies = server.bodies("PUT", f"/{name}/points?wait=true")

        assert len(store) == 600
    assert sum(len(body["points"]) for body in bodies) == 600
    assert len(bodies) == 3


def test_a_search_asks_for_payload_and_no_vectors(server: QdrantStub) -> None:
    name = uuid4().hex
    wanted = {"source": {"$in": ["a", "b"]}, "page": 1}
    with QdrantVectorStore(name, url=server.url) as store:
        store.add(chunks("a", 9, metadata={"source": "a", "page": 1}))
        store.search(X, k=9, filter=wanted)
        [body] = server.bodies("POST", f"/{name}/points/query")

    assert body["filter"] == {
        "must": [
            {"key": "tags", "match": {"any": ['["source","a"]', '["source","b"]']}},
            {"key": "tags", "match": {"any": ['["page",1]']}},
        ]
    }
    assert (body["query"], body["with_payload"], body["with_vector"]) == (
        {"nearest": X},
        True,
        False,
    )
    assert "params" not in body


def test_an_exact_search_is_asked_for(server: QdrantStub) -> None:
    name = uuid4().hex
    with QdrantVectorStore(name, url=server.url, exact=True) as store:
        store.add([chunk("a")])
        store.search(X)
        [body] = server.bodies("POST", f"/{name}/points/query")

    assert body["params"] == {"exact": True}


# Servers that fail, and keys


def test_the_key_is_sent_and_a_wrong_one_is_told() -> None:
    with qdrant_stub(api_key="right") as stub:
        with QdrantVectorStore("docs", url=stub.url, api_key="right") as store:
            store.add([chunk("a")])
            assert ids(store.search(X)) == ["a"]
        with pytest.raises(VectorStoreError, match="refuses the api_key") as told:
            QdrantVectorStore("docs", url=stub.url, api_key="wr0ng-secret")

    assert "wr0ng" not in str(told.value)


def test_a_key_over_http_is_warned_of_unless_it_stays_on_this_machine() -> None:
    """No server has this name."""
    with (
        pytest.warns(UserWarning, match=r"api_key for nowhere\.invalid.*https") as warned,
        pytest.raises(VectorStoreError, match="cannot reach"),
    ):
        QdrantVectorStore("docs", url="http://nowhere.invalid:1", api_key="secret")

    assert [Path(one.filename) for one in warned] == [Path(__file__)]


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(VectorStoreError, match=rf":{port}: cannot reach a server"):
            QdrantVectorStore("docs", url=f"http://user:secret@127.0.0.1:{port}")


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    with (
        qdrant_stub(silent=threading.Event()) as stub,
        pytest.raises(VectorStoreError, match=r"no answer in time.*timeout"),
    ):
        QdrantVectorStore("docs", url=stub.url, timeout=1)


def test_what_a_server_refuses_is_told_in_its_words(server: QdrantStub) -> None:
    with (
        QdrantVectorStore("a/b", url=server.url) as store,
        pytest.raises(VectorStoreError, match="cannot contain") as told,
    ):
        store.add([chunk("a")])

    assert told.value.__cause__ is not None


def test_nothing_is_printed_logged_or_warned_of(tmp_path: Path) -> None:
    code = """
import logging, sys
logging.basicConfig(level=logging.WARNING)
from pywrapai_graph.rag.stores.qdrant import QdrantVectorStore
from pywrapai_graph.rag.types import Chunk
for location in (":memory:", sys.argv[1]):
    with QdrantVectorStore("docs", location=location) as store:
        store.search([1.0, 0.0])
        store.add([Chunk("t", id=str(i), embedding=[1.0, 0.0]) for i in range(3)])
        store.search([1.0, 0.0], k=9)
        store.delete(["0", "unknown"])
        store.clear()
"""
    theirs = "ignore:unclosed database:ResourceWarning"  # the client's own, on Python 3.13
    command = [sys.executable, "-W", "error", "-W", theirs, "-c", code, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


# Kills


def test_what_a_killed_process_had_added_is_there_whole(tmp_path: Path) -> None:
    print(check_kills(QdrantVectorStore, "docs", str(tmp_path / "qdrant"), atomic=False))
