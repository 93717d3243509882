"""Signing in and out: who gets the pages, and what the cookie says."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import pytest

from pywrapai_monitor.dashboard.addresses import is_local
from pywrapai_monitor.dashboard.login import LIFETIME_S, Failures, Sessions
from tests.monitor.dashboard_client import PAGES, TOKEN, bearer, client, entry_store

LOCAL = ["/", "/calls?range=30d", "/conversation?user_id=a%2Fb&session_id=..", "/llm/calls"]
FOREIGN = [
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "javascript:alert(1)",
    "evil.example",
    "",
]


@pytest.fixture(scope="module")
def store():
    return entry_store()


@pytest.fixture
def asked(store):
    return client(store, auth_token=TOKEN)


def sign_in(asked: Any, token: str = TOKEN, **form: str) -> Any:
    return asked.post("/login", data={"token": token, **form})


def cookie_of(answer: Any) -> Any:
    (morsel,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    return morsel


class TestPagesWithoutTheToken:
    @pytest.mark.parametrize("path", [*PAGES[1:], "/body?table=x", "/nope", "/call?call_id=a%2Fb"])
    def test_every_address_leads_to_the_form_and_back(self, asked, path):
        answer = asked.get(path)
        assert answer.status_code == 302
        form = asked.get(answer.location)
        assert form.status_code == 200

        signed_in = sign_in(asked, next=answer.request.full_path.rstrip("?"))

        assert (signed_in.status_code, signed_in.location) == (303, path)

    def test_the_first_page_needs_no_way_back(self, asked):
        assert asked.get("/").location == "/login"
        assert sign_in(asked, next="").location == "/"

    def test_nothing_that_was_recorded_is_in_the_form(self, asked):
        text = asked.get("/login").text

        assert "alice" not in text
        assert TOKEN not in text
        assert 'type="password"' in text
        assert 'method="post"' in text

    @pytest.mark.parametrize("path", ["/health"])
    def test_health_is_open_and_tells_words_and_numbers_alone(self, store, path):
        asked = client(store, auth_token=TOKEN, counts=lambda: {"queued": 1, "lost": 2})

        assert asked.get(path).json == {"status": "ok", "database": "ok", "queued": 1, "lost": 2}

    def test_the_icon_is_open_for_pages_that_cannot_name_it(self, asked):
        with asked.get("/favicon.ico") as answer:
            assert (answer.status_code, answer.mimetype) == (200, "image/svg+xml")

    def test_the_token_in_an_address_opens_nothing(self, asked):
        assert asked.get(f"/calls?token={TOKEN}").status_code == 302
        assert asked.get(f"/login?token={TOKEN}").status_code == 200
        assert asked.get("/calls").status_code == 302

    def test_without_a_token_there_is_no_form(self, store):
        open_to_all = client(store)

        assert open_to_all.get("/").status_code == 200
        assert open_to_all.get("/login").status_code == 404


class TestSigningIn:
    def test_the_token_opens_all_pages_and_the_api(self, asked):
        assert sign_in(asked).status_code == 303

        for path in (*PAGES, "/api/overview", "/api/views/calls", "/api/openapi.json"):
            assert asked.get(path).status_code == 200

    @pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], f"{TOKEN} ", TOKEN.upper(), "密"])
    def test_another_token_does_not(self, asked, token):
        answer = sign_in(asked, token)

        assert answer.status_code == 403
        assert "Set-Cookie" not in answer.headers
        assert "This is not the token." in answer.text
        assert asked.get("/").status_code == 302

    def test_the_cookie_is_kept_from_scripts_and_other_sites_and_is_not_the_token(self, asked):
        cookie = cookie_of(sign_in(asked))

        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert cookie["path"] == "/"
        assert int(cookie["max-age"]) == LIFETIME_S
        assert not cookie["secure"]
        assert TOKEN not in cookie.value

    def test_over_https_the_cookie_is_secure(self, store):
        asked = client(store, auth_token=TOKEN)
        answer = asked.post("/login", data={"token": TOKEN}, base_url="https://localhost")

        assert cookie_of(answer)["secure"]

    def test_below_a_prefix_the_cookie_and_the_way_stay_below_it(self, asked):
        answer = asked.post(
            "/login", data={"token": TOKEN}, environ_overrides={"SCRIPT_NAME": "/llm"}
        )

        assert (answer.location, cookie_of(answer)["path"]) == ("/llm/", "/llm")

    def test_a_cookie_that_was_changed_opens_nothing(self, asked):
        cookie = cookie_of(sign_in(asked))
        asked.set_cookie(cookie.key, f"x{cookie.value}")

        assert asked.get("/").status_code == 302
        assert asked.get("/api/overview").status_code == 401

    def test_another_worker_knows_the_cookie_and_one_with_another_token_does_not(self, store):
        cookie = cookie_of(sign_in(client(store, auth_token=TOKEN)))
        same, other = client(store, auth_token=TOKEN), client(store, auth_token="another")
        same.set_cookie(cookie.key, cookie.value)
        other.set_cookie(cookie.key, cookie.value)

        assert same.get("/").status_code == 200
        assert other.get("/").status_code == 302

    def test_signing_out_forgets_the_cookie(self, asked):
        sign_in(asked)
        answer = asked.post("/logout")

        assert (answer.status_code, answer.location) == (303, "/login")
        assert asked.get("/").status_code == 302

    @pytest.mark.parametrize("path", ["/login", "/logout"])
    def test_a_form_of_another_site_is_refused(self, asked, path):
        for site in ("cross-site", "same-site"):
            answer = asked.post(path, data={"token": TOKEN}, headers={"Sec-Fetch-Site": site})
            assert answer.status_code == 403

    def test_nobody_is_signed_out_by_a_link(self, asked):
        assert asked.get("/logout").status_code == 405

    def test_a_large_form_is_refused(self, asked):
        assert sign_in(asked, "x" * 10_000).status_code == 413

    @pytest.mark.parametrize("path", FOREIGN)
    def test_a_way_that_leads_to_another_site_is_not_followed(self, asked, path):
        assert sign_in(asked, next=path).location == "/"

    @pytest.mark.parametrize("path", FOREIGN)
    def test_only_paths_of_this_site_are_local(self, path):
        assert not is_local(path)

    @pytest.mark.parametrize("path", LOCAL)
    def test_paths_of_this_site_are(self, path):
        assert is_local(path)

    def test_the_header_opens_pages_too(self, asked):
        assert asked.get("/calls", headers=bearer(TOKEN)).status_code == 200


class TestFailures:
    def test_after_five_wrong_tokens_one_has_to_wait_and_then_the_right_one_opens(self, store):
        asked = client(store, auth_token=TOKEN)
        seen = [sign_in(asked, "wrong").status_code for _ in range(6)]
        answer = sign_in(asked)

        assert seen == [403] * 5 + [429]
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")

    def test_others_are_not_kept_out(self, store):
        asked = client(store, auth_token=TOKEN)
        for _ in range(9):
            sign_in(asked, "wrong")
        from_elsewhere = {"REMOTE_ADDR": "192.0.2.7"}

        answer = asked.post("/login", data={"token": TOKEN}, environ_overrides=from_elsewhere)

        assert answer.status_code == 303
        assert asked.get("/api/overview", headers=bearer(TOKEN)).status_code == 200

    def test_the_next_try_is_free_after_two_seconds_however_often_one_was_wrong(self):
        now = [100.0]
        failures = Failures(lambda: now[0])
        for _ in range(5):
            assert failures.wait_s("192.0.2.1") == 0
            failures.add("192.0.2.1")

        assert failures.wait_s("192.0.2.1") == 2
        now[0] += 2
        assert failures.wait_s("192.0.2.1") == 0

    def test_all_addresses_of_one_ipv6_network_are_one(self):
        failures = Failures(lambda: 0.0)
        for last in range(5):
            failures.add(f"2001:db8::{last}")

        assert failures.wait_s("2001:db8::ffff") > 0
        assert failures.wait_s("2001:db8:0:1::1") == 0

    def test_many_addresses_take_little_memory(self):
        failures = Failures(lambda: 0.0)
        for number in range(5_000):
            failures.add(f"10.0.{number // 250}.{number % 250}")

        assert len(failures._free_at) == 1_000


class TestSessions:
    def test_a_session_ends_after_twelve_hours(self):
        now = [1e9]
        sessions = Sessions(TOKEN, lambda: now[0])
        value = sessions.new()

        now[0] += LIFETIME_S
        assert sessions.holds(value)
        now[0] += 2
        assert not sessions.holds(value)

    @pytest.mark.parametrize("value", ["", ".", "..", "a.b.c", TOKEN, "\ud83d", "é" * 99])
    def test_what_we_did_not_sign_is_none(self, value):
        assert not Sessions(TOKEN).holds(value)

    def test_two_sessions_differ(self):
        sessions = Sessions(TOKEN)

        assert sessions.new() != sessions.new()
