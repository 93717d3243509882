"""Tools of MCP servers, which run as processes of their own: over stdio, and over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pywrapai import LLM, ToolCall, ToolResult
from pywrapai.core import portal
from pywrapai.testing import StubProvider
from pywrapai_graph import (
    Agent,
    AgentConfig,
    GraphLLM,
    MCPConnectionError,
    ToolArgumentsError,
    ToolRegistry,
    tool,
)

HERE = Path(__file__).parent
SERVER = [sys.executable, str(HERE / "mcp_server.py")]
LEGACY = [sys.executable, str(HERE / "mcp_legacy.py")]
NAMES = [
    *["add", "echo", "fail", "slow", "wait_started", "wait_cancelled", "left", "right", "data"],
    *["picture", "everything", "silence", "odd_name_with_dots", "die", "environment", "complain"],
]


@contextmanager
def http_server(command: list[str], **env: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with subprocess.Popen(
        [*command, "--http"], stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
    ) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp", process
        finally:
            process.kill()


@pytest.fixture(scope="module", params=["stdio", "http"])
def shared(request) -> Iterator[ToolRegistry]:
    """One session for many tests, as a program would have it."""
    with ExitStack() as stack:
        registry = stack.enter_context(ToolRegistry())
        if request.param == "stdio":
            registry.add_mcp(command=SERVER)
        else:
            url, _ = stack.enter_context(http_server(SERVER))
            registry.add_mcp(url=url)
        yield registry


@pytest.fixture
def place(request) -> str:
    """A meeting point of this test's own at the server."""
    return request.node.nodeid


def call(name: str, call_id: str = "c1", /, **arguments) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def content(registry: ToolRegistry, name: str, /, **arguments) -> str:
    result = registry.execute(call(name, **arguments))
    assert not result.is_error, result.content
    return result.content


def trouble(registry: ToolRegistry, name: str, /, **arguments) -> str:
    result = registry.execute(call(name, **arguments))
    assert result.is_error, result.content
    return result.content


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_of(registry: ToolRegistry, prefix: str = "") -> int:
    return json.loads(content(registry, f"{prefix}environment"))["pid"]


# What a model is told


def test_names_descriptions_and_schemas_are_the_servers(shared):
    schema = {tool["name"]: tool for tool in shared.to_schema()}

    assert list(schema) == NAMES
    assert schema["add"]["description"] == "Add two numbers."
    assert schema["add"]["parameters"]["required"] == ["a", "b"]
    assert schema["add"]["parameters"]["properties"]["a"]["type"] == "integer"
    assert schema["odd_name_with_dots"]["description"] == "A name that no provider takes."


async def test_a_call_returns_what_the_server_says(shared):
    assert content(shared, "add", a=1, b=2) == "3"
    assert await shared.aexecute(call("add", a=1, b=2)) == ToolResult("c1", "add", "3")
    assert await shared.get("add")(a=20, b=22) == "42"
    assert content(shared, "odd_name_with_dots") == "odd"


def test_text_arrives_as_it_is(shared):
    text = 'žluťoučký 🐎 \u2028 "quoted" \\ \n\t{}' + "x" * 100_000

    assert content(shared, "echo", text=text) == text


def test_structured_content_stands_in_for_text_that_is_not_there(shared):
    assert json.loads(content(shared, "data")) == {"city": "Łódź", "degrees": [1, 2]}
    assert content(shared, "picture") == '{"width": 1}\n[image: image/png, 8 bytes]'


def test_what_is_no_text_is_described(shared):
    assert content(shared, "everything").split("\n") == [
        "one",
        "[image: image/png, 8 bytes]",
        "[resource file:///a.bin: application/x-thing, 8 bytes]",
        "what the file says",
        "[link to resource file:///b.txt: of unknown type, 9 bytes]",
        "two",
    ]


async def test_a_servers_error_is_raised_by_the_tool_and_told_by_the_registry(shared):
    told = "Error executing tool fail: no luck"

    with pytest.raises(RuntimeError, match=told):
        await shared.get("fail")(why="no luck")
    with pytest.raises(RuntimeError, match=told):
        shared.step(call("fail", why="no luck")).block()
    assert trouble(shared, "fail", why="no luck") == f"Error: {told}"


