from __future__ import annotations

import io
import logging
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import docx
import pypdf
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from pywrapai_graph.rag.loading import LoadError, LoadWarning, load_documents
from pywrapai_graph.rag.types import Document
from tests.graph.loader_files import failures, pdf, save, texts


def encrypted(content: bytes, password: str, algorithm: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, "docs" in the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    return Path("docs")


# Word


def word(folder: Path, document: Any, **options: Any) -> Document:
    document.save(str(folder / "a.docx"))
    [loaded] = load_documents(folder / "a.docx", **options)
    return loaded


def test_word_paragraphs_and_tables_come_in_their_order(folder: Path):
    document = docx.Document()
    document.core_properties.title = "A  title"
    document.sections[0].header.paragraphs[0].text = "header"
    document.add_heading("One", 1)
    document.add_paragraph("foo").add_run("bar").bold = True
    table = document.add_table(2, 3)
    for cell, text in zip(table._cells, "abcdef", strict=True):
        cell.text = text
    table.cell(1, 0).merge(table.cell(1, 1))
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Number")
    document.add_paragraph(" ")
    document.add_paragraph("line\nbreak\tand\u00a0tab")

    loaded = word(folder, document)

    assert loaded.text == (
        "One\n\nfoobar\n\na | b | c\nd e | f\n\n- first\n- second\n\nline\nbreak\tand tab"
    )
    assert loaded == Document(
        loaded.text, {"source": "docs/a.docx", "title": "A title"}, "docs/a.docx"
    )


W = nsdecls("w")
RUN = "<w:r><w:t>{}</w:t></w:r>"
TEXT_BOX = f"""<w:p {W}
    xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
    xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape">
  <w:r><w:t>around</w:t></w:r><w:r><mc:AlternateContent>
    <mc:Choice Requires="wps"><w:drawing><wps:txbx><w:txbxContent>
      <w:p><w:r><w:t>in</w:t></w:r></w:p><w:p><w:r><w:t>the box</w:t></w:r></w:p>
    </w:txbxContent></wps:txbx></w:drawing></mc:Choice>
    <mc:Fallback><w:pict><w:txbxContent><w:p><w:r><w:t>in</w:t></w:r></w:p></w:txbxContent></w:pict>
    </mc:Fallback></mc:AlternateContent></w:r></w:p>"""


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        (
            f"<w:p {W}><w:hyperlink>{RUN.format('link')}</w:hyperlink>{RUN.format('ed')}</w:p>",
            "linked",
        ),
        (f"<w:p {W}><w:ins>{RUN.format('new')}</w:ins></w:p>", "new"),
        (
            f"<w:p {W}>{RUN.format('a')}<w:del><w:r><w:delText>b</w:delText></w:r></w:del></w:p>",
            "a",
        ),
        (f"<w:p {W}>{RUN.format('a')}<w:moveFrom>{RUN.format('b')}</w:moveFrom></w:p>", "a"),
        (f"<w:p {W}><w:fldSimple>{RUN.format('12')}</w:fldSimple></w:p>", "12"),
        (
            f"<w:p {W}><w:r><w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t><w:softHyphen/>"
            "<w:t>ing</w:t></w:r></w:p>",
            "e-mailing",
        ),
        (
            f'<w:p {W}><w:pPr><w:tabs><w:tab w:val="left" w:pos="1"/></w:tabs></w:pPr>'
            f"{RUN.format('a')}</w:p>",
            "a",
        ),
        (
            f"<w:sdt {W}><w:sdtContent><w:p>{RUN.format('a')}</w:p><w:tbl><w:sdt><w:sdtContent>"
            f"<w:tr><w:tc><w:p>{RUN.format('b')}</w:p></w:tc><w:tc><w:p>{RUN.format('c')}</w:p>"
            "</w:tc></w:tr></w:sdtContent></w:sdt></w:tbl></w:sdtContent></w:sdt>",
            "a\n\nb | c",
        ),
        (
            f'<w:p {W}><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
            f"{RUN.format('a')}</w:p>",
            "- a",
        ),
        (TEXT_BOX, "around\nin\nthe box"),
    ],
    ids=[
        "hyperlink",
        "insertion",
        "deletion",
        "move",
        "field",
        "hyphens",
        "tab stops",
        "content control",
        "list item",
        "text box",
    ],
)
def test_all_that_is_seen_of_a_word_file_is_read(folder: Path, xml: str, text: str):
    document = docx.Document()
    document.element.body.insert(0, parse_xml(xml))
    document.add_paragraph("end")

    assert word(folder, document).text == f"{text}\n\nend"


