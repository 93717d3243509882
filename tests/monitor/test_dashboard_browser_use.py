"""The dashboard in a real browser, as people use it: lists, details, keys."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.contracts.store_rows import entry
from tests.monitor.dashboard_browser import (
    NOW,
    Site,
    at,
    keys,
    sql,
    table,
)

TALK = at("/conversation", user_id="maria.lopez", session_id="router-red-light")
LOG = at("/conversation", user_id="eval-nightly", session_id="router-log")


def write(site: Site, name: str, at: datetime = NOW) -> None:
    site.store.write([entry(f"question {name}", f"call-{name}", f"u-{name}", f"s-{name}", at)])


class TestLists:
    @pytest.mark.parametrize(
        ("path", "id", "query"),
        [
            ("/calls?range=all&limit=180", "calls", "SELECT id FROM token_records"),
            (
                "/conversations?range=all&limit=60",
                "sessions",
                "SELECT DISTINCT user_id || '/' || session_id FROM token_records",
            ),
        ],
    )
    def test_a_list_is_read_to_its_end_while_rows_arrive(self, desk, read, path, id, query):
        wanted = [str(key) for (key,) in sql(desk, query)]
        page = read(desk).open(path)
        found, pages = keys(page, id), 1
        while page.get_by_role("link", name="Next page").count():
            write(desk, f"{id}-{pages}", NOW + timedelta(seconds=pages))
            page.get_by_role("link", name="Next page").click()
            found += keys(page, id)
            pages += 1

        assert pages > 2
        assert len(found) == len(set(found))
        assert set(found) == set(wanted)
        page.get_by_role("link", name="First page").click()
        assert not set(keys(page, id)) <= set(wanted)

    def test_a_form_filters_and_leaves_the_time_as_it_is(self, desk, read):
        page = read(desk).open("/calls?range=30d&limit=200")
        page.get_by_label("Status").select_option("error")
        page.get_by_label("Model").select_option("claude-sonnet-4-5")
        page.get_by_role("button", name="Filter").click()
        ((number,),) = sql(
            desk,
            """SELECT count(*) FROM token_records WHERE status = 'error'
                AND model = 'claude-sonnet-4-5' AND created_at >= 1793491200000000""",
        )
        rows = table(page, "calls")

        assert 0 < len(rows) == min(number, 50)
        assert all(row[1].startswith("error") for row in rows)
        assert {row[2] for row in rows} == {"claude-sonnet-4-5"}
        assert "range=30d" in page.url
        page.get_by_role("link", name="Clear").click()
        assert page.get_by_label("Status").input_value() == ""
        assert "range=30d" in page.url

    def test_other_dates_are_chosen_in_a_form(self, desk, read):
        page = read(desk).open("/calls?status=error")
        page.get_by_text("Other dates").click()
        page.get_by_label("First day").fill("2026-11-24")
        page.get_by_label("Last day").fill("2026-11-27")
        page.get_by_label("Time zone").fill("Europe/Brussels")
        page.get_by_role("button", name="Show").click()

        assert "2026-11-24 to 2026-11-27" in page.locator("#range-text").inner_text()
        assert "status=error" in page.url
        assert {row[1].split()[0] for row in table(page, "calls")} == {"error"}

    def test_a_search_leads_to_the_message(self, desk, read):
        page = read(desk).open("/conversations?range=all&limit=200")
        page.get_by_label("Text").fill("iNvOiCe 48211")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=iNvOiCe*")
        exact = sql(
            desk,
            """SELECT DISTINCT user_id || '/' || session_id FROM conversations
            WHERE lower(content) LIKE '%invoice 48211%'""",
        )

        assert set(keys(page, "sessions")) <= {key for (key,) in exact}
        assert len(keys(page, "sessions")) == min(len(exact), 50)
        excerpt = page.locator(".found a").first
        assert excerpt.locator("mark").inner_text().lower() == "invoice 48211"
        excerpt.click()
        assert "invoice 48211" in page.locator(".bubble.selected").inner_text().lower()
        expect(page.locator(".bubble.selected")).to_be_in_viewport()


class TestDetails:
    """Of the session that has everything."""

    def parts(self, page: Page) -> dict[str, str]:
        sections = page.locator("#detail > section").all()
        return {part.locator("h3").inner_text(): part.inner_text() for part in sections}

    @pytest.mark.parametrize("scripts", [True, False])
    def test_an_answer_is_told_with_all_that_was_sent_for_it(self, desk, read, scripts):
        page = read(desk, java_script_enabled=scripts).open(TALK)
        page.locator(".bubble.assistant [data-detail]").first.click()
        expect(page.locator(".bubble.selected")).to_have_count(1)
        parts = self.parts(page)
        ((given, made, model),) = sql(
            desk,
            """SELECT input_tokens, output_tokens, model FROM token_records WHERE call_id = (SELECT
            call_id FROM conversations WHERE session_id = 'router-red-light' AND role = 'assistant'
            ORDER BY id LIMIT 1)""",
        )

        wanted = ["Message", "Token usage", "RAG context", "System prompt", "History context"]
        assert all(name.startswith(each) for name, each in zip(parts, wanted, strict=True))
        text = page.locator("#detail").inner_text()
        for wanted in (f"{given:,}", f"{made:,}", model, "You are an expert, concise support"):
            assert wanted in text
        assert "Nothing was sent before this message." in text
        assert page.locator(".chunks li").count() == 3
        assert [
            round(float(meter.get_attribute("value") or 0), 3)
            for meter in page.locator(".chunks meter").all()
        ] == [0.873, 0.714, 0.382]
        assert "kb/router-lights.md" in text
        assert page.url.split("#")[0].endswith(
            f"&message={page.locator('.selected').first.get_attribute('id')[1:]}"
        )  # type: ignore[index]

    def test_the_exact_turns_sent_are_shown(self, desk, read):
        page = read(desk).open(TALK)
        page.locator(".bubble.user [data-detail]").nth(2).click()
        expect(page.locator(".bubble.selected")).to_have_count(1)

        roles = page.locator(".history li").evaluate_all(
            "(all) => all.map((each) => each.className)"
        )

        assert roles == ["user", "assistant"] * 2
        assert "2 turns sent" in page.locator("#d-history").inner_text()

    def test_tool_calls_have_arguments_result_time_and_error(self, desk, read):
        page = read(desk).open(TALK)
        page.locator(".bubble.tool_call [data-detail]").nth(1).click()
        expect(page.locator(".bubble.selected")).to_have_count(1)
        tool = page.locator("#detail .tool")

        text = tool.inner_text()

        assert tool.count() == 1
        assert "book_technician" in text
        assert "DE-50667-0012-B" in text
        assert "ConflictError: the window is taken" in text
        assert re.search(r"\d+ ms|\d+\.\d+ s", text)

    def test_back_and_forward_go_through_the_details(self, desk, read):
        page = read(desk).open(TALK)
        links = page.locator(".bubble [data-detail]")
        for number in (0, 1):
            links.nth(number).click()
            expect(page.locator(".bubble").nth(number)).to_have_class(re.compile("selected"))

        page.go_back()
        expect(page.locator(".bubble").nth(0)).to_have_class(re.compile("selected"))
        page.go_back()
        expect(page.locator(".bubble.selected")).to_have_count(0)
        page.go_forward()
        expect(page.locator(".bubble").nth(0)).to_have_class(re.compile("selected"))

    def test_a_huge_message_is_shown_whole_on_request_and_stays_so(self, desk, read):
        page = read(desk).open(LOG)
        ((whole,),) = sql(
            desk,
            "SELECT content FROM conversations WHERE session_id = 'router-log' AND role = 'user'",
        )
        bubble = page.locator(".bubble.user")
        assert len(bubble.locator("pre").text_content() or "") == 4_000

        bubble.get_by_role("link", name=f"Show all {len(whole):,} characters").click()

        expect(bubble.locator("a[data-show-all]")).to_have_count(0)
        assert bubble.locator("pre").text_content() == whole
        bubble.locator("[data-detail]").click()
        expect(page.locator(".bubble.selected")).to_have_count(1)
        assert bubble.locator("pre").text_content() == whole

    def test_a_message_that_no_browser_lays_out_in_time_is_a_file(self, desk, read):
        text = "word " * 200_000
        desk.store.write([entry(text, "c-vast", "vast", "vast", NOW)])
        page = read(desk).open(at("/conversation", user_id="vast", session_id="vast"))
        with page.expect_download() as started:
            page.locator(".bubble.user").get_by_text("Download all 1,000,000 characters").click()

        assert started.value.suggested_filename == "whole-text.txt"
        assert started.value.path().read_text() == text


class TestKeys:
    def focused(self, page: Page) -> str:
        found: str = page.evaluate("document.activeElement.textContent.trim()")
        return found

    def test_tab_reaches_the_links_in_their_order_and_shows_where_it_is(self, desk, read):
        page = read(desk).open("/")
        page.keyboard.press("Tab")
        assert self.focused(page) == "Skip to the content"
        expect(page.locator(".skip")).to_be_in_viewport()
        reached = []
        for _ in range(20):
            page.keyboard.press("Tab")
            reached.append(self.focused(page))
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert page.evaluate(outline) != "none", reached[-1]

        menu = ["Overview", "Calls", "Conversations", "Users", "Prompts", "Status"]
        assert [text for text in reached if text in menu] == menu
        assert reached[-1] not in menu

    def test_the_first_link_skips_what_all_pages_have(self, desk, read):
        page = read(desk).open("/calls")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")

        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")

    def test_the_details_of_a_message_open_by_enter(self, desk, read):
        page = read(desk).open(TALK)
        page.locator(".bubble [data-detail]").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".bubble.selected")).to_have_count(1)

        expect(page.locator("#detail")).to_be_focused()

    def test_numbers_of_a_chart_open_by_enter(self, desk, read):
        page = read(desk).open("/")
        page.locator("#cost-numbers summary").focus()
        page.keyboard.press("Enter")

        expect(page.locator("#cost-table table")).to_be_visible()

    def test_the_dates_close_by_escape(self, desk, read):
        page = read(desk).open("/")
        summary = page.locator("#dates summary")
        summary.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.get_by_label("First day").is_visible()
        page.keyboard.press("Escape")

        assert not page.get_by_label("First day").is_visible()
        expect(summary).to_be_focused()
