"""Connections, processes, threads and event loops: what must hold however a program treats them."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import subprocess
import sys
import threading
import warnings
from typing import Any

import pytest

from pywrapai import (
    LLM,
    BaseLLM,
    ConfigurationError,
    LLMResponse,
    RateLimitError,
    ServerError,
)
from pywrapai.core.retry import RetryPolicy
from pywrapai.providers import lanes, transport
from pywrapai.testing import StubServer
from pywrapai.testing.wires import hang_up, status, text

WIRES = ["openai", "anthropic", "gemini", "ollama"]
KEY = "sk-test-0123456789"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def make(server: StubServer, wire: str = "openai", **settings: Any) -> LLM:
    return LLM(wire, base_url=server.url(wire), **{"api_key": KEY, "max_retries": 0, **settings})


def python(code: str, **environment: str) -> str:
    """What a program prints that says nothing on stderr, neither warnings nor lost exceptions."""
    kept = {name: value for name, value in os.environ.items() if name.lower() not in PROXIES}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def asking(wire: str, base_url: str) -> str:
    return f"""
import asyncio
from pywrapai import LLM
llm = LLM({wire!r}, base_url={base_url!r}, api_key={KEY!r}, max_retries=0)
"""


# Proxies of the environment


@pytest.mark.parametrize(
    ("wire", "variable"),
    [(wire, "HTTP_PROXY") for wire in WIRES] + [("openai", "ALL_PROXY"), ("openai", "http_proxy")],
)
def test_a_proxy_of_the_environment_is_used_sync_and_async(wire: str, variable: str):
    code = "print(llm.chat('Hi').content, asyncio.run(llm.achat('Hi')).content)"

    with StubServer("proxied") as proxy:
        said = python(asking(wire, "http://model.test:1234") + code, **{variable: proxy.url()})

    assert said == "proxied proxied\n"
    assert [r.headers["host"] for r in proxy.requests] == ["model.test:1234"] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_and_what_no_proxy_names_are_not_proxied(host: str):
    code = "print(llm.chat('Hi').content, asyncio.run(llm.achat('Hi')).content)"

    with StubServer("proxied") as proxy, StubServer("direct") as server:
        base_url = f"http://{host}:{server.port}"
        to_proxy = {"HTTP_PROXY": proxy.url(), "ALL_PROXY": proxy.url()}
        assert python(asking("openai", base_url) + code, **to_proxy) == "direct direct\n"

    assert proxy.requests == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HTTP_PROXY", "ftp://x"), ("ALL_PROXY", "socks5://x:1"), ("SSL_CERT_FILE", "/not/there")],
)
def test_an_environment_that_cannot_work_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    pools: Any = transport.Pools("httpx2")

    with pytest.raises(ConfigurationError, match=r"environment.*HTTP_PROXY"):
        pools.pool()
    with pytest.raises(ConfigurationError):
        asyncio.run(pools.apool())


# Lanes


async def test_a_stream_goes_on_when_its_lane_is_idle_otherwise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "IDLE_S", 0.0)
    many = lanes.LANE + 2

    with StubServer() as server:
        llm = make(server)
        gathered = text("one two").held_until(lambda: server.peak_in_flight >= many)
        server.reply(*[gathered.paced(0.01)] * (many - 1), gathered.paced(0.05))
        streams = [llm.astream("Count") for _ in range(many)]
        for piece in asyncio.as_completed([anext(stream) for stream in streams]):
            assert await piece == "one "
        server.reply("other")
        assert (await llm.achat("Hello")).content == "other"

        rest = [[piece async for piece in stream] for stream in streams]

    assert rest == [["two"]] * many


# Event loops


async def test_a_cancelled_call_hangs_up_and_is_cancelled(server: StubServer):
    for wire in WIRES:
        server.reply(text("late").delayed(30))
        task = asyncio.create_task(make(server, wire).achat("Hello"))
        number = len(server.requests)
        assert await asyncio.to_thread(server.wait_until, lambda n=number: len(server.requests) > n)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.requests[-1].client_left.wait, 5)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_sync_call_inside_a_running_loop_is_answered(server: StubServer, wire: str):
    server.reply("chat", "stream", "again")
    llm = make(server, wire)

    assert llm.chat("Hello").content == "chat"
    assert "".join(llm.stream("Hello")) == "stream"
    assert (await llm.achat("Hello")).content == "again"


@pytest.mark.parametrize("tidy", [True, False])
def test_event_loops_that_come_and_go_leave_nothing_behind(tidy: bool):
    with StubServer("ok") as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what is not tidy, is told so by asyncio
        llms = [make(server, wire) for wire in ("openai", "ollama")]
        for _ in range(100):
            loop = asyncio.new_event_loop()
            for llm in llms:
                loop.run_until_complete(llm.achat("Hello"))
            if tidy:
                loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        asyncio.run(llms[0].achat("Hello"))
        asyncio.run(llms[1].achat("Hello"))
        gc.collect()

        for pools in (transport.HTTPX2, transport.HTTPX):
            assert (len(pools._apools), len(pools._owners)) == (0, 0)
        assert server.wait_until(lambda: server.open_connections == 0)


def test_event_loops_of_many_threads_do_not_disturb_each_other():
    wrong: list[BaseException] = []

    def run_loops(llm: LLM) -> None:
        try:
            for _ in range(10):
                assert asyncio.run(llm.achat("Hello")).content == "ok"
        except BaseException as error:
            wrong.append(error)

    with StubServer("ok") as server:
        llm = make(server)
        threads = [threading.Thread(target=run_loops, args=(llm,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        assert wrong == []
        assert server.wait_until(lambda: server.open_connections == 0)


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_what_its_parent_is_asking(server: StubServer):
    answered = threading.Event()
    server.reply(text("slow").held_until(answered.is_set), "of the child")
    llm = make(server, cache=True)
    asker = threading.Thread(target=llm.chat, args=("the same",))
    asker.start()
    assert server.wait_until(lambda: server.in_flight == 1)

    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if llm.chat("the same").content == "of the child" else 1)
    _, exit_status = os.waitpid(child, 0)
    answered.set()
    asker.join()

    assert os.waitstatus_to_exitcode(exit_status) == 0
    assert llm.chat("the same").content == "slow"


LEFT = {
    "held": "pieces = llm.stream('Count'); print(next(pieces), end='')",
    "in a ring": "ring = [llm.stream('Count')]; ring += [ring]; print(next(ring[0]), end='')",
    "dropped": "for piece in llm.stream('Count'):\n    print(piece, end='')\n    break",
    "async": """
