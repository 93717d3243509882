from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import docx
import pytest

from pywrapai import MissingDependencyError
from pywrapai_graph.rag.loading import LoadError, LoadWarning, load_documents
from pywrapai_graph.rag.types import Document
from tests.graph.loader_files import failures, pdf, save, texts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, "docs" in the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    return Path("docs")


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


# PDF


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
