"""What a call costs: prices in USD per million tokens by model name, and the sum over one call.

The shipped prices are `prices.json`, made by `scripts/generate_prices.py`. What a user adds is
checked in `user_prices`; adding up calls is the tracker's part.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from pywrapai.core.process import keep_free_over_fork
from pywrapai.tokens.user_prices import PRICE_KEYS, Prices, checked_prices

if TYPE_CHECKING:
    PRICING: dict[str, Prices]
    """Every known model, the user's own included. To change a price, call `load_user_pricing`."""

_FREE: Prices = {"input": 0.0, "output": 0.0}
_LOCAL_PROVIDERS = frozenset({"local", "ollama", "lmstudio", "stub"})
_OTHER_NAMES = {"gemini": "google", "vertex": "google", "xai": "x-ai", "mistralai": "mistral"}
_ROUTES = frozenset({"models", "publishers", "openrouter", "azure"})  # heads of "models/gpt-4o"

_MONTH_DAY = (r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])")
_DATE = rf"20\d\d(?:-{'-'.join(_MONTH_DAY)}|{''.join(_MONTH_DAY)})"
# What follows a name without naming another model.
_SNAPSHOT = rf"(?:[-@]{_DATE}|-00\d|[-@]latest)\Z"
# What follows a beginning that, says the source of the prices, stands for all that starts so. Not
# any ending does: "-lite", "-audio" and "-1" have meant other models at other prices.
_STAGE = r"(?:preview|exp|beta)(?:-\d\d-(?:20)?\d\d)?"
_RELEASE = rf"(?:[-@:](?:{_DATE}|\d{{4}}|00\d|v\d|latest|{_STAGE}))+\Z"

_MAX_TOKENS = 10**15
_MAX_NAME_LENGTH = 256
_MAX_NAMES = 4096  # to remember: names may come from a server's users, without end


class UnpricedModelWarning(UserWarning):
    """No price is known for a model. Given once per model and process."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call costs. `usd` is 0 and means "unknown" where `priced` is False."""

    usd: float
    priced: bool


def get_cost(
    model: str,
    input_tokens: int,
    output_tokens: int,
    *,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    provider: str | None = None,
) -> float:
    """USD for one call; 0 with an UnpricedModelWarning where no price is known (see `price_call`).

    `input_tokens` is the whole prompt, what was read from or written to a cache included.
    """
    return price_call(
        model,
        input_tokens,
        output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_write_tokens,
        provider=provider,
    ).usd


def price_call(
    model: str,
    input_tokens: int,
    output_tokens: int,
    *,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    provider: str | None = None,
) -> Cost:
    """The cost that `get_cost` gives, and whether a price was known.

    Without `provider`, or where it has no price of its own, the price is that of the model's
    vendor. What is no model is unpriced and what is no count is 0: a call is never lost to this.
    """
    price = _price_of(model, provider)
    if price is None:
        return Cost(0.0, False)
    read, written = token_count(cache_read_tokens), token_count(cache_write_tokens)
    # A prompt is no shorter than its cached part, though some servers count that apart.
    prompt = max(token_count(input_tokens), read + written)
    rates = price.rates(prompt)
    micro_usd = (
        (prompt - read - written) * rates.input
        + read * rates.cache_read
        + written * rates.cache_write
        + token_count(output_tokens) * rates.output
    )
    return Cost(micro_usd / 1e6, True)


def is_free(provider: str | None) -> bool:
    """Whether the provider is a program on this machine, whose calls cost nothing."""
    return _canonical(provider) in _LOCAL_PROVIDERS


def token_count(count: Any) -> int:
    """A number of tokens as providers report it: an int from 0 on, 0 for None or nonsense."""
    if type(count) is int and 0 <= count <= _MAX_TOKENS:
        return count
    try:
        return min(max(int(count), 0), _MAX_TOKENS)
    except (TypeError, ValueError, OverflowError):
        return 0


