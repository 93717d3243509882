"""The JSON routes, the token and the Host header, and the server that runs them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from pywrapai.exceptions import ConfigurationError
from pywrapai_monitor.dashboard import create_app
from pywrapai_monitor.dashboard.security import bearer_matches, host_allowed, is_loopback
from pywrapai_monitor.dashboard.server import serve
from pywrapai_monitor.db.base import BaseStore, StoreError

ROUTES = [
    "/api/overview",
    "/api/today",
    "/api/cost-over-time?days=7",
    "/api/model-usage",
    "/api/users",
    "/api/sessions?user_id=alice",
    "/api/recent-queries?limit=20",
    "/api/token-records?user_id=alice&session_id=chat-001",
]
NAN = float("nan")


class MemoryStore(BaseStore):
    """Token records in a list, oldest first; what a user would write for a database of his own."""

    def __init__(self, *records):
        self.records = [{"id": number, **each} for number, each in enumerate(records, 1)]

    def get_overview(self):
        return totals(self.records)

    def get_today(self, tz="UTC"):
        return {**totals(self.records[-1:]), "asked_tz": tz}

    def get_cost_over_time(self, days=7, tz="UTC"):
        return [{"date": f"2026-11-{day:02}", "cost_usd": 0.0, "tz": tz} for day in range(days)]

    def get_model_usage(self):
        return [{"model": model} for model in sorted({each["model"] for each in self.records})]

    def get_users(self):
        return [{"user_id": user} for user in sorted({each["user_id"] for each in self.records})]

    def get_sessions(self, user_id=None):
        rows = [r for r in self.records if user_id in (None, r["user_id"])]
        keys = dict.fromkeys((r["user_id"], r["session_id"]) for r in rows)
        return [{"user_id": user, "session_id": session} for user, session in keys]

    def get_recent_queries(self, limit=20):
        return self.records[::-1][:limit]

    def get_session_token_records(self, user_id, session_id):
        wanted = (user_id, session_id)
        return [r for r in self.records if (r["user_id"], r["session_id"]) == wanted]

    def _not_asked(self, *args, **kwargs):
        raise AssertionError("the dashboard only reads, and has no route for this")

    save_message = save_token_record = save_tool_step = load_history = _not_asked
    save_prompt = get_prompt = set_user_prompt = get_user_prompt_version = _not_asked
    get_conversation = get_tool_usage = purge_before = _not_asked


class BrokenStore(MemoryStore):
    """Every read fails, as when the database is gone."""

    error: Exception = StoreError("cannot open postgresql://admin:hunter2@db/llm")

    def _fail(self, *args, **kwargs):
        raise self.error

    get_overview = get_today = get_cost_over_time = get_model_usage = get_users = _fail
    get_sessions = get_recent_queries = get_session_token_records = _fail


class SlowStore(MemoryStore):
    """Its overview waits until the test lets it go on."""

    def __init__(self):
        super().__init__()
        self.entered, self.go_on = threading.Event(), threading.Event()

    def get_overview(self):
        self.entered.set()
        assert self.go_on.wait(10)
        return totals([])


def totals(records):
    return {"calls": len(records), "cost_usd": sum(each["cost_usd"] for each in records)}


def record(user="alice", session="chat-001", **facts):
    return {
        "user_id": user,
        "session_id": session,
        "model": "gpt-4o-mini",
        "cost_usd": 0.000312,
        "created_at": "2026-11-30T18:00:00.000000Z",
        **facts,
    }


STORE = MemoryStore(record(), record(model="gemini-2.5-flash"), record("bob", "chat-002"))


def client(store=STORE, **options):
    return create_app(store, **options).test_client()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def get(url, headers=None):
    """Status, headers and text of a real HTTP request, errors included."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {})) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def strictly(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


