from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pywrapai import LLM, LLMResponse, ResponseCache
from pywrapai.cache.recall import Recall
from pywrapai.core.process import ProcessLock
from pywrapai.testing import StubProvider
from pywrapai_graph import Tool, ToolRegistry

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    # Python warns of what is the point here: a fork while other threads are at work.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def keep(cache: ResponseCache) -> None:
    cache.set("a", LLMResponse("kept"))
    assert cache.get("a") is not None


def recall(recall: Recall) -> None:
    recall.remember(b"mark", "key")


def ask(provider: StubProvider) -> None:
    assert LLM(provider).chat("hi").content == "ok"


def register(registry: ToolRegistry) -> None:
    registry.register(Tool("f", "", {"type": "object", "properties": {}}, lambda: "ok"))


@pytest.mark.parametrize(
    ("owner", "work"),
    [
        (ResponseCache(), keep),
        (Recall(), recall),
        (StubProvider(["ok"]), ask),
        (ToolRegistry(), register),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_lock_that_is_held_at_a_fork_is_free_in_the_child(
    owner: Any, work: Callable[[Any], None]
):
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with owner._lock:
            held.set()
            release.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that hangs is ended by it
        work(owner)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    release.set()
    holder.join()

    assert os.waitstatus_to_exitcode(status) == 0


def test_only_one_thread_at_a_time_holds_it():
    lock, count = ProcessLock(), [0]

    def work() -> None:
        for _ in range(1000):
            with lock:
                before = count[0]
                count[0] = before + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert count == [4000]
