"""PGVectorStore and its server: connections that drop, servers that stop, processes that die."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psutil
import psycopg2
import pytest

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.types import Chunk
from tests.contracts.vector_store_chunks import X, chunk, ids, unit
from tests.postgres import Postgres

KILLS = int(os.environ.get("PYWRAPAI_TEST_KILLS", "4"))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def table() -> str:
    """The name of one that only this test uses; it is gone with its database."""
    return f"t_{uuid4().hex}"


@pytest.fixture
def store(database: str, table: str) -> Iterator[PGVectorStore]:
    with PGVectorStore(database, table) as store:
        yield store


def backends(postgres: Postgres, database: str) -> set[int]:
    """The server's processes that serve stores on this database."""
    found = postgres.execute(
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'pywrapai'",
        database,
    )
    return {pid for (pid,) in found}


def cut(postgres: Postgres, database: str) -> None:
    """Cut every connection to a database, and wait until the server has done so."""
    for pid in backends(postgres, database):
        postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)", database)


# Connections


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.add([chunk("b")]),
        lambda store: store.search(X),
        lambda store: store.search(X, filter={"page": 1}),
        lambda store: store.get(["a"]),
        lambda store: store.delete(["a"]),
        lambda store: len(store),
        lambda store: store.clear(),
        lambda store: store.dimension,
    ],
    ids=["add", "search", "filtered", "get", "delete", "len", "clear", "dimension"],
)
def test_a_connection_that_was_cut_is_made_again_within_the_call(
    postgres: Postgres,
    database: str,
    store: PGVectorStore,
    call: Callable[[PGVectorStore], Any],
) -> None:
    store.add([chunk("a")])
    cut(postgres, database)
    assert not backends(postgres, database)

    call(store)

    store.add([chunk("z")])
    assert ids(store.search(X))[-1] == "z"


def test_all_connections_that_were_cut_are_made_again(
    postgres: Postgres, database: str, store: PGVectorStore
) -> None:
    store.add([chunk("a")])
    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            together = threading.Barrier(8)

            def search(_: int, together: threading.Barrier = together) -> list[str]:
                together.wait(30)
                return ids(store.search(X))

            assert list(threads.map(search, range(8))) == [["a"]] * 8
            cut(postgres, database)


def test_threads_share_a_few_connections(postgres: Postgres) -> None:
    most = 0
    with (
        postgres.database() as url,
        PGVectorStore(url, max_connections=2) as store,
        ThreadPoolExecutor(9) as threads,
    ):
        store.add([chunk("a")])
        searches = [threads.submit(store.search, X) for _ in range(200)]
        for _ in range(5):
            most = max(most, len(backends(postgres, url)))

        assert all(ids(one.result()) == ["a"] for one in searches)
    assert 1 <= most <= 2


def test_a_failed_call_leaves_no_transaction_open(
    postgres: Postgres, database: str, store: PGVectorStore
) -> None:
    store.add([chunk("a")])
    for _ in range(20):
        with pytest.raises(ValueError, match="start or end"):
            store.add([chunk("b"), chunk("c", start=2**70)])

    states = "SELECT count(*) FROM pg_stat_activity WHERE state ~ 'in transaction'"
    assert postgres.execute(states, database) == [(0,)]
    assert len(store) == 1


def test_close_closes_the_connections(postgres: Postgres) -> None:
    with postgres.database() as url:
        store = PGVectorStore(url)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: len(store), range(20)))
        assert backends(postgres, url)

        store.close()

        deadline = time.monotonic() + 30
        while backends(postgres, url):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    for call in (store.clear, lambda: len(store), lambda: store.dimension):
        with pytest.raises(VectorStoreError, match="closed"):
            call()


def test_a_call_that_runs_ends_well_though_the_store_is_closed(postgres: Postgres) -> None:
    with postgres.database() as url, ThreadPoolExecutor(1) as threads:
        store = PGVectorStore(url)
        store.add([chunk("a")])
        blocker = psycopg2.connect(url)
        blocker.cursor().execute("LOCK TABLE vector_chunks IN ACCESS EXCLUSIVE MODE")
        counting = threads.submit(len, store)
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
        deadline = time.monotonic() + 30
        while not postgres.execute(waiting, url):
            assert time.monotonic() < deadline

        store.close()
        blocker.close()

        assert counting.result() == 1
        while backends(postgres, url):
            assert time.monotonic() < deadline


