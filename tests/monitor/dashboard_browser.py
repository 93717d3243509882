"""The dashboard in a real browser: readers that note whatever must not happen on a page.

conftest.py has the fixtures: `browser`, `read`, and the dashboard `desk`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, sync_playwright

from pywrapai_monitor import SQLiteStore, create_app
from pywrapai_monitor.dashboard.server import Server
from tests.contracts.store_rows import Clock

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
MISSING = "no Chromium to test with: apt-get install chromium, or name one in CHROMIUM"
NOW = datetime(2026, 11, 30, 16, 42, tzinfo=UTC)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PHONE = {"width": 390, "height": 844}
REPORTS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
INJECTED = """() => {
  const runs = (node) => node.getAttributeNames().some((name) => name.startsWith("on"));
  const styled = (node) => node.hasAttribute("style") && node.localName !== "canvas";
  const leads = (node) => /^\\s*(javascript|data):/i.test(
    node.getAttribute("href") ?? node.getAttribute("src") ?? "");
  const foreign = {
    script: (node) => !node.src && node.type !== "application/json",
    img: (node) => !/^\\/static\\//.test(node.getAttribute("src")),
    svg: (node) => !/swatch|trend/.test(node.getAttribute("class")),
    iframe: () => true, object: () => true, embed: () => true, base: () => true,
  };
  return [...document.querySelectorAll("*")].filter((node) =>
    runs(node) || styled(node) || leads(node) || foreign[node.localName]?.(node)
  ).map((node) => node.outerHTML);
}"""


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser; skips the test if there is none."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A dashboard that is served."""

    store: SQLiteStore
    clock: Clock
    url: str


@contextmanager
def served(store: SQLiteStore, clock: Clock, **options: Any) -> Iterator[Site]:
    app = create_app(store, clock=clock, **options)
    with Server(app, socket.create_server(("127.0.0.1", 0))) as server:
        yield Site(store=store, clock=clock, url=server.url)


class Reader:
    """One profile of a browser at one dashboard. `faults` are what must not happen: dialogs, errors
    on the console, reports of the security policy, requests to elsewhere.
    """

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.faults: list[str] = []
        self.asked: list[str] = []
        """The addresses of all requests."""
        self._url = url
        settings = {"reduced_motion": "reduce", "base_url": url, **options}
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(10_000)
        self.context.add_init_script(REPORTS)
        self.context.on("console", self._on_console)
        self.context.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        self.context.on("request", self._on_request)
        self.context.on("dialog", self._on_dialog)

    def open(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.goto(path)
        return page

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        self.asked.append(request.url)
        if not request.url.startswith(f"{self._url}/"):
            self.faults.append(f"asked elsewhere: {request.url}")

    def _on_dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def expect(self, pattern: str) -> None:
        """One fault of this kind has happened, and is none."""
        matching = [fault for fault in self.faults if re.search(pattern, fault)]
        assert matching, f"no {pattern!r} among {self.faults}"
        self.faults.remove(matching[0])


def sql(site: Site, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Straight out of the file."""
    with closing(sqlite3.connect(site.store.location or "")) as connection:
        return connection.execute(query, values).fetchall()


def at(path: str, **query: Any) -> str:
    return f"{path}?{urlencode(query)}"


def grave_faults(page: Page) -> list[str]:
    """What axe-core finds that hinders people or keeps them out."""
    found = Axe().run(page).response["violations"]
    return [
        f"{fault['id']}: {node['html'][:200]}"
        for fault in found
        if fault["impact"] in ("moderate", "serious", "critical")
        for node in fault["nodes"]
    ]


def table(page: Page, id: str) -> list[list[str]]:
    """The rows of a table's body, as texts."""
    script = """(box) => [...box.querySelectorAll("tbody tr")].map((row) =>
      [...row.cells].map((cell) => cell.textContent.trim().replace(/\\s+/g, " ")))"""
    rows: list[list[str]] = page.locator(f"[id='{id}']").evaluate(script)
    return rows


def keys(page: Page, id: str) -> list[str]:
    """The keys of a table's rows."""
    script = "(box) => [...box.querySelectorAll('tbody tr')].map((row) => row.dataset.key)"
    found: list[str] = page.locator(f"[id='{id}']").evaluate(script)
    return found


def says(text: str, exact: float) -> bool:
    """Whether a number was written as exactly as its digits pretend."""
    digits = re.sub(r"[^0-9.]", "", text)
    if not digits:
        return False
    shown = Decimal(digits)
    unit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
    return abs(shown - Decimal(exact)) <= unit / 2 + Decimal("1e-9")


def value_of(page: Page, label: str, within: str) -> str:
    """What stands under a label, in a list of terms or among the cards."""
    name = page.get_by_text(label, exact=True)
    box = page.locator(f"{within} :is(.card, dl:first-child > div)", has=name)
    return box.locator("dd, .value").inner_text().strip()


COLOURS = """(figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const canvas = figure.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const near = (colour) => {
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
    let count = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      const far = [r, g, b].some((value, place) => Math.abs(pixels[i + place] - value) > 9);
      count += pixels[i + 3] > 200 && !far;
    }
    return count;
  };
  const root = getComputedStyle(document.documentElement);
  const nameOf = (colour) => typeof colour === "number" ? `c${colour}` : colour ?? "rest";
  const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
  const all = sum(data.series.map((series) => sum(series.values)));
  return data.series.map((series) => ({
    label: series.label,
    share: all ? sum(series.values) / all : 0,
    pixels: near(root.getPropertyValue(`--${nameOf(series.color)}`).trim()),
  }));
}"""


def drawn(figure: Locator) -> dict[str, tuple[float, int]]:
    """Of each series of a chart: its share of all, and how many pixels have its colour."""
    return {each["label"]: (each["share"], each["pixels"]) for each in figure.evaluate(COLOURS)}
