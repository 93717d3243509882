"""What holds for every example that is a folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, FOLDERS

ROOT = EXAMPLES.parent
MODULES = [path for folder in FOLDERS for path in sorted(folder.glob("*.py"))]
PAGES = [
    path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in {".html", ".js"}
]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_main_says_on_top_how_to_run_it_and_what_it_needs_and_is_on_the_index(folder: Path):
    main = folder / "main.py"
    said = ast.get_docstring(ast.parse(main.read_text("utf-8"))) or ""

    assert f"\nRun: python {name_of(main)}" in said
    assert "pip install" in said
    assert f"(../{name_of(main)})" in (ROOT / "docs/index.md").read_text("utf-8")


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for_and_is_short(module: Path):
    source = module.read_text("utf-8")

    assert ast.get_docstring(ast.parse(source))
    assert len(source.splitlines()) < 200


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_loads_nothing_from_elsewhere_and_writes_no_html(page: Path):
    source = page.read_text("utf-8")

    assert "://" not in source
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\|\s*safe", source
    )


def test_the_folders_of_the_issue_are_there():
    wanted = {"retail_agent", "rag_chatbot", "desktop_chat", "workflow_service", "multi_role"}

    assert wanted | {"batch"} <= {folder.name for folder in FOLDERS}
