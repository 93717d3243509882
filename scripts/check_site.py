"""Find the links of a built site that lead nowhere: `python scripts/check_site.py site`.

What MkDocs itself made is looked at, pages of the reference included; links to other hosts are not
followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken(site: Path) -> Iterator[str]:
    """A line for each link that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}

    def anchors(target: Path) -> set[str]:
        return pages[target].anchors if target in pages else set()

    for path, page in pages.items():
        for link in page.links:
            where = f"{path.relative_to(site.resolve())}: {link}"
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{where}: no such file"
            elif parts.fragment and unquote(parts.fragment) not in anchors(target):
                yield f"{where}: no such heading"


def main(arguments: list[str]) -> int:
    """Print what is broken; 1 if something is."""
    site = Path(arguments[0])
    if not (site / "index.html").is_file():
        print(f"{site} is no built site: run `mkdocs build` first")
        return 1
    lines = list(broken(site))
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
