"""What tests of prices share: names that no other test has used, and bills on paper."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
_numbers = count(1)


def new_model() -> str:
    """A name that no other test has priced or been warned about."""
    return f"acme-{next(_numbers)}-chat"


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_paper(prices: dict[str, Any], prompt: int, output: int, read: int, written: int) -> float:
    """The bill in exact fractions, from prices in the form of PRICING."""
    for tier in sorted(prices.get("tiers", []), key=lambda tier: tier["above"]):
        if prompt > tier["above"]:
            prices = prices | tier
    full = prices["input"]
    counted = (
        (prompt - read - written, full),
        (output, prices["output"]),
        (read, prices.get("cache_read", full)),
        (written, prices.get("cache_write", full)),
    )
    return float(sum(tokens * Fraction(str(price)) for tokens, price in counted) / 10**6)


tokens = st.integers(0, 5_000_000)
"""A number of tokens, drawn by hypothesis."""
