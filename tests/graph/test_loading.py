from __future__ import annotations

import io
import logging
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import docx
import pypdf
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from pywrapai import MissingDependencyError
from pywrapai_graph.rag.loading import LoadError, LoadWarning, load_documents
from pywrapai_graph.rag.types import Document


def texts(*paths: Any, **options: Any) -> list[str]:
    return [document.text for document in load_documents(paths, **options)]


def failures(*paths: Any, **options: Any) -> list[tuple[str, str]]:
    """The name of each file that was not read, and why."""
    told: list[LoadError] = []
    load_documents(paths, on_error=told.append, **options)
    return [(Path(error.path).name, error.reason) for error in told]


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with a line of text on each page; a page without text is blank."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    objects.append(f"<< /Title ({title}) >>")
    written, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return written + (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R /Info {size - 1} 0 R >>\n"
        f"startxref\n{len(written)}\n%%EOF\n"
    ).encode("latin-1")


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


def save(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# Which files


def test_a_document_is_named_by_the_path_as_it_was_given(folder: Path):
    save(folder / "a.txt", "Hello.")

    [document] = load_documents("docs/a.txt")

    assert document == Document("Hello.", {"source": "docs/a.txt"}, "docs/a.txt")


def test_a_changed_file_has_the_id_that_it_had(folder: Path):
    path = save(folder / "a.txt", "Old.")
    [old] = load_documents(folder)
    save(path, "New.")

    [new] = load_documents(folder)

    assert (old.id, old.text) == ("docs/a.txt", "Old.")
    assert (new.id, new.text) == ("docs/a.txt", "New.")


def test_a_directory_is_walked_in_the_order_of_names(folder: Path):
    for name in ("b.txt", "a/z.md", "a/b/c.TXT", "c/a.txt", "B.txt"):
        save(folder / name, name)

    assert texts(folder) == ["B.txt", "a/b/c.TXT", "a/z.md", "b.txt", "c/a.txt"]
    assert [d.id for d in load_documents(folder)][1] == "docs/a/b/c.TXT"


def test_hidden_files_lock_files_and_other_kinds_are_left_out_in_silence(folder: Path):
    for name in (".env.txt", ".git/a.txt", "~$b.docx", "c.rst", "Makefile", "d.txt.bak"):
        save(folder / name, "no")
    save(folder / "e.txt", "yes")

    assert texts(folder) == ["yes"]
    assert failures(folder) == []


def test_a_hidden_file_or_directory_that_is_named_is_loaded(folder: Path):
    save(folder / ".git/a.txt", "a")
    save(folder / ".b.txt", "b")

    assert texts(folder / ".git", folder / ".b.txt") == ["a", "b"]


def test_several_paths_come_from_any_iterable_and_keep_their_order(folder: Path):
    paths = [str(save(folder / "b.txt", "b")), save(folder / "a.txt", "a")]

    assert [d.text for d in load_documents(path for path in paths)] == ["b", "a"]
    assert load_documents([]) == []


def test_a_file_that_is_met_twice_is_loaded_once(folder: Path):
    path = save(folder / "a.txt", "a")
    save(folder / "sub/b.txt", "b")
    (folder / "z.txt").symlink_to("a.txt")

    assert texts(path, folder, "docs/../docs/a.txt", path.absolute()) == ["a", "b"]
    assert texts(folder / "sub", folder) == ["b", "a"]
    assert failures(folder, folder / "sub", folder) == []


def test_links_are_followed_and_those_that_lead_in_a_circle_end(folder: Path, tmp_path: Path):
    save(tmp_path / "elsewhere/a.txt", "a")
    (folder / "in").mkdir()
    (folder / "in" / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "in" / "up").symlink_to(Path("..").absolute() / folder.absolute())
    (folder / "self.txt").symlink_to("self.txt")
    (folder / "gone.txt").symlink_to("nowhere.txt")

    with pytest.warns(LoadWarning) as told:
        documents = load_documents(folder)

    assert [d.id for d in documents] == ["docs/in/out/a.txt"]
    assert [str(w.message).partition(":")[0] for w in told] == ["docs/gone.txt", "docs/self.txt"]


def test_a_name_that_is_no_utf8_can_still_be_stored(folder: Path):
    name = os.fsdecode(b"caf\xe9.txt")
    save(folder / name, "a")

    [document] = load_documents(folder)

    assert document.id.encode() == rb"docs/caf\udce9.txt"


@pytest.mark.parametrize(("wrong", "expected"), [(5, TypeError), (b"a", TypeError)])
def test_what_is_no_path_is_refused(folder: Path, wrong: Any, expected: type[Exception]):
    for given in (wrong, [wrong]):
        with pytest.raises(expected):
            load_documents(given)


def test_an_empty_path_is_not_taken_for_the_current_directory(folder: Path):
    with pytest.raises(ValueError, match="empty"):
        load_documents("")


# What cannot be read


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_loaded(folder: Path):
    save(folder / "a.txt", "a")
    save(folder / "b.pdf", "no PDF")
    save(folder / "c.txt", "c")

    with pytest.warns(LoadWarning, match=r"docs/b\.pdf: it cannot be read") as told:
        documents = load_documents(folder)

    assert [d.text for d in documents] == ["a", "c"]
    assert told[0].filename == __file__


def test_on_error_is_told_instead(folder: Path):
    save(folder / "a.txt", "a")
    save(folder / "b.docx", "no zip")
    told: list[LoadError] = []

    documents = load_documents([folder, "nowhere.txt"], on_error=told.append)

    assert [d.text for d in documents] == ["a"]
    assert [error.path for error in told] == ["docs/b.docx", "nowhere.txt"]
    assert "not a zip file" in told[0].reason
    assert isinstance(told[0].__cause__, zipfile.BadZipFile)
    assert str(told[1]) == f"nowhere.txt: {told[1].reason}"


def test_on_error_may_raise_to_stop(folder: Path):
    save(folder / "a.pdf", "no PDF")

    def stop(error: LoadError) -> None:
        raise error

    with pytest.raises(LoadError, match=r"docs/a\.pdf"):
        load_documents(folder, on_error=stop)


def test_one_file_that_cannot_be_read_is_an_error(folder: Path):
    with pytest.raises(LoadError, match="no such file") as caught:
        load_documents("docs/*.txt")

    assert caught.value.path == "docs/*.txt"
    assert "patterns are not expanded" in caught.value.reason
    assert str(Path.cwd()) in caught.value.reason


def test_when_nothing_can_be_read_one_error_holds_all(folder: Path):
    for name in "abcde":
        save(folder / f"{name}.pdf", "no PDF")

    with pytest.raises(
        LoadError, match=r"nothing could be read: docs/a\.pdf.*and 2 more"
    ) as caught:
        load_documents(folder)

    assert caught.value.path == ""
    assert [error.path for error in caught.value.failures] == [f"docs/{n}.pdf" for n in "abcde"]
    assert str(pickle.loads(pickle.dumps(caught.value)).failures[4]) == str(
        caught.value.failures[4]
    )


def test_a_directory_with_nothing_to_read_is_an_error(folder: Path):
    save(folder / "sub/a.rst", "a")

    with pytest.raises(LoadError, match=r"^docs: it holds no file .*\.txt, \.md"):
        load_documents(folder)


def test_an_unknown_kind_is_an_error_when_it_is_named(folder: Path):
    save(folder / "a.rst", "a")

    assert failures(folder / "a.rst") == [
        ("a.rst", "its kind is not known; expected .txt, .md, .html, .htm, .docx, .pdf")
    ]


def test_a_larger_file_than_allowed_is_not_read(folder: Path):
    save(folder / "a.txt", "12345")

    assert texts(folder, max_bytes=5) == ["12345"]
    assert failures(folder, max_bytes=4) == [
        ("a.txt", "it has 5 bytes, more than max_bytes=4"),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(folder: Path):
    os.mkfifo(folder / "a.txt")

    assert failures(folder) == [("a.txt", "it is no regular file")]


def test_what_may_not_be_opened_is_named(folder: Path):
    code = """
import os, sys
from pywrapai_graph.rag.loading import load_documents
os.getuid() or os.setuid(65534)
load_documents(["docs"], on_error=print)
"""
    save(folder / "a.txt", "a").chmod(0)
    save(folder / "b/c.txt", "c")
    (folder / "b").chmod(0)
    folder.absolute().parent.chmod(0o755)
    try:
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    finally:
        (folder / "b").chmod(0o700)

    assert ended.stdout.splitlines() == [
        "docs/a.txt: Permission denied",
        "docs/b: Permission denied",
    ]


def test_a_path_that_no_system_has_is_named(folder: Path):
    [(_, reason)] = failures("a\0b.txt")
    assert "embedded null" in reason


def test_a_missing_package_is_told_as_the_line_that_installs_it(folder: Path):
    code = """
import sys
for name in ("bs4", "docx", "pypdf"):
    sys.modules[name] = None
from pywrapai_graph.rag.loading import load_documents, MissingDependencyError
for name in sys.argv[1:]:
    try:
        load_documents(name, on_error=print)
    except MissingDependencyError as error:
        print(error)
"""
    names = [str(save(folder / name, "a")) for name in ("a.html", "a.docx", "a.pdf", "a.txt")]
    ended = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True)

    assert [line.partition(": ")[2] for line in ended.stdout.splitlines()] == [
        'pip install "pywrapai[loaders]"'
    ] * 3
    assert issubclass(MissingDependencyError, ImportError)


# Text and Markdown


def test_text_comes_as_it_is(folder: Path):
    text = " Ü\r\n\r\nz\ta \n👋\u00a0\r"
    save(folder / "a.txt", text)
    save(folder / "b.md", text)

    assert texts(folder) == [text, text]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_needs_no_telling(folder: Path, encoding: str):
    save(folder / "a.txt", "Grüße\n".encode(encoding))
    save(folder / "b.txt", b"\xfe\xff" + "Grüße\n".encode("utf-16-be"))

    assert texts(folder) == ["Grüße\n", "Grüße\n"]


def test_another_encoding_is_refused_until_it_is_told(folder: Path):
    save(folder / "a.txt", "Grüße".encode("cp1252"))

    [(name, reason)] = failures(folder)
    assert name == "a.txt"
    assert reason.startswith("its text is not utf-8 ('utf-8' codec can't decode byte 0xfc")
    assert reason.endswith("give its encoding='...'")
    assert texts(folder, encoding="cp1252") == ["Grüße"]


def test_a_byte_order_mark_stands_above_the_encoding_that_was_told(folder: Path):
    save(folder / "a.txt", "Grüße".encode("utf-8-sig"))

    assert texts(folder, encoding="cp1252") == ["Grüße"]


def test_an_encoding_that_python_does_not_know_is_refused_at_once(folder: Path):
    with pytest.raises(LookupError, match="klingon"):
        load_documents(folder, encoding="klingon")


@pytest.mark.parametrize("content", [b"\x7fELF\0\0\1", "Hello".encode("utf-16-le")])
def test_what_is_no_text_is_refused(folder: Path, content: bytes):
    save(folder / "a.txt", content)

    [(_, reason)] = failures(folder)
    assert "NUL characters" in reason


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
@pytest.mark.parametrize("content", [b"", b" \r\n\t\n", b"\xef\xbb\xbf"])
def test_a_blank_file_makes_no_document(folder: Path, name: str, content: bytes):
    save(folder / name, content)

    if name == "a.html":
        assert [reason[:15] for _, reason in failures(folder)] == ["no text in it: "]
    else:
        assert texts(folder) == []


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\ntext", "One"),
        ("\r\n#  One *two* ##\r\ntext", "One *two*"),
        ("---\ntags: [a]\n---\n\n# One", "One"),
        ("## One\n# Two", None),
        ("text\n# One", None),
        ("#hashtag", None),
        ("```\n# comment\n```", None),
        ("---\n# comment\n", None),
    ],
)
def test_the_title_of_markdown_is_the_heading_that_it_begins_with(
    folder: Path, text: str, title: str | None
):
    save(folder / "a.md", text)
    save(folder / "b.txt", text)

    markdown, plain = load_documents(folder)

    assert markdown.metadata.get("title") == title
    assert plain.metadata == {"source": "docs/b.txt"}


