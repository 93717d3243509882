from __future__ import annotations

import asyncio

import pytest

from pywrapai import LLM
from pywrapai.providers import lanes
from pywrapai.testing import StubServer
from pywrapai.testing.wires import text


def llm_on(server: StubServer) -> LLM:
    return LLM("openai", "gpt-4o-mini", api_key="k", base_url=server.url(), max_retries=0)


async def test_one_call_after_another_goes_over_one_connection():
    with StubServer("ok") as server:
        llm = llm_on(server)
        for _ in range(5):
            await llm.achat("hi")

        assert server.connections == 1


async def test_a_hundred_at_once_truly_run_at_once_and_their_connections_serve_again():
    with StubServer(
        lambda request: text("ok").held_until(lambda: server.peak_in_flight == 100)
    ) as server:
        llm = llm_on(server)
        await asyncio.gather(*(llm.achat("hi") for _ in range(100)))
        assert server.peak_in_flight == 100
        opened = server.connections

        await asyncio.gather(*(llm.achat("hi") for _ in range(100)))

        assert opened == 100
        assert server.connections == opened


async def test_lanes_that_are_idle_are_closed_as_further_calls_come(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(lanes, "IDLE_S", 0.0)
    with StubServer(
        lambda request: text("ok").held_until(lambda: server.peak_in_flight == 40)
    ) as server:
        llm = llm_on(server)
        await asyncio.gather(*(llm.achat("hi") for _ in range(40)))
        for _ in range(5):
            await llm.achat("hi")

        closed = await asyncio.to_thread(
            server.wait_until, lambda: server.open_connections <= lanes.LANE
        )
        assert closed, server.open_connections


async def test_a_failed_request_gives_its_place_back():
    transport = lanes.Lanes(lambda: Failing())
    for _ in range(3 * lanes.LANE):
        with pytest.raises(OSError, match="no"):
            await transport.handle_async_request(None)

    assert len(transport._lanes) == 1
    assert transport._lanes[0].busy == 0


class Failing:
    async def handle_async_request(self, request: object) -> None:
        raise OSError("no")

    async def aclose(self) -> None:
        pass
