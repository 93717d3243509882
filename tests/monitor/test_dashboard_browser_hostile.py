"""What others wrote into the records never becomes code on a page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from pywrapai_monitor import SQLiteStore
from tests.contracts.store_rows import Clock
from tests.monitor.dashboard_browser import (
    INJECTED,
    NOW,
    PHONE,
    Site,
    at,
    served,
)
from tests.monitor.dashboard_data import hostile
from tests.monitor.dashboard_texts import HOSTILE

LISTS = ["/?range=30d", "/?range=24h", "/calls", "/conversations", "/users", "/prompts", "/status"]
NUMBERS = range(len(HOSTILE))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    clock = Clock(NOW)
    store = SQLiteStore(":memory:", clock=clock)
    hostile(store, NOW)
    with served(store, clock) as site:
        yield site
    store.close()


def assert_inert(page: Page) -> None:
    assert page.evaluate(INJECTED) == []


class TestEveryField:
    """A payload that runs opens a dialog, or leaves a report of the policy: `read` sees both."""

    @pytest.mark.parametrize("path", LISTS)
    def test_it_is_text_on_a_list(self, site, read, path):
        page = read(site).open(path)

        assert_inert(page)
        if path.startswith(("/calls", "/conv", "/users", "/prompts")):
            text = page.locator("main").evaluate("(main) => main.innerHTML")
            assert "&lt;" in text

    @pytest.mark.parametrize("number", NUMBERS)
    def test_it_is_text_where_one_thing_is_shown(self, site, read, number):
        text = HOSTILE[number]
        page = read(site).open(at("/call", call_id=f"{text}-{number}"))
        assert_inert(page)
        assert page.locator("pre.text").first.text_content() == text

        page.get_by_role("link", name="See them in the conversation").click()
        assert_inert(page)
        expect(page.locator(".bubble.selected")).to_have_count(1)
        assert page.locator("#detail pre.text").first.text_content() == text

        page.goto(at("/prompt", name=text, a=text, b=f"{text}2"))
        assert_inert(page)
        assert page.locator("h1").text_content() == text.replace("\u202e", "[U+202E]")
        assert page.locator(".diff .line").first.text_content() == text

    @pytest.mark.parametrize("number", NUMBERS)
    def test_it_is_text_where_it_is_asked_for(self, site, read, number):
        text = HOSTILE[number]
        page = read(site).open(at("/conversations", q=text))
        assert_inert(page)
        assert page.get_by_label("Text").input_value() == text
        assert page.locator(".found").count() == 1

        page.goto(at("/calls", user_id=text, session_id=text, model=text, tag=text))
        assert_inert(page)
        assert page.get_by_label("User").input_value() == text
        assert page.locator("#calls tbody tr").count() == 1

    def test_it_stays_text_when_a_page_renews_itself(self, site, read):
        page = read(site).context.new_page()
        page.clock.install()
        for path in ("/?range=30d", at("/conversation", user_id=HOSTILE[0], session_id=HOSTILE[0])):
            page.goto(path)
            hostile(site.store, NOW)
            with page.expect_response(lambda answer: "/static/" not in answer.url):
                page.clock.run_for(30_000)
            expect(page.locator("#refreshed-at")).to_be_visible()
            assert_inert(page)

    def test_it_stays_text_in_the_note_of_a_chart(self, site, read):
        page = read(site).open("/?range=24h")
        box = page.locator("#cost canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 25, box["y"] + box["height"] / 2)
        page.wait_for_timeout(100)

        assert_inert(page)

    def test_a_whole_text_is_plain_text(self, site, read):
        page = read(site).context.new_page()
        answer = page.goto("/body?table=conversations&id=3&name=content")

        assert answer is not None
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert page.evaluate("document.querySelectorAll('img, script, svg').length") == 0

    def test_an_error_quotes_it_as_text(self, site, read):
        reader = read(site, viewport=PHONE)
        for text in HOSTILE:
            page = reader.open(at("/calls", status=text))
            assert_inert(page)
            reader.expect("status of 400")
            page.goto(at("/call", call_id=text + "?"))
            assert_inert(page)
            reader.expect("status of 404")
