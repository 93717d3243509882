"""Measure us beside the peers that are installed, and write docs/benchmarks.md.

Run: python -m benchmarks [--rounds 5] [--print]

A few minutes. The sides take turns in one process against one server on loopback, so a busy machine
slows all of them. The other modules of this folder measure one thing each, and longer.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time
from typing import Any

from benchmarks.calls import PROVIDERS
from benchmarks.measuring import Figure, cheap_server
from benchmarks.peers import installed

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "images" / "benchmarks.svg"
BEGIN = "<!-- made by python -m benchmarks -->"
END = "<!-- end of what python -m benchmarks made -->"
CALLS = {"1 message": 20, "100 messages": 5}
"""How many calls each side makes in a round."""

Times = dict[str, dict[str, float]]
"""By case and side: microseconds, or milliseconds for imports."""


def race(sides: dict[str, Callable[[], Any]], calls: int, rounds: int) -> dict[str, float]:
    """The microseconds of CPU that a call of each side takes; they take turns, to and fro.

    It is the lower quartile of time in this process, in which others that want the core, and the
    server, have no part.
    """
    for call in sides.values():
        for _ in range(3):
            call()
    gc.collect()
    gc.freeze()
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            for _ in range(calls):
                started = process_time()
                sides[name]()
                spent[name].append((process_time() - started) * 1e6)
    gc.unfreeze()
    return {name: quantiles(times, n=4)[0] for name, times in spent.items()}


def measured_calls(address: str, rounds: int) -> Times:
    """One call of each library, with one message and with a hundred."""
    made = {peer.name: peer.make(f"{address}/v1") for peer in installed()}
    cases = {"1 message": "one", "100 messages": "hundred"}
    return {
        case: race({name: getattr(s, way) for name, s in made.items()}, CALLS[case], rounds)
        for case, way in cases.items()
    }


def measured_imports(rounds: int) -> dict[str, float]:
    """The least milliseconds that importing each library adds to a bare interpreter."""

    def started(code: str) -> float:
        begun = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        return (perf_counter() - begun) * 1000

    modules = {peer.name: peer.module for peer in installed()}
    spent: dict[str, list[float]] = {name: [] for name in modules}
    started("import " + ", ".join(modules.values()))  # what is compiled once is compiled now
    for _ in range(rounds):
        bare = started("pass")
        for name, module in modules.items():
            spent[name].append(started(f"import {module}") - bare)
    return {name: min(times) for name, times in spent.items()}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    ruler = "|".join(["---", *["---:"] * (len(head) - 1)])
    return "\n".join(
        [f"| {' | '.join(row)} |" for row in [head]]
        + [f"|{ruler}|"]
        + [f"| {' | '.join(row)} |" for row in rows]
    )


def machine() -> str:
    """Where and when, in a sentence."""
    versions = [f"{peer.name} {version(peer.distribution)}" for peer in installed()]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()}, Python "
        f"{platform.python_version()}: {', '.join(versions)}."
    )


def report(calls: Times, imports: dict[str, float], figures: Sequence[Figure]) -> str:
    """What goes between the marks of the page."""
    one, hundred = calls["1 message"], calls["100 messages"]
    peers = table(
        ("library", "1 message, µs CPU", "100 messages, µs CPU", "import, ms"),
        [
            (name, f"{one[name]:,.0f}", f"{hundred[name]:,.0f}", f"{imports[name]:,.0f}")
            for name in one
        ],
    )
    sdks = table(
        ("case", "ours, µs", "SDK, µs", "ratio"),
        [
            (f.case, f"{f.ours_ms * 1e3:,.1f}", f"{f.theirs_ms * 1e3:,.1f}", f"{f.ratio:.2f}")
            for f in figures
        ],
    )
    return "\n\n".join(
        (
            machine(),
            "### One call, and one import",
            peers,
            f"![One call of each library](images/{PLOT.name})",
            "### Beside the SDK of each provider",
            sdks,
        )
    )


def plot(calls: Times, path: Path) -> None:
    """Bars of the calls, as SVG with text that can be read and searched."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "pywrapai", "svg.fonttype": "none", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(calls), figsize=(9, 2.8), layout="constrained")
    for axis, (case, times) in zip(axes, calls.items(), strict=True):
        names = list(times)[::-1]
        colours = ["#1a5a96" if name == "pywrapai" else "#a9bccd" for name in names]
        bars = axis.barh(names, [times[name] for name in names], color=colours)
        axis.bar_label(bars, fmt="{:,.0f}", padding=3)
        axis.set(title=f"One call, {case}", xlabel="µs of CPU, less is better")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.2)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def page_with(made: str, page: str) -> str:
    """The page with this between its marks."""
    head, begun, rest = page.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"{PAGE.name} has no {BEGIN!r} and {END!r} to write between")
    return f"{head}{BEGIN}\n\n{made}\n\n{END}{tail}"


def main() -> int:
    """Measure, and write the page or print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--print", action="store_true", help="print it, and write nothing")
    options = parser.parse_args()
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one when it is imported
    with cheap_server() as address:
        calls = measured_calls(address, options.rounds)
        figures = [f for side in PROVIDERS.values() for f in side(address, options.rounds)]
    made = report(calls, measured_imports(options.rounds), figures)
    if options.print:
        print(made)
        return 0
    plot(calls, PLOT)
    PAGE.write_text(page_with(made, PAGE.read_text("utf-8")), "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
