"""Many threads and tasks on one LLM each, and a server that misbehaves at random."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import struct
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from pywrapai import LLM, LLMResponse, PyWrapAIError, StreamInterruptedError, TokenTracker
from pywrapai.testing import StubServer
from pywrapai.testing.wires import (
    Call,
    Reply,
    Request,
    Response,
    events,
    hang_up,
    html,
    raw,
    status,
    text,
    tool_calls,
)

WIRES = ("openai", "anthropic", "gemini", "ollama")
STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529)
THREADS, TASKS, ROUNDS = 6, 24, 12

pytestmark = pytest.mark.filterwarnings("ignore:no price is known")


class Chaos:
    """Answers at random, and keeps what all callers got."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self.responses: list[LLMResponse] = []
        self.strange: list[BaseException] = []

    def answer(self, request: Request) -> Reply:
        with self._lock:
            return self._misbehave(self._rng, request)

    def _misbehave(self, rng: random.Random, request: Request) -> Reply:
        said = text(" ".join(f"w{number}é" for number in range(rng.randrange(1, 9))))
        streamed = b'"stream":true' in request.body or "stream" in request.path
        stalled = said.stall_after(rng.randrange(1, 4)) if streamed else said.delayed(9)
        return rng.choice(
            [
                *[said] * 6,
                tool_calls(Call("f", {"a": 1}), Call("f", '{"a')),
                said.in_packets_of(rng.randrange(1, 9)),
                said.cut_after(rng.randrange(1, 8)),
                said.paced(0.002),
                said.delayed(0.01),
                stalled,
                status(rng.choice(STATUSES), retry_after=rng.choice([None, 0, 0.01, "x", 3600])),
                status(rng.choice(STATUSES)),
                hang_up(),
                html("<html>"),
                raw(b""),
                raw("{not"),
                raw([]),
                raw({"error": {"message": "x", "type": "overloaded_error"}}),
                raw(b"no gzip", headers={"content-encoding": "gzip"}),
                events({"error": {"message": "x", "type": "overloaded_error"}}, done=False),
                events(done=False),
                Reply(Response(None, steps=(b"this is not HTTP",), complete=False)),
            ]
        )

    def got(self, response: LLMResponse | None) -> None:
        if response is not None:
            self.responses.append(response)

    def raised(self, error: BaseException) -> None:
        if not isinstance(error, PyWrapAIError):
            self.strange.append(error)
        elif not isinstance(error, StreamInterruptedError):  # whose response its stream has too
            self.got(getattr(error, "response", None))

    def ask(self, llm: LLM, rng: random.Random) -> None:
        try:
            match rng.randrange(3):
                case 0:
                    self.got(llm.chat("Go"))
                case 1:
                    self._read(llm.stream("Go"))
                case _:
                    self._read(llm.stream("Go"), leave=True)
        except Exception as error:
            self.raised(error)

    def _read(self, pieces: Any, leave: bool = False) -> None:
        try:
            for _ in pieces:
                if leave:
                    break
        finally:
            pieces.close()
            self.got(pieces.response)

    async def aask(self, llm: LLM, rng: random.Random) -> None:
        try:
            match rng.randrange(4):
                case 0:
                    self.got(await llm.achat("Go"))
                case 1:
                    await self._aread(llm.astream("Go"))
                case 2:
                    await self._aread(llm.astream("Go"), leave=True)
                case _:
                    await _cancelled(self._aread(llm.astream("Go")), after=rng.random() * 0.02)
        except Exception as error:
            self.raised(error)

    async def _aread(self, pieces: Any, leave: bool = False) -> None:
        try:
            async for _ in pieces:
                if leave:
                    break
        finally:
            await pieces.aclose()
            self.got(pieces.response)


async def _cancelled(call: Awaitable[None], after: float) -> None:
    task = asyncio.ensure_future(call)
    await asyncio.sleep(after)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def import_all() -> None:
    """The openai SDK stumbles over an httpx that another thread is just importing (3.57)."""
    for name in ("httpx", "openai", "anthropic", "google.genai"):
        import_module(name)


def in_threads(*jobs: Callable[[], object]) -> None:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a call hangs"


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_a_server_does_every_call_ends_and_is_counted_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    import_all()
    chaos, tracker = Chaos(seed), TokenTracker()
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    before = threading.active_count()

    with StubServer(chaos.answer, require_key=False) as server:
        llms = [
            LLM(
                wire,
                base_url=server.url(wire),
                api_key="sk-0123456789",
                max_retries=1,
                timeout=0.5,
                tracker=tracker,
            )
            for wire in WIRES
        ]
        for llm in llms:  # the policy is frozen, and its waits are not what is tested
            object.__setattr__(llm._source.retry, "first_wait", 0.001)

        def ask_often(number: int) -> None:
            rng = random.Random(f"{seed} {number}")
            for _ in range(ROUNDS):
                chaos.ask(rng.choice(llms), rng)

        async def ask_at_once() -> None:
            async def lane(number: int) -> None:
                rng = random.Random(f"{seed} task {number}")
                for _ in range(ROUNDS):
                    await chaos.aask(rng.choice(llms), rng)

            await asyncio.gather(*map(lane, range(TASKS)))
            assert asyncio.all_tasks() == {asyncio.current_task()}

        sync = [lambda number=number: ask_often(number) for number in range(THREADS)]
        in_threads(*sync, lambda: asyncio.run(ask_at_once()))

        assert chaos.strange == []
        assert tracker.total_calls == len(chaos.responses) > 0
        usages = [response.usage for response in chaos.responses]
        assert tracker.total_tokens == sum(usage.total_tokens for usage in usages)
        assert tracker.total_cost == pytest.approx(sum(r.cost_usd for r in chaos.responses))
        assert server.refusals == []
        assert server.wait_until(lambda: server.in_flight == 0)
        assert server.open_connections <= 2 * THREADS
    gc.collect()
    assert lost == []
    assert threading.active_count() == before


def test_clients_that_reset_while_the_server_closes_do_not_disturb_it():
    for _ in range(50):
        server = StubServer().start()
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        assert server.wait_until(lambda server=server: server.open_connections == 4)
        closing = threading.Thread(target=server.close)
        closing.start()
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        closing.join(10)
        assert not closing.is_alive()


@pytest.mark.parametrize("wire", WIRES)
def test_streams_that_are_left_leave_nothing_in_memory(wire: str):
    with StubServer(text("one two three four")) as server:
        llm = LLM(
            wire,
            base_url=server.url(wire),
            api_key="sk-0123456789",
            tracker=TokenTracker(max_records=0),
        )

        def objects_after(streams: int) -> int:
            for _ in range(streams):
                pieces = llm.stream("Count")
                next(pieces)
                pieces.close()
                server._traffic.requests.clear()  # which the server keeps for tests to see
            assert server.wait_until(lambda: server.open_connections <= 1)
            assert llm.tokens.records == []  # adds up the calls that wait for it
            gc.collect()
            return len(gc.get_objects())

        objects_after(10)
        before = objects_after(10)

        assert objects_after(200) - before < 100
