"""What `import pywrapai` adds to a bare interpreter, and what it must not import.

Run: python -m benchmarks.imports [--rounds 30]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median
from time import perf_counter

GOAL_MS = 60.0
MODULES = ("pywrapai", "pywrapai_graph", "pywrapai_monitor")


def _start(code: str) -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    return (perf_counter() - started) * 1000


def main() -> int:
    """Print the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    added: dict[str, list[float]] = {module: [] for module in MODULES}
    bare: list[float] = []
    for _ in range(rounds):
        bare.append(_start("pass"))
        for module in MODULES:
            added[module].append(_start(f"import {module}") - bare[-1])
    print(f"bare interpreter     {median(bare):7.1f} ms")
    for module, times in added.items():
        print(f"import {module:16} +{median(times):6.1f} ms   (least +{min(times):.1f})")
    return int(median(added["pywrapai"]) > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