def test_the_server_checks_the_arguments(shared):
    said = trouble(shared, "add", a="x")

    assert "valid integer" in said
    assert "Field required" in said
    assert content(shared, "add", a="3", b=4) == "7"


# At once


def test_calls_of_two_threads_meet_at_the_server(shared, place):
    with ThreadPoolExecutor() as threads:
        met = [threads.submit(shared.execute, call(n, at=place)) for n in ("left", "right")]

        assert [m.result(10).content for m in met] == ["left met right", "right met left"]


def test_calls_of_two_event_loops_meet_at_the_server(shared, place):
    def loop(name: str) -> str:
        async def work() -> str:
            async with asyncio.timeout(10):
                return (await shared.aexecute(call(name, at=place))).content

        return asyncio.run(work())

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(loop, ["left", "right"])) == ["left met right", "right met left"]


async def test_a_task_and_a_thread_meet_at_the_server(shared, place):
    async with asyncio.timeout(10):
        met = await asyncio.gather(
            shared.aexecute(call("left", at=place)),
            asyncio.to_thread(shared.execute, call("right", at=place)),
        )

    assert [result.content for result in met] == ["left met right", "right met left"]


async def test_many_calls_get_their_own_answers(shared):
    calls = [shared.aexecute(call("add", f"c{n}", a=n, b=n)) for n in range(50)]

    async with asyncio.timeout(20):
        results = await asyncio.gather(*calls)

    assert results == [ToolResult(f"c{n}", "add", str(2 * n)) for n in range(50)]


async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_session_goes_on(shared, place):
    async with asyncio.timeout(10):
        task = asyncio.create_task(shared.aexecute(call("slow", at=place)))
        await shared.aexecute(call("wait_started", at=place))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await shared.aexecute(call("wait_cancelled", at=place))).content == "cancelled"
        assert (await shared.aexecute(call("add", a=1, b=2))).content == "3"


def test_a_sync_call_in_the_loop_of_the_session_is_refused(shared):
    async def wrong() -> str:
        return shared.execute(call("add", a=1, b=2)).content

    async def right() -> str:
        return (await shared.aexecute(call("add", a=1, b=2))).content

    assert "await the async twin" in portal.run(wrong())
    assert portal.run(right()) == "3"


# By an agent


def agent_of(registry: ToolRegistry, *replies, **config) -> tuple[Agent, StubProvider]:
    provider = StubProvider(list(replies))
    graph = GraphLLM(LLM(provider, max_retries=0))
    return Agent(graph, registry, AgentConfig(**config)), provider


@pytest.mark.parametrize("tool_timeout", [None, 10])
def test_an_agent_uses_the_tools(shared, tool_timeout):
    calls = [call("add", "c1", a=1, b=2), call("fail", "c2", why="no luck")]
    agent, provider = agent_of(shared, calls, "It is 3.", tool_timeout=tool_timeout)

    result = agent.run("What is 1 + 2?")

    assert result.content == "It is 3."
    assert result.steps[0].tool_results == [
        ToolResult("c1", "add", "3"),
        ToolResult("c2", "fail", "Error: Error executing tool fail: no luck", is_error=True),
    ]
    assert provider.requests[0].tools == shared.to_schema()


async def test_an_agent_calls_them_at_once(shared, place):
    calls = [call("left", "c1", at=place), call("right", "c2", at=place)]
    agent, _ = agent_of(shared, calls, "They met.", tool_timeout=10)

    result = await agent.arun("Let them meet.")

    told = [r.content for r in result.steps[0].tool_results]
    assert told == ["left met right", "right met left"]


async def test_the_policy_for_errors_holds(shared):
    agent, _ = agent_of(shared, [call("fail", why="no luck")], tool_error_policy="raise")

    with pytest.raises(RuntimeError, match="no luck"):
        await agent.arun("go")
    agent, _ = agent_of(shared, [call("fail", why="no luck")], "Done.", tool_error_policy="skip")
    assert (await agent.arun("go")).steps[0].tool_results == []