# HTML


def html(folder: Path, content: str | bytes, **options: Any) -> str:
    [document] = load_documents(save(folder / "a.html", content), **options)
    return document.text


def test_blocks_of_html_are_paragraphs_and_inline_elements_are_not_split(folder: Path):
    page = """<!DOCTYPE html><html><head><title> A
        title</title><style>p {}</style></head>
    <body><h1>One</h1><div><p>foo<b>bar</b>  and
        <i>more</i>.</p>two<br>lines</div><script>if (a < b) alert()</script>
    <!-- no --><noscript>no</noscript><template><p>no</p></template>
    <section>&Uuml; &lt;3&nbsp;km, Donau&shy;dampf</section></body></html>"""

    [document] = load_documents(save(folder / "a.htm", page))

    assert document.text == "One\n\nfoobar and more.\n\ntwo\nlines\n\nÜ <3 km, Donaudampf"
    assert document.metadata == {"source": "docs/a.htm", "title": "A title"}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a<p>b", "a\n\nb"),
        ("a<br><br>b<br><br><br>c", "a\n\nb\n\nc"),
        ("<p>a</p><br><p>b</p>", "a\n\nb"),
        ("<div><div>a</div> <div> <div>b</div></div></div>", "a\n\nb"),
        ("a <b>b</b> <i> c</i>d", "a b cd"),
        ("<p>&nbsp;</p>a", "a"),
        ("<my-card>a</my-card><h2>b</h2>", "a\n\nb"),
        ("just text", "just text"),
        ("https://example.org/page.html", "https://example.org/page.html"),
        ("<p>a<ul><li>b<li><p>c</p><ul><li>d</ul></ul>e", "a\n\n- b\n\n- c\n\n- d\ne"),
        ("<ul><li><input> a</li><li><img></li></ul><p>b</p>", "- a\n\nb"),
        ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\nb\nc\nd"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>字", "漢字"),
        ("<svg><title>no</title><text>yes</text></svg>", "yes"),
        ("<head><title>t</title><p>a", "a"),
        ("a</body></html>b", "a\n\nb"),
        ("a\0b", None),
    ],
)
def test_html_as_people_write_it(folder: Path, page: str, text: str | None):
    path = save(folder / "a.html", page)

    if text is None:
        assert "NUL" in failures(path)[0][1]
    else:
        assert texts(path) == [text]


