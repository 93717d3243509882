"""HTML: the text that a browser shows."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pywrapai.core.extras import needs
from pywrapai_graph.rag.loaders import File, Part, UnreadableError
from pywrapai_graph.rag.loaders.prose import Prose, clean, paragraphs_of, row_of
from pywrapai_graph.rag.loaders.text import decoded

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# What browsers take an encoding's name for (encoding.spec.whatwg.org), by Python's name for it.
_MEANT = {
    "ascii": "cp1252",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "iso8859-1": "cp1252",
    "shift_jis": "cp932",
    "utf-16": "utf-8",
    "utf-16-be": "utf-8",
    "utf-16-le": "utf-8",
}

# Elements that are not shown, and those with a line or a paragraph of their own.
_UNSEEN = re.compile("audio|iframe|noscript|rp|rt|script|style|template|title|video")
_LINES = re.compile("dd|dl|dt|li|ol|option|td|th|ul")
_PARAGRAPHS = re.compile(
    "address|article|aside|blockquote|body|caption|center|details|dialog|div|fieldset|figcaption|"
    "figure|footer|form|h[1-6r]|header|legend|main|nav|p|section|summary|table"
)


def read_html(file: File) -> Iterator[Part]:
    """The visible text, with the page's title."""
    with needs("loaders"):
        import_module("lxml.etree")  # BeautifulSoup parses with it
        import_module("bs4")
    soup = _parsed(decoded(file.content, file.encoding or _declared(file.content)))
    title = soup.select_one("title:not(svg title)")
    for line_break in soup.select("pre br"):
        line_break.replace_with("\n")
    for row in reversed(soup.find_all("tr")):  # the rows of inner tables first
        row.string = _row(row)
    if not (text := clean(_visible(soup))):
        raise UnreadableError("no text in it: perhaps a script makes it when the page is shown")
    yield Part(text, title=title.get_text() if title else None)


def _declared(content: bytes) -> str:
    """The encoding that a page says it has, as a browser takes it; UTF-8 where it says none."""
    from bs4.dammit import EncodingDetector

    told = EncodingDetector.find_declared_encoding(content, is_html=True)
    try:
        name = codecs.lookup(told or "utf-8").name
    except LookupError:  # a name that nobody knows declares nothing
        return "utf-8"
    return _MEANT.get(name, name)


def _parsed(text: str) -> BeautifulSoup:
    from bs4 import BeautifulSoup

    # bs4 warns of an XML declaration, and takes a short line for the name of a file.
    page = "\n" + re.sub(r"^\s*<\?xml.*?\?>", "", text, flags=re.DOTALL)
    return BeautifulSoup(page, "lxml")  # html.parser takes quadratic time on some broken pages


def _row(row: Tag) -> str:
    """The text of a table's row; its cells are taken out of it."""
    has_code = row.find("pre") is not None
    cells = [_visible(cell.extract()) for cell in reversed(row.find_all(["td", "th"]))]
    cells.reverse()
    if outside := _visible(row):  # as on broken pages
        cells.insert(0, outside)
    return paragraphs_of(cells) if has_code else row_of(cells)


def _visible(root: Tag) -> str:
    """The text that is shown. Without recursion, as broken pages nest thousands deep."""
    from bs4.element import NavigableString, Tag

    prose = Prose()
    todo: list[Any] = [*reversed(root.contents)]
    while todo:
        node = todo.pop()
        if isinstance(node, Tag):
            todo += reversed(_begin(node, prose))
        elif type(node) is NavigableString:  # and not a comment
            prose.flow(node)
        elif isinstance(node, int):  # the end of an element that is no part of a line
            prose.gap(node)
            prose.bullet = ""
    return prose.text


def _begin(tag: Tag, prose: Prose) -> list[Any]:
    """Begin an element: to come are its nodes, then the number of newlines that are behind it."""
    if tag.name == "br":
        prose.gap(min(prose.newlines + 1, 2))
    elif tag.name == "pre":
        prose.block(tag.get_text(), newlines=2)
    elif tag.name == "tr":
        prose.row(tag.get_text())
    elif not _UNSEEN.fullmatch(tag.name):
        newlines = _newlines(tag.name)
        prose.gap(newlines)
        prose.bullet = "- " if tag.name == "li" else prose.bullet
        return [*tag.contents, newlines] if newlines else tag.contents
    return []


def _newlines(name: str) -> int:
    """How many an element has around it; 0 leaves it in the line."""
    if _PARAGRAPHS.fullmatch(name):
        return 2
    return 1 if _LINES.fullmatch(name) else 0
