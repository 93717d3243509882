"""What constraints.txt pins can be installed on every Python that we claim."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts/constraints.py"))
LINES = [
    line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line
]


def pinned_on(python: str) -> set[str]:
    """The names whose version is fixed there."""
    environment = {"python_full_version": python}
    asked = [Requirement(line) for line in LINES]
    return {one.name for one in asked if not one.marker or one.marker.evaluate(environment)}


def test_the_lowest_python_that_is_claimed_is_the_one_that_versions_are_tried_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    claimed, lowest = SpecifierSet(project["requires-python"]), SCRIPT["LOWEST_PYTHON"]

    assert claimed.contains(lowest)
    assert str(claimed) == f">={lowest.removesuffix('.0')}"


@pytest.mark.parametrize("pythons", ["", ">=3.8", ">=3.11", "!=3.0.*,>=2.7", "<4,>=3.10"])
def test_a_version_that_runs_on_all_of_them_is_pinned_everywhere(pythons):
    assert SCRIPT["marker"](pythons) == ""


@pytest.mark.parametrize(
    ("pythons", "said"),
    [
        (">=3.11.5", ' ; python_full_version >= "3.11.5"'),
        (
            ">=3.11.4,<3.15",
            ' ; python_full_version < "3.15" and python_full_version >= "3.11.4"',
        ),
    ],
)
def test_a_version_that_does_not_is_pinned_where_it_runs(pythons, said):
    assert SCRIPT["marker"](pythons) == said


def test_most_lines_hold_on_every_python_and_no_line_on_an_older_one_alone():
    assert len(LINES) > 150
    assert len(pinned_on("3.11.0")) > len(LINES) - 10
    assert pinned_on("3.11.0") <= pinned_on("3.11.5") <= pinned_on("3.13.0")


def test_a_line_without_the_pythons_that_its_version_asks_for_is_told(monkeypatch):
    said = {"pytest": ' ; python_full_version >= "3.99"'}
    monkeypatch.setitem(SCRIPT["problems"].__globals__, "where", lambda name: said.get(name, ""))

    told = [problem for problem in SCRIPT["problems"]() if problem.startswith("pytest==")]

    assert [problem.partition(" ")[2] for problem in told] == [
        "does not say on which Pythons it runs"
    ]