# Servers


def test_a_server_that_is_not_there_is_told_by_name_and_without_the_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # nobody listens

        with pytest.raises(VectorStoreError, match=f"127.0.0.1:{port}.*refused") as told:
            PGVectorStore(f"postgresql://user:s3cret@127.0.0.1:{port}/db")

    assert "s3cret" not in str(told.value)
    assert isinstance(told.value.__cause__, psycopg2.OperationalError)


@pytest.mark.parametrize("how", ["in the string", "by the environment"])
def test_a_server_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        url = f"postgresql://u:s3cret@127.0.0.1:{port}/db"
        if how == "in the string":
            url += "?connect_timeout=2"
        else:
            monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")

        started = time.monotonic()
        with pytest.raises(VectorStoreError, match=rf"127.0.0.1:{port}.*timeout"):
            PGVectorStore(url)

    assert time.monotonic() - started < 8


def test_a_database_that_is_not_there_is_told(postgres: Postgres) -> None:
    with pytest.raises(VectorStoreError, match="no_such_database"):
        PGVectorStore(postgres.url_of("no_such_database"))


def test_a_server_that_stopped_is_told_and_once_it_is_back_the_next_call_works(
    postgres: Postgres, store: PGVectorStore, table: str
) -> None:
    if postgres.server is None:
        pytest.skip("the server of PYWRAPAI_TEST_PG_URL is not ours to stop")
    store.add([chunk("a")])

    postgres.server.stop()
    try:
        with pytest.raises(VectorStoreError, match="cannot connect to PostgreSQL at /"):
            store.search(X)
        with pytest.raises(VectorStoreError, match="cannot connect"):
            store.add([chunk("b")])
    finally:
        postgres.server.start()

    store.add([chunk("b")])
    assert ids(store.search(X)) == ["a", "b"]


def test_a_server_whose_processes_crashed_is_waited_for(
    postgres: Postgres, database: str, store: PGVectorStore
) -> None:
    """One that is killed takes all connections with it, until the server has recovered."""
    if postgres.server is None:
        pytest.skip("the server of PYWRAPAI_TEST_PG_URL is not ours to crash")
    for round in range(3):
        store.add([chunk(f"{round}")])
        for pid in backends(postgres, database):
            os.kill(pid, signal.SIGKILL)

        store.add([chunk(f"again {round}")])

    assert len(store) == 6


# Processes


@needs_fork
def test_a_forked_child_makes_connections_of_its_own(
    postgres: Postgres, database: str, store: PGVectorStore
) -> None:
    store.add([chunk("a")])
    before = backends(postgres, database)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork beside other threads, on 3.12
        child = os.fork()
    if child == 0:
        try:
            store.add([chunk("child")])
            found = ids(store.search(X))
            store.close()
            gc.collect()
            os._exit(0 if found == ["a", "child"] else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)

    assert status == 0
    assert ids(store.search(X)) == ["a", "child"]
    assert before <= backends(postgres, database), "the child closed its parent's connection"


ADDER = """
import sys
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.types import Chunk
url, table, name = sys.argv[1:]
store = PGVectorStore(url, table)
sys.stdin.readline()
for round in range(30):
    text = f"{name} {round}"
    order = range(10) if name == "one" else range(9, -1, -1)
    store.add([Chunk(text, id=str(i), embedding=[1.0, 0.0]) for i in order])
    store.delete([str(round % 10)])
    store.add([Chunk(text, id=f"{name} {round}", embedding=[0.0, 1.0])])
"""


