"""The dashboard in a real browser while time passes: it renews itself, and asks for the token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from pywrapai_monitor import SQLiteStore
from tests.contracts.store_rows import Clock, entry
from tests.monitor.dashboard_browser import NOW, Site, at, drawn, grave_faults, keys, served

TALK = at("/conversation", user_id="maria.lopez", session_id="router-red-light")
TOKEN = "s3cret-token"


@pytest.fixture(scope="module")
def guarded(desk) -> Iterator[Site]:
    with served(desk.store, desk.clock, auth_token=TOKEN) as site:
        yield site


@pytest.fixture
def empty() -> Iterator[Site]:
    clock = Clock(NOW)
    store = SQLiteStore(":memory:", clock=clock)
    with served(store, clock) as site:
        yield site
    store.close()


def write(site: Site, *names: str) -> None:
    site.store.write(
        [entry(f"question {name}", f"call-{name}", f"u-{name}", f"s-{name}", NOW) for name in names]
    )


class TestRenewal:
    HIDE = """(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""

    def page(self, reader: Any, path: str) -> Page:
        page = reader.context.new_page()
        page.clock.install()
        page.goto(path)
        expect(page.locator("#refresh-pause")).to_be_visible()
        return page

    def test_it_brings_what_is_new_and_keeps_the_readers_place(self, desk, read):
        page = self.page(read(desk), "/?range=30d")
        calls = page.locator(".card .value").first
        before = int(calls.inner_text().replace(",", ""))
        page.locator("#cost-numbers summary").click()
        page.locator("#users a").nth(3).focus()
        page.evaluate("scrollTo(0, 700)")
        kept = (
            "[scrollY, document.activeElement.title, document.querySelector('#cost-numbers').open]"
        )
        was = page.evaluate(kept)
        write(desk, "renewed")

        page.clock.run_for(30_000)

        expect(calls).to_have_text(f"{before + 1:,}")
        assert page.evaluate(kept) == was
        assert was[0] == 700
        assert was[1]
        assert was[2] is True

    def test_a_tab_that_is_hidden_asks_for_nothing(self, desk, read):
        reader = read(desk)
        page = self.page(reader, "/")
        page.evaluate(self.HIDE, True)
        before = len(reader.asked)
        page.clock.run_for(600_000)
        assert len(reader.asked) == before

        with page.expect_response("**/"):
            page.evaluate(self.HIDE, False)
            page.clock.run_for(100)

    def test_it_can_be_paused(self, desk, read):
        reader = read(desk)
        page = self.page(reader, "/")
        page.get_by_role("button", name="Pause").click()
        before = len(reader.asked)
        page.clock.run_for(600_000)
        assert len(reader.asked) == before

        with page.expect_response("**/"):
            page.get_by_role("button", name="Resume").click()
            page.clock.run_for(100)

    def test_a_failure_is_told_and_the_next_try_mends_it(self, desk, read):
        reader = read(desk)
        page = self.page(reader, "/")
        page.route("**/", lambda route: route.abort())
        page.clock.run_for(30_000)
        expect(page.locator("#refresh-problem")).to_contain_text("The last refresh failed")
        assert page.locator(".card").count() == 4
        page.unroute("**/")

        page.clock.run_for(30_000)

        expect(page.locator("#refresh-problem")).to_be_hidden()
        reader.expect("console: .*ERR_FAILED")

    def test_the_first_record_turns_the_empty_page_into_a_full_one(self, empty, read):
        page = self.page(read(empty), "/")
        assert page.locator("pre.code").is_visible()
        empty.store.write([entry("first", "c1", at=NOW, cost_usd=0.5, duration_ms=3.0)])

        page.clock.run_for(30_000)

        expect(page.locator(".card")).to_have_count(4)
        assert page.locator("pre.code").count() == 0
        page.wait_for_function("() => window.Chart?.getChart(document.querySelector('canvas'))")
        assert drawn(page.locator("#cost"))["gpt-4o-mini"][1] > 20
        page.locator("#dates summary").click()
        page.locator("footer").click()
        assert not page.get_by_label("First day").is_visible()

    def test_after_a_renewal_the_next_page_goes_on_where_the_list_now_ends(self, desk, read):
        page = self.page(read(desk), "/calls?limit=3")
        before = keys(page, "calls")
        write(desk, "later-1", "later-2")
        page.clock.run_for(30_000)
        expect(page.locator("#calls tbody tr").last).to_have_attribute("data-key", before[0])

        page.get_by_role("link", name="Next page").click()
        page.wait_for_url("**cursor=**")

        assert keys(page, "calls")[:2] == before[1:]

    def test_what_was_typed_into_a_form_stays(self, desk, read):
        page = self.page(read(desk), "/calls?user_id=u-typed")
        page.get_by_label("User").fill("half a na")
        write(desk, "typed")

        page.clock.run_for(30_000)

        expect(page.locator("#calls tbody tr")).to_have_count(1)
        assert page.get_by_label("User").input_value() == "half a na"

    def test_details_that_are_long_in_coming_show_that_they_do(self, desk, read):
        page = read(desk).open(TALK)
        page.route("**message=*", lambda route: None)
        page.locator(".bubble [data-detail]").first.click()

        expect(page.locator("#detail")).to_have_attribute("aria-busy", "true")

        page.unroute("**message=*")
        page.locator(".bubble [data-detail]").nth(1).click()
        expect(page.locator(".bubble").nth(1)).to_have_class("bubble assistant selected")
        expect(page.locator("#detail")).not_to_have_attribute("aria-busy", "true")


class TestSigningIn:
    def test_the_token_is_asked_for_once_and_never_shown_again(self, guarded, read):
        reader = read(guarded)
        page = reader.open("/calls?range=30d")
        assert page.locator("h1").inner_text() == "Sign in"
        assert grave_faults(page) == []
        expect(page.get_by_label("Token")).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("not the token")
        reader.expect("console: .*status of 403")

        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()

        assert page.url == f"{guarded.url}/calls?range=30d"
        assert page.locator("h1").inner_text() == "Calls"
        (cookie,) = reader.context.cookies()
        assert cookie["httpOnly"] is True
        assert cookie["sameSite"] == "Strict"
        assert cookie["path"] == "/"
        assert TOKEN not in cookie["value"]
        assert page.evaluate("document.cookie") == ""
        assert [url for url in reader.asked if TOKEN in url] == []
        assert TOKEN not in page.content()

    def test_after_signing_out_no_page_is_shown_and_none_is_kept(self, guarded, read):
        reader = read(guarded)
        page = reader.open("/users")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url("**/users")

        page.get_by_role("button", name="Sign out").click()

        assert page.locator("h1").inner_text() == "Sign in"
        assert reader.context.cookies() == []
        page.go_back()
        assert page.locator("h1").inner_text() == "Sign in"
        assert reader.open("/").locator("h1").inner_text() == "Sign in"

    def test_a_page_that_renews_itself_says_that_its_reader_is_signed_out(self, guarded, read):
        reader = read(guarded)
        page = reader.context.new_page()
        page.clock.install()
        page.goto("/")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{guarded.url}/")
        reader.context.clear_cookies()

        page.clock.run_for(30_000)

        expect(page.locator("#refresh-problem")).to_contain_text("You are signed out")
        assert page.locator(".card").count() == 4
