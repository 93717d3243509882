"""What holds for the whole house: exports, laziness, twins, and names that must not appear."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pywrapai
from pywrapai import LLM, BaseLLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import MonitoredGraph

PACKAGES = ("pywrapai", "pywrapai_graph", "pywrapai_monitor")
HEAVY = ("openai", "httpx", "httpx2", "pydantic", "numpy", "sqlalchemy", "flask", "asyncio")
TWINS = [
    (cls, name)
    for cls in (LLM, BaseLLM, StubProvider, GraphLLM, MonitoredGraph)
    for name in ("chat", "stream")
]


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_that_is_exported_is_there(package):
    module = importlib.import_module(package)

    assert module.__all__ == sorted(module.__all__, key=_as_ruff_sorts)
    for name in module.__all__:
        assert getattr(module, name) is not None


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    if name.isupper():
        return (0, name)
    return (1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_nothing_heavy(package):
    code = f"import sys, {package}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )

    assert found.stdout.split() == []


@pytest.mark.parametrize(
    ("cls", "name"), TWINS, ids=lambda value: getattr(value, "__name__", value)
)
def test_twins_take_the_same_arguments(cls, name):
    sync, twin = inspect.signature(getattr(cls, name)), inspect.signature(getattr(cls, f"a{name}"))

    assert list(sync.parameters.values()) == list(twin.parameters.values())


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert pywrapai.__version__ == version("pywrapai")


def test_a_missing_package_is_told_as_the_line_that_installs_it():
    code = """
import sys
for name in ("openai", "httpx2", "sqlalchemy", "flask", "xllamacpp"):
    sys.modules[name] = None
from pywrapai import LLM, MissingDependencyError
from pywrapai_monitor import Monitor
for attempt in (
    lambda: LLM("openai", api_key="k").chat("hi"),
    lambda: LLM("local").chat("hi"),
    lambda: Monitor(db_path="x.db"),
):
    try:
        attempt()
    except MissingDependencyError as error:
        print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert len(lines) == 3
    for line, extra in zip(lines, ("openai", "local", "monitor"), strict=True):
        assert f'pip install "pywrapai[{extra}]"' in line


def test_every_module_says_what_it_is_for():
    for package in PACKAGES:
        root = Path(importlib.import_module(package).__path__[0])
        for info in pkgutil.walk_packages([str(root)], prefix=f"{package}."):
            if not info.name.endswith("__main__"):
                assert importlib.import_module(info.name).__doc__, info.name


def test_no_module_is_longer_than_a_sitting():
    for package in PACKAGES:
        for path in Path(importlib.import_module(package).__path__[0]).rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path
