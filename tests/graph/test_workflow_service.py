"""The example service over HTTP: who may ask what, and what is kept of it."""

from __future__ import annotations

import os
import re
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from pywrapai import ServerError
from pywrapai.testing import StubServer
from pywrapai_graph.workflows import Actor
from pywrapai_monitor import SQLiteStore
from pywrapai_monitor.audit import AuditLog
from tests.graph.workflow_cases import (
    ANSWERED,
    NOTE,
    PRINTER,
    QUESTION,
    SUMMARY,
    TRIAGED,
    VPN,
    Shelf,
)
from tests.graph.workflow_stubs import Script

MAIN = Path(__file__).parents[2] / "examples/workflow_service/main.py"
COMPLAINT = {"subject": "No internet", "body": "Since 9.", "customer_tier": "gold"}
ACTORS = {
    "token-of-alice": Actor(user_id="alice", tenant_id="acme", role="operator"),
    "token-of-bob": Actor(user_id="bob", tenant_id="globex", role="operator"),
}
ALICE, BOB = ({"Authorization": f"Bearer {token}"} for token in ACTORS)


class Service:
    """Runs on a free port. The model answers by `script`."""

    def __init__(self) -> None:
        self.script = Script()
        self.audit = AuditLog(SQLiteStore(":memory:"))
        create_app = runpy.run_path(str(MAIN), run_name="example")["create_app"]
        app = create_app(self.script, self.audit, ACTORS, {"it": Shelf(VPN, PRINTER)})
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()
        self.url = "http://{}:{}".format(*self.socket.getsockname())

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers=headers, timeout=20)

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=20)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    service = Service()
    deadline = time.monotonic() + 20
    while not service.server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    yield service
    service.stop()


@pytest.fixture
def service(running: Service) -> Service:
    running.script.answers.clear()
    return running


def test_a_complaint_is_triaged_for_who_has_a_token(service):
    service.script.answers += [TRIAGED]

    answered = service.post("/triage", COMPLAINT, ALICE)

    assert answered.status_code == 200
    body = answered.json()
    assert (body["validated"], body["output"]) == (True, TRIAGED)
    [row, *_] = service.get("/audit", ALICE).json()
    assert row["request_id"] == body["meta"]["request_id"]
    assert (row["user_id"], row["module_name"], row["validated"]) == (
        "alice",
        "workflows.triage",
        True,
    )


def test_what_needs_a_human_is_told_and_audited(service):
    service.script.answers += ["no JSON", "no JSON"]

    body = service.post("/triage", COMPLAINT, ALICE).json()

    assert (body["validated"], body["output"]) == (False, None)
    assert body["reasons"][0]["rule"] == "json"
    row = service.get("/audit?limit=1", ALICE).json()[0]
    assert (row["validated"], row["rules"], row["attempts"]) == (False, ["json"], 2)


def test_the_other_modules_are_served_too(service):
    service.script.answers += [ANSWERED, SUMMARY]

    answer = service.post("/rag_answer", QUESTION.model_dump(), ALICE).json()
    summary = service.post("/shift_summary", NOTE.model_dump(mode="json"), ALICE).json()

    assert answer["output"]["citations"][0]["source_doc"] == "sop-12.md"
    assert summary["output"] == SUMMARY


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer nobody"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": ""},
    ],
)
def test_without_a_token_that_is_known_nothing_is_done(service, headers):
    before = len(service.audit.read("acme"))

    for answered in (service.post("/triage", COMPLAINT, headers), service.get("/audit", headers)):
        assert answered.status_code == 401
        assert answered.headers["www-authenticate"] == "Bearer"
    assert len(service.audit.read("acme")) == before


def test_a_tenant_sees_its_own_rows_alone_whatever_it_asks_for(service):
    service.script.answers += [TRIAGED, TRIAGED]
    service.post("/triage", COMPLAINT, ALICE)
    service.post("/triage", COMPLAINT, BOB)

    mine = service.get("/audit?tenant_id=acme&before=99999", BOB).json()

    assert {row["tenant_id"] for row in mine} == {"globex"}
    assert {row["tenant_id"] for row in service.get("/audit", ALICE).json()} == {"acme"}


def test_a_page_before_any_number_is_a_page(service):
    service.script.answers += [TRIAGED]
    service.post("/triage", COMPLAINT, ALICE)

    assert service.get(f"/audit?before={10**30}", ALICE).json()
    assert service.get("/audit?before=-1", ALICE).json() == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/triage", {**COMPLAINT, "customer_tier": "bronze"}),
        ("/triage", {}),
        ("/rag_answer", {"question": "?", "corpus_id": "it", "top_k": 0}),
        ("/rag_answer", {"question": "?", "corpus_id": "it", "top_k": 10**30}),
        ("/shift_summary", {**NOTE.model_dump(mode="json"), "line": "L9"}),
    ],
)
def test_a_request_that_is_none_is_422(service, path, body):
    assert service.post(path, body, ALICE).status_code == 422


def test_an_unknown_corpus_is_404(service):
    assert (
        service.post("/rag_answer", {"question": "?", "corpus_id": "x"}, ALICE).status_code == 404
    )


def test_a_model_that_is_down_is_503_without_a_word_of_its_error(service):
    service.script.answers += [ServerError("at http://10.0.0.5: secret")]

    answered = service.post("/triage", COMPLAINT, ALICE)

    assert answered.status_code == 503
    assert "10.0.0.5" not in answered.text


def test_it_is_described_for_clients(service):
    paths = service.get("/openapi.json").json()["paths"]

    assert {"/triage", "/rag_answer", "/shift_summary", "/audit"} <= paths.keys()


def test_the_program_starts_prints_a_token_and_serves():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with StubServer() as model:
        command = [sys.executable, str(MAIN), "--provider", "openai", "--port", str(port)]
        environment = {**os.environ, "OPENAI_BASE_URL": model.url(), "OPENAI_API_KEY": "k"}
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        try:
            assert program.stdout is not None
            token = re.sub(r".*: ", "", program.stdout.readline().strip())
            model.reply("nonsense", "nonsense")
            answered = _when_up(f"http://127.0.0.1:{port}/triage", token)
        finally:
            program.terminate()
            program.wait(10)
            if program.stdout:
                program.stdout.close()
    assert (answered["validated"], answered["meta"]["attempts"]) == (False, 2)


def _when_up(url: str, token: str) -> Any:
    deadline = time.monotonic() + 20
    while True:
        try:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.post(url, json=COMPLAINT, headers=headers, timeout=20).json()
        except httpx.ConnectError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
