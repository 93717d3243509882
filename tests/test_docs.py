"""The Markdown pages and the examples: what they show runs, and what they point to is there."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pywrapai import exceptions
from pywrapai.testing import StubServer
from pywrapai.tokens import pricing
from tests.engine.test_faults import FAULTS

ROOT = Path(__file__).parents[1]
PACKAGES = ("pywrapai", "pywrapai_graph", "pywrapai_monitor")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DOCS = "\n".join(page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/**/*.md")))
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


class Block(NamedTuple):
    language: str
    line: int
    """Of the fence, from 1."""
    text: str


def blocks(page: Path, *languages: str) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", source, re.MULTILINE | re.DOTALL)
    every = [Block(m[1], source.count("\n", 0, m.start()) + 1, m[2]) for m in found]
    return [block for block in every if block.language in languages]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def with_blocks(*languages: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, *languages)]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Python


@pytest.fixture
def restored_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may register a provider or a price; the next test does not find it."""
    providers = importlib.import_module("pywrapai.providers")
    monkeypatch.setattr(providers, "PROVIDERS", dict(providers.PROVIDERS))
    for name in ("_book", "_pricing"):
        monkeypatch.setattr(pricing, name, None)


class Printer:
    """Stands in for `print` on a page, and notes on which line each text was printed."""

    def __init__(self) -> None:
        self.lines: dict[int, str] = {}

    def __call__(self, *values: object, sep: str = " ", end: str = "\n", flush: bool = False):
        line = sys._getframe(1).f_lineno
        self.lines[line] = self.lines.get(line, "") + sep.join(map(str, values)) + end


@pytest.mark.usefixtures("restored_registries")
@pytest.mark.parametrize("page", with_blocks("python"), ids=name_of)
def test_the_python_of_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    printer = Printer()
    namespace: dict[str, Any] = {"__name__": f"page_{page.stem}", "print": printer}
    promised: dict[int, str] = {}

    for block in blocks(page, "python"):
        code = "\n" * block.line + block.text  # so that a traceback names the page's own line
        exec(compile(code, str(page), "exec", dont_inherit=True), namespace)
        promised.update(promises(code))

    printed = {line: printer.lines.get(line, "").strip() for line in promised}
    assert printed == promised
    for name in [name for name in namespace if name.startswith("test_")]:
        with StubServer() as server:  # what the fixture of the tests that are shown gives them
            namespace[name](pywrapai_server=server)


def promises(code: str) -> Iterator[tuple[int, str]]:
    """The text of each `# -> text` behind a `print(...)` or below it, by the line of the print."""
    lines = ["", *code.split("\n"), ""]
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(func=ast.Name(id="print"), lineno=line, end_lineno=int(end)):
                behind = lines[end][node.end_col_offset or 0 :]
                if said := re.fullmatch(r"  # -> (.+)", behind) or (
                    not behind and re.fullmatch(r" *# -> (.+)", lines[end + 1])
                ):
                    yield line, said[1]


def test_an_arrow_behind_a_print_is_a_promise():
    code = (
        "print(1)  # -> 1\nprint(\n    2,\n)\n# -> two\nprint(3)  # no\nx = 4  # -> 4\n"
        "if x:\n    print(x)\n    # -> 4"
    )

    assert dict(promises(code)) == {1: "1", 2: "two", 9: "4"}


def test_every_page_that_teaches_a_layer_has_python_to_run():
    taught = {name_of(page) for page in with_blocks("python")}

    layers = {"engine", "graph", "agent", "monitor", "testing"}
    topics = {"providers", "tools", "structured-output", "tokens-and-cost", "embeddings"}
    assert {f"docs/{name}.md" for name in layers | topics} < taught
    assert "README.md" in taught


# Examples


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_runs_without_a_key_and_ends_by_itself(example: Path, tmp_path: Path):
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=keyless,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_says_on_top_how_to_run_it_and_is_on_the_index(example: Path):
    said = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""

    assert f"\nRun: python {name_of(example)}" in said
    assert f"(../{name_of(example)})" in (ROOT / "docs/index.md").read_text(encoding="utf-8")


# The picture of the imports


