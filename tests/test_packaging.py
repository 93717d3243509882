"""What is shipped: the files of wheel and sdist, and layers that need nothing to be imported.

`make packages` installs the wheel with each extra, which takes minutes; this builds it and looks.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("pywrapai", "pywrapai_graph", "pywrapai_monitor")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SHIPPED = {".py", ".typed", ".json", ".html", ".css", ".js", ".svg", ".md"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    [path] = built.glob("*.whl")
    return zipfile.ZipFile(path)


def metadata(wheel: zipfile.ZipFile, name: str) -> str:
    [path] = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_the_wheel_has_every_file_of_the_packages_and_no_other(wheel):
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    there = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    prompts = {f"pywrapai_monitor/demo_prompts/{path.name}" for path in _prompts()}

    assert len(prompts) == 3
    assert shipped == there | prompts
    assert {Path(name).suffix for name in there} == SHIPPED


def _prompts() -> list[Path]:
    return sorted((ROOT / "system_prompts_registry").glob("*.txt"))


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_says_that_it_has_types(wheel, package):
    assert f"{package}/py.typed" in wheel.namelist()


def test_the_wheel_says_what_it_is(wheel):
    said = Parser().parsestr(metadata(wheel, "METADATA"))

    assert (said["Name"], said["Version"]) == ("pywrapai", PROJECT["version"])
    assert said["License-Expression"] == "MIT"
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    needed = said.get_all("Requires-Dist", [])
    assert [line for line in needed if "extra ==" not in line] == []
    assert "pywrapai-monitor = pywrapai_monitor.__main__:main" in metadata(
        wheel, "entry_points.txt"
    )


def test_the_licences_of_what_is_inside_are_inside(wheel):
    licences = [name for name in wheel.namelist() if "/licenses/" in name]

    assert {Path(name).name for name in licences} == {"LICENSE", "chart.js-LICENSE.md"}


def test_the_sdist_has_what_builds_tests_and_explains_it_and_no_rubbish(built):
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tops = {name.partition("/")[0] for name in names}

    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"} <= names
    assert {"tests/test_packaging.py", "docs/index.md", "mkdocs.yml", "Makefile"} <= names
    assert {name for name in tops if name.startswith(".")} <= {".gitignore"}
    assert not re.search(r"__pycache__|\.pyc|\.db\b|\.venv|/site/", "\n".join(names))


@pytest.mark.parametrize("layers", [1, 2, 3], ids=["engine", "graph", "monitor"])
def test_a_layer_is_imported_without_the_layers_above_and_without_any_dependency(
    wheel, tmp_path, layers
):
    present = PACKAGES[:layers]
    for name in wheel.namelist():
        if name.partition("/")[0] in present:
            wheel.extract(name, tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {', '.join(present)}"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_a_layer_needs_is_named_with_its_extra(wheel, tmp_path):
    wheel.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from pywrapai_monitor import Monitor\nMonitor(db_path=':memory:')"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert ended.returncode == 1
    assert 'pip install "pywrapai[monitor]"' in ended.stderr


def test_every_extra_is_tried_by_make_packages_and_explained_in_the_readme():
    tried = runpy.run_path(str(ROOT / "scripts/try_packages.py"))["PROMISES"]
    extras = set(PROJECT["optional-dependencies"]) - {"dev"}
    readme = (ROOT / "README.md").read_text("utf-8")

    assert set(tried) == (extras - {"all"}) | {""}
    assert [extra for extra in sorted(extras) if f"`{extra}`" not in readme] == []


def test_all_is_all_of_the_extras():
    [named] = PROJECT["optional-dependencies"]["all"]
    extras = set(PROJECT["optional-dependencies"]) - {"all", "dev"}

    assert set(re.findall(r"[\w-]+", named.partition("[")[2])) == extras


def test_the_tested_versions_are_within_what_is_claimed(capsys):
    main = runpy.run_path(str(ROOT / "scripts/constraints.py"))["main"]

    assert main(["--check"]) == 0, capsys.readouterr().out


def test_the_changelog_has_the_version_on_top():
    versions = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)

    assert versions[0] in {PROJECT["version"], "Unreleased"}
    assert PROJECT["version"] in versions