def load_user_pricing(source: str | os.PathLike[str] | Mapping[str, Any]) -> None:
    """Add prices and override shipped ones, from a dict or a JSON file, for this process.

    The form is that of `PRICING`. A price also holds for the dated snapshots of its name, and at
    every provider but the local ones. PricingError names what is wrong; nothing is taken then.
    """
    global _book
    prices = checked_prices(source)
    with _lock:
        _book = _loaded_book().with_user_prices(prices)
        if _pricing is not None:
            _pricing.update(copy.deepcopy(prices))


class _Rates(NamedTuple):  # not a dataclass, which takes a millisecond to import
    input: float
    output: float
    cache_read: float
    cache_write: float

    @classmethod
    def of(cls, prices: Prices) -> _Rates:
        full = {"cache_read": prices["input"], "cache_write": prices["input"]}
        return cls(*((full | prices)[key] for key in PRICE_KEYS))


class _Price(NamedTuple):
    base: _Rates
    tiers: tuple[tuple[int, _Rates], ...] = ()
    """Thresholds and the rates above them, the highest first."""

    @classmethod
    def of(cls, prices: Prices) -> _Price:
        tiers = sorted(prices.get("tiers", ()), key=lambda tier: tier["above"], reverse=True)
        above = tuple((tier["above"], _Rates.of(prices | tier)) for tier in tiers)
        return cls(_Rates.of(prices), above)

    def rates(self, prompt_tokens: int) -> _Rates:
        for above, rates in self.tiers:
            if prompt_tokens > above:
                return rates
        return self.base


class _Table(NamedTuple):
    """Prices under names, as spelled and in lower case, and under beginnings of names."""

    exact: dict[str, Prices]
    prefixes: dict[str, Prices]

    def enter(self, names: Iterable[str], prefixes: Iterable[str], prices: Prices) -> None:
        for name in names:
            self.exact.setdefault(name, prices)
            self.exact.setdefault(name.lower(), prices)
        for prefix in prefixes:
            self.prefixes.setdefault(prefix.lower(), prices)

    def find(self, name: str) -> Prices | None:
        if (prices := self.exact.get(name)) is not None:  # two hosts may differ in case alone
            return prices
        name = name.lower()
        if prices := self.exact.get(name) or self.exact.get(re.sub(_SNAPSHOT, "", name)):
            return prices
        stem = re.sub(_RELEASE, "", name)
        beginnings = (name[:end] for end in range(len(name), len(stem) - 1, -1))
        return next((self.prefixes[start] for start in beginnings if start in self.prefixes), None)


class _Book(NamedTuple):
    """All prices at one time. A new user price makes a new book."""

    listed: dict[str, Prices]
    vendors: _Table
    providers: dict[str, _Table]
    user: _Table
    found: dict[tuple[Any, Any], _Price | None]
    """What names have been looked up, by (provider, model), so that this is done once."""

    def with_user_prices(self, prices: dict[str, Prices]) -> _Book:
        exact = self.user.exact | {name.strip().lower(): row for name, row in prices.items()}
        return self._replace(listed=self.listed | prices, user=_Table(exact, {}), found={})

    def look_up(self, model: str, provider: str | None) -> Prices | None:
        spellings = list(self._spellings(model.strip(), provider))
        attempts = [(self.user, name) for name, _ in spellings]
        for name, vendor in spellings:
            attempts += [
                (self.providers.get(vendor or "", self.vendors), name),
                (self.vendors, name),
            ]
        return next((prices for table, name in attempts if (prices := table.find(name))), None)

    def _spellings(self, name: str, vendor: str | None) -> Iterator[tuple[str, str | None]]:
        yield name, vendor
        if name.startswith("ft:"):  # "ft:base:organisation:suffix:id" has the price of its base
            yield ":".join(name.split(":")[:2]), vendor
        while "/" in name:
            head, _, name = name.partition("/")
            head = _canonical(head) or ""
            if head in self.providers:
                vendor = head
            elif head not in _ROUTES:
                return
            yield name, vendor


