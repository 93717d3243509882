"""The store on Chroma: the contract, in a folder and on a server, and what is its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import chromadb
import httpx
import numpy as np
import psutil
import pytest

from pywrapai_graph.rag.errors import DimensionMismatchError, VectorStoreError
from pywrapai_graph.rag.stores.chroma import ChromaVectorStore
from tests.contracts.vector_store import VectorStoreContract
from tests.contracts.vector_store_chunks import X, Y, chunk, chunks, ids
from tests.contracts.vector_store_machine import agree_with_a_dict
from tests.graph.memory_directory import in_memory  # noqa: F401
from tests.graph.store_kills import check_kills

Open = Callable[[], ChromaVectorStore]

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def opening(**where: Any) -> Iterator[Open]:
    """Opens one collection again and again, closing what was open before."""
    name, stores = f"t-{uuid4().hex}", []

    def open_() -> ChromaVectorStore:
        for store in stores:
            store.close()
        stores.append(ChromaVectorStore(**where, collection=name))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture(scope="module")
def folder(in_memory: Path) -> Path:  # noqa: F811
    """One folder for all, because to make one takes longer than most tests."""
    return in_memory / "chroma"


@pytest.fixture
def in_folder(folder: Path) -> Iterator[Open]:
    yield from opening(path=folder)


@pytest.fixture(scope="module")
def server(in_memory: Path) -> Iterator[str]:  # noqa: F811
    """The url of `chroma run`."""
    directory = in_memory / "server"
    directory.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(Path(sys.executable).with_name("chroma"))
    command = [program, "run", "--path", str(directory), "--host", "127.0.0.1"]
    log = directory / "log"
    with log.open("w") as out:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/api/v2/heartbeat", process, log)
            yield url
        finally:
            process.terminate()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(url, verify=False)
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"chroma run does not answer: {log.read_text()}")


@pytest.fixture
def on_server(server: str) -> Iterator[Open]:
    yield from opening(url=server)


class TestFolder(VectorStoreContract):
    @pytest.fixture
    def store(self, in_folder: Open) -> ChromaVectorStore:
        return in_folder()

    @pytest.fixture
    def reopen(self, in_folder: Open) -> Open:
        return in_folder


class TestServer(VectorStoreContract):
    @pytest.fixture
    def store(self, on_server: Open) -> ChromaVectorStore:
        return on_server()

    @pytest.fixture
    def reopen(self, on_server: Open) -> Open:
        return on_server


def test_it_agrees_with_a_plain_dict(folder: Path) -> None:
    def new() -> Open:
        name = f"t-{uuid4().hex}"
        return lambda: ChromaVectorStore(folder, name)

    agree_with_a_dict(new)


# What is opened


@pytest.mark.parametrize("where", [{}, {"path": "a", "url": "http://localhost:8000"}], ids=str)
def test_either_a_path_or_a_url_is_given(where: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"either path.*or url"):
        ChromaVectorStore(**where, collection="docs")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "./chroma"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="http://localhost:8000"):
        ChromaVectorStore(url=url)


def test_a_collection_of_another_space_is_refused(tmp_path: Path) -> None:
    client = chromadb.PersistentClient(str(tmp_path / "theirs"))
    client.create_collection("docs", embedding_function=None)
    client.close()

    with pytest.raises(VectorStoreError, match=r"'docs'.*'l2'.*'cosine'"):
        ChromaVectorStore(tmp_path / "theirs", "docs")
    ChromaVectorStore(tmp_path / "theirs", "others").close()


def test_a_name_that_chroma_refuses_is_told(folder: Path) -> None:
    with pytest.raises(VectorStoreError, match="3-512 characters"):
        ChromaVectorStore(folder, "x")


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")

    with pytest.raises(VectorStoreError, match="file"):
        ChromaVectorStore(tmp_path / "file")


def test_what_is_no_database_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_text("x" * 5_000)

    with pytest.raises(VectorStoreError, match=r"not a database.*backup"):
        ChromaVectorStore(tmp_path)


def test_a_damaged_index_is_told_with_advice(tmp_path: Path) -> None:
    with ChromaVectorStore(tmp_path) as store:
        store.add(chunks("a", 1_500))
        store.search(X)
    [index] = [path for path in tmp_path.iterdir() if path.is_dir()]
    (index / "header.bin").unlink()

    with (
        ChromaVectorStore(tmp_path) as store,
        pytest.raises(VectorStoreError, match=r"index is damaged.*backup"),
    ):
        store.search(X)


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    with ChromaVectorStore(tmp_path / "a" / "b", "docs") as store:
        store.add([chunk("a")])

    with ChromaVectorStore(str(tmp_path / "a" / "b"), "docs") as store:
        assert ids(store.search(X)) == ["a"]


def test_two_collections_of_a_folder_are_apart(tmp_path: Path) -> None:
    with ChromaVectorStore(tmp_path, "one") as one, ChromaVectorStore(tmp_path, "two") as two:
        one.add([chunk("a")])
        two.add([chunk("b", [1.0, 0.0])])
        one.close()

        assert ids(two.search([1.0, 0.0])) == ["b"]


# Who else has it


def run(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)


OPEN_AND_COUNT = """
import sys
from pywrapai_graph.rag.stores.chroma import ChromaVectorStore
with ChromaVectorStore(sys.argv[1], "docs") as store:
    print(len(store))