def test_two_processes_may_replace_the_same_chunks_at_once(database: str, table: str) -> None:
    store = PGVectorStore(database, table)
    command = [sys.executable, "-c", ADDER, database, table]
    adders = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for adder in adders:
        assert adder.stdin is not None
        adder.stdin.write("go\n")
        adder.stdin.flush()
    for adder in adders:
        assert adder.communicate(timeout=120)[1] == ""
        assert adder.returncode == 0

    found = ids(store.get([str(i) for i in range(10)]))
    assert len(store) == 60 + len(found)
    assert len(found) in (8, 9)
    store.close()


def test_threads_may_replace_the_same_chunks_at_once(store: PGVectorStore) -> None:
    def replace(number: int) -> None:
        for round in range(5):
            batch = [chunk(f"{i}", text=f"{number} {round}") for i in range(20)]
            store.add(batch if number % 2 else batch[::-1])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(replace, range(8)))

    found = store.search(X, k=99)
    assert len(store) == len(found) == 20
    assert len({one.chunk.text for one in found}) == 1


# Kills


def vector_of(text: str) -> list[float]:
    random_ = random.Random(text)
    return [random_.gauss(0, 1) for _ in range(8)]


WRITER = """
import sys
from itertools import count
from pywrapai_graph.rag.stores.pgvector import PGVectorStore
from pywrapai_graph.rag.types import Chunk
from tests.graph.test_pgvector_server import vector_of
url, table, first, index = sys.argv[1:]
store = PGVectorStore(url, table, index=index or None)
for batch in count(int(first)):
    texts = [f"{batch}/{i}" for i in range(20)]
    shared = Chunk(f"shared {batch}", id="shared", embedding=vector_of(f"shared {batch}"))
    store.add([*(Chunk(t, id=t, embedding=vector_of(t)) for t in texts), shared])
    print(batch, flush=True)
"""


def check_batches(store: PGVectorStore, completed: int) -> int:
    """Every batch that was completed is whole, and the one after it too, or not there at all."""
    batches = (len(store) - 1) // 20
    assert len(store) == batches * 20 + 1
    assert batches in (completed, completed + 1)
    names = [f"{batch}/{i}" for batch in range(batches) for i in range(20)]
    found = store.get([*names, "shared"])
    assert ids(found) == [*names, "shared"]
    assert found[-1].text == f"shared {batches - 1}"
    for one in found:
        assert one.embedding == pytest.approx(unit(vector_of(one.text)), abs=1e-6)
    for name in random.Random(batches).sample(names, 3):
        assert ids(store.search(vector_of(name), k=1)) == [name]
    return batches


@pytest.mark.parametrize("index", ["", "hnsw"])
def test_a_killed_process_leaves_whole_batches(database: str, table: str, index: str) -> None:
    completed = 0
    for kill in range(max(1, KILLS // 2)):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, database, table, str(completed), index],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        assert lines[0], "the writer failed"
        time.sleep(random.Random(kill).random() * 0.2)
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()

        with PGVectorStore(database, table, index=index or None) as store:
            completed = check_batches(store, int(lines[-1]) + 1)


def test_a_killed_server_has_every_batch_that_was_completed(
    postgres: Postgres, database: str, table: str
) -> None:
    if postgres.server is None:
        pytest.skip("the server of PYWRAPAI_TEST_PG_URL is not ours to kill")
    store, completed = PGVectorStore(database, table), []

    def write() -> None:
        try:
            while True:
                batch = len(completed)
                texts = [f"{batch}/{i}" for i in range(20)]
                shared = f"shared {batch}"
                added = [Chunk(text, id=text, embedding=vector_of(text)) for text in texts]
                store.add([*added, Chunk(shared, id="shared", embedding=vector_of(shared))])
                completed.append(batch)
        except VectorStoreError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    while len(completed) < 5:
        time.sleep(0.001)
    kill(postgres.server)
    writer.join(30)
    postgres.server.start()

    assert check_batches(store, len(completed)) >= 5
    store.close()


def kill(server: Any) -> None:
    """And wait until nothing is left that would hinder its start."""
    postmaster = psutil.Process(server.get_pid())
    processes = [postmaster, *postmaster.children()]
    postmaster.kill()
    deadline = time.monotonic() + 30
    while any(is_alive(process) for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):  # good for nothing but a zombie
        (server.pgdata / lock).unlink()


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