class TestRoutes:
    @pytest.mark.parametrize("path", ROUTES)
    def test_every_route_answers_json_that_nobody_may_store(self, path):
        answer = client().get(path)

        assert answer.status_code == 200
        assert answer.content_type == "application/json; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert strictly(answer.text)

    def test_the_overview_is_what_the_store_says(self):
        assert client().get("/api/overview").json == totals(STORE.records)

    def test_models_and_users_are_listed(self):
        page = client()

        assert page.get("/api/model-usage").json == [
            {"model": "gemini-2.5-flash"},
            {"model": "gpt-4o-mini"},
        ]
        assert page.get("/api/users").json == [{"user_id": "alice"}, {"user_id": "bob"}]

    def test_days_follow_the_time_zone_of_the_app(self):
        page = client(tz="Asia/Kolkata")

        assert page.get("/api/today").json["asked_tz"] == "Asia/Kolkata"
        assert {day["tz"] for day in page.get("/api/cost-over-time").json} == {"Asia/Kolkata"}

    @pytest.mark.parametrize(("query", "days"), [("", 7), ("?days=1", 1), ("?days=366", 366)])
    def test_cost_over_time_covers_the_days_asked_for_and_a_week_by_default(self, query, days):
        assert len(client().get(f"/api/cost-over-time{query}").json) == days

    def test_recent_queries_come_newest_first_up_to_the_limit(self):
        newest = client().get("/api/recent-queries?limit=2").json

        assert [row["id"] for row in newest] == [3, 2]

    def test_recent_queries_are_twenty_unless_told(self):
        store = MemoryStore(*[record()] * 30)

        assert len(client(store).get("/api/recent-queries").json) == 20

    def test_sessions_are_all_or_those_of_one_user(self):
        page = client()

        assert [row["session_id"] for row in page.get("/api/sessions").json] == [
            "chat-001",
            "chat-002",
        ]
        assert [row["session_id"] for row in page.get("/api/sessions?user_id=bob").json] == [
            "chat-002"
        ]

    def test_token_records_belong_to_one_user_and_one_session(self):
        page = client()

        rows = page.get("/api/token-records?user_id=alice&session_id=chat-001").json
        others = page.get("/api/token-records?user_id=bob&session_id=chat-001").json

        assert [row["id"] for row in rows] == [1, 2]
        assert others == []

    @pytest.mark.parametrize("path", ROUTES[-2:])
    def test_a_list_never_ships_what_a_model_wrote(self, path):
        store = MemoryStore(record(partial="Dear Mr Smith, your blood test"))

        answer = client(store).get(path)

        assert answer.json[0]["cost_usd"] == 0.000312
        assert "Smith" not in answer.text

    @pytest.mark.parametrize("path", ["/api", "/api/", "/api/nope", "/api/overview/"])
    def test_an_unknown_address_under_api_is_404_as_json(self, path):
        answer = client().get(path)

        assert (answer.status_code, answer.json) == (
            404,
            {"error": "there is nothing at this address"},
        )

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    def test_nothing_can_be_written(self, method):
        answer = client().open("/api/overview", method=method)

        assert answer.status_code == 405
        assert "GET" in answer.json["error"]
        assert "GET" in answer.headers["Allow"]


class TestBadParameters:
    @pytest.mark.parametrize(
        "value", ["0", "-1", "abc", "1e9", "1000000000", "1001", "1.5", "", "+5", " 5", "٣", "1_0"]
    )
    def test_a_limit_that_is_not_a_whole_number_in_range_is_400(self, value):
        answer = client().get("/api/recent-queries", query_string={"limit": value})

        assert answer.status_code == 400
        assert answer.json == {
            "error": f"limit must be a whole number from 1 to 1000, not {value!r}"
        }

    @pytest.mark.parametrize("value", ["0", "-7", "367", "week"])
    def test_days_out_of_range_are_400(self, value):
        answer = client().get("/api/cost-over-time", query_string={"days": value})

        assert answer.status_code == 400
        assert "days must be a whole number from 1 to 366" in answer.json["error"]

    @pytest.mark.parametrize(
        ("query", "missing"),
        [
            ("", "user_id"),
            ("user_id=alice", "session_id"),
            ("session_id=chat-001", "user_id"),
            ("user_id=&session_id=chat-001", "user_id"),
            ("user_id=alice&session_id=", "session_id"),
        ],
    )
    def test_token_records_need_a_user_and_a_session(self, query, missing):
        answer = client().get(f"/api/token-records?{query}")

        assert answer.status_code == 400
        assert answer.json["error"].startswith(f"{missing} must be given and not be empty")

    def test_an_empty_user_is_not_taken_for_all_users(self):
        assert client().get("/api/sessions?user_id=").status_code == 400

    def test_a_huge_parameter_is_not_sent_back_whole(self):
        answer = client().get(f"/api/recent-queries?limit={'9' * 5000}")

        assert answer.status_code == 400
        assert len(answer.text) < 200


