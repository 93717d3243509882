"""Documents out of files, one by one or a whole folder: which files, and what becomes of each.

How a format becomes text is its reader's to know (`pywrapai_graph.rag.loaders`).
"""

from __future__ import annotations

import codecs
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pywrapai.exceptions import MissingDependencyError, PyWrapAIError
from pywrapai_graph.rag.loaders import File, Part, Reader, UnreadableError, check_size
from pywrapai_graph.rag.loaders.docx import read_docx
from pywrapai_graph.rag.loaders.html import read_html
from pywrapai_graph.rag.loaders.pdf import read_pdf
from pywrapai_graph.rag.loaders.prose import clean
from pywrapai_graph.rag.loaders.text import read_markdown, read_text
from pywrapai_graph.rag.types import Document

_READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".docx": read_docx,
    ".pdf": read_pdf,
}
"""A file's reader, by the end of its name in lower case."""
_KINDS = ", ".join(_READERS)

_Path = str | os.PathLike[str]


class LoadError(PyWrapAIError):
    """A file or directory, or some pages of a file, that could not be read, and why."""

    path: str = ""
    """As a Document's "source" names it; empty where the error stands for several."""
    reason: str = ""
    failures: tuple[LoadError, ...] = ()
    """All of them, where the error stands for several because nothing at all could be read."""


class LoadWarning(UserWarning):
    """Something could not be read; the message is its LoadError's."""


def load_documents(
    path_or_paths: _Path | Iterable[_Path],
    *,
    on_error: Callable[[LoadError], object] | None = None,
    encoding: str | None = None,
    max_bytes: int = 100_000_000,
) -> list[Document]:
    """A Document of each .txt, .md, .html, .htm and .docx file, and of each page of a .pdf file.

    A directory is walked in the order of names. Hidden files and directories, Word's lock files
    (~$...) and files of other kinds are left out; links are followed. Patterns are not expanded.
    A file that is met twice is loaded once, and what is blank makes no Document.

    The metadata are "source", which is the path as it was given, with slashes; for PDF "page",
    from 1; and "title", where the file has one. The id is the source, with "#page=3" behind it for
    a page: a changed file that is named in the same way replaces its older version when it is
    indexed again. Pages that it no longer has are yours to delete.

    Text and Markdown come as they are, newlines included. Of the others comes the text that a
    reader sees: a blank line between paragraphs, and a line for a row of a table, " | " between
    its cells. Headers, footers, notes and comments of Word and the numbers of lists are left out.

    Args:
        path_or_paths: a file, a directory, or several of them.
        on_error: called with a LoadError for each file that cannot be read, as it happens. What it
            raises stops the loading. Without it, a LoadWarning names each of them at the end.
        encoding: of the .txt, .md and HTML files without a byte order mark. By default they are
            read as UTF-8, or as what an HTML file declares, and refused if they are something else.
        max_bytes: larger files are refused, and .docx files that unpack to more.

    Raises:
        LoadError: nothing at all could be read, and no `on_error` was given.
        MissingDependencyError: a package that reads this kind of file is not installed.
        LookupError: Python does not know the encoding.
    """
    several = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else path_or_paths
    codecs.lookup(encoding or "utf-8")
    documents: list[Document] = []
    failures: list[LoadError] = []
    for loaded in _loaded(several, encoding, max_bytes):
        if isinstance(loaded, Document):
            documents.append(loaded)
        else:
            (on_error or failures.append)(loaded)
    if failures and not documents:
        raise failures[0] if len(failures) == 1 else _all_of(failures)
    for failure in failures:
        warnings.warn(str(failure), LoadWarning, stacklevel=2)
    return documents


def _all_of(failures: list[LoadError]) -> LoadError:
    shown = "; ".join(map(str, failures[:3]))
    more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
    return LoadError(f"nothing could be read: {shown}{more}", failures=tuple(failures))


def _loaded(
    paths: Iterable[_Path], encoding: str | None, max_bytes: int
) -> Iterator[Document | LoadError]:
    seen: set[str] = set()
    for given in paths:
        for found in _files(given, seen):
            if isinstance(found, LoadError):
                yield found
            else:
                yield from _documents(found, encoding, max_bytes)


def _files(given: _Path, seen: set[str]) -> Iterator[Path | LoadError]:
    """The file that a path is, or the files below it, without those that were seen before."""
    if given == "":
        raise ValueError('a path is empty; "." is the current directory')
    todo, found = [Path(given)], False
    while todo:
        path = todo.pop()
        try:
            real = os.path.normcase(os.path.realpath(path))
            inside = _inside(path) if os.path.isdir(path) else None
        except (OSError, ValueError) as error:
            found = True
            yield _failure(path, error)
            continue
        if real in seen:
            found = True
        elif inside is not None:
            todo += reversed(inside)
        else:
            found = True
            yield path
        seen.add(real)
    if not found:
        yield _failure(
            Path(given), UnreadableError(f"it holds no file of a kind that is read: {_KINDS}")
        )


def _inside(directory: Path) -> list[Path]:
    """What of a directory is to be loaded or walked, in the order of names."""
    return [path for name in sorted(os.listdir(directory)) if _is_wanted(path := directory / name)]


def _is_wanted(path: Path) -> bool:
    left_out = path.name.startswith((".", "~$"))
    return not left_out and (path.suffix.lower() in _READERS or os.path.isdir(path))


def _documents(path: Path, encoding: str | None, max_bytes: int) -> Iterator[Document | LoadError]:
    try:
        for part in _parts(path, encoding, max_bytes):
            if part.text.strip():
                yield _document(_source(path), part)
    except MissingDependencyError:
        raise
    except Exception as error:  # a parser may fail in any way on a file that is broken
        yield _failure(path, error)


def _parts(path: Path, encoding: str | None, max_bytes: int) -> Iterator[Part]:
    status = path.stat()
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise UnreadableError(f"its kind is not known; expected {_KINDS}")
    if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
        raise UnreadableError("it is no regular file")
    check_size("it has", status.st_size, max_bytes)
    return read(File(path.read_bytes(), encoding, max_bytes))


def _document(source: str, part: Part) -> Document:
    metadata: dict[str, Any] = {"source": source}
    name = source
    if part.page is not None:
        metadata["page"] = part.page
        name += f"#page={part.page}"
    if title := " ".join(clean(part.title or "").split()):
        metadata["title"] = title
    return Document(part.text, metadata, name)


def _failure(path: Path, error: Exception) -> LoadError:
    reason = _reason(path, error)
    failure = LoadError(f"{_source(path)}: {reason}", path=_source(path), reason=reason)
    failure.__cause__ = error
    return failure


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, UnreadableError):
        return str(error)
    if isinstance(error, FileNotFoundError) and not path.is_absolute():
        return f"there is no such file or directory in {os.getcwd()} (patterns are not expanded)"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"


def _source(path: Path) -> str:
    return path.as_posix().encode("utf-8", "backslashreplace").decode()  # a name may be no UTF-8
