"""Word: what stands on the pages of a .docx file, read off its XML.

python-docx opens the file; its own paragraphs leave out much of what they show.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from pywrapai.core.extras import needs
from pywrapai_graph.rag.loaders import File, Part, UnreadableError, check_size
from pywrapai_graph.rag.loaders.prose import Prose, clean, row_of

_OLE = b"\xd0\xcf\x11\xe0"  # begins what Word 97 wrote, and what has a password

# Elements that enclose paragraphs, that are not shown, that are a character (p: in a text box).
_AROUND = {"customXml", "ins", "moveTo", "sdt", "sdtContent"}
_LEFT_OUT = {"Fallback", "del", "moveFrom", "pPr", "rPr", "rt"}
_SIGNS = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "p": "\n", "tab": "\t"}


def read_docx(file: File) -> Iterator[Part]:
    """The body's text, with the title of the file's properties."""
    with needs("loaders"):
        import docx
    if file.content.startswith(_OLE):
        raise UnreadableError("it has a password, or is older than .docx: save it anew with Word")
    with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
        has_properties = "docProps/core.xml" in archive.namelist()
    check_size("it unpacks to", unpacked, file.max_bytes)
    document = docx.Document(io.BytesIO(file.content))
    if not (text := clean(_written(document.element.body))):
        raise UnreadableError("no text in it")
    # Without properties python-docx makes a title up.
    yield Part(text, title=document.core_properties.title if has_properties else None)


def _written(parent: Any) -> str:
    """The text of a body or a cell."""
    prose = Prose()
    for block in _within(parent, "p", "tbl"):
        if _name(block) == "p":
            _put_paragraph(block, prose)
        else:
            _put_table(block, prose)
    return prose.text


def _put_paragraph(paragraph: Any, prose: Prose) -> None:
    is_item = _is_item(paragraph)
    if text := "".join(_characters(paragraph)).strip():
        prose.block(f"- {text}" if is_item else text, newlines=1 if is_item else 2)


def _is_item(paragraph: Any) -> bool:
    """Whether it is an item of a list: by its style, or numbered itself."""
    style = paragraph.style or ""
    by_style = style.startswith(("ListBullet", "ListNumber"))
    return by_style or bool(paragraph.xpath("w:pPr/w:numPr"))


def _put_table(table: Any, prose: Prose) -> None:
    prose.gap(2)
    for row in _within(table, "tr"):
        prose.row(row_of([_written(cell) for cell in _within(row, "tc")]))
    prose.gap(2)


def _within(parent: Any, *names: str) -> Iterator[Any]:
    """The elements of these names, whatever may enclose them."""
    for child in parent:
        if _name(child) in names:
            yield child
        elif _name(child) in _AROUND:
            yield from _within(child, *names)


def _characters(parent: Any) -> Iterator[str]:
    for child in parent:
        name = _name(child)
        if name not in _LEFT_OUT:
            yield (child.text or "") if name == "t" else _SIGNS.get(name, "")
            yield from _characters(child)


def _name(element: Any) -> str:
    """Without its namespace."""
    return str(element.tag).rpartition("}")[2]