@pytest.mark.parametrize("way", ["run", "arun"])
async def test_the_tool_timeout_of_an_agent_bounds_a_call(shared, place, way):
    agent, _ = agent_of(shared, [call("slow", at=place)], "Too late.", tool_timeout=0.2)

    async with asyncio.timeout(10):
        running = agent.arun("go") if way == "arun" else asyncio.to_thread(agent.run, "go")
        result = await running

    assert "slow took longer than 0.2 seconds" in result.steps[0].tool_results[0].content
    assert content(shared, "add", a=1, b=2) == "3"


def test_a_tool_can_be_made_to_ask_for_approval(shared):
    registry = ToolRegistry()
    registry.register(replace(shared.get("add"), requires_approval=True))
    agent, _ = agent_of(registry, [call("add", a=1, b=2)], "No.", approve=lambda call: False)

    assert "not approved" in agent.run("go").steps[0].tool_results[0].content
    assert content(registry, "add", a=1, b=2) == "3"


# Names


def test_a_prefix_keeps_servers_apart_and_the_process_gets_what_it_was_given(tmp_path):
    with ToolRegistry() as registry:
        one = registry.add_mcp(command=LEGACY, prefix="one.")
        two = registry.add_mcp(
            command=SERVER, prefix="two_", env={"WORD": "šup"}, cwd=tmp_path, timeout=20
        )
        given = json.loads(content(registry, "two_environment"))

        assert one == ["one_hello", "one_forget"]
        assert two == [f"two_{name}" for name in NAMES]
        assert registry.names == one + two
        assert content(registry, "one_hello", self="you") == "Hello you"
        assert given["env"]["WORD"] == "šup"
        assert given["env"]["PATH"] == os.environ["PATH"]
        assert "PYTEST_CURRENT_TEST" not in given["env"]
        assert given["cwd"] == str(tmp_path.resolve())
    assert not is_running(given["pid"])


def test_a_taken_name_adds_nothing_and_ends_the_session(tmp_path):
    @tool
    def forget() -> str:
        """Mine."""
        return "mine"

    note = tmp_path / "ended"
    serve = f"import runpy; runpy.run_path({LEGACY[1]!r}, run_name='__main__')"
    code = f"{serve}; open({str(note)!r}, 'w')"
    registry = ToolRegistry()
    registry.register(forget)

    with pytest.raises(ValueError, match="there are tools forget already, and nothing was added"):
        registry.add_mcp(command=[sys.executable, "-c", code])

    assert note.exists()
    assert registry.names == ["forget"]
    assert content(registry, "forget") == "mine"


def test_two_names_that_become_one_add_nothing():
    registry = ToolRegistry()

    with pytest.raises(ValueError, match=r"'ask.twice' and 'ask_twice', and both .* 'ask_twice'"):
        registry.add_mcp(command=[*LEGACY, "--alike"])

    assert registry.names == []


def test_a_server_without_tools_adds_none():
    with ToolRegistry() as registry:
        assert registry.add_mcp(command=[*LEGACY, "--bare"]) == []


# The end


async def test_closing_ends_the_process_and_later_calls_say_so():
    async with ToolRegistry() as registry:
        assert await registry.aadd_mcp(command=SERVER) == NAMES
        pid = await asyncio.to_thread(pid_of, registry)
        assert is_running(pid)

    assert not is_running(pid)
    result = await registry.aexecute(call("add", a=1, b=2))
    assert result.content.endswith("is closed: call add_mcp again to use it")
    with pytest.raises(MCPConnectionError, match="the MCP server 'test server' is closed"):
        await registry.get("add")(a=1, b=2)
    registry.close()


async def test_closing_ends_calls_that_are_under_way(place):
    registry = ToolRegistry()
    await registry.aadd_mcp(command=SERVER)

    async with asyncio.timeout(10):
        slow = asyncio.create_task(registry.aexecute(call("slow", at=place)))
        await registry.aexecute(call("wait_started", at=place))
        await registry.aclose()

        assert "is closed" in (await slow).content


