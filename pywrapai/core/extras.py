"""Optional packages: asked for where they are used, with the line that installs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
