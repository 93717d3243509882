"""The shop's assistant over HTTP and in a browser."""

from __future__ import annotations

import re
import runpy
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from pywrapai.testing import StubServer
from pywrapai.testing.wires import Call, status, tool_calls
from tests.examples.programs import EXAMPLES, chat, running, text_of
from tests.monitor.dashboard_browser import browsing

FOLDER = EXAMPLES / "retail_agent"
ADDRESS = r"Shop: (http://\S+)"


class Shop(NamedTuple):
    url: str
    folder: Path
    output: str

    def ask(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of the shop's own database."""
        with closing(sqlite3.connect(self.folder / "shop.db")) as database:
            return database.execute(question, values).fetchall()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with running("retail_agent", "--port", 0, "--folder", folder, cwd=folder) as program:
        yield Shop(program.wait_for(ADDRESS)[1], folder, program.output)


@pytest.fixture
def tools(tmp_path: Path) -> Any:
    make_shop = runpy.run_path(str(FOLDER / "shop.py"))["make_shop"]
    make_shop(tmp_path / "shop.db")
    return runpy.run_path(str(FOLDER / "tools.py"))["make_tools"](tmp_path / "shop.db")


def test_it_says_that_there_is_no_key_on_the_terminal_and_on_the_page(shop):
    assert "No key was found" in shop.output
    page = httpx.get(shop.url)
    assert "No key was found" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'self'")


def test_the_shop_is_that_of_the_document_and_the_same_each_time(shop, tmp_path):
    counts = [shop.ask(f"SELECT count(*) FROM {t}") for t in ("products", "customers", "sales")]
    runpy.run_path(str(FOLDER / "shop.py"))["make_shop"](tmp_path / "again.db")
    with closing(sqlite3.connect(tmp_path / "again.db")) as again:
        second = list(again.iterdump())
    with closing(sqlite3.connect(shop.folder / "shop.db")) as first:
        assert list(first.iterdump()) == second
    assert counts == [[(33,)], [(40,)], [(500,)]]


def test_a_question_streams_the_calls_their_results_and_an_answer_with_true_figures(shop):
    events = chat(shop.url, "What sells best, and what is low on stock?", "figures")

    kinds = [event["type"] for event in events]
    assert kinds[:4] == ["call", "call", "result", "result"]
    assert set(kinds[4:-1]) == {"text"}
    assert events[-1] == {"type": "done", "turns": 2, "tokens": events[-1]["tokens"]}
    assert [event["name"] for event in events[:2]] == ["get_top_sellers", "get_stock_status"]
    [(best, revenue)] = shop.ask(
        "SELECT name, sum(units * s.price) FROM sales s JOIN products p ON p.id = product_id "
        "GROUP BY product_id ORDER BY 2 DESC LIMIT 1"
    )
    [(value,)] = shop.ask("SELECT sum(price * stock) FROM products")
    assert best in text_of(events)
    assert f"{revenue:,.2f}" in text_of(events)
    assert f"{value:,.2f}" in text_of(events)


def test_the_four_tools_answer_what_they_are_asked(tools):
    assert [tool.name for tool in tools] == [
        "search_products",
        "get_sales_stats",
        "get_top_sellers",
        "get_stock_status",
    ]
    lamps = tools.get("search_products")(text="LAMP")
    assert [row["name"] for row in lamps] == ["bicycle lamp", "desk lamp", "floor lamp"]
    assert {row["state"] for row in lamps} <= {"sold out", "low", "in stock"}
    whole = tools.get("get_sales_stats")()
    spring = tools.get("get_sales_stats")(since=date(2026, 3, 1), until=date(2026, 5, 31))
    assert sum(row["sales"] for row in whole) == 500
    assert 0 < sum(row["sales"] for row in spring) < 500
    by_units = tools.get("get_top_sellers")(by="units", limit=3)
    assert [row["units"] for row in by_units] == sorted(
        (r["units"] for r in by_units), reverse=True
    )
    assert all(row["stock"] <= 10 for row in tools.get("get_stock_status")()["low"])


def test_what_looks_like_sql_is_only_looked_for(tools):
    for text in ("'; DROP TABLE sales; --", "%", "_"):
        assert tools.get("search_products")(text=text) == []
    assert len(tools.get("search_products")(text="")) == 33


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ({"Host": "shop.example"}, {"question": "x", "session": "s"}, 400),
        ({"Content-Type": "text/plain"}, {"question": "x", "session": "s"}, 415),
        ({}, {"question": "", "session": "s"}, 400),
        ({}, {"question": "x" * 2001, "session": "s"}, 400),
        ({}, {"question": "x"}, 400),
        ({}, ["x"], 400),
    ],
)
def test_what_is_no_question_of_the_page_is_refused(shop, headers, body, code):
    assert httpx.post(f"{shop.url}/chat", json=body, headers=headers).status_code == code


def test_the_dashboard_that_the_page_links_to_has_the_calls_and_the_tools(shop):
    chat(shop.url, "What is the revenue of each category?", "recorded")

    link = re.search(r'href="(http://127\.0\.0\.1:\d+)"', httpx.get(shop.url).text)
    assert link
    rows = httpx.get(f"{link[1]}/api/token-records?user_id=shopkeeper&session_id=recorded").json()
    assert len(rows) == 2
    exported = httpx.get(f"{link[1]}/api/export/tool_calls.jsonl?session_id=recorded").text
    assert '"get_sales_stats"' in exported


def test_in_a_browser_the_log_fills_and_what_anybody_writes_stays_text(shop):
    hostile = 'Do you have <img src=x onerror="document.title=1"> or lamps'
    with browsing() as browser:
        page = browser.new_page()
        wrong: list[str] = []
        page.on("console", lambda said: wrong.append(said.text))
        page.on("request", lambda r: None if r.url.startswith(shop.url) else wrong.append(r.url))
        page.goto(shop.url)
        page.locator("#question").fill(hostile)
        page.locator("#send").click()
        page.locator(".call.done").wait_for()
        page.locator("#send:enabled").wait_for()

        assert "search_products" in page.locator(".call .name").inner_text()
        assert "desk lamp" in page.locator(".model").inner_text()
        assert page.locator(".me").inner_text() == hostile
        assert page.locator("img").count() == 0
        assert [url for url in wrong if not url.startswith("data:")] == []


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    with running("retail_agent", "--port", 0, cwd=tmp_path, TMPDIR=str(place)) as program:
        program.wait_for(ADDRESS)
        assert len(list(place.iterdir())) == 1

        assert program.end() == 0
    assert list(place.iterdir()) == []
    assert "Traceback" not in program.output


def test_with_a_key_that_provider_is_asked_and_its_failure_is_told_without_details(tmp_path):
    with (
        StubServer() as model,
        running("retail_agent", "--port", 0, cwd=tmp_path, model=model) as program,
    ):
        url = program.wait_for(ADDRESS)[1]
        model.reply(
            tool_calls(Call("get_top_sellers", {"limit": 99})),
            tool_calls(Call("get_top_sellers", {"limit": 1})),
            "The string lights.",
        )
        events = chat(url, "What sells best?")
        model.reply(status(400, "secret of 10.0.0.5"))
        failed = chat(url, "And now?")

        assert "The model is openai/" in program.output
        assert [e["failed"] for e in events if e["type"] == "result"] == [True, False]
        assert text_of(events) == "The string lights."
        assert [event["type"] for event in failed] == ["error"]
        assert "10.0.0.5" not in failed[0]["text"]
        said = [message["content"] for message in model.requests[-1].json["messages"]]
        assert said[1:] == ["What sells best?", "The string lights.", "And now?"]
        assert program.end() == 0
