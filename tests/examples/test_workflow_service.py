"""Who answers the service of workflows: LM Studio where it runs, else a small model."""

from __future__ import annotations

import runpy
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pywrapai.lmstudio import LMStudioClient
from pywrapai.testing import StubServer
from tests.examples.programs import EXAMPLES

MAIN = EXAMPLES / "workflow_service/main.py"


def choosing(base_url: str) -> Callable[..., Any]:
    """The example's choice, with LM Studio at this address."""
    choose_client = runpy.run_path(str(MAIN))["choose_client"]
    client = partial(LMStudioClient, base_url, max_retries=0)
    choose_client.__globals__["LMStudioClient"] = client
    return choose_client  # type: ignore[no-any-return]


@pytest.fixture
def nobody() -> Iterator[Callable[..., Any]]:
    """The choice where LM Studio does not run."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and nobody listens
        yield choosing(f"http://127.0.0.1:{closed.getsockname()[1]}/v1")


def test_lm_studio_is_asked_where_it_runs():
    with StubServer("Hi") as studio:
        client, note = choosing(studio.url())(None, "a-model")

    assert (client.llm.provider, client.llm.model) == ("lmstudio", "a-model")
    assert note == "LM Studio answers."


def test_where_it_does_not_run_a_small_model_answers_and_says_so(nobody):
    client, note = nobody(None, None)

    assert client.llm.provider == "local"
    assert "LM Studio does not answer" in note


@pytest.mark.parametrize("asked", [("lmstudio", None), (None, "a-model"), ("lmstudio", "a-model")])
def test_whoever_asked_for_lm_studio_is_told_how_to_start_it_or_do_without(nobody, asked):
    with pytest.raises(SystemExit) as told:
        nobody(*asked)

    assert "Is the server running" in str(told.value)
    assert "--provider local needs no server" in str(told.value)


def test_another_provider_is_asked_without_a_look_for_lm_studio(nobody):
    client, note = nobody("openai", "gpt-4o-mini")

    assert note == "The model is openai/gpt-4o-mini."
    assert client.llm.provider == "openai"