class TestStrictJson:
    def test_nan_and_infinity_become_null(self):
        store = MemoryStore(record(duration_ms=NAN, ttft_ms=float("-inf")))

        row = strictly(client(store).get("/api/recent-queries").text)[0]

        assert (row["duration_ms"], row["ttft_ms"]) == (None, None)

    def test_integers_that_javascript_would_round_come_as_exact_strings(self):
        store = MemoryStore(record(input_tokens=2**53 + 1, output_tokens=2**53 - 1, cached=True))

        row = client(store).get("/api/recent-queries").json[0]

        assert row["input_tokens"] == "9007199254740993"
        assert row["output_tokens"] == 9007199254740991
        assert row["cached"] is True

    def test_text_is_utf8_and_a_lone_surrogate_does_no_harm(self):
        store = MemoryStore(record("délphine 东京 🦊", "half \ud83e"))

        answer = client(store).get("/api/recent-queries")

        assert "délphine 东京 🦊".encode() in answer.data
        assert json.loads(answer.data)[0]["session_id"] == "half \ud83e"


class TestToken:
    @pytest.mark.parametrize("path", [*ROUTES, "/api", "/api/nope", "/%61pi/overview"])
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            bearer("wrong"),
            bearer(""),
            bearer("s3cret2"),
            bearer("sécret"),
            bearer("密"),
            {"Authorization": "s3cret"},
            {"Authorization": "Basic s3cret"},
        ],
    )
    def test_without_the_token_every_api_address_is_401(self, path, headers):
        answer = client(auth_token="s3cret").get(path, headers=headers)

        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "Authorization: Bearer <token>" in answer.json["error"]

    @pytest.mark.parametrize("path", ROUTES)
    def test_with_the_token_every_route_answers(self, path):
        answer = client(auth_token="s3cret").get(path, headers=bearer("s3cret"))

        assert answer.status_code == 200

    def test_the_token_does_not_work_in_the_address(self):
        answer = client(auth_token="s3cret").get("/api/overview?token=s3cret&auth_token=s3cret")

        assert answer.status_code == 401

    @pytest.mark.parametrize("sent_as", ["utf-8", "latin-1"])
    def test_a_token_beyond_ascii_works_in_either_encoding(self, sent_as):
        as_wsgi_sees_it = "Bearer clé".encode(sent_as).decode("latin-1")

        assert bearer_matches(as_wsgi_sees_it, "clé")
        assert not bearer_matches(as_wsgi_sees_it, "cle")

    def test_the_scheme_is_case_insensitive_as_http_has_it(self):
        assert bearer_matches("bearer s3cret", "s3cret")

    @pytest.mark.parametrize("token", ["", " ", "s3cret\n", " s3cret", "a\x00b"])
    def test_a_token_that_no_header_can_carry_is_refused_at_once(self, token):
        with pytest.raises(ValueError, match="auth_token must be text"):
            create_app(STORE, token)


