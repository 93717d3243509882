"""What calls cost, and how many there were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pywrapai.tokens.pricing import (
    Cost,
    UnpricedModelWarning,
    get_cost,
    load_user_pricing,
    price_call,
)
from pywrapai.tokens.tracker import CallKind, CallRecord, TokenTracker, Totals
from pywrapai.tokens.user_prices import Prices, PricingError

if TYPE_CHECKING:
    from pywrapai.tokens.pricing import PRICING

__all__ = [
    "PRICING",
    "CallKind",
    "CallRecord",
    "Cost",
    "Prices",
    "PricingError",
    "TokenTracker",
    "Totals",
    "UnpricedModelWarning",
    "get_cost",
    "load_user_pricing",
    "price_call",
]

if not TYPE_CHECKING:  # the price file is read when it is asked for

    def __getattr__(name):
        if name != "PRICING":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from pywrapai.tokens import pricing

        return pricing.PRICING