"""


def test_a_folder_is_refused_to_a_second_process_until_it_is_closed(tmp_path: Path) -> None:
    with ChromaVectorStore(tmp_path, "docs") as store:
        store.add([chunk("a")])
        with ChromaVectorStore(tmp_path, "docs") as same:
            assert len(same) == 1

        refused = run(OPEN_AND_COUNT, str(tmp_path))
    admitted = run(OPEN_AND_COUNT, str(tmp_path))

    assert "another process has the Chroma folder" in refused.stderr
    assert f"chroma run --path {tmp_path}" in refused.stderr
    assert (admitted.stdout, admitted.stderr) == ("1\n", "")


@needs_fork
def test_a_forked_child_is_told_and_leaves_the_folder_to_its_parent(tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.chroma import ChromaVectorStore
from pywrapai_graph.rag.types import Chunk
store = ChromaVectorStore(sys.argv[1], "docs")
store.add([Chunk("t", id="a", embedding=[1.0, 0.0])])
if not (child := os.fork()):
    signal.alarm(20)
    for use in (lambda: store.search([1.0, 0.0]), lambda: ChromaVectorStore(sys.argv[1] + "2")):
        try:
            use()
        except VectorStoreError as error:
            assert "forked" in str(error) and "spawn" in str(error)
        else:
            raise AssertionError
    store.close()
    del store
    sys.exit(0)
print(os.waitpid(child, 0)[1], flush=True)
import subprocess
subprocess.run([sys.executable, "-c", {OPEN_AND_COUNT!r}, sys.argv[1]])
store.add([Chunk("t", id="b", embedding=[1.0, 0.0])])
print(len(store.search([1.0, 0.0])))
"""
    ended = run(code, str(tmp_path / "folder"))

    assert ended.stdout == "0\n2\n", ended.stderr
    assert ended.stderr.count("another process has the Chroma folder") == 1


@needs_fork
def test_a_forked_child_can_go_on_with_a_server(on_server: Open) -> None:
    store = on_server()
    store.add([chunk("a")])
    if not (child := os.fork()):
        status = 1
        try:
            store.add([chunk("child")])
            status = 0 if ids(store.search(X)) == ["a", "child"] else 2
        finally:
            os._exit(status)

    assert os.waitpid(child, 0)[1] == 0
    assert ids(store.search(X)) == ["a", "child"]


@pytest.mark.parametrize("where", ["in_folder", "on_server"])
def test_another_store_may_clear_the_collection(where: str, request: Any) -> None:
    store = request.getfixturevalue(where)()
    place = {"url": store._access.place} if where == "on_server" else {"path": store._access.place}
    with ChromaVectorStore(**place, collection=store._name) as other:
        store.add([chunk("a")])
        other.search(X)

        store.clear()
        assert other.search(X) == []
        store.add([chunk("b", [1.0, 0.0])])

        assert ids(other.search([1.0, 0.0])) == ["b"]
        other.add([chunk("c", [0.0, 1.0])])
        with pytest.raises(DimensionMismatchError):
            other.add([chunk("d")])
        assert ids(store.search([0.0, 1.0])) == ["c", "b"]


def test_searches_on_a_server_bear_it_that_another_process_removes_chunks(
    on_server: Open, server: str
) -> None:
    """Stores of their own, so that they do not wait for each other."""
    store = on_server()
    store.add(chunks("kept", 5))
    done = threading.Event()
    failed: list[Exception] = []

    def search() -> None:
        with ChromaVectorStore(url=server, collection=store._name) as other:
            while not done.is_set():
                try:
                    found = other.search(X, k=40)
                    assert {f"kept{i}" for i in range(5)} <= set(ids(found))
                    other.get(["passing0", "kept0"])
                except Exception as error:
                    failed.append(error)

    searching = threading.Thread(target=search)
    searching.start()
    for _ in range(10):
        store.add(chunks("passing", 20))
        store.delete(f"passing{i}" for i in range(20))
    done.set()
    searching.join()

    assert failed == []


# What Chroma is given