def _canonical(provider: Any) -> str | None:
    if not isinstance(provider, str):
        return None
    name = provider.strip().lower().replace("_", "-")
    if name != "x-ai":
        name = name.removesuffix("-ai")  # "together-ai", "vertex_ai"
    return _OTHER_NAMES.get(name, name)


def _price_of(model: Any, provider: Any) -> _Price | None:
    book = _book or _loaded_book()
    try:
        return book.found[provider, model]
    except (KeyError, TypeError):  # TypeError: something unhashable, so no name
        return _look_up(book, model, provider)


def _look_up(book: _Book, model: Any, provider: Any) -> _Price | None:
    vendor = _canonical(provider)
    named = isinstance(model, str) and len(model) <= _MAX_NAME_LENGTH
    known = book.look_up(model, vendor) if named else None
    # A stub is free, unless it stands for a model whose price is known.
    prices = _FREE if is_free(provider) and (known is None or vendor != "stub") else known
    price = None if prices is None else _Price.of(prices)
    if named and len(vendor or "") <= _MAX_NAME_LENGTH and isinstance(provider, str | None):
        if len(book.found) >= _MAX_NAMES:
            book.found.clear()
        book.found[provider, model] = price
    if price is None:
        _warn_once(repr(model[:_MAX_NAME_LENGTH]) if isinstance(model, str) else str(type(model)))
    return price


def _warn_once(model: str) -> None:
    if len(_warned) >= _MAX_NAMES:
        return
    mine = object()
    if _warned.setdefault(model, mine) is mine:  # one step, so one thread alone gets here
        # With warnings turned into errors, this one must not lose an answer that was paid for.
        with contextlib.suppress(UnpricedModelWarning):
            warnings.warn(
                f"no price is known for model {model}: its calls count as $0 and as unpriced; "
                f'give one with load_user_pricing({{{model}: {{"input": ..., "output": ...}}}})',
                UnpricedModelWarning,
                stacklevel=5,
            )


def _loaded_book() -> _Book:
    global _book
    with _lock:
        if _book is None:
            _book = _shipped_book()
        return _book


def _shipped_book() -> _Book:
    import json
    import time

    with open(os.path.join(os.path.dirname(__file__), "prices.json"), encoding="utf-8") as file:
        return _book_of(json.load(file)["providers"], time.strftime("%Y-%m-%d", time.gmtime()))


def _book_of(shipped: dict[str, dict[str, Any]], today: str) -> _Book:
    """The book of a price file's providers. The first to list a name is taken for its vendor."""
    listed: dict[str, Prices] = {}
    vendors, providers = _Table({}, {}), {}
    for provider, models in shipped.items():
        own = providers[provider] = _Table({}, {})
        for model, row in models.items():
            prices = _in_force(row, today)
            names = (model, *row.get("aliases", ()))
            for name in names:
                listed.setdefault(name, prices)
            own.enter(names, row.get("prefixes", ()), prices)
            vendors.enter(names, row.get("prefixes", ()), prices)
    return _Book(listed, vendors, providers, _Table({}, {}), {})


def _in_force(row: dict[str, Any], today: str) -> Prices:
    begun = [change for change in row.get("later", ()) if change["since"] <= today]
    prices = begun[-1] if begun else row
    return {key: prices[key] for key in (*PRICE_KEYS, "tiers") if key in prices}


_lock = RLock()  # reentrant: a stream that is garbage-collected meanwhile looks its price up too
keep_free_over_fork(_lock)
_book: _Book | None = None
_pricing: dict[str, Prices] | None = None
_warned: dict[str, object] = {}

if not TYPE_CHECKING:  # mypy would believe in any attribute of a module with __getattr__

    def __getattr__(name):
        global _pricing
        if name != "PRICING":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with _lock:
            if _pricing is None:
                _pricing = copy.deepcopy(_loaded_book().listed)
            return _pricing