async def main():
    pieces = llm.astream('Count')
    print(await anext(pieces), end='')
asyncio.run(main())
""",
}


CRASHES_AT_EXIT = sys.version_info[:2] == (3, 13)
"""There `timedelta()` is a crash in the last garbage collection, and httpx2 calls it in closing."""


@pytest.mark.parametrize(
    ("wire", "how"),
    [
        *(("openai", how) for how in LEFT if how != "in a ring" or not CRASHES_AT_EXIT),
        ("gemini", "held"),
        ("ollama", "held"),
        ("ollama", "async"),
    ],
)
def test_a_program_may_end_while_a_stream_is_open(wire: str, how: str):
    with StubServer(text("one two three").paced(0.05)) as server:
        assert python(asking(wire, server.url(wire)) + LEFT[how]) == "one "


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals are those of POSIX")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("packets", [0, 2])
def test_ctrl_c_hangs_up_and_the_llm_goes_on(wire: str, packets: int):
    me = threading.get_ident()

    def interrupt(request: object) -> Any:
        threading.Timer(0.05, signal.pthread_kill, (me, signal.SIGINT)).start()
        return text("one two three").stall_after(packets)

    with StubServer(interrupt) as server:
        llm = make(server, wire)
        with pytest.raises(KeyboardInterrupt):
            list(llm.stream("Count"))
        assert server.requests[0].client_left.wait(5)

        server.reply("after")
        assert llm.chat("Hello").content == "after"


@pytest.mark.parametrize("wire", WIRES)
def test_an_llm_goes_on_when_another_one_is_deleted(server: StubServer, wire: str):
    server.reply("one", "two")
    first, second = make(server, wire), make(server, wire)

    assert first.chat("Hello").content == "one"
    first.close()
    del first
    gc.collect()

    assert second.chat("Hello").content == "two"


# Waiting


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("timeout", [math.inf, 1e30, 86_400 * 60])
async def test_a_timeout_may_be_for_ever(server: StubServer, wire: str, timeout: float):
    server.reply(*["ok"] * 3)
    llm = make(server, wire, timeout=timeout)

    assert llm.chat("Hello").content == "ok"
    assert (await llm.achat("Hello")).content == "ok"
    assert "".join(llm.stream("Hello", timeout=timeout)) == "ok"


@pytest.mark.parametrize("asked", [None, 0.0])
def test_a_server_that_asks_for_no_wait_is_waited_for_all_the_same(asked: float | None):
    wait = RetryPolicy().delay(1, RateLimitError("slow down", retry_after=asked))

    assert wait is not None
    assert 0.25 <= wait <= 0.5


@pytest.mark.parametrize(
    "asked", ["Wed, 21 Oct 2015 07:28:00 GMT", "0", "abc", "-5", "nan", "inf", "1e999", "9" * 500]
)
@pytest.mark.parametrize("wire", WIRES)
def test_a_retry_after_of_any_kind_is_survived(server: StubServer, wire: str, asked: str):
    server.reply(status(429, retry_after=asked))

    with pytest.raises(RateLimitError) as caught:
        make(server, wire).chat("Hello")

    assert caught.value.retry_after in (None, 0.0)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("code", [400, 401, 403, 404, 422, 408, 409, 429, 500, 503, 529])
def test_only_what_may_pass_is_asked_again(server: StubServer, wire: str, code: int):
    server.reply(*[status(code, headers={"retry-after-ms": "1"})] * 2)

    with pytest.raises(Exception, match=str(code)):
        make(server, wire, max_retries=1).chat("Hello")

    assert len(server.requests) == (1 if code in (400, 401, 403, 404, 422) else 2)


# Providers of one's own


class Grouping(BaseLLM):
    """Asks in a task group, which wraps what is raised in it."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__("own")
        self._errors = errors
        self.asked = 0

    def chat(self, *args: Any, **settings: Any) -> LLMResponse:
        self.asked += 1
        raise ExceptionGroup("outer", [ExceptionGroup("inner", self._errors)])

    async def achat(self, *args: Any, **settings: Any) -> LLMResponse:
        return self.chat()

    def stream(self, *args: Any, **settings: Any) -> Any:
        yield None
        yield from ["a", None, "b", None]

    async def astream(self, *args: Any, **settings: Any) -> Any:
        for piece in self.stream():
            yield piece


async def test_an_error_in_a_task_group_is_seen_and_tried_again():
    cause = OSError("socket")
    error = ServerError("busy", retry_after=0.001, retryable=True)
    error.__cause__ = cause
    provider = Grouping(error)

    with pytest.raises(ServerError) as caught:
        LLM(provider, max_retries=2).chat("Hello")
    with pytest.raises(ServerError):
        await LLM(provider, max_retries=0).achat("Hello")

    assert provider.asked == 4
    assert caught.value.__cause__ is cause


def test_several_errors_in_a_task_group_stay_together():
    with pytest.raises(ExceptionGroup):
        LLM(Grouping(ServerError("busy"), ValueError("x"))).chat("Hello")


async def test_none_between_the_pieces_of_a_stream_is_passed_over():
    llm = LLM(Grouping())

    assert list(llm.stream("Hello")) == ["a", "b"]
    assert [piece async for piece in llm.astream("Hello")] == ["a", "b"]


def test_a_hang_up_before_the_answer_is_tried_again_on_a_new_connection(server: StubServer):
    server.reply(hang_up(), "ok")
    llm = make(server, max_retries=1)

    assert llm.chat("Hello").content == "ok"
    assert len({request.connection for request in server.requests}) == 2
