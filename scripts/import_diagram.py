"""Draw docs/images/imports.svg: which module of the three packages may import which, as it is.

    python scripts/import_diagram.py            # draw it
    python scripts/import_diagram.py --check    # exit 1 if it is stale

A box imports only from rows below its own, in its frame and in the frames below that. What is above
is what `python -m` starts, and is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "imports.svg"
PACKAGES = ("pywrapai_monitor", "pywrapai_graph", "pywrapai")  # from the top down

WIDTH, ROW, GAP, BOX, LETTER = 860, 40, 14, 28, 7.9
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1b2733; }
.frame { fill: #f3f6f9; stroke: #9fb1c1; }
.name { font-weight: bold; }
.box { fill: #ffffff; stroke: #5b7a94; }
.folder { fill: #dfeaf4; }
.down { stroke: #5b7a94; stroke-width: 2; marker-end: url(#tip); }
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """A package: its modules in rows, the topmost first."""

    package: str
    rows: tuple[tuple[str, ...], ...]
    folders: frozenset[str]
    """Those modules that are packages themselves."""

    @property
    def height(self) -> int:
        """In pixels, title included."""
        return ROW * (len(self.rows) + 1) + GAP


def frame_of(graph: grimp.ImportGraph, package: str) -> Frame:
    """The rows of a package: a module stands one above the highest that it imports."""
    modules = [m for m in sorted(graph.find_children(package)) if not m.endswith(".__main__")]
    below = {
        module: [
            other
            for other in modules
            if other != module
            and graph.direct_import_exists(importer=module, imported=other, as_packages=True)
        ]
        for module in modules
    }
    heights: dict[str, int] = {}

    def height(module: str) -> int:
        if module not in heights:
            heights[module] = 1 + max((height(other) for other in below[module]), default=0)
        return heights[module]

    rows: dict[int, list[str]] = defaultdict(list)
    for module in modules:
        rows[height(module)].append(_short(module))
    ordered = tuple(tuple(rows[number]) for number in sorted(rows, reverse=True))
    return Frame(package, ordered, frozenset(_short(m) for m in modules if graph.find_children(m)))


def _short(module: str) -> str:
    return module.rpartition(".")[2]


def svg(frames: list[Frame]) -> str:
    """The picture: frames below each other, an arrow from each to the next."""
    height = sum(frame.height for frame in frames) + ROW * (len(frames) - 1) + 2 * GAP
    said = "Import layers of PyWrapAI: " + ", then ".join(frame.package for frame in frames)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{said}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="5" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6 z" fill="#5b7a94"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    top = GAP
    for number, frame in enumerate(frames):
        parts += _drawn(frame, top)
        top += frame.height
        if number < len(frames) - 1:
            middle = WIDTH // 2
            parts.append(
                f'<line class="down" x1="{middle}" y1="{top}" x2="{middle}" y2="{top + ROW - 6}"/>'
            )
            top += ROW
    return "\n".join([*parts, "</svg>", ""])


def _drawn(frame: Frame, top: int) -> list[str]:
    parts = [
        f'<rect class="frame" x="{GAP}" y="{top}" width="{WIDTH - 2 * GAP}" '
        f'height="{frame.height}" rx="6"/>',
        f'<text class="name" x="{2 * GAP}" y="{top + 26}">{escape(frame.package)}</text>',
    ]
    for number, row in enumerate(frame.rows, start=1):
        names = [f"{name}/" if name in frame.folders else name for name in row]
        widths = [round(len(name) * LETTER) + 2 * GAP for name in names]
        left = (WIDTH - sum(widths) - GAP * (len(widths) - 1)) // 2
        y = top + number * ROW
        for name, width in zip(names, widths, strict=True):
            kind = "box folder" if name.endswith("/") else "box"
            parts += [
                f'<rect class="{kind}" x="{left}" y="{y}" width="{width}" height="{BOX}" rx="4"/>',
                f'<text x="{left + width // 2}" y="{y + 19}" text-anchor="middle">{name}</text>',
            ]
            left += width + GAP
    return parts


def render() -> str:
    """The picture of the code as it is."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    return svg([frame_of(graph, package) for package in PACKAGES])


def main(arguments: list[str]) -> int:
    """Draw or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 if the picture is stale")
    options = parser.parse_args(arguments)
    fresh = render()
    if not options.check:
        TARGET.write_text(fresh, "utf-8", newline="\n")
        return 0
    if TARGET.is_file() and TARGET.read_text("utf-8") == fresh:
        return 0
    print(f"{TARGET.name} is stale: run `python scripts/import_diagram.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
