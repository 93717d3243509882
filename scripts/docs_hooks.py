"""What MkDocs adds to docs/ when it builds the site (`hooks:` in mkdocs.yml).

Pages that lie elsewhere in the repository (CONTRIBUTING.md, the changelog, the examples) become
pages of the site, with the links to and in them; and each package gets a reference made from
docstrings.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")
PACKAGES = (
    "pywrapai",
    "pywrapai_graph",
    "pywrapai_monitor",
    "pywrapai.testing",
    "pywrapai_graph.workflows",
    "pywrapai.lmstudio",
    "pywrapai_monitor.audit",
)
LANGUAGES = {".py": "python", ".html": "html", ".js": "javascript", ".css": "css", ".txt": "text"}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for name, text in made():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead the links out of docs/ to the pages that were made of what they name."""
    where = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri == "reference.md":
        markdown = named(markdown)
    return relinked(markdown, lambda link: inside(posixpath.join("docs", where, link), where))


def made() -> Iterator[tuple[str, str]]:
    """The name and the text of each page that is no file of docs/."""
    for name in BESIDE:
        text = (ROOT / name).read_text("utf-8")
        yield name, relinked(text, lambda link: inside(link, ""))
    for path in examples():
        yield f"{path}.md", source_page(path)
    for package in PACKAGES:
        yield f"reference/{package}.md", reference(package)


def examples() -> list[str]:
    """The files of examples/ that a page links to."""
    linked: set[str] = set()
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")):
        for _, link, _ in LINK.findall(page.read_text("utf-8")):
            path = posixpath.normpath(
                posixpath.join(page.parent.relative_to(ROOT).as_posix(), link)
            )
            if path.startswith("examples/") and (ROOT / path).is_file():
                linked.add(path)
    return sorted(linked)


def source_page(path: str) -> str:
    """A program as a page: its file, and the others of its folder if it has one of its own."""
    folder = (ROOT / path).parent
    files = [ROOT / path]
    if folder != ROOT / "examples":
        texts = (p for p in sorted(folder.rglob("*")) if p.suffix in LANGUAGES)
        files += [p for p in texts if p not in files and "__pycache__" not in p.parts]
    return "\n".join([f"# {path}\n", *(_listing(file, file != files[0]) for file in files)])


def _listing(file: Path, headed: bool) -> str:
    code = f"```{LANGUAGES[file.suffix]}\n{file.read_text('utf-8')}```\n"
    return f"## {file.name}\n\n{code}" if headed else code


def reference(package: str) -> str:
    """A page with every exported name of a package."""
    module = importlib.import_module(package)
    said = (module.__doc__ or "").strip()
    names = "\n\n".join(f"::: {package}.{name}" for name in module.__all__)
    return f"# `{package}`\n\n{said}\n\n{names}\n"


def named(markdown: str) -> str:
    """The table of exported names, each led to its entry; a heading says whose they are."""
    lines, package = [], ""
    for line in markdown.splitlines():
        if heading := re.fullmatch(r"## `(.+)`", line):
            package = heading[1]
        elif line.startswith("| "):
            entry = rf"[`\1`](reference/{package}.md#{package}.\1)"
            line = re.sub(r"`(\w+)`", entry, line)
        lines.append(line)
    return "\n".join(lines)


def relinked(markdown: str, where_to: Any) -> str:
    """The text with each link to a file led to where `where_to` says."""

    def led(found: re.Match[str]) -> str:
        link = found[2]
        outside = re.match(r"[a-z]+:|/", link)
        return found[0] if outside else f"{found[1]}{where_to(link)}{found[3]}"

    return LINK.sub(led, markdown)


def inside(path: str, where: str) -> str:
    """The link within the site, from a page in the folder `where`, to a path of the repository."""
    path = posixpath.normpath(path)
    if path == "examples":
        target = "index.md"
    elif path.startswith("examples/"):
        target = f"{path}.md"
    else:
        target = path.removeprefix("docs/")
    return posixpath.relpath(target, where or ".")
