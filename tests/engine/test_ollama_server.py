from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from pywrapai import (
    LLM,
    ConfigurationError,
    ContextLengthError,
    ModelNotFoundError,
    ServerError,
)
from pywrapai.core.flow import arun, run
from pywrapai.providers import transport
from pywrapai.providers.ollama import OllamaProvider, server_url
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import raw, status


@pytest.fixture
def llm(server: StubServer) -> LLM:
    return LLM("ollama", base_url=server.url("ollama"), max_retries=0)


# Where the server is


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (None, "http://localhost:11434"),
        ("", "http://localhost:11434"),
        ("example.com", "http://example.com:11434"),
        ("example.com:8080", "http://example.com:8080"),
        ("http://example.com", "http://example.com"),
        ("https://example.com/", "https://example.com"),
        ("https://example.com:8443/ollama/", "https://example.com:8443/ollama"),
        ("http://example.com:11434/api/", "http://example.com:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:8080", "http://[::1]:8080"),
        (' "example.com" ', "http://example.com:11434"),
    ],
)
def test_an_address_is_read_as_ollama_reads_it(monkeypatch, address, url):
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    assert server_url(address) == url
    if address is not None:
        monkeypatch.setenv("OLLAMA_HOST", address)
        assert server_url(None) == url


@pytest.mark.parametrize("address", ["example.com:port", "example.com:99999", "http://[::1"])
def test_what_is_no_address_is_said(address):
    with pytest.raises(ConfigurationError, match="no address of an Ollama server"):
        LLM("ollama", base_url=address)


def test_base_url_wins_over_the_environment(server: StubServer, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "example.com")
    server.reply("ok")

    assert LLM("ollama", base_url=server.url() + "/").chat("Hello").content == "ok"


async def test_installed_models_are_listed(server: StubServer, llm: LLM):
    server.reply(raw({"models": [{"name": "qwen3:8b"}, {"name": "llama3.2:latest"}]}))

    assert llm.models() == ["llama3.2:latest", "qwen3:8b"]
    assert await llm.amodels() == ["stub"]


# Embeddings


async def test_texts_become_vectors_in_their_order(server: StubServer):
    provider = OllamaProvider("nomic-embed-text", base_url=server.url())

    ways = [
        run(provider.embed_flow(["one two", "three"], dimensions=8, timeout=5)),
        await arun(provider.embed_flow(["one two", "three"], dimensions=8, timeout=5)),
    ]

    for reply in ways:
        assert [len(vector) for vector in reply.vectors] == [8, 8]
        assert reply.input_tokens == 3
        assert reply.model == "nomic-embed-text"
    assert server.requests[0].json == {
        "model": "nomic-embed-text",
        "input": ["one two", "three"],
        "truncate": False,
        "dimensions": 8,
    }


def test_a_count_that_is_not_sent_is_none(server: StubServer):
    server.reply(raw({"model": "m", "embeddings": [[0.5]]}))
    provider = OllamaProvider("m", base_url=server.url())

    reply = run(provider.embed_flow(["a"], dimensions=None, timeout=5))

    assert reply.input_tokens is None
    assert "dimensions" not in server.requests[0].json


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (raw({"embeddings": None}), ServerError),
        (raw({"error": "no"}), ServerError),
        (raw([]), ServerError),
        (status(400, "input length exceeds maximum context length"), ContextLengthError),
        (status(404, "model 'm' not found"), ModelNotFoundError),
    ],
)
def test_a_failed_embedding_is_one_of_our_errors(server: StubServer, reply, kind):
    server.reply(reply)
    provider = OllamaProvider("m", base_url=server.url())

    with pytest.raises(kind) as caught:
        run(provider.embed_flow(["a", "b"], dimensions=None, timeout=5))
    assert caught.value.provider == "ollama"


# Connections


def test_all_llms_share_the_connections(server: StubServer, llm: LLM):
    server.reply("one", "two")
    llm.chat("Hello")
    before = server.connections

    LLM("ollama", "other", base_url=server.url()).chat("Hello")

    assert server.connections == before


def test_an_event_loop_closes_its_connections_when_it_ends(server: StubServer, llm: LLM):
    server.reply("one")

    asyncio.run(llm.achat("Hello"))

    assert server.wait_until(lambda: server.open_connections == 0)


def test_the_two_http_libraries_keep_apart():
    import httpx
    import httpx2

    assert type(transport.HTTPX.pool().http) is httpx.Client
    assert type(transport.pool().http) is httpx2.Client


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    server: StubServer, provider: str
):
    server.reply("direct", "direct")
    code = f"""
import asyncio
from pywrapai import LLM
llm = LLM({provider!r}, "m", base_url={server.url(provider)!r}, api_key="k", max_retries=0)
print(llm.chat("hi").content, asyncio.run(llm.achat("hi")).content)
"""
    with refusing_port() as port:
        proxy = f"http://127.0.0.1:{port}"
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "HTTP_PROXY": proxy, "http_proxy": proxy, "ALL_PROXY": proxy},
            capture_output=True,
            text=True,
        )

    assert ended.stdout.split() == ["direct", "direct"], ended.stderr


def test_a_proxy_of_the_environment_is_asked_for_other_machines(server: StubServer):
    server.reply("by proxy")
    code = """
from pywrapai import LLM
print(LLM("ollama", base_url="http://ollama.example", max_retries=0).chat("hi").content)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HTTP_PROXY": server.url(), "NO_PROXY": ""},
        capture_output=True,
        text=True,
    )

    assert ended.stdout.strip() == "by proxy", ended.stderr


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(server: StubServer, llm: LLM):
    server.reply("parent", "child", "parent again")
    assert llm.chat("Hello").content == "parent"

    child = os.fork()
    if child == 0:
        os._exit(0 if llm.chat("Hello").content == "child" else 1)
    _, exit_status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(exit_status) == 0
    assert llm.chat("Hello").content == "parent again"
    first, second, third = (request.connection for request in server.requests)
    assert first == third != second


def test_a_missing_httpx_is_told_as_the_line_that_installs_it():
    code = """
import sys
sys.modules["httpx"] = None
from pywrapai import LLM, MissingDependencyError
try:
    LLM("ollama").chat("hi")
except MissingDependencyError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert 'pip install "pywrapai[ollama]"' in ended.stdout, ended.stderr
