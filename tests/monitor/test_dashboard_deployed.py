"""The dashboard as it is deployed: over HTTP, by many readers, in several workers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pywrapai_monitor import Monitor
from pywrapai_monitor.dashboard.server import serve
from pywrapai_monitor.db import SQLiteStore
from tests.contracts.store_rows import call
from tests.monitor.dashboard_client import (
    PAGES,
    TOKEN,
    bearer,
    fetch,
    links,
    long_talk,
    strictly,
    turn,
)

APP = """
import os
from pywrapai_monitor import create_app
from pywrapai_monitor.db import SQLiteStore

app = create_app(SQLiteStore(os.environ["DB"]), os.environ["TOKEN"])


@app.after_request
def say_who(response):
    response.headers["X-Worker"] = str(os.getpid())
    return response
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(str(tmp_path / "monitor.db"))
    store.write([*long_talk(20), turn("x" * 300_000, "huge", session="huge")])
    yield store
    store.close()


class TestHTTP:
    @pytest.mark.parametrize("path", [*PAGES, "/api/views/overview", "/api/openapi.json"])
    def test_every_page_is_served(self, store, path):
        with serve(store, port=0, block=False) as server:
            status, headers, text = fetch(server.url + path)

        assert status == 200
        assert "trusted-types pywrapai-refresh" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert text

    def test_files_are_kept_by_browsers_and_change_their_address(self, store):
        with serve(store, port=0, block=False) as server:
            page = fetch(server.url)[2]
            style = next(link for link in links(page) if link.endswith(".css"))
            _, headers, _ = fetch(server.url + style)
            other = re.sub("/static/[0-9a-f]+/", "/static/old/", style)
            _, of_other, _ = fetch(server.url + other)

        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "immutable" not in of_other["Cache-Control"]

    def test_a_form_that_is_too_large_is_refused(self, store):
        with serve(store, port=0, block=False, auth_token=TOKEN) as server:
            body = urllib.parse.urlencode({"token": "x" * 50_000}).encode()
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(server.url + "/login", body)
            caught.value.close()

        assert caught.value.code == 413

    def test_the_first_rows_of_a_file_come_while_the_others_are_read(self, store):
        with (
            serve(store, port=0, block=False) as server,
            urllib.request.urlopen(server.url + "/api/export/conversations.jsonl") as answer,
        ):
            first = answer.readline()
            rest = answer.read()

        assert strictly(first.decode())["content"] == "question 0"
        assert rest.count(b"\n") == 41

    def test_twenty_readers_get_their_answers_while_others_write(self, store, tmp_path):
        failures: list[object] = []
        stop = threading.Event()

        def read(path: str) -> None:
            while not stop.is_set():
                status, _, text = fetch(server.url + path)
                if status != 200:
                    failures.append((path, status, text[:200]))

        def write(number: int) -> None:
            own = SQLiteStore(str(tmp_path / "monitor.db"))
            for turn_num in range(25):
                own.save_token_record(call(user=f"w{number}", call_id=f"w{number}-{turn_num}"))
            own.close()

        with serve(store, port=0, block=False) as server:
            paths = [*PAGES, "/api/overview", "/api/views/overview", "/health"]
            readers = [threading.Thread(target=read, args=(paths[i % 9],)) for i in range(20)]
            writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
            for thread in (*readers, *writers):
                thread.start()
            for thread in writers:
                thread.join(60)
            stop.set()
            for thread in readers:
                thread.join(60)
            calls = strictly(fetch(server.url + "/api/overview")[2])["calls"]

        assert failures == []
        assert calls == 21 + 100


class TestMonitorServe:
    def test_health_and_status_tell_what_the_recorder_counts(self, tmp_path):
        with (
            Monitor(db_path=tmp_path / "a.db") as monitor,
            monitor.serve(port=0, block=False) as server,
        ):
            health = strictly(fetch(server.url + "/health")[2])
            status = strictly(fetch(server.url + "/api/views/status")[2])

        assert health == {"status": "ok", "database": "ok", "queued": 0, "spooled": 0, "lost": 0}
        assert status["counted_in"] == "recorder"
        assert status["counts"]["written"] == 0
        assert status["database"].startswith("SQLite")
        assert status["size_bytes"] > 0

    def test_without_a_recorder_the_spool_is_looked_at(self, store):
        with serve(store, port=0, block=False) as server:
            status = strictly(fetch(server.url + "/api/views/status")[2])

        assert status["counted_in"] == "spool"
        assert status["counts"] == {"queued": None, "spooled": 0, "lost": None, "written": None}


@pytest.fixture
def gunicorn(store: SQLiteStore, tmp_path: Path) -> Iterator[str]:
    """The address of two workers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "wsgi.py").write_text(APP)
    command = [sys.executable, "-m", "gunicorn", "--workers", "2", "--bind", f"127.0.0.1:{port}"]
    environ = {**os.environ, "DB": str(tmp_path / "monitor.db"), "TOKEN": TOKEN}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [*command, "--no-control-socket", "wsgi:app"],
        cwd=tmp_path,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=20)


def wait_for(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(200):
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            if fetch(f"http://127.0.0.1:{port}/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("gunicorn did not begin")


class SameSite(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def signed_in(address: str, headers: dict[str, str]) -> str:
    """The cookie that is given for the token."""
    body = urllib.parse.urlencode({"token": TOKEN, "next": "/calls"}).encode()
    asked = urllib.request.Request(f"{address}/login", body, headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.build_opener(SameSite).open(asked)
    with caught.value as answer:
        assert (answer.code, answer.headers["Location"]) == (303, "/calls")
        return answer.headers["Set-Cookie"]


@pytest.mark.skipif(os.name != "posix", reason="gunicorn runs on POSIX")
def test_a_session_holds_in_every_worker_of_gunicorn(gunicorn):
    over_https = signed_in(gunicorn, {"X-Forwarded-Proto": "https"})
    given = signed_in(gunicorn, {})
    cookie = given.partition(";")[0]

    assert "; Secure" in over_https
    assert "; Secure" not in given

    workers = set()
    for _ in range(200):
        status, headers, text = fetch(f"{gunicorn}/calls", {"Cookie": cookie})
        assert (status, "alice" in text) == (200, True)
        workers.add(headers["X-Worker"])
        if len(workers) == 2:
            break

    assert len(workers) == 2
    assert fetch(f"{gunicorn}/api/overview")[0] == 401
    assert fetch(f"{gunicorn}/api/overview", bearer(TOKEN))[0] == 200