def test_text_and_vector_are_where_other_tools_look_for_them(tmp_path: Path) -> None:
    with ChromaVectorStore(tmp_path, "docs") as store:
        store.add([chunk("a", [3.0, 4.0, 0.0], "Some text.", metadata={"page": 1})])

    client = chromadb.PersistentClient(str(tmp_path))
    kept = client.get_collection("docs", embedding_function=None).get(
        include=["documents", "embeddings", "metadatas"]
    )
    client.close()

    assert (kept["ids"], kept["documents"]) == (["a"], ["Some text."])
    np.testing.assert_allclose(kept["embeddings"], [[0.6, 0.8, 0.0]], atol=1e-6)
    assert set(kept["metadatas"][0]) == {"pywrapai", "tag:page"}


def test_records_of_others_are_found(tmp_path: Path) -> None:
    client = chromadb.PersistentClient(str(tmp_path))
    collection = client.create_collection(
        "docs", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    collection.add(
        ids=["a", "b"],
        embeddings=np.array([[2.0, 0.0], [0.0, 2.0]], dtype=np.float32),
        documents=["theirs", "without metadata"],
        metadatas=[{"page": 1}, None],
    )
    client.close()

    with ChromaVectorStore(tmp_path, "docs") as store:
        first, second = store.search([1.0, 0.0])
        assert first.chunk == chunk("a", text="theirs", metadata={"page": 1})
        assert second.chunk == chunk("b", text="without metadata")
        assert (first.score, second.score) == (1.0, 0.0)
        store.add([chunk("a", [0.0, 1.0], "ours")])
        assert store.get(["a"]) == [chunk("a", text="ours")]


def test_more_than_chroma_takes_at_once_goes_in_by_parts(in_folder: Open) -> None:
    store = in_folder()
    store.add([chunk(str(i), [1.0, i / 6_000]) for i in range(6_000)])

    assert len(store) == 6_000
    assert ids(store.search([0.0, 1.0], k=2)) == ["5999", "5998"]
    asked = [str(i) for i in range(6_000)]
    assert ids(store.get(asked)) == asked
    store.delete(asked[1:])
    assert ids(store.search([0.0, 1.0])) == ["0"]


def test_many_that_are_not_near_are_found_by_insertion(in_folder: Open) -> None:
    store = in_folder()
    store.add(chunks("first", 1, Y))
    store.add([chunk(str(i), [-1.0, i / 2_000, 0.0]) for i in range(2_000)])
    store.add([chunk("near")])

    assert ids(store.search(X, k=4)) == ["near", "first0", "0", "1"]


def test_of_thousands_of_equal_ones_the_first_inserted_are_found(in_folder: Open) -> None:
    store = in_folder()
    store.add(chunks("a", 3_000))
    store.add([chunk("a0")])

    assert ids(store.search(X, k=3)) == ["a1", "a2", "a3"]


# Silence


def test_nothing_is_printed_logged_or_warned_of(tmp_path: Path) -> None:
    code = """
import logging, sys
logging.basicConfig(level=logging.WARNING)
from pywrapai_graph.rag.stores.chroma import ChromaVectorStore
from pywrapai_graph.rag.types import Chunk
with ChromaVectorStore(sys.argv[1], "docs") as store:
    store.search([1.0, 0.0])
    store.add([Chunk("t", id=str(i), embedding=[1.0, 0.0]) for i in range(3)])
    store.search([1.0, 0.0], k=9)
    store.delete(["0", "unknown"])
    store.clear()
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


def test_a_dotenv_file_of_the_directory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("CHROMA_API_IMPL=nonsense\nCHROMA_SERVER_NOFILE=x\n")
    monkeypatch.chdir(tmp_path)

    with ChromaVectorStore("chroma", "docs") as store:
        store.add([chunk("a")])
        assert len(store) == 1


# Servers that fail


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(VectorStoreError, match=rf":{port}: cannot reach.*chroma run"):
            ChromaVectorStore(url=f"http://user:secret@127.0.0.1:{port}")


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(VectorStoreError, match=r"no answer in time.*timeout") as told:
            ChromaVectorStore(url=f"http://user:secret@127.0.0.1:{port}", timeout=0.1)

    assert "secret" not in str(told.value)


def test_a_server_that_does_not_answer_is_told(server: str) -> None:
    with ChromaVectorStore(url=server, collection="docs", timeout=1) as store:
        store.add([chunk("a")])
        process = listening(urlsplit(server).port)
        process.suspend()
        try:
            with pytest.raises(VectorStoreError, match="no answer in time"):
                store.search(X)
        finally:
            process.resume()


def listening(port: int | None) -> psutil.Process:
    connections = psutil.net_connections(kind="tcp")
    pids = {c.pid for c in connections if c.status == psutil.CONN_LISTEN and c.laddr.port == port}
    return psutil.Process(pids.pop())


@pytest.mark.parametrize("timeout", [0, -1, "5", None])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        ChromaVectorStore(url="http://localhost:8000", timeout=timeout)


# Kills


def test_what_a_killed_process_had_added_is_there_whole(tmp_path: Path) -> None:
    print(check_kills(ChromaVectorStore, str(tmp_path / "chroma"), atomic=True))
