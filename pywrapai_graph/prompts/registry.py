"""A folder of system prompts, one .txt file each; the version is part of the file's name."""

from __future__ import annotations

import os
from pathlib import Path


class PromptRegistry:
    """Loads prompt files from one directory, and from nowhere else."""

    def __init__(self, prompts_dir: str | os.PathLike[str] = "system_prompts_registry") -> None:
        self.prompts_dir = Path(prompts_dir)

    def load(self, filename: str) -> str:
        """The file's text as UTF-8, with or without BOM, without white space around it.

        Raises:
            FileNotFoundError: no such directory or file; the message lists the files there are.
            ValueError: the name leads out of the directory.
        """
        path = self._inside(filename)
        if not self.prompts_dir.is_dir():
            raise FileNotFoundError(
                f"no prompts directory at {str(self.prompts_dir)!r}: give prompts_dir=, best as "
                "an absolute path"
            )
        if not path.is_file():
            there = ", ".join(self.list_files()) or "none"
            raise FileNotFoundError(
                f"no prompt file {filename!r} in {str(self.prompts_dir)!r}; there are: {there}"
            )
        return path.read_text(encoding="utf-8-sig").strip()

    def list_files(self) -> list[str]:
        """The names of the prompt files, sorted; none if there is no such directory."""
        if not self.prompts_dir.is_dir():
            return []
        return sorted(p.name for p in self.prompts_dir.glob("*.txt") if p.is_file())

    def _inside(self, filename: str) -> Path:
        root = self.prompts_dir.resolve()
        path = (root / filename).resolve() if filename and "\0" not in filename else root
        if path == root or not path.is_relative_to(root):
            raise ValueError(
                f"a prompt file must be inside {str(self.prompts_dir)!r}, and {filename!r} is not"
            )
        return path