def test_preformatted_text_stays_as_it_is(folder: Path):
    page = "a<pre>\ndef f():\n\n    <b>return</b>  1<br>    # \n</pre>b"

    assert html(folder, page) == "a\n\ndef f():\n\n    return  1\n    # \n\nb"


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            "<caption>c</caption><thead><tr><th>a<th>b</thead><tr><td><p>1</p><td>2<br>3</table>",
            "c\n\na | b\n1 | 2 3",
        ),
        ("<tr><td>a</td><td></td><td>c</td></tr><tr><td></td></tr>", "a |  | c"),
        ("<tr><td><p>a</p><p>b</p></td><td>c</td></tr><tr><td>d</td></tr>", "a b | c\nd"),
        (f"<tr><td><p>a</p><p>{'b' * 500}</p></td><td>c</td></tr>", f"a\n\n{'b' * 500}\n\nc"),
        ("<tr><td><p>a</p><p>b</p></td></tr>", "a\n\nb"),
        ("<tr><td><table><tr><td>a<td>b</table></td></tr>", "a | b"),
        (
            "<tr><td>x</td><td><table><tr><td>a<td>b<tr><td>c<td>d</table></td></tr>",
            "x | a | b c | d",
        ),
        ("<tr><td><pre>1\n2</pre></td><td><pre>if a:\n  b</pre></td></tr>", "1\n2\n\nif a:\n  b"),
        ("<tr><td>a<td>b<div><td>c</div>", "a | b | c"),
    ],
)
def test_a_row_of_an_html_table_is_a_line_unless_it_lays_out_a_page(
    folder: Path, table: str, text: str
):
    assert html(folder, f"<p>A<table>{table}</table><p>Z") == f"A\n\n{text}\n\nZ"


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("iso-8859-1", "cp1252"),
        ("windows-1252", "cp1252"),
        ("utf-8", "utf-8"),
        ("UTF-16", "utf-8"),
        ("klingon", "utf-8"),
        ("koi8-r", "utf-8-sig"),
        ("koi8-r", "utf-16"),
    ],
)
def test_the_encoding_that_html_declares_is_honoured(folder: Path, declared: str, encoding: str):
    page = f'<meta charset="{declared}"><p>„Grüße“ €</p>'

    assert html(folder, page.encode(encoding)) == "„Grüße“ €"


