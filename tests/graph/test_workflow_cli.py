"""Workflows from the shell, their exit codes, and the evaluation over labelled requests."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pywrapai import TokenUsage
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import raw, status, text
from pywrapai_graph.workflows import Labelled, __main__, evaluate, rag_answer, triage
from pywrapai_graph.workflows.__main__ import main
from pywrapai_graph.workflows.evaluation import read_labelled
from pywrapai_graph.workflows.rag_answer import SAFE_ANSWER
from pywrapai_graph.workflows.triage import TriageOutput, TriageRequest
from tests.graph.workflow_cases import COMPLAINT, NOTE, QUESTION, SUMMARY, TRIAGED, VPN, Shelf
from tests.graph.workflow_stubs import ACTOR, Script, answer

WHO = ["--user", "u1", "--tenant", "t1", "--role", "service"]
REQUEST = COMPLAINT.model_dump_json()


@pytest.fixture
def shell(
    server: StubServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, Any]]:
    """Runs a command: the exit code, standard output, and the JSON on standard error."""

    def run(*arguments: str, stdin: str | bytes = REQUEST) -> tuple[int, str, Any]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(given)))
        try:
            code = main([*arguments, "--base-url", server.url(), "--model", "qwen3-4b"])
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capsys.readouterr()
        assert err.count("\n") == bool(err)
        return code, out, json.loads(err) if err else None

    return run


def says(*answers: Any) -> list[Any]:
    """LM Studio's models, for the health check, and then these answers."""
    written = [one if isinstance(one, str) else json.dumps(one) for one in answers]
    return [raw({"object": "list", "data": []}), *map(text, written)]


def test_a_validated_result_is_json_on_standard_output(server, shell):
    server.reply(*says(TRIAGED))

    code, out, err = shell("triage", *WHO, "--request-id", "r7")

    result = triage.TriageResult.model_validate_json(out)
    assert (code, err) == (0, None)
    assert result.output == TriageOutput(**TRIAGED)
    assert result.meta.request_id == "r7"
    paths = [request.path for request in server.requests]
    assert paths == ["/v1/models", "/v1/chat/completions"]


def test_human_review_is_3_with_the_result_all_the_same(server, shell):
    server.reply(*says("no JSON", "no JSON"))

    code, out, err = shell("triage", *WHO)

    assert (code, err) == (3, None)
    assert json.loads(out)["output"] is None
    assert json.loads(out)["reasons"][0]["rule"] == "json"
    assert json.loads(out)["meta"]["request_id"]


def test_a_shift_is_summarised_too(server, shell):
    server.reply(*says(SUMMARY))

    code, out, _ = shell("shift_summary", *WHO, stdin=NOTE.model_dump_json())

    assert (code, json.loads(out)["output"]["line"]) == (0, "L1")


def test_a_question_is_answered_from_a_folder(server, shell, tmp_path: Path):
    (tmp_path / "vpn.md").write_text("Reset the VPN token in the portal.\n", encoding="utf-8")
    question = json.dumps({"question": "How do I reset the VPN token?", "corpus_id": "it"})
    server.reply(*says({"answer": "Reset the VPN token in the portal.", "citations": []}))

    code, out, err = shell("rag_answer", *WHO, "--corpus", f"it={tmp_path}", stdin=question)

    assert (code, err) == (0, None)
    output = json.loads(out)["output"]
    assert output["answer"] == "I don't have that information."  # nothing was cited
    assert len(output["retrieval_trace"]) == 1