class TestHeadersAndHost:
    @pytest.mark.parametrize("path", ["/nope", "/api/overview", "/api/nope", "/static/a/b.js"])
    def test_every_answer_carries_the_security_headers(self, path):
        headers = client().get(path, buffered=True).headers

        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "trusted-types pywrapai-refresh" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1"])
    def test_a_loopback_name_is_served(self, host):
        assert client().get("/api/overview", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "localhost.evil.example:8080",
            "127.0.0.1.nip.io",
            "a@localhost",
            "[::1",
            "",
        ],
    )
    @pytest.mark.parametrize("path", ["/", "/api/overview", "/health"])
    def test_a_strange_host_header_is_refused(self, host, path):
        answer = client().get(path, headers={"Host": host})

        assert answer.status_code == 421
        assert "localhost" in answer.json["error"]

    def test_other_hosts_can_be_allowed_by_name_or_all_together(self):
        named = client(allowed_hosts=["LLM.example.com"])

        assert named.get("/health", headers={"Host": "llm.example.com"}).status_code == 200
        assert named.get("/health", headers={"Host": "localhost"}).status_code == 421
        assert host_allowed("anything", None)

    def test_one_host_given_as_a_string_is_refused(self):
        with pytest.raises(ValueError, match=r"a list of names: \['example.com'\]"):
            create_app(STORE, allowed_hosts="example.com")

    def test_an_unknown_time_zone_is_refused_at_once(self):
        with pytest.raises(ValueError, match="Mars/Olympus"):
            create_app(STORE, tz="Mars/Olympus")


class TestFailures:
    @pytest.mark.parametrize("path", ROUTES)
    def test_a_store_failure_is_503_without_its_secrets(self, path, caplog):
        answer = client(BrokenStore()).get(path)

        assert answer.status_code == 503
        assert answer.json == {
            "error": "the database cannot be read now; the server's log says why"
        }
        assert "cannot open postgresql" in caplog.text

    def test_health_says_that_all_is_well(self):
        answer = client(auth_token="s3cret").get("/health")

        assert answer.status_code == 200
        assert answer.json == {"status": "ok", "database": "ok"}
        assert answer.headers["Cache-Control"] == "no-store"

    @pytest.mark.parametrize("error", [StoreError("gone"), RuntimeError("a foreign store's own")])
    def test_health_is_503_whatever_the_store_raises(self, error):
        store = BrokenStore()
        store.error = error

        answer = client(store).get("/health")

        assert answer.status_code == 503
        assert answer.json == {"status": "error", "database": "error"}

    def test_a_bug_in_a_store_is_500_as_json_without_a_traceback(self):
        store = BrokenStore()
        store.error = RuntimeError("secret detail")

        answer = client(store).get("/api/overview")

        assert (answer.status_code, answer.json) == (
            500,
            {"error": "the server failed; its log says why"},
        )


@pytest.fixture
def server():
    with serve(STORE, port=0, block=False) as running:
        yield running


def port_of(server):
    return int(server.url.rsplit(":", 1)[1])


