from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading

import pytest

from pywrapai import LLM, ProviderConnectionError
from pywrapai.testing import StubServer
from pywrapai.testing.network import NetworkBlockedError, no_network

BEYOND = ("192.0.2.1", 9)  # TEST-NET-1: nobody is there


def test_the_fixtures_are_there_once_the_package_is_installed(pywrapai_server, pywrapai_no_network):
    pywrapai_server.reply("Hello")
    llm = LLM("openai", "gpt-4o-mini", api_key="k", base_url=pywrapai_server.url("openai"))

    assert llm.chat("Hi").content == "Hello"


def test_connecting_beyond_this_machine_fails():
    with no_network(), socket.socket() as sock:
        with pytest.raises(NetworkBlockedError, match=r"192\.0\.2\.1"):
            sock.connect(BEYOND)
        with pytest.raises(NetworkBlockedError):
            sock.connect_ex(BEYOND)


def test_looking_a_name_up_fails_and_loopback_does_not():
    with no_network():
        with pytest.raises(NetworkBlockedError, match=r"example\.com"):
            socket.getaddrinfo("example.com", 443)
        assert socket.getaddrinfo("localhost", 80)
        assert socket.getaddrinfo("127.0.0.1", 80)
        assert socket.getaddrinfo("::1", 80)
        assert socket.getaddrinfo("0.0.0.0", 80)


async def test_asyncio_is_watched_too():
    with no_network(), pytest.raises(NetworkBlockedError):
        await asyncio.open_connection(*BEYOND)


def test_other_threads_are_watched_too():
    seen: list[BaseException] = []

    def work() -> None:
        try:
            socket.create_connection(BEYOND, timeout=1)
        except OSError as error:
            seen.append(error)

    with no_network():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert isinstance(seen[0], NetworkBlockedError)


def test_an_llm_that_would_leave_the_machine_says_what_to_give_it():
    llm = LLM("openai", api_key="k", base_url="http://192.0.2.1:9/v1", max_retries=0)

    with no_network(), pytest.raises(ProviderConnectionError, match="StubServer"):
        llm.chat("hi")


def test_the_switch_goes_off_again():
    code = """
import socket
from pywrapai.testing.network import no_network
def connect():
    sock = socket.socket()
    sock.settimeout(0.01)
    try:
        sock.connect(("192.0.2.1", 9))
    except OSError as error:
        print(type(error).__name__)
with no_network():
    connect()
connect()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    inside, outside = ended.stdout.split()
    assert inside == "NetworkBlockedError" != outside


def test_the_servers_url_names_its_wires(server: StubServer):
    with pytest.raises(ValueError, match="openai"):
        server.url("nope")