@pytest.mark.parametrize(
    ("arguments", "stdin", "error", "told"),
    [
        (["triage", *WHO], "{", "request", "Invalid JSON"),
        (["triage", *WHO], b"\xff\xfe", "request", "Invalid"),
        (["triage", *WHO], "", "request", "Invalid JSON"),
        (["triage", *WHO], '{"subject": "s", "body": "b"}', "request", "customer_tier"),
        (["triage", "--user", "u1"], REQUEST, "usage", "--tenant"),
        (["triage", "--user", "", "--tenant", "t"], REQUEST, "request", "user_id"),
        (["triage", *WHO, "--role", " "], REQUEST, "request", "role"),
        (["triage", *WHO, "--timeout", "0"], REQUEST, "ValueError", "timeout"),
        (["triage", *WHO, "--nonsense"], REQUEST, "usage", "--nonsense"),
        (["triage", *WHO, "--request-id", ""], REQUEST, "ValueError", "request_id"),
        (["triage", *WHO, "--base-url", ""], REQUEST, "usage", "--base-url: it is empty"),
        (["nonsense"], REQUEST, "usage", "nonsense"),
        ([], REQUEST, "usage", "NAME"),
        (
            ["rag_answer", *WHO, "--corpus", "it"],
            '{"question": "q", "corpus_id": "it"}',
            "usage",
            "ID=PATH",
        ),
        (
            ["rag_answer", *WHO, "--corpus", "it=a.md", "--corpus", "it=b.md"],
            '{"question": "q", "corpus_id": "it"}',
            "usage",
            "it is given twice",
        ),
        (["rag_answer", *WHO], '{"question": "q", "corpus_id": "it"}', "ValueError", "corpus"),
    ],
)
def test_what_was_given_wrong_is_2(server, shell, arguments, stdin, error, told):
    code, out, err = shell(*arguments, stdin=stdin)

    assert (code, out) == (2, "")
    assert err["error"] == error
    assert told in err["message"]


def test_the_mark_that_some_shells_put_before_utf_8_is_no_part_of_it(server, shell, labelled):
    server.reply(*says(TRIAGED), *says(*[TRIAGED] * 4))
    labelled.write_text(labelled.read_text(encoding="utf-8"), encoding="utf-8-sig")

    assert shell("triage", *WHO, stdin=b"\xef\xbb\xbf" + REQUEST.encode())[0] == 0
    assert shell("evaluate", "triage", str(labelled))[0] == 0


@pytest.mark.parametrize("url", ["nonsense", "localhost:1234"])
def test_an_address_that_is_none_is_2(capsys, monkeypatch, url):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(REQUEST.encode())))

    assert main(["triage", *WHO, "--base-url", url]) == 2
    assert "base_url" in json.loads(capsys.readouterr().err)["message"]


def test_without_standard_input_or_output_it_is_an_error_and_no_traceback(
    server, monkeypatch, capsys
):
    given = ["triage", *WHO, "--base-url", server.url(), "--model", "m"]
    monkeypatch.setattr("sys.stdin", None)
    assert main(given) == 2
    server.reply(*says(TRIAGED))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(REQUEST.encode())))
    monkeypatch.setattr("sys.stdout", None)
    assert main(given) == 1
    assert "standard output is closed" in capsys.readouterr().err


def test_a_model_that_fails_is_1(server, shell):
    server.reply(*says(), status(401, "who are you"))

    code, out, err = shell("triage", *WHO)

    assert (code, out, err["error"]) == (1, "", "AuthError")


def test_lm_studio_that_is_not_there_is_1(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(REQUEST.encode())))
    with refusing_port() as port:
        given = ["triage", *WHO, "--base-url", f"http://127.0.0.1:{port}/v1"]
        assert main(given) == 1

    assert json.loads(capsys.readouterr().err)["error"] == "LMStudioUnreachable"


def test_a_request_that_quotes_somebody_is_not_repeated_in_an_error(shell):
    _, _, err = shell(
        "triage", *WHO, stdin='{"subject": "s", "body": "b", "customer_tier": "Anna"}'
    )

    assert "Anna" not in err["message"]


def test_ctrl_c_is_130(shell, monkeypatch):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    module = __main__.MODULES["triage"]
    monkeypatch.setitem(
        __main__.MODULES,
        "triage",
        __main__._Module(module.request, module.output, interrupted, module.help),  # type: ignore[arg-type]
    )
    assert shell("triage", *WHO)[0] == 130


def test_the_help_says_what_the_exit_codes_mean():
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pywrapai_graph.workflows", "--help"],
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "3    the result needs human review" in ended.stdout


