"""Every page of the dashboard in a real browser: drawn, right, readable, asking nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pywrapai_monitor import SQLiteStore
from tests.contracts.store_rows import Clock, micros
from tests.monitor.dashboard_browser import (
    NOW,
    PHONE,
    Site,
    at,
    drawn,
    grave_faults,
    says,
    served,
    sql,
    table,
    value_of,
)
from tests.monitor.dashboard_data import QUIET_DAY

TALK = at("/conversation", user_id="maria.lopez", session_id="router-red-light")
SOME_CALL = "SELECT call_id FROM token_records WHERE status = 'interrupted' AND kind = 'chat'"
SOME_TOOLS = "SELECT model_call_id FROM tool_calls"
SOME_ANSWER = (
    "SELECT id FROM conversations WHERE session_id = 'router-red-light' AND role = 'assistant'"
)
PAGES = {
    "overview": "/?range=30d",
    "overview-hours": "/?range=24h",
    "calls": "/calls?range=30d&limit=10",
    "calls-filtered": "/calls?range=30d&status=error&kind=chat&tag=web",
    "call": "/call?call_id={call}",
    "call-with-tools": "/call?call_id={tools}",
    "conversations": "/conversations?range=30d&limit=10",
    "search": "/conversations?range=30d&q=invoice&limit=10",
    "conversation": TALK,
    "detail": f"{TALK}&message={{answer}}",
    "users": "/users?range=30d&limit=10",
    "prompts": "/prompts",
    "prompt": "/prompt?name=support-agent&range=30d&a=v2&b=v3",
    "status": "/status",
}
SINCE = datetime(2026, 11, 1, tzinfo=UTC)
"""The first of the last 30 days."""


@pytest.fixture(scope="module")
def empty() -> Iterator[Site]:
    clock = Clock(NOW)
    store = SQLiteStore(":memory:", clock=clock)
    with served(store, clock) as site:
        yield site
    store.close()


def path_of(site: Site, name: str) -> str:
    named = {"call": SOME_CALL, "tools": SOME_TOOLS, "answer": SOME_ANSWER}
    return PAGES[name].format(**{key: sql(site, query)[0][0] for key, query in named.items()})


class TestEveryPage:
    @pytest.mark.parametrize("name", PAGES)
    def test_it_is_shown_and_keeps_nobody_out_in_light_and_dark(self, desk, read, name):
        reader = read(desk)
        page = reader.open(path_of(desk, name))

        assert page.locator("h1").count() == 1
        assert page.locator("nav[aria-label=Pages] [aria-current=page]").count() == 1
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert grave_faults(page) == []

    def test_on_a_phone_nothing_stands_over_the_edge(self, desk, read):
        page = read(desk, viewport=PHONE).context.new_page()
        for name in PAGES:
            page.goto(path_of(desk, name))
            width = page.evaluate("document.documentElement.scrollWidth")
            page.evaluate("scrollTo(500, 0)")

            assert width <= PHONE["width"], name
            assert page.evaluate("scrollX") == 0, name

    def test_on_a_phone_the_brand_has_one_row_and_names_stay_in_their_column(self, desk, read):
        page = read(desk, viewport=PHONE).open("/?range=30d")
        brand, tools = (page.locator(f".top {part}") for part in (".brand", ".top-tools"))

        assert brand.bounding_box()["y"] == tools.bounding_box()["y"]
        names = page.locator("#models tbody th .model").all()
        assert names
        for name in names:
            box, cell = name.bounding_box(), name.locator("xpath=ancestor::th").bounding_box()
            assert box["x"] + box["width"] <= cell["x"] + cell["width"]

    def test_without_scripts_it_is_all_there_but_for_the_drawings(self, desk, read):
        page = read(desk, java_script_enabled=False).context.new_page()
        for name in PAGES:
            page.goto(path_of(desk, name))
            assert page.locator("h1").count() == 1
            assert not page.locator("#refresh").is_visible()


class TestTheNumbers:
    """Of the overview, beside what SQL says of the rows themselves."""

    @pytest.fixture
    def page(self, desk, read):
        return read(desk).open("/?range=30d")

    @pytest.mark.parametrize(
        ("query", "since"),
        [
            ("range=30d", SINCE),
            ("range=7d", datetime(2026, 11, 24, tzinfo=UTC)),
            ("range=30d&tz=Asia/Kolkata", datetime(2026, 10, 31, 18, 30, tzinfo=UTC)),
        ],
    )
    def test_the_main_figures_are_those_of_the_rows(self, desk, read, query, since):
        page = read(desk).open(f"/?{query}")
        ((calls, errors, cost, tokens, users, embeddings, cached, unpriced),) = sql(
            desk,
            """SELECT sum(kind = 'chat'), sum(kind = 'chat' AND status = 'error'), sum(cost) / 1e10,
                sum(input_tokens + output_tokens), count(DISTINCT user_id),
                sum(kind = 'embedding'), sum(kind = 'chat' AND cached), sum(NOT priced)
            FROM token_records WHERE created_at >= ?""",
            micros(since),
        )

        assert says(value_of(page, "Calls", "#cards"), calls)
        assert says(value_of(page, "Cost", "#cards"), cost)
        assert says(value_of(page, "Error rate", "#cards"), errors / calls * 100)
        title = page.locator("#strip dd[title]").first.get_attribute("title")
        assert says(title or "", tokens)
        strip = {"Users": users, "Embeddings": embeddings, "From the cache": cached}
        for label, exact in {**strip, "Errors": errors, "Without a price": unpriced}.items():
            assert says(value_of(page, label, "#strip"), exact), label

    def test_each_model_has_its_own(self, desk, page):
        exact = sql(
            desk,
            """SELECT model, count(*), sum(status = 'error'), sum(input_tokens),
                sum(output_tokens), sum(cost) / 1e10
            FROM token_records WHERE created_at >= ? GROUP BY model ORDER BY sum(cost) DESC""",
            micros(SINCE),
        )
        rows = {row[0].removesuffix(" embedding"): row for row in table(page, "models")}

        assert len(rows) == len(exact) == 7
        for model, calls, errors, given, made, cost in exact:
            _, _, *shown = rows[model]
            numbers = [shown[0], shown[1], shown[3], shown[4], shown[6].removesuffix(" +?")]
            pairs = zip(numbers, (calls, errors, given, made, cost), strict=True)
            assert all(says(text, number) for text, number in pairs), model

    def test_each_day_has_its_own(self, desk, page):
        exact = sql(
            desk,
            """SELECT strftime('%d', created_at / 1000000, 'unixepoch'), sum(kind = 'chat'),
                sum(kind = 'chat' AND status = 'error'), sum(cost) / 1e10
            FROM token_records WHERE created_at >= ? GROUP BY 1""",
            micros(SINCE),
        )
        days = {int(day): numbers for day, *numbers in exact}
        costs, calls = (
            {int(row[0].split()[0]): row[1:] for row in table(page, f"{name}-table")}
            for name in ("cost", "calls-chart")
        )

        assert list(costs) == list(calls) == list(range(1, 31))
        for day in range(1, 31):
            number, errors, cost = days.get(day, (0, 0, 0.0))
            assert says(costs[day][0], cost), day
            assert says(calls[day][0], number), day
            assert says(calls[day][1], errors), day

    def test_the_dearest_users_are_named_in_their_order(self, desk, page):
        exact = sql(
            desk,
            """SELECT user_id, sum(kind = 'chat'), sum(cost) / 1e10 FROM token_records
            WHERE created_at >= ? GROUP BY user_id ORDER BY sum(cost) DESC LIMIT 10""",
            micros(SINCE),
        )
        rows = table(page, "users")

        for row, (user, calls, cost) in zip(rows, exact, strict=True):
            assert row[0] == user or row[0].startswith(user[:8])
            assert says(row[1], calls)
            assert says(row[4], cost)

    def test_times_are_those_of_the_zone_in_the_address(self, desk, read):
        page = read(desk).open("/calls?range=24h&tz=Asia/Kolkata")
        newest = page.locator("#calls tbody tr").first
        ((at_micros,),) = sql(desk, "SELECT max(created_at) FROM token_records")

        local = datetime.fromtimestamp(at_micros / 1e6, ZoneInfo("Asia/Kolkata"))

        assert newest.locator("time").text_content() == f"{local:%Y-%m-%d %H:%M:%S}"
        assert "Asia/Kolkata" in page.locator("#range-text").inner_text()
        for link in page.locator("nav[aria-label=Pages] a").all():
            assert "tz=Asia%2FKolkata" in (link.get_attribute("href") or "")


class TestTheCharts:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_each_series_is_drawn_in_its_colour(self, desk, read, scheme):
        page = read(desk, color_scheme=scheme).open("/?range=30d")

        for name in ("cost", "calls-chart", "latency", "tokens"):
            series = drawn(page.locator(f"[id='{name}']"))
            assert series
            for label, (share, pixels) in series.items():
                assert pixels > 20 or share < 0.03, (name, label)

    def test_they_are_drawn_anew_when_the_scheme_changes(self, desk, read):
        page = read(desk, color_scheme="light").open("/?range=30d")
        cost = page.locator("#cost")
        was = cost.locator("canvas").evaluate("(canvas) => canvas.toDataURL()")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")

        page.emulate_media(color_scheme="dark")
        page.wait_for_function(
            "(was) => document.querySelector('#cost canvas').toDataURL() !== was", arg=was
        )

        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
        assert all(pixels > 20 or share < 0.03 for share, pixels in drawn(cost).values())

    def test_a_day_without_calls_is_a_gap_and_no_zero(self, desk, read):
        page = read(desk).open("/?range=30d")
        quiet = (NOW - timedelta(days=QUIET_DAY)).day - 1
        row = table(page, "latency-table")[quiet]

        painted = page.locator("#latency canvas").evaluate(
            """(canvas, day) => {
              const { x, y } = window.Chart.getChart(canvas).scales;
              const scale = canvas.width / canvas.clientWidth;
              const left = x.getPixelForValue(day - 1) + 5, right = x.getPixelForValue(day + 1) - 5;
              const { data } = canvas.getContext("2d").getImageData(left * scale, y.top * scale,
                (right - left) * scale, (y.bottom - y.top - 2) * scale);
              for (let i = 0; i < data.length; i += 4) {
                const [r, g, b, opaque] = data.slice(i, i + 4);
                if (opaque > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 40) return true;
              }
              return false;
            }""",
            quiet,
        )

        assert row[1:] == ["\u2013"] * (len(row) - 1)
        assert painted is False

    def test_the_day_that_is_not_over_is_said_to_be(self, desk, read):
        page = read(desk).open("/?range=30d")

        assert table(page, "cost-table")[-1][0] == "30 Nov not over"
        assert "The last day is not over: hatched" in page.locator("#cost-hint").inner_text()


class TestWhereThereIsNothingToShow:
    def test_the_lines_that_record_a_first_call_are_there(self, empty, read):
        page = read(empty).open("/")

        code = page.locator("pre.code").inner_text()

        assert "Monitor(" in code
        assert "monitor.wrap(" in code
        assert "tracked.chat(" in code
        assert grave_faults(page) == []

    @pytest.mark.parametrize("path", ["/calls", "/conversations", "/users", "/prompts", "/status"])
    def test_the_other_pages_say_so_too(self, empty, read, path):
        page = read(empty).open(path)

        assert page.locator("tbody tr").count() == 0 or path == "/status"
        assert grave_faults(page) == []

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/nothing-here", 404),
            ("/?range=5y", 400),
            ("/calls?cursor=x", 400),
            ("/call?call_id=nobody", 404),
            ("/conversation?user_id=a&session_id=b", 404),
            ("/prompt?name=no", 404),
        ],
    )
    def test_errors_are_pages_with_a_way_out(self, empty, read, path, status):
        reader = read(empty, viewport=PHONE)
        page = reader.context.new_page()

        answer = page.goto(path)

        assert answer is not None
        assert answer.status == status
        assert str(status) in page.locator("main").inner_text()
        assert grave_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.get_by_role("link", name="To the overview").click()
        assert page.locator("h1").inner_text() == "Overview"
        reader.expect(f"console: .*status of {status}")