def test_a_server_that_dies_is_told_and_can_be_added_again():
    with ToolRegistry() as registry:
        registry.add_mcp(command=SERVER)

        for name in ("die", "add"):
            said = trouble(registry, name, a=1, b=2)
            assert said.startswith("Error: the MCP server 'test server' has ended: call add_mcp")
        assert registry.add_mcp(command=SERVER) == NAMES
        assert content(registry, "add", a=1, b=2) == "3"


def test_a_server_over_http_that_dies_is_told():
    with http_server(SERVER, TEST_WORD="open") as (url, process), ToolRegistry() as registry:
        registry.add_mcp(url=url, headers={"Authorization": "Bearer open"})
        assert content(registry, "add", a=1, b=2) == "3"
        process.kill()
        process.wait(10)

        for _ in range(2):
            said = trouble(registry, "add", a=1, b=2)
            assert said.startswith("Error: the MCP server 'test server' has ended (")


def test_a_call_is_bounded_and_the_session_goes_on(place):
    with ToolRegistry() as registry:
        registry.add_mcp(command=SERVER, timeout=10)
        bounded = ToolRegistry()
        with http_server(SERVER) as (url, _), bounded:
            bounded.add_mcp(url=url, timeout=2)
            said = trouble(bounded, "slow", at=place)
            assert said == "Error: slow of the MCP server 'test server' took longer than 2 seconds"
            assert content(bounded, "wait_cancelled", at=place) == "cancelled"
        assert content(registry, "add", a=1, b=2) == "3"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=HERE.parents[1],
    )


USE = f"""
import json, os, sys
from pywrapai import ToolCall
from pywrapai_graph import ToolRegistry

registry = ToolRegistry()
def said(name, **arguments):
    return registry.execute(ToolCall("c1", name, arguments)).content
registry.add_mcp(command={LEGACY!r})
"""


def test_an_interpreter_that_ends_without_closing_leaves_nothing():
    with http_server(LEGACY) as (url, legacy):
        ended = run(
            f"""{USE}
registry.add_mcp(url={url!r}, prefix="http_")
registry.add_mcp(command={SERVER!r}, prefix="process_")
said("process_complain", text="something is odd")
print(json.loads(said("process_environment"))["pid"])
"""
        )
        assert legacy.stdout
        assert legacy.stdout.readline() == "ended s1\n"

    assert ended.returncode == 0
    assert ended.stderr == "something is odd\n"  # the server's own, which goes where ours does
    assert not is_running(int(ended.stdout))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_no_part_in_the_session_of_its_parent():
    ended = run(
        f"""{USE}
if not (child := os.fork()):
    print(said("hello", self="child"), flush=True)
    registry.add_mcp(command={LEGACY!r})
    print(said("hello", self="child"), flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(said("hello", self="parent"))
"""
    )

    first, *others = ended.stdout.splitlines()
    assert ended.stderr == ""
    assert "'legacy' belongs to the process that this one was forked from: call add_mcp" in first
    assert others == ["Hello child", "7", "Hello parent"]


# Servers of another kind


def test_a_server_that_speaks_an_older_protocol_is_understood():
    with ToolRegistry() as registry:
        assert registry.add_mcp(command=LEGACY) == ["hello", "forget"]
        assert registry.get("hello").description == "hello"
        assert content(registry, "hello", self="you") == "Hello you"
        assert content(registry, "forget") == "null"
        assert trouble(registry, "hello", broken=True) == (
            "Error: the MCP server 'legacy' refused the call: out of order"
        )
        with pytest.raises(ToolArgumentsError, match="self is missing"):
            registry.step(call("hello")).block()


def test_a_session_over_http_is_ended_at_the_server():
    with http_server(LEGACY) as (url, process):
        with ToolRegistry() as registry:
            registry.add_mcp(url=url)
            assert content(registry, "hello", self="you") == "Hello you"

        assert process.stdout
        assert process.stdout.readline() == "ended s1\n"


def test_a_session_that_the_server_has_forgotten_is_over():
    with http_server(LEGACY) as (url, _), ToolRegistry() as registry:
        registry.add_mcp(url=url)
        content(registry, "forget")

        for _ in range(2):
            assert "'legacy' has ended: call add_mcp again" in trouble(registry, "hello", self="y")


