"""A directory for stores that flush to the disk very often, which takes most of their tests' time.

from tests.graph.memory_directory import in_memory  # noqa: F401
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Path]:
    """One for a module; on a disk where the system has none in memory."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
