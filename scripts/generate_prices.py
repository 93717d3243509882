"""Write pywrapai/tokens/prices.json from the installed genai-prices package.

    python scripts/generate_prices.py            # write the file
    python scripts/generate_prices.py --check    # exit 1 if it is stale, and show how

A model is one line: prices in USD per million tokens, tiers by prompt size, `later` for prices
that are announced with a start date, and the names that it goes by.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
from genai_prices.data import providers
from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TieredPrices,
)

TARGET = Path(__file__).resolve().parent.parent / "pywrapai" / "tokens" / "prices.json"

# Of two that list the same name, the first is asked when a call names no provider: the vendors,
# then those who host the models of others.
PROVIDERS = (
    "openai",
    "anthropic",
    "google",
    "mistral",
    "deepseek",
    "x-ai",
    "cohere",
    "perplexity",
    "groq",
    "together",
    "fireworks",
)

PRICE_KEYS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}

# Where one of these is charged as well, counts of input and output tokens do not make the bill.
# Such a model is left out: unpriced is honest, a part of the price is not.
CHARGED_APART = (
    "requests_kcount",
    "output_audio_mtok",
    "output_citation_mtok",
    "output_image_mtok",
    "output_reasoning_mtok",
    "output_video_mtok",
)

Row = dict[str, Any]


def render(day: date) -> str:
    """The whole file, with the prices in force on `day`."""
    by_id = {provider.id: provider for provider in providers}
    blocks = [_block(by_id[name], day) for name in PROVIDERS]
    header = {
        "source": "genai-prices",
        "version": genai_prices.__version__,
        "generated": day.isoformat(),
        "unit": "USD per million tokens",
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in header.items()]
    return "\n".join(["{", *lines, '  "providers": {', ",\n".join(blocks), "  }", "}", ""])


def _block(provider: Provider, day: date) -> str:
    rows = {model.id: row for model in provider.models if (row := _row(provider, model, day))}
    lines = (f"      {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows))
    return f"    {json.dumps(provider.id)}: {{\n" + ",\n".join(lines) + "\n    }"


def _row(provider: Provider, model: ModelInfo, day: date) -> Row | None:
    prices = prices_on(model, day)
    if prices is None or _repeats_the_vendor(provider, model, day):
        return None
    aliases, prefixes = names_of(provider, model)
    later = _later(model, day)
    extras = {"later": later, "aliases": aliases, "prefixes": prefixes}
    return prices | {key: value for key, value in extras.items() if value}


def _repeats_the_vendor(provider: Provider, model: ModelInfo, day: date) -> bool:
    """Whether a host only passes on a vendor's model at the vendor's price."""
    for vendor in providers:
        if vendor.id in PROVIDERS and vendor.model_match and vendor.model_match.is_match(model.id):
            original = vendor.find_model(model.id)
            return (
                vendor is not provider
                and original is not None
                and prices_on(original, day) == prices_on(model, day)
                and _later(original, day) == _later(model, day)
            )
    return False


def prices_on(model: ModelInfo, day: date) -> Row | None:
    """The standard prices on `day`; where they turn with the hour, those of most hours."""
    hours = [model.get_prices(datetime.combine(day, time(hour), UTC)) for hour in range(24)]
    texts = Counter(json.dumps(_translate(prices)) for prices in hours)
    row: Row | None = json.loads(texts.most_common(1)[0][0])
    return row


def _later(model: ModelInfo, day: date) -> list[Row]:
    conditional = model.prices if isinstance(model.prices, list) else []
    starts = {
        price.constraint.start_date
        for price in conditional
        if isinstance(price.constraint, StartDateConstraint)
    }
    changes, before = [], prices_on(model, day)
    for start in sorted(start for start in starts if start > day):
        prices = prices_on(model, start)
        if prices is not None and prices != before:
            changes.append({"since": start.isoformat()} | prices)
            before = prices
    return changes


def _translate(prices: ModelPrice) -> Row | None:
    charged = {key for key, value in vars(prices).items() if value is not None}
    if "input_mtok" not in charged or charged.intersection(CHARGED_APART):
        return None
    known = {key: vars(prices)[field] for key, field in PRICE_KEYS.items() if field in charged}
    known.setdefault("output", Decimal(0))  # an embedding model has no output
    row: Row = {key: _at(known[key], -1) for key in PRICE_KEYS if key in known}
    tiers = [
        {"above": start} | {key: _at(known[key], start) for key in PRICE_KEYS if key in known}
        for start in _tier_starts(known.values())
    ]
    return row | ({"tiers": tiers} if tiers else {})


def _tier_starts(prices: Any) -> list[int]:
    tiered = (price for price in prices if isinstance(price, TieredPrices))
    return sorted({tier.start for price in tiered for tier in price.tiers})


def _at(price: Decimal | TieredPrices, start: int) -> float:
    if not isinstance(price, TieredPrices):
        return float(price)
    reached = [tier.price for tier in price.tiers if tier.start <= start]
    return float(reached[-1] if reached else price.base)


def names_of(provider: Provider, model: ModelInfo) -> tuple[list[str], list[str]]:
    """The exact names of a model besides its id, and the beginnings that its names may have.

    A clause that another model of the provider answers to first names nothing.
    """
    own = {
        (name, is_prefix)
        for name, is_prefix in _names(model.match)
        if provider.find_model(name) is model
    }
    exact = {name for name, is_prefix in own if not is_prefix} - {model.id}
    return sorted(exact), sorted(name for name, is_prefix in own if is_prefix)


def _names(clause: MatchLogic) -> Iterator[tuple[str, bool]]:
    match clause:
        case ClauseEquals(name) | ClauseEndsWith(name):
            yield name, False
        case ClauseStartsWith(name) | ClauseContains(name):
            yield name, True
        case ClauseOr(parts) | ClauseAnd(parts):
            for part in parts:
                yield from _names(part)
        case ClauseRegex():  # stands beside an `equals`, for the dates that may follow it
            return
        case _:
            raise TypeError(f"genai-prices has a new kind of clause: {clause!r}; teach _names it")


def check(written: str, today: date) -> int:
    """0 if `written` is what the installed package gives today, or gave on the file's own date.

    The second keeps a build from failing by the calendar alone: prices with a start date are in
    the file already, under `later`.
    """
    fresh = render(today)
    if _undated(written) == _undated(fresh) or written == render(_date_of(written, today)):
        return 0
    diff = difflib.unified_diff(
        written.splitlines(), fresh.splitlines(), "file", "fresh", "", "", 0
    )
    print(*diff, sep="\n")
    print(f"{TARGET.name} is stale: run `python scripts/generate_prices.py` and read the diff")
    return 1


def _undated(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith('  "generated"')]


def _date_of(text: str, otherwise: date) -> date:
    try:
        return date.fromisoformat(json.loads(text)["generated"])
    except (ValueError, KeyError, TypeError):
        return otherwise


def main(arguments: list[str]) -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is stale")
    parser.add_argument("--date", type=date.fromisoformat, default=datetime.now(UTC).date())
    options = parser.parse_args(arguments)
    if options.check:
        return check(TARGET.read_text("utf-8") if TARGET.exists() else "", options.date)
    TARGET.write_text(render(options.date), "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