def test_a_word_file_without_properties_has_no_title(folder: Path):
    document = docx.Document()
    document.add_paragraph("a")
    document.save(str(folder / "full.docx"))
    with (
        zipfile.ZipFile(folder / "full.docx") as full,
        zipfile.ZipFile(folder / "a.docx", "w") as bare,
    ):
        for name in full.namelist():
            if name != "docProps/core.xml":
                content = full.read(name)
                if name == "_rels/.rels":
                    content = content.replace(b"/core-properties", b"/nothing")
                bare.writestr(name, content.replace(b"docProps/core.xml", b"word/styles.xml"))

    assert load_documents(folder / "a.docx")[0].metadata == {"source": "docs/a.docx"}


def test_a_word_file_that_unpacks_to_more_than_allowed_is_not_unpacked(folder: Path):
    with zipfile.ZipFile(folder / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 2_000_000)

    assert failures(folder / "a.docx", max_bytes=1_000_000) == [
        ("a.docx", "it unpacks to 2,000,000 bytes, more than max_bytes=1,000,000")
    ]


def test_a_word_file_that_cannot_be_read_says_what_it_is(folder: Path):
    save(folder / "old.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    with zipfile.ZipFile(folder / "other.docx", "w") as archive:
        archive.writestr("a.txt", "a")
    docx.Document().save(str(folder / "empty.docx"))

    [empty, old, other] = failures(folder)

    assert empty == ("empty.docx", "no text in it")
    assert old[1].startswith("it has a password, or is older than .docx")
    assert other[1].startswith("it cannot be read (KeyError")


# PDF


def test_each_page_of_a_pdf_is_a_document(folder: Path):
    save(folder / "a.pdf", pdf("One", "", "Three", title="A title"))

    documents = load_documents(folder)

    assert documents == [
        Document(
            text,
            {"source": "docs/a.pdf", "page": page, "title": "A title"},
            f"docs/a.pdf#page={page}",
        )
        for page, text in ((1, "One"), (3, "Three"))
    ]


def test_a_pdf_without_text_is_taken_for_a_scan(folder: Path):
    save(folder / "a.pdf", pdf("", ""))

    assert failures(folder) == [("a.pdf", "no text in it: it may be a scan; run OCR first")]


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_pdf_with_a_password_is_named(folder: Path, algorithm: str):
    save(folder / "locked.pdf", encrypted(pdf("One"), "secret", algorithm))
    save(folder / "open.pdf", encrypted(pdf("One"), "", algorithm))

    with pytest.warns(LoadWarning, match=r"locked\.pdf: it has a password"):
        assert texts(folder) == ["One"]


def test_a_page_that_cannot_be_read_does_not_hide_the_others(folder: Path):
    content = pdf("One", "Two", "Three").replace(b"(Two) Tj", b"(Two] Tj")
    save(folder / "a.pdf", content)
    told: list[LoadError] = []

    documents = load_documents(folder, on_error=told.append)

    assert [d.metadata["page"] for d in documents] == [1, 3]
    assert [error.reason[:34] for error in told] == ["1 of its pages cannot be read: 2 ("]


def test_a_broken_pdf_is_named_and_pypdf_writes_nothing_to_stderr(folder: Path):
    whole = pdf("One")
    for number, content in enumerate([b"", b"%PDF-1.4", whole[:300], whole[200:], b"\0" * 999]):
        save(folder / f"{number}.pdf", content)
    save(folder / "mended.pdf", whole.replace(b"startxref\n", b"startxref\n9"))
    code = """
from pywrapai_graph.rag.loading import load_documents
load_documents("docs", on_error=print)
"""

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ended.stderr == ""
    assert [line[:10] for line in ended.stdout.splitlines()] == [f"docs/{n}.pdf" for n in range(5)]


def test_what_pypdf_mends_is_logged_for_a_program_that_logs(
    folder: Path, caplog: pytest.LogCaptureFixture
):
    save(folder / "a.pdf", pdf("One").replace(b"startxref\n", b"startxref\n9"))

    with caplog.at_level(logging.WARNING):
        assert texts(folder) == ["One"]

    assert {record.name.partition(".")[0] for record in caplog.records} == {"pypdf"}
