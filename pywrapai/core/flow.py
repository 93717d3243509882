"""Write a conversation once; drive it from sync or from async code.

A flow is a generator. It yields a `Step` where it needs I/O and an `Emit` where a stream hands
out a chunk; everything else in it is plain Python, tested without network or event loop. A step's
outcome comes back where the flow stands, its exceptions too, cancellation and Ctrl-C included, so
`try`/`finally` in a flow mean what they always mean and may do I/O of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from asyncio import Task

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class Step:
    """One piece of I/O, in its blocking and its awaitable form. May be yielded many times."""

    __slots__ = ("block", "wait")

    def __init__(self, block: Callable[[], Any], wait: Callable[[], Awaitable[Any]]) -> None:
        self.block = block
        self.wait = wait


class Emit(Generic[C]):
    """A chunk on its way to the reader of a stream."""

    __slots__ = ("chunk",)

    def __init__(self, chunk: C) -> None:
        self.chunk = chunk


class StreamClosed(BaseException):
    """Raised in a flow whose reader has left, where its chunk was emitted.

    Like GeneratorExit, but the flow may still do I/O; it must not emit any more.
    """


Flow: TypeAlias = Generator[Step, Any, T]
StreamFlow: TypeAlias = Generator[Step | Emit[C], Any, T]


def io(
    block: Callable[P, T], wait: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> Flow[T]:
    """I/O that has both forms."""
    result: T = yield Step(lambda: block(*args, **kwargs), lambda: wait(*args, **kwargs))
    return result


def blocking(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Flow[T]:
    """I/O that only blocks; async callers run it in a thread."""

    async def wait() -> T:
        import asyncio

        return await asyncio.to_thread(fn, *args, **kwargs)

    result: T = yield Step(lambda: fn(*args, **kwargs), wait)
    return result


def sleep(seconds: float) -> Flow[None]:
    """Wait without holding up anybody else."""

    def block() -> None:
        import time

        time.sleep(seconds)

    async def wait() -> None:
        import asyncio

        await asyncio.sleep(seconds)

    yield Step(block, wait)


def together(flows: Sequence[Flow[T]]) -> Flow[list[T]]:
    """The results of several flows, in their order: one after another, or at once when awaited.

    When one raises, or when the caller is cancelled, the others are cancelled and have ended
    before that reaches anybody.
    """

    def block() -> list[T]:
        return [run(flow) for flow in flows]

    async def wait() -> list[T]:
        import asyncio

        tasks = [asyncio.create_task(arun(flow)) for flow in flows]
        try:
            return [await task for task in await _first_failure_or_all(tasks)]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    results: list[T] = yield Step(block, wait)
    return results


async def _first_failure_or_all(tasks: list[Task[T]]) -> list[Task[T]]:
    """The one that failed first, alone, or else all of them; in either case they are done."""
    import asyncio

    if tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    failed = [task for task in tasks if task.done() and (task.cancelled() or task.exception())]
    return failed[:1] or tasks


def run(flow: StreamFlow[Any, T]) -> T:
    """Drive a flow to its result, blocking at each step; what it emits, nobody reads."""
    drive: _Drive[T] = _Drive(flow)
    while (step := drive.step) is not None:
        if type(step) is Emit:
            drive.resume(None)
        else:
            drive.block()
    return drive.result


async def arun(flow: StreamFlow[Any, T]) -> T:
    """Drive a flow to its result, awaiting each step; what it emits, nobody reads."""
    drive: _Drive[T] = _Drive(flow)
    try:
        while (step := drive.step) is not None:
            if type(step) is Emit:
                drive.resume(None)
            else:
                await drive.wait()
    finally:
        drive.abandon()
    return drive.result


def stream(flow: StreamFlow[C, T]) -> Generator[C, None, T]:
    """Yield what a flow emits, blocking at each step; its result is the generator's own."""
    drive: _Drive[T] = _Drive(flow)
    while (step := drive.step) is not None:
        if type(step) is Emit:
            try:
                yield step.chunk
            except GeneratorExit:
                drive.fail(StreamClosed())
            else:
                drive.resume(None)
        else:
            drive.block()
    return drive.result


async def astream(flow: StreamFlow[C, T]) -> AsyncGenerator[C, None]:
    """Yield what a flow emits, awaiting each step."""
    drive: _Drive[T] = _Drive(flow)
    try:
        while (step := drive.step) is not None:
            if type(step) is Emit:
                try:
                    yield step.chunk
                except GeneratorExit:
                    drive.fail(StreamClosed())
                else:
                    drive.resume(None)
            else:
                await drive.wait()
    finally:
        drive.abandon()


class _Drive(Generic[T]):
    """A flow and where it stands; the only code that sees StopIteration."""

    __slots__ = ("_flow", "result", "step")

    result: T

    def __init__(self, flow: Generator[Any, Any, T]) -> None:
        self._flow = flow
        self.step: Any = None
        self.resume(None)

    def resume(self, outcome: Any) -> None:
        self._move(self._flow.send, outcome)

    def fail(self, error: BaseException) -> None:
        self._move(self._flow.throw, error)

    def _move(self, move: Callable[[Any], Any], value: Any) -> None:
        self.step = None
        try:
            self.step = move(value)
        except StopIteration as done:
            self.result = done.value
        except StreamClosed:
            self.result = None  # type: ignore[assignment]  # its reader has left: nobody asks

    def block(self) -> None:
        try:
            outcome = self.step.block()
        except BaseException as error:
            self.fail(error)
        else:
            self.resume(outcome)

    async def wait(self) -> None:
        try:
            outcome = await self.step.wait()
        except GeneratorExit:  # the event loop is gone, and with it all further I/O
            raise
        except BaseException as error:
            self.fail(error)
        else:
            self.resume(outcome)

    def abandon(self) -> None:
        """Close a flow that can do no more I/O; its `finally` may still tidy up in memory."""
        if self.step is not None:
            with suppress(RuntimeError):  # "ignored GeneratorExit": it asked for I/O once more
                self._flow.close()