def test_an_encoding_of_html_may_be_declared_in_other_ways(folder: Path):
    page = '<meta http-equiv="Content-Type" content="text/html; charset=shift_jis"><p>日本①'
    xhtml = (
        '<?xml version="1.0" encoding="koi8-r"?>\n<!--' + "x" * 600 + "--><html><p>Привет</html>"
    )

    assert html(folder, page.encode("cp932")) == "日本①"
    assert html(folder, xhtml.encode("koi8-r")) == "Привет"
    assert html(folder, '<meta charset="utf-8">Ü'.encode("cp1252"), encoding="cp1252") == "Ü"


def test_html_that_is_not_what_it_declares_is_refused(folder: Path):
    path = save(folder / "a.html", '<meta charset="utf-8"><p>Grüße'.encode("cp1252"))

    assert failures(path)[0][1].startswith("its text is not utf-8")


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 20_000 + "a",
        "<table><tr><td>" * 300 + "a",
        "<a " * 20_000 + "<p>a",
        "<ul><li>" * 9_000 + "a",
    ],
)
def test_broken_html_takes_no_recursion_and_no_long_time(folder: Path, page: str):
    assert [f for f in failures(save(folder / "a.html", page)) if "no text" not in f[1]] == []


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


def test_characters_that_stores_refuse_are_taken_out(folder: Path):
    save(folder / "a.pdf", pdf(r"a\000b", title=r"\376\377\330\000"))

    [document] = load_documents(folder)

    assert document.text == "ab"
    str(document.metadata).encode()


def test_all_formats_load_without_a_warning(folder: Path):
    save(folder / "a.html", "<p>a")
    save(folder / "b.pdf", pdf("b"))
    docx_file = docx.Document()
    docx_file.add_paragraph("c")
    docx_file.save(str(folder / "c.docx"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert texts(folder) == ["a", "b", "c"]
