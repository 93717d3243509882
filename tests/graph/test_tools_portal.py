"""The event loop in the background, for async work of sync callers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from pywrapai.core import portal

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


async def here() -> tuple[asyncio.AbstractEventLoop, int]:
    return asyncio.get_running_loop(), threading.get_ident()


def test_the_loop_is_in_another_thread_and_goes_on_between_calls():
    (first, thread), (second, _) = portal.run(here()), portal.run(here())

    assert first is second
    assert thread != threading.get_ident()


def test_a_connection_of_one_call_serves_the_next():
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def give() -> None:
        await queue.put(1)

    async def take() -> int:
        return await queue.get()

    portal.run(give())

    assert portal.run(take()) == 1


def test_errors_come_back():
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        portal.run(fail())


def test_the_callers_context_is_seen_and_not_changed():
    async def work() -> str:
        seen = WHO.get()
        WHO.set("changed")
        return seen

    token = WHO.set("alice")
    try:
        assert portal.run(work()) == "alice"
        assert WHO.get() == "alice"
    finally:
        WHO.reset(token)


async def test_a_caller_in_a_loop_of_its_own_is_served():
    loop, _ = portal.run(here())

    assert loop is not asyncio.get_running_loop()


def test_async_work_may_call_sync_code_that_needs_the_loop_again():
    async def outer() -> tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]:
        return portal.run(here())[0], asyncio.get_running_loop()

    inner, outside = portal.run(outer())

    assert inner is not outside


def test_many_threads_may_wait_at_once():
    met: list[int] = []

    async def meet(barrier: asyncio.Barrier) -> None:
        async with barrier:
            met.append(1)

    async def make() -> asyncio.Barrier:
        return asyncio.Barrier(3)

    barrier = portal.run(make())
    threads = [threading.Thread(target=lambda: portal.run(meet(barrier))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert met == [1, 1, 1]


def test_ctrl_c_cancels_the_work():
    code = """
import asyncio, signal, sys, threading
from pywrapai.core import portal

cancelled = threading.Event()
main = threading.main_thread().ident

async def work():
    while sys._current_frames()[main].f_code.co_name != "wait":
        await asyncio.sleep(0.01)
    signal.pthread_kill(main, signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.set()

try:
    portal.run(work())
except KeyboardInterrupt:
    print("interrupted", cancelled.wait(10))
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert (ended.stdout, ended.stderr) == ("interrupted True\n", "")


def test_work_that_goes_on_does_not_hold_up_the_end_of_the_program():
    code = """
import asyncio
from pywrapai.core import portal

async def leave():
    asyncio.current_task().get_loop().kept = asyncio.create_task(asyncio.Event().wait())

portal.run(leave())
print("done")
"""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_a_loop_of_its_own():
    code = """
import os
from pywrapai.core import portal

async def answer():
    return 42

portal.run(answer())
child = os.fork()
if not child:
    os._exit(portal.run(answer()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), portal.run(answer()))
"""
    quiet = ["-W", "ignore:This process:DeprecationWarning"]  # of forks, from Python 3.12 on
    command = [sys.executable, *quiet, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (ended.stdout, ended.stderr) == ("42 42\n", "")
