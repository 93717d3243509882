from __future__ import annotations

import io
import json

import pytest

from pywrapai.__main__ import main
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import text


def test_an_answer_goes_to_stdout_and_its_tokens_to_stderr(server: StubServer, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    server.reply(text("Hello there", usage=usage, model="gpt-4o-mini"))

    assert main(["chat", "Hi", "--base-url", server.url(), "--system", "Be brief."]) == 0

    out, err = capsys.readouterr()
    assert out == "Hello there\n"
    assert "3 tokens in, 2 out, $0.00000" in err
    assert [m["role"] for m in server.requests[0].json["messages"]] == ["system", "user"]


def test_a_message_may_come_from_standard_input(server: StubServer, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))
    server.reply("ok")

    assert main(["chat", "-", "--base-url", server.url()]) == 0
    assert server.requests[0].json["messages"][0]["content"] == "from a pipe"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chat", " "], "empty"),
        (["chat", "Hi"], "OPENAI_API_KEY"),
        (["chat", "Hi", "--provider", "nope"], "unknown provider 'nope'"),
        (["chat", "Hi", "--provider", "local", "--model", "/no.gguf"], "/no.gguf"),
        (["chat", "Hi", "--timeout", "0"], "timeout"),
    ],
)
def test_a_failure_is_one_line_on_stderr(arguments, said, capsys):
    assert main(arguments) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1


def test_an_unreachable_server_is_named(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr("pywrapai.core.retry.RetryPolicy.delay", lambda *_: None)
    with refusing_port() as port:
        assert main(["chat", "Hi", "--base-url", f"http://127.0.0.1:{port}"]) == 1

    assert f"cannot reach http://127.0.0.1:{port}/v1" in capsys.readouterr().err


def test_the_models_of_a_provider_are_listed(server: StubServer, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    assert main(["models", "--base-url", server.url()]) == 0
    assert capsys.readouterr().out == "stub\n"


def test_a_price_is_what_the_table_says(capsys):
    from pywrapai import get_cost

    arguments = ["price", "gpt-4o-mini", "--input", "1000000", "--output", "1000"]

    assert main(arguments) == 0
    assert capsys.readouterr().out == f"${get_cost('gpt-4o-mini', 1_000_000, 1000):.6f}\n"
    assert main(["price", "nobody-knows", "--input", "1"]) == 1
    assert "no price is known for 'nobody-knows': look at the name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "nonsense",
    [["--input", "-5"], ["--output", "x"], ["--provider", "nope", "--input", "1"]],
)
def test_a_price_of_nonsense_is_refused(nonsense, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["price", "gpt-4o", *nonsense])
    assert caught.value.code == 2
    assert nonsense[0] in capsys.readouterr().err


def test_cached_tokens_are_part_of_the_input(capsys):
    assert main(["price", "gpt-4o", "--input", "10", "--cache-read", "20"]) == 1
    assert "--input" in capsys.readouterr().err


def test_texts_become_vectors_one_a_line(capsys):
    assert main(["embed", "a cat", "a dog", "--provider", "local"]) == 0

    out, err = capsys.readouterr()
    vectors = [json.loads(line) for line in out.splitlines()]
    assert len(vectors) == 2
    assert len(vectors[0]) == len(vectors[1]) == 256
    assert "local/" in err


def test_a_wrong_command_line_shows_the_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err