def test_the_result_is_utf_8_whatever_the_terminal_speaks(server):
    server.reply(*says({**TRIAGED, "rationale": "Café \N{PILE OF POO}"}))
    command = [sys.executable, "-m", "pywrapai_graph.workflows", "triage", *WHO, "--model", "m"]
    ended = subprocess.run(
        [*command, "--base-url", server.url()],
        input=REQUEST.encode(),
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout)["output"]["rationale"] == "Café \N{PILE OF POO}"


def test_the_local_provider_needs_no_server(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"{}")))

    assert main(["triage", *WHO, "--provider", "local"]) == 2
    assert "customer_tier" in json.loads(capsys.readouterr().err)["message"]


# Evaluation


def line(expected: dict[str, Any], **request: Any) -> str:
    return json.dumps(
        {"request": {**COMPLAINT.model_dump(mode="json"), **request}, "expected": expected}
    )


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "labelled.jsonl"
    expected = {"category": "connectivity", "priority": "P1"}
    path.write_text("\n".join([line(expected)] * 4) + "\n\n", encoding="utf-8")
    return path


def test_an_evaluation_reports_each_field_and_passes_above_the_threshold(server, shell, labelled):
    server.reply(*says(TRIAGED, TRIAGED, TRIAGED, {**TRIAGED, "priority": "P2"}))

    code, out, err = shell("evaluate", "triage", str(labelled), "--threshold", "0.75")

    assert (code, err) == (0, None)
    report = {row[:15].strip(): row[15:].strip() for row in out.splitlines()}
    assert report["requests"] == "4"
    assert "category  100.0%" in out
    assert "priority  75.0%" in out
    assert report["human review"] == report["asked twice"] == "0.0%"
    assert report["latency"].startswith("p50 ")
    assert report["cost"] == "$0.000000"
    assert "in, " in report["tokens"]


def test_below_the_threshold_it_is_4_and_says_which_field(server, shell, labelled):
    server.reply(*says(TRIAGED, TRIAGED, TRIAGED, {**TRIAGED, "priority": "P2"}))

    code, out, err = shell("evaluate", "triage", str(labelled))

    assert code == 4
    assert "requests       4" in out
    assert err == {"error": "threshold", "message": "below 0.8: priority"}


def test_what_goes_to_a_human_counts_as_wrong(server, shell, labelled):
    server.reply(*says(TRIAGED, "x", TRIAGED, "x", "x", TRIAGED))

    code, out, _ = shell("evaluate", "triage", str(labelled))

    assert code == 4
    assert "category  75.0%" in out
    assert "human review   25.0%" in out
    assert "asked twice    50.0%" in out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no labelled request"),
        ("\n\n", "no labelled request"),
        ("nonsense", "line 1 is not"),
        (line({"category": "other"}) + "\n[]", "line 2 is not"),
        (line({"categry": "other"}), "line 1 expects categry; known are category"),
        (line({"category": "other"}, customer_tier="x"), "line 1: customer_tier"),
        ('{"request": {}}', "line 1"),
        (line({}), "no labelled request"),
    ],
)
def test_labels_that_are_none_are_2_before_the_model_is_asked(
    server, shell, tmp_path, content, told
):
    path = tmp_path / "labelled.jsonl"
    path.write_text(content, encoding="utf-8")
    code, _, err = shell("evaluate", "triage", str(path))

    assert code == 2
    assert told in err["message"]
    assert not [request for request in server.requests if request.method == "POST"]


def test_a_file_that_is_not_utf_8_is_2(shell, tmp_path):
    path = tmp_path / "labelled.jsonl"
    path.write_bytes(line({"category": "other"}).encode("utf-16"))

    assert shell("evaluate", "triage", str(path))[0] == 2


def test_a_file_that_is_a_folder_is_1(shell, tmp_path):
    assert shell("evaluate", "triage", str(tmp_path))[0] == 1
    given = ["rag_answer", *WHO, "--corpus", f"it={tmp_path / 'none'}"]
    assert shell(*given, stdin='{"question": "q", "corpus_id": "it"}')[0] == 1