class TestServer:
    @pytest.mark.parametrize("path", ["/health", *ROUTES])
    def test_it_serves_every_route_over_http(self, server, path):
        status, headers, text = get(server.url + path)

        assert status == 200
        assert headers["Content-Security-Policy"]
        assert text

    def test_ids_beyond_ascii_round_trip_in_the_query_string(self):
        user, session = "délphine/东京 🦊", "été & hiver? 100% #1 +"
        query = urlencode({"user_id": user, "session_id": session}, quote_via=quote)

        with serve(MemoryStore(record(user, session)), port=0, block=False) as server:
            _, _, text = get(f"{server.url}/api/token-records?{query}")

        assert [(r["user_id"], r["session_id"]) for r in json.loads(text)] == [(user, session)]

    def test_a_token_beyond_ascii_opens_the_api(self):
        with serve(STORE, port=0, block=False, auth_token="clé-密") as server:
            wire = "Bearer clé-密".encode().decode("latin-1")

            assert get(server.url + "/api/overview", {"Authorization": wire})[0] == 200
            assert get(server.url + "/api/overview", bearer("clé"))[0] == 401
            assert get(server.url + "/api/overview")[0] == 401

    def test_a_rebound_name_is_refused(self, server):
        assert get(server.url + "/api/overview", {"Host": "evil.example"})[0] == 421

    def test_a_request_without_a_host_header_is_refused(self, server):
        with socket.create_connection(("127.0.0.1", port_of(server))) as raw:
            raw.sendall(b"GET /api/overview HTTP/1.0\r\n\r\n")

            assert b" 421 " in raw.makefile("rb").readline()

    def test_a_taken_port_is_one_clear_error(self, server):
        port = port_of(server)

        with pytest.raises(ConfigurationError) as caught:
            serve(STORE, port=port, block=False)

        assert str(caught.value) == (
            f"port {port} on 127.0.0.1 is taken: stop what listens there, or give another port "
            f"(0 picks a free one)"
        )
        assert isinstance(caught.value.__cause__, OSError)

    @pytest.mark.parametrize("port", [-1, 65_536, "8080", True])
    def test_a_port_that_cannot_be_is_a_value_error(self, port):
        with pytest.raises(ValueError, match="port must be a whole number from 0 to 65535"):
            serve(STORE, port=port, block=False)

    def test_an_address_of_another_machine_is_told_as_such(self):
        with pytest.raises(ConfigurationError, match=r"cannot listen on '192.0.2.1'"):
            serve(STORE, host="192.0.2.1", port=0, block=False, auth_token="s3cret")

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "example.com"])
    def test_a_host_that_others_can_reach_needs_a_token(self, host):
        with pytest.raises(ValueError, match="give an auth_token"):
            serve(STORE, host=host, port=0, block=False)

    def test_on_all_interfaces_the_url_opens_here_and_any_host_name_is_served(self):
        with serve(STORE, host="0.0.0.0", port=0, block=False, auth_token="s3cret") as server:
            headers = {**bearer("s3cret"), "Host": "llm.lan"}

            assert server.url.startswith("http://127.0.0.1:")
            assert get(server.url + "/api/overview", headers)[0] == 200
            assert get(server.url + "/api/overview", {"Host": "llm.lan"})[0] == 401

    def test_every_name_of_this_machine_alone_is_loopback(self):
        assert all(map(is_loopback, ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "::1"]))
        assert not any(map(is_loopback, ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example"]))

    @pytest.mark.parametrize("host", ["localhost", "::1"])
    def test_a_loopback_host_needs_no_token(self, host):
        with serve(STORE, host=host, port=0, block=False) as server:
            assert get(server.url + "/health")[0] == 200

    def test_stop_frees_the_port_and_ends_the_threads(self):
        before = set(threading.enumerate())
        first = serve(STORE, port=0, block=False)
        assert get(first.url + "/health")[0] == 200

        first.stop()
        first.stop()

        with serve(STORE, port=port_of(first), block=False) as second:
            assert get(second.url + "/health")[0] == 200
        assert not [t for t in set(threading.enumerate()) - before if "dashboard" in t.name]

    def test_stop_closes_connections_that_browsers_keep_open(self, server):
        kept = http.client.HTTPConnection(server.url.removeprefix("http://"))
        kept.request("GET", "/health")
        kept.getresponse().read()

        server.stop()

        assert kept.sock.recv(1) == b""
        kept.close()

    def test_waiting_ends_when_another_thread_stops_the_server(self, server):
        threading.Timer(0.05, server.stop).start()

        server.wait()

        with pytest.raises(urllib.error.URLError):
            get(server.url + "/health")

    def test_one_slow_query_does_not_hold_up_the_others(self):
        store = SlowStore()
        with serve(store, port=0, block=False) as server:
            slow = threading.Thread(target=get, args=(server.url + "/api/overview",))
            slow.start()
            assert store.entered.wait(10)

            assert get(server.url + "/health")[0] == 200

            store.go_on.set()
            slow.join(10)

    @pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
    def test_blocking_it_opens_the_browser_and_ends_cleanly_on_ctrl_c(self, tmp_path):
        browser, opened = tmp_path / "browser", tmp_path / "opened"
        os.mkfifo(opened)  # reading it waits until the browser was started
        browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > "{opened}"\n')
        browser.chmod(0o755)
        script = (
            "from test_dashboard import STORE; from pywrapai_monitor.dashboard.server import serve;"
            "serve(STORE, port=0, open_browser=True); print('after')"
        )

        with subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
            env={**os.environ, "BROWSER": f"{browser} %s", "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            url = process.stdout.readline().split()[2]
            opened_url = opened.read_text()
            health = get(url + "/health")[0]
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)

        assert (health, opened_url) == (200, url)
        assert (process.returncode, out, err) == (0, "after\n", "")