def test_an_answer_that_is_cut_off_fails_alone():
    with http_server(LEGACY) as (url, _), ToolRegistry() as registry:
        registry.add_mcp(url=url)

        assert "the MCP server 'legacy' broke off its answer" in trouble(
            registry, "hello", cut=True
        )
        assert content(registry, "hello", self="you") == "Hello you"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/no/such/program", "x"], "'/no/such/program x' cannot be started: "),
        ([sys.executable, "-c", "1"], " ended before it spoke MCP; run its command by itself"),
        ([sys.executable, "-c", "print('hello')"], " ended before it spoke MCP; "),
        ([sys.executable, "-c", "import time; time.sleep(60)"], " did not answer within 0.2 sec"),
    ],
)
async def test_a_process_that_is_no_server_is_told_at_once(command, said):
    registry = ToolRegistry()

    with pytest.raises(MCPConnectionError) as caught:
        registry.add_mcp(command=command, timeout=0.2 if "time" in command[-1] else 20)
    assert said in str(caught.value)
    assert isinstance(caught.value, ConnectionError)
    assert registry.names == []


async def test_an_address_that_is_no_server_is_told_at_once(server):
    registry = ToolRegistry()

    refused = pytest.raises(MCPConnectionError, match="HTTP 401: check the URL, the headers")
    with http_server(SERVER, TEST_WORD="open") as (url, _), refused:
        await registry.aadd_mcp(url=url)
    with pytest.raises(MCPConnectionError, match=r"cannot be reached: .*; check the URL") as caught:
        await registry.aadd_mcp(url=url.replace("//", "//user:pass@") + "?key=1")
    assert f"'{url}'" in str(caught.value)
    with pytest.raises(MCPConnectionError, match=r"does not speak MCP as it should: .* HTTP 4"):
        registry.add_mcp(url=f"{server.url()}/mcp")
    assert registry.names == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
async def test_a_caller_that_is_cancelled_while_connecting_leaves_no_process(tmp_path):
    started = tmp_path / "pid"
    os.mkfifo(started)
    code = f"import os, sys; open({str(started)!r}, 'w').write(str(os.getpid())); sys.stdin.read()"
    registry = ToolRegistry()

    async with asyncio.timeout(20):
        task = asyncio.create_task(registry.aadd_mcp(command=[sys.executable, "-c", code]))
        pid = int(await asyncio.to_thread(started.read_text))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert not is_running(pid)
    assert registry.names == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "either command"),
        ({"command": SERVER, "url": "http://127.0.0.1/mcp"}, "either command"),
        ({"command": "python server.py"}, "command is a list"),
        ({"command": []}, "command is a list"),
        ({"command": SERVER, "headers": {}}, "headers belong to url"),
        ({"url": "http://127.0.0.1/mcp", "env": {}}, "env and cwd belong to command"),
        ({"url": "127.0.0.1/mcp"}, "url starts with http"),
        ({"command": SERVER, "timeout": 0}, "timeout is in seconds"),
    ],
)
def test_what_contradicts_itself_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        ToolRegistry().add_mcp(**wrong)


def test_the_twins_take_the_same_arguments():
    sync, twin = (inspect.signature(f) for f in (ToolRegistry.add_mcp, ToolRegistry.aadd_mcp))

    assert sync.parameters == twin.parameters


def test_the_packages_that_are_not_needed_are_not_imported():
    code = (
        "import sys, pywrapai_graph; print({'mcp', 'anyio', 'asyncio', 'httpx2'} & {*sys.modules})"
    )

    assert run(code).stdout == "set()\n"


def test_a_missing_package_is_told_as_the_line_that_installs_it():
    ended = run(
        "import sys; sys.modules['mcp'] = None\n"
        "from pywrapai_graph import ToolRegistry\n"
        "try: ToolRegistry().add_mcp(command=['x'])\n"
        "except ImportError as error: print(error)"
    )

    assert 'pip install "pywrapai[mcp]"' in ended.stdout
