"""Take the pictures of the dashboard in docs/images, over made-up data of a fixed moment.

    python scripts/take_screenshots.py                 # those of the docs
    python scripts/take_screenshots.py --all FOLDER    # every page, wide and narrow, light and dark

Needs the extra `dev` and a Chromium: /usr/bin/chromium, or what CHROMIUM names.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from werkzeug.serving import make_server

from pywrapai_monitor import SQLiteStore, create_app
from tests.contracts.store_rows import Clock
from tests.monitor.dashboard_data import fill

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images"
NOW = datetime(2026, 11, 30, 16, 42, tzinfo=UTC)
MAX_BYTES = 200_000
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
TALK = "/conversation?user_id=maria.lopez&session_id=router-red-light"
PAGES = {
    "overview": "/?range=30d",
    "overview-dates": "/?from=2026-11-17&to=2026-11-30",
    "overview-week": "/",
    "overview-hours": "/?range=24h&tz=Asia/Kolkata",
    "calls": "/calls",
    "calls-failed": "/calls?status=error&kind=chat",
    "conversations": "/conversations",
    "search": "/conversations?q=invoice",
    "conversation": TALK,
    "users": "/users?range=30d",
    "prompts": "/prompts",
    "prompt": "/prompt?name=support-agent&range=30d&a=v2&b=v3",
    "status": "/status",
    "not-found": "/nothing-here",
    "bad": "/?range=5y",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """What to show, and in what."""

    name: str
    path: str
    width: int = 1280
    height: int = 860
    scheme: Any = "light"
    detail: int | None = None
    """The message, counted from 0, whose details are shown."""

    @property
    def narrow(self) -> bool:
        """A phone."""
        return self.width < 600


DOCS = (
    Picture("overview", PAGES["overview-dates"], height=1010),
    Picture("overview-dark", PAGES["overview-dates"], height=1010, scheme="dark"),
    Picture("conversation", TALK, height=900, detail=0),
    Picture("prompt", PAGES["prompt"]),
    Picture("phone", TALK, 390, 844),
)


def every_picture() -> Iterator[Picture]:
    """Each page, wide and narrow, light and dark."""
    for scheme in ("light", "dark"):
        for width, height in ((1280, 860), (390, 844)):
            for page, path in PAGES.items():
                yield Picture(f"{page}-{width}-{scheme}", path, width, height, scheme)
            for message in (0, 4):
                name = f"detail-{message}-{width}-{scheme}"
                yield Picture(name, TALK, width, height, scheme, message)


@contextmanager
def dashboard() -> Iterator[str]:
    """Serve the made-up data; gives the address."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(NOW)
        store = SQLiteStore(Path(folder) / "made-up.db", clock=clock)
        fill(store, now=NOW, clock=clock)
        server = make_server("127.0.0.1", 0, create_app(store, clock=clock), threaded=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        store.close()


def take(browser: Browser, address: str, picture: Picture, folder: Path, *, whole: bool) -> Path:
    """One picture, of what a window shows or of the whole page."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme=picture.scheme,
        reduced_motion="reduce",
        device_scale_factor=1.5 if picture.narrow else 1,
    )
    page = context.new_page()
    page.goto(address + picture.path)
    if picture.detail is not None:
        page.locator(".bubble a[data-detail]").nth(picture.detail).click()
        page.locator(".bubble.selected").wait_for()
    _settle(page)
    path = folder / f"{picture.name}.png"
    page.screenshot(path=path, full_page=whole)
    context.close()
    return path


def _settle(page: Page) -> None:
    page.evaluate("document.activeElement?.blur(), document.fonts.ready")
    page.wait_for_timeout(200)


def main(arguments: list[str]) -> int:
    """Take them, and say how large they are."""
    parser = argparse.ArgumentParser(description="Take pictures of the dashboard.")
    parser.add_argument("--all", metavar="FOLDER", type=Path, help="of every page, into FOLDER")
    options = parser.parse_args(arguments)
    folder, pictures = options.all or TARGET, DOCS if options.all is None else every_picture()
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    large = []
    with dashboard() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for picture in pictures:
            path = take(browser, address, picture, folder, whole=options.all is not None)
            print(f"{path.name}: {path.stat().st_size:,} bytes")
            if path.stat().st_size > MAX_BYTES and options.all is None:
                large.append(path.name)
        browser.close()
    if large:
        print(f"larger than {MAX_BYTES:,} bytes: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
