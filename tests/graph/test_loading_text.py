from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pywrapai_graph.rag.loading import load_documents
from tests.graph.loader_files import failures, save, texts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, "docs" in the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    return Path("docs")


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
