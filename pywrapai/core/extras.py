"""Optional packages: imported where they are used, and asked for with the line to install them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from pywrapai.exceptions import MissingDependencyError


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Imports inside belong to an extra: a missing one is told as the pip line to run."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f'{error.name or "a package"} is not installed: pip install "pywrapai[{extra}]"'
        ) from error


def lazy(package: str, homes: Mapping[str, str], extra: str | None = None) -> Callable[[str], Any]:
    """A package's `__getattr__` (PEP 562) that imports each name from its home when first used.

    `extra` is what installs the packages that the homes import.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs(extra) if extra else nullcontext():
            home = import_module(homes[name])
        return getattr(home, name)

    return get
