"""Prices that a user gives, from a dict or a file, checked before any of them is taken."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from pywrapai.exceptions import ConfigurationError

Prices: TypeAlias = dict[str, Any]
"""One model: `input` and `output`; where known `cache_read`, `cache_write`, and `tiers`, a list of
`{"above": 200000, "input": ...}` whose prices hold for the whole of a longer prompt.
"""

PRICE_KEYS = ("input", "output", "cache_read", "cache_write")
_MAX_USD = 10**12


class PricingError(ConfigurationError, ValueError):
    """What `load_user_pricing` was given cannot be used, and none of it was."""


def checked_prices(source: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Prices]:
    """The prices in a dict or a JSON file, by model. PricingError that names what is wrong."""
    prices = source if isinstance(source, Mapping) else _read_json(source)
    if not isinstance(prices, Mapping):
        raise PricingError(f"prices are a {type(prices).__name__}; expected a dict of model names")
    for name in prices:
        if not isinstance(name, str) or not name.strip():
            raise PricingError(f"{name!r} has a price but is no model name; expected a string")
    return {name: _checked_row(f"price of {name!r}", row) for name, row in prices.items()}


def _read_json(path: str | os.PathLike[str]) -> Any:
    import json

    path = os.fspath(path)  # an int would be a file descriptor to open()
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise PricingError(f"cannot read prices from {path!r}: {error}") from error


def _checked_row(
    what: str, row: Any, needed: tuple[str, ...] = ("input", "output"), extra: str = "tiers"
) -> Prices:
    if not isinstance(row, Mapping):
        raise PricingError(f"{what} is {row!r}; expected a dict with {', '.join(needed)}")
    if unknown := [key for key in row if key not in (*PRICE_KEYS, extra)]:
        expected = ", ".join((*PRICE_KEYS, extra))
        raise PricingError(f"{what} has the unknown key {unknown[0]!r}; expected {expected}")
    if missing := [key for key in needed if key not in row]:
        raise PricingError(
            f"{what} has no {missing[0]!r}; it needs {' and '.join(needed)}, if only as 0"
        )
    return {key: _checked_value(what, key, value) for key, value in row.items()}


def _checked_value(what: str, key: str, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match key:
        case "tiers" if isinstance(value, list | tuple):
            return [_checked_row(f"tier in {what}", tier, ("above",), "above") for tier in value]
        case "tiers":
            expected = "a list of dicts with 'above' and the prices above it"
        case "above" if isinstance(value, int) and is_number and value >= 0:
            return value
        case "above":
            expected = "a number of tokens, 0 or more"
        case _ if is_number and 0 <= value <= _MAX_USD:  # so neither NaN nor infinite
            return float(value)
        case _:
            expected = "USD per million tokens, 0 or more"
    raise PricingError(f"{what}: {key!r} is {value!r}; expected {expected}")