def test_the_picture_of_the_imports_is_what_the_code_says(tmp_path: Path, capsys):
    main = runpy.run_path(str(ROOT / "scripts/import_diagram.py"))["main"]

    assert main(["--check"]) == 0, capsys.readouterr().out
    stale = main.__globals__["TARGET"] = tmp_path / "imports.svg"
    stale.write_text("<svg/>", encoding="utf-8")
    assert main(["--check"]) == 1
    assert "imports.svg is stale" in capsys.readouterr().out


# Links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: there is no {target}"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_headings_have_the_anchors_that_github_gives_them(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# The engine: `pywrapai`\n\n## OpenAI-compatible servers\n", encoding="utf-8")

    assert anchors(page) == {"the-engine-pywrapai", "openai-compatible-servers"}


def test_the_index_leads_to_every_page():
    links = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/index.md").read_text("utf-8")))

    assert links == {page.name for page in ROOT.glob("docs/*.md")} - {"index.md"}


def test_the_site_has_every_page():
    named = set(re.findall(r"^ +- ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M))

    assert {page.name for page in ROOT.glob("docs/*.md")} <= named


def test_a_link_of_the_built_site_that_leads_nowhere_is_found(tmp_path: Path, capsys):
    main = runpy.run_path(str(ROOT / "scripts/check_site.py"))["main"]
    page = '<h1 id="a">A</h1><a href="b.html{}">b</a><a href="https://example.org/none">c</a>'
    (tmp_path / "index.html").write_text(page.format("#b"), encoding="utf-8")
    (tmp_path / "b.html").write_text('<h2 id="b">B</h2><a href="#b">up</a>', encoding="utf-8")

    assert main([str(tmp_path)]) == 0
    (tmp_path / "index.html").write_text(page.format("#c"), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "index.html: b.html#c: no such heading\n"
    (tmp_path / "b.html").unlink()
    assert main([str(tmp_path)]) == 1
    assert "b.html#c: no such file" in capsys.readouterr().out


@pytest.fixture
def hooks() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/docs_hooks.py"))


@pytest.mark.parametrize(
    ("link", "where", "led"),
    [
        ("docs/agent.md", "", "agent.md"),
        ("docs/../CONTRIBUTING.md", "", "CONTRIBUTING.md"),
        ("docs/../examples/agent.py", "", "examples/agent.py.md"),
        ("docs/../examples", "", "index.md"),
        ("examples/shop/../agent.py", "examples/shop", "../agent.py.md"),
        ("examples/shop/../../docs/tools.md", "examples/shop", "../../tools.md"),
    ],
)
def test_links_out_of_the_docs_lead_to_pages_of_the_site(hooks, link, where, led):
    assert hooks["inside"](link, where) == led


def test_the_reference_has_every_exported_name(hooks):
    for package in [*PACKAGES, "pywrapai.testing"]:
        page = hooks["reference"](package)
        exported = importlib.import_module(package).__all__

        assert re.findall(r"^::: (.+)$", page, re.M) == [f"{package}.{name}" for name in exported]


# Shell


def commands(page: Path) -> list[list[str]]:
    """The words of each command in a page's shell blocks, those behind a pipe as their own."""
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    words = [shlex.split(part, comments=True) for line in lines for part in line.split(" | ")]
    return [command for command in words if command]


SHOWN = [(page, command) for page in PAGES for command in commands(page)]


@pytest.mark.parametrize(
    ("page", "command"), SHOWN, ids=[f"{name_of(p)}: {' '.join(c)}" for p, c in SHOWN]
)
def test_a_command_that_is_shown_exists(page: Path, command: list[str], capsys):
    match command:
        case [python, "-m", module, *arguments] if module.partition(".")[0] == "benchmarks":
            helped = subprocess.run(
                [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True
            )
            assert helped.returncode == 0, helped.stderr
            known = set(re.findall(r"--[\w-]+", helped.stdout))
            assert {word for word in arguments if word.startswith("--")} <= known
        case [python, "-m", module, name, *arguments] if python.endswith("python"):
            main = importlib.import_module(f"{module}.__main__").main
            with pytest.raises(SystemExit) as ended:
                main([name, "--help"])
            assert ended.value.code == 0
            known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
            assert {word for word in arguments if word.startswith("--")} <= known
        case [python, script, *_] if python.endswith("python"):
            assert (ROOT / script).is_file()
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
        case [pip, "install", *packages] if pip.endswith("pip"):
            asked = re.findall(r"pywrapai\[(.*?)\]", " ".join(packages))
            metadata = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
            extras = metadata["project"]["optional-dependencies"]
            assert {extra for names in asked for extra in names.split(",")} <= extras.keys()
        case ["cat", _]:
            pass
        case _:
            pytest.fail(f"{name_of(page)} shows a command that this test does not know")


# What is described is what there is


@pytest.mark.parametrize("package", [*PACKAGES, "pywrapai.testing"])
def test_every_exported_name_is_in_the_docs(package: str):
    exported = importlib.import_module(package).__all__

    assert [name for name in exported if not re.search(rf"\b{name}\b", DOCS)] == []


def test_every_error_has_its_row():
    page = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
    tree = [name for name in vars(exceptions) if name.endswith("Error")]

    assert len(tree) > 10
    assert [name for name in tree if f"\n| `{name}` |" not in page] == []


def test_the_tables_of_providers_are_what_the_code_says():
    checked = subprocess.run(
        [sys.executable, str(ROOT / "scripts/provider_table.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_stale_tables_of_providers_are_found_and_written_anew(tmp_path: Path, capsys):
    main = runpy.run_path(str(ROOT / "scripts/provider_table.py"))["main"]
    page = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
    copy = main.__globals__["TARGET"] = tmp_path / "providers.md"
    copy.write_text(page.replace("| `gpt-4o-mini` | known |", "| `gpt-3` | known |"), "utf-8")

    assert main(["--check"]) == 1
    assert "-| `openai` | `openai` | `OPENAI_API_KEY` |" in capsys.readouterr().out
    assert main([]) == 0
    assert copy.read_text(encoding="utf-8") == page
    assert main(["--check"]) == 0


def test_every_provider_has_a_section_or_is_a_row_of_compatible_servers():
    from pywrapai.providers import PROVIDERS, Compatible

    page = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
    headings = anchors(ROOT / "docs/providers.md")
    named = {name.replace("-", "") for name in headings} | {"local"}

    for name, provider in PROVIDERS.items():
        assert f"\n| `{name}` |" in page
        if isinstance(provider, Compatible):
            assert name in page.partition("## Compatible servers")[2]
        else:
            assert name in named


def test_the_table_of_faults_is_that_of_the_tests():
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]

    assert rows == [fault.row for fault in FAULTS]


def test_every_route_has_its_row():
    from pywrapai_monitor import Monitor, create_app

    page = (ROOT / "docs/dashboard.md").read_text(encoding="utf-8")
    with Monitor(db_path=":memory:") as monitor:
        rules = {rule.rule for rule in create_app(monitor.store).url_map.iter_rules()}
    rows = re.findall(r"^\| (`/.*?`) \|", page, re.MULTILINE)

    assert {route for row in rows for route in re.findall(r"`(/.*?)`", row)} == {
        rule for rule in rules if not rule.startswith("/static/")
    }


def test_every_column_is_in_the_table_of_tables():
    from pywrapai_monitor.db.tables import metadata

    page = (ROOT / "docs/monitor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+? \| (`.+`) \|$", page, re.MULTILINE)
    described = {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}

    assert len(described) == 5
    for name, columns in described.items():
        assert ["id", *columns] == [column.name for column in metadata.tables[name].columns]


def test_the_messages_that_are_explained_are_those_of_the_code():
    page = (ROOT / "docs/errors-you-may-see.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.+`) \|", page, re.MULTILINE)
    shown = [part for cell in cells for part in re.findall(r"`(.+?)`", cell)]
    said = "\n".join(texts_of_the_code())

    assert len(shown) > 20
    for message in shown:
        for fragment in re.split(r"…|; |\. |\(HTTP \d+, ", message):
            assert fragment.strip() in said, message


def texts_of_the_code() -> Iterator[str]:
    """Every string literal of the packages; an f-string gives the parts between its values."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Constant(value=str(text)):
                        yield text
