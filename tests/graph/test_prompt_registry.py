from __future__ import annotations

from pathlib import Path

import pytest

from pywrapai_graph import PromptRegistry

EXAMPLES = Path(__file__).parents[2] / "system_prompts_registry"


@pytest.fixture
def registry(tmp_path: Path) -> PromptRegistry:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "b-v1.txt").write_text("\n Be brief. \n", encoding="utf-8")
    (folder / "a-v1.txt").write_bytes("\ufeffSei höflich 👋".encode())
    (folder / "notes.md").write_text("no prompt", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return PromptRegistry(folder)


def test_a_prompt_is_loaded_without_the_white_space_around_it(registry):
    assert registry.load("b-v1.txt") == "Be brief."


def test_a_byte_order_mark_is_no_text(registry):
    assert registry.load("a-v1.txt") == "Sei höflich 👋"


def test_files_are_listed_by_name(registry):
    assert registry.list_files() == ["a-v1.txt", "b-v1.txt"]


def test_a_missing_file_lists_those_that_are_there(registry):
    with pytest.raises(FileNotFoundError, match=r"a-v1\.txt, b-v1\.txt"):
        registry.load("c-v1.txt")


def test_a_missing_directory_is_named(tmp_path):
    registry = PromptRegistry(tmp_path / "nowhere")

    assert registry.list_files() == []
    with pytest.raises(FileNotFoundError, match="nowhere"):
        registry.load("a-v1.txt")


@pytest.mark.parametrize(
    "name", ["../secret.txt", "x/../../secret.txt", "", ".", "a\0b", "/etc/passwd"]
)
def test_a_name_that_leads_out_of_the_directory_is_refused(registry, name):
    with pytest.raises(ValueError, match="inside"):
        registry.load(name)


def test_a_link_that_leads_out_of_the_directory_is_refused(registry):
    (registry.prompts_dir / "link.txt").symlink_to(registry.prompts_dir.parent / "secret.txt")

    with pytest.raises(ValueError, match="inside"):
        registry.load("link.txt")


def test_the_example_prompts_load():
    registry = PromptRegistry(EXAMPLES)

    assert {"support-agent-v1.txt", "support-agent-v2.txt"} <= set(registry.list_files())
    assert all(registry.load(name) for name in registry.list_files())