def test_a_file_that_is_missing_is_1(shell, tmp_path):
    code, _, err = shell("evaluate", "triage", str(tmp_path / "none.jsonl"))

    assert (code, err["error"]) == (1, "FileNotFoundError")


@pytest.mark.parametrize("threshold", ["1.1", "-1", "nan", "much"])
def test_a_threshold_is_a_share(shell, labelled, threshold):
    code, _, err = shell("evaluate", "triage", str(labelled), "--threshold", threshold)

    assert (code, err["error"]) == (2, "usage")


def scored(expected: dict[str, Any], got: dict[str, Any]) -> float:
    client = Script(got)
    case = Labelled(COMPLAINT, expected)

    def run(request: TriageRequest) -> Any:
        return triage.run(request, actor=ACTOR, request_id="r", client=client)

    return evaluate(run, [case]).accuracy[next(iter(expected))]


def test_texts_are_equal_but_for_how_they_are_written():
    assert scored({"suggested_owner": "NETWORK-Operations "}, TRIAGED) == 1.0
    assert scored({"suggested_owner": "network"}, TRIAGED) == 0.0
    assert scored({"confidence": 0.9}, TRIAGED) == 1.0
    assert scored({"confidence": 0.8}, TRIAGED) == 0.0
    assert scored({"confidence": 1}, {**TRIAGED, "confidence": 1.0}) == 1.0
    assert scored({"confidence": True}, {**TRIAGED, "confidence": 1.0}) == 0.0
    assert scored({"no_such_field": None}, TRIAGED) == 0.0


def test_objects_are_right_by_what_their_label_names_and_lists_by_all_their_items():
    from pywrapai_graph.workflows import shift_summary

    def accuracy(expected: dict[str, Any]) -> float:
        def run(note: Any) -> Any:
            return shift_summary.run(note, actor=ACTOR, request_id="r", client=Script(SUMMARY))

        return evaluate(run, [Labelled(NOTE, expected)]).accuracy[next(iter(expected))]

    assert accuracy({"machine_issues": [{"machine_id": "p-7"}]}) == 1.0
    assert accuracy({"machine_issues": [{"machine_id": "p-7", "severity": 3}]}) == 0.0
    assert accuracy({"machine_issues": []}) == 0.0
    assert accuracy({"qa_defects": ["12 CAPS  with scratches"]}) == 1.0
    assert accuracy({"safety_incidents": []}) == 1.0


def test_a_safe_answer_is_right_only_where_no_human_is_needed():
    labelled = [Labelled(QUESTION, {"answer": SAFE_ANSWER})]

    def accuracy(*answers: Any) -> float:
        def run(question: Any) -> Any:
            known: dict[str, Any] = {"actor": ACTOR, "request_id": "r", "client": Script(*answers)}
            return rag_answer.run(question, **known, retrievers={"it": Shelf(VPN)})

        return evaluate(run, labelled).accuracy["answer"]

    assert accuracy({"answer": SAFE_ANSWER, "citations": []}) == 1.0
    assert accuracy("no JSON", "no JSON") == 0.0


def test_a_report_has_the_figures_of_all_requests_together():
    latencies = [10, 20, 30, 40, 1000]
    client = Script(*(answer(TRIAGED, latency_ms=ms, cost_usd=0.5) for ms in latencies))

    def run(request: TriageRequest) -> Any:
        return triage.run(request, actor=ACTOR, request_id="r", client=client)

    report = evaluate(run, [Labelled(COMPLAINT, {"priority": "P1"})] * 5)

    assert (report.requests, report.accuracy) == (5, {"priority": 1.0})
    assert report.latency_p50_ms == 30
    assert 40 < report.latency_p95_ms <= 1000
    assert report.usage == TokenUsage(500, 100)
    assert report.cost_usd == 2.5
    assert report.passes(1.0)


def test_lines_are_read_one_by_one():
    made = list(read_labelled([line({"priority": "P1"}), "", " "], TriageRequest, TriageOutput))

    assert made == [Labelled(COMPLAINT, {"priority": "P1"})]
