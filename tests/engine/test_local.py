"""The local provider with a real model: no key, no network, real tokens."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from pywrapai import LLM, ConfigurationError, ContextLengthError, Message, Role
from pywrapai.__main__ import main

CAPITAL = "What is the capital of France? Answer in one word."


@pytest.fixture(scope="module")
def local() -> LLM:
    return LLM("local", temperature=0.0, max_tokens=24, options={"seed": 1})


async def test_a_real_model_answers_sync_and_async(local: LLM):
    for response in (local.chat(CAPITAL), await local.achat(CAPITAL)):
        assert response.content.strip()
        assert response.provider == "local"
        assert response.model == "SmolLM2-135M-Instruct"
        assert response.usage.input_tokens > 10
        assert 0 < response.usage.output_tokens <= 24
        assert response.cost_usd == 0.0
        assert response.priced


async def test_a_real_stream_is_the_whole_answer_in_pieces(local: LLM):
    whole = local.chat(CAPITAL)
    pieces, apieces = local.stream(CAPITAL), local.astream(CAPITAL)

    assert "".join(pieces) == whole.content
    assert "".join([piece async for piece in apieces]) == whole.content
    assert pieces.response is not None
    assert pieces.response.usage.output_tokens == whole.usage.output_tokens
    assert pieces.response.usage.input_tokens == whole.usage.input_tokens


def test_the_conversation_so_far_reaches_the_model(local: LLM):
    short = local.chat(CAPITAL).usage.input_tokens
    history = [Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi there")]

    assert local.chat([*history, Message(Role.USER, CAPITAL)]).usage.input_tokens > short


async def test_calls_at_once_share_the_one_model(local: LLM):
    responses = await asyncio.gather(*(local.achat(f"Say {n}", max_tokens=4) for n in range(6)))

    assert all(response.usage.output_tokens > 0 for response in responses)


def test_it_works_in_one_event_loop_after_another(local: LLM):
    answers = {asyncio.run(local.achat(CAPITAL)).content for _ in range(3)}

    assert len(answers) == 1


def test_a_stream_may_be_left_early(local: LLM):
    with local.stream("Tell me a very long story.", max_tokens=2000) as pieces:
        next(pieces)

    assert local.chat(CAPITAL).content


def test_too_long_a_prompt_says_so(local: LLM):
    with pytest.raises(ContextLengthError):
        local.chat("word " * 6000)


def test_a_missing_file_is_named():
    with pytest.raises(ConfigurationError, match=r"nowhere\.gguf"):
        LLM("local", "nowhere.gguf")


def test_a_file_that_is_no_model_is_named(tmp_path: Path):
    fake = tmp_path / "fake.gguf"
    fake.write_bytes(b"no model")

    with pytest.raises(ConfigurationError, match=r"fake\.gguf"):
        LLM("local", str(fake)).chat("Hello")


def test_it_takes_no_base_url():
    with pytest.raises(ConfigurationError, match="base_url"):
        LLM("local", base_url="http://127.0.0.1:1")


def test_the_command_line_streams_an_answer(capfd: pytest.CaptureFixture[str]):
    assert main(["chat", CAPITAL, "--provider", "local", "--max-tokens", "12"]) == 0

    out, err = capfd.readouterr()
    assert out.strip()
    assert "local/SmolLM2-135M-Instruct" in err
    assert "tokens in" in err


def test_a_process_that_used_it_ends_quietly():
    code = f"from pywrapai import LLM; print(LLM('local', max_tokens=4).chat({CAPITAL!r}).content)"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert ended.returncode == 0
    assert ended.stdout.strip()
    assert ended.stderr == ""
