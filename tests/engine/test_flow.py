from __future__ import annotations

import asyncio
import contextvars
import gc
import types
from time import perf_counter

import pytest

from pywrapai.core.flow import (
    Emit,
    Flow,
    Step,
    StreamClosed,
    StreamFlow,
    arun,
    astream,
    blocking,
    io,
    run,
    sleep,
    stream,
    together,
)


def double(x: int) -> int:
    return 2 * x


async def adouble(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def fail() -> None:
    raise LookupError("no")


async def afail() -> None:
    raise LookupError("no")


def adding() -> Flow[int]:
    first = yield from io(double, adouble, 1)
    second = yield from blocking(double, first)
    return first + second


async def test_a_flow_gives_the_same_result_sync_and_async():
    assert run(adding()) == await arun(adding()) == 6


async def test_a_steps_error_is_raised_where_the_flow_stands():
    def forgiving() -> Flow[str]:
        try:
            yield from io(fail, afail)
        except LookupError as error:
            return str(error)
        return "never"

    assert run(forgiving()) == await arun(forgiving()) == "no"


async def test_an_error_that_the_flow_does_not_catch_reaches_the_caller():
    with pytest.raises(LookupError):
        run(io(fail, afail))
    with pytest.raises(LookupError):
        await arun(io(fail, afail))


def counting(log: list[str]) -> StreamFlow[int, str]:
    try:
        for number in range(3):
            yield Emit(number)
    except StreamClosed:
        log.append("closed")
        raise
    finally:
        yield from io(log.append, alog(log), "tidied")
    return "end"


def alog(log: list[str]):
    async def append(entry: str) -> None:
        await asyncio.sleep(0)
        log.append(entry)

    return append


async def test_a_stream_emits_the_same_sync_and_async():
    log: list[str] = []

    assert list(stream(counting(log))) == [0, 1, 2]
    assert [number async for number in astream(counting(log))] == [0, 1, 2]
    assert log == ["tidied", "tidied"]


def test_a_reader_who_leaves_lets_the_flow_do_io_first():
    log: list[str] = []
    reader = stream(counting(log))
    next(reader)

    reader.close()

    assert log == ["closed", "tidied"]


async def test_an_async_reader_who_leaves_lets_the_flow_do_io_first():
    log: list[str] = []
    reader = astream(counting(log))
    await anext(reader)

    await reader.aclose()

    assert log == ["closed", "tidied"]


def test_a_dropped_reader_is_a_reader_who_leaves():
    log: list[str] = []
    reader = stream(counting(log))
    next(reader)

    del reader
    gc.collect()

    assert log == ["closed", "tidied"]


async def test_cancellation_is_raised_in_the_flow_which_may_still_await():
    log: list[str] = []
    started = asyncio.Event()

    async def wait_for_ever() -> None:
        started.set()
        await asyncio.Event().wait()

    def patient() -> Flow[None]:
        try:
            yield Step(lambda: None, wait_for_ever)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        finally:
            yield from io(log.append, alog(log), "tidied")

    task = asyncio.create_task(arun(patient()))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["cancelled", "tidied"]


def test_a_coroutine_that_is_closed_unfinished_runs_what_needs_no_io():
    log: list[str] = []

    @types.coroutine
    def never():
        yield

    def flow() -> Flow[None]:
        try:
            yield Step(lambda: None, never)
        finally:
            log.append("memory")
            yield Step(lambda: log.append("io"), never)

    coroutine = arun(flow())
    coroutine.send(None)
    coroutine.close()

    assert log == ["memory"]


def test_keyboard_interrupt_in_a_step_passes_through_finally_and_out():
    log: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    def flow() -> Flow[None]:
        try:
            yield Step(interrupted, afail)
        finally:
            yield from io(log.append, alog(log), "tidied")

    with pytest.raises(KeyboardInterrupt):
        run(flow())
    assert log == ["tidied"]


async def test_blocking_io_runs_in_a_thread_with_the_callers_context():
    who = contextvars.ContextVar("who", default="nobody")
    who.set("alice")
    loop_thread = await arun(blocking(lambda: who.get()))

    assert loop_thread == "alice"


async def test_blocking_io_does_not_hold_up_the_loop():
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_for_the_loop() -> bool:
        return asyncio.run_coroutine_threadsafe(released.wait(), loop).result(timeout=5)

    task = asyncio.create_task(arun(blocking(wait_for_the_loop)))
    await asyncio.sleep(0)
    released.set()

    assert await task is True


async def test_sleep_waits_as_long_as_it_says_in_both_worlds():
    started = perf_counter()
    run(sleep(0.02))
    blocked = perf_counter()
    await arun(sleep(0.02))

    assert blocked - started >= 0.02
    assert perf_counter() - blocked >= 0.015  # an event loop may be a tick early


def meeting(barrier: asyncio.Barrier, name: str) -> Flow[str]:
    """A flow that ends only once the others have begun: alone it would wait for ever."""

    async def wait() -> str:
        await barrier.wait()
        return name

    result: str = yield Step(lambda: name, wait)
    return result


async def test_flows_together_run_at_once_and_their_results_keep_their_order():
    barrier, names = asyncio.Barrier(3), ["a", "b", "c"]

    found = await arun(together([meeting(barrier, name) for name in names]))

    assert found == names
    assert run(together([meeting(barrier, name) for name in names])) == names
    assert await arun(together([])) == run(together([])) == []


async def test_when_one_of_several_raises_the_others_have_ended_first():
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("other")

    def waiting() -> Flow[None]:
        yield Step(lambda: None, for_ever)

    with pytest.raises(LookupError):
        await arun(together([waiting(), io(fail, afail)]))
    assert ended == ["other"]
    assert len(asyncio.all_tasks()) == 1


async def test_cancelling_the_caller_ends_all_of_them():
    ended: list[str] = []
    started = asyncio.Event()

    async def for_ever() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.append("x")

    def waiting() -> Flow[None]:
        yield Step(lambda: None, for_ever)

    task = asyncio.create_task(arun(together([waiting(), waiting()])))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["x", "x"]


async def test_what_a_flow_emits_is_passed_over_when_only_its_result_is_wanted():
    log: list[str] = []

    assert run(counting(log)) == await arun(counting(log)) == "end"
