"""Counts of calls, tokens and money over the life of an LLM or an Embedder.

What one call costs is the business of `pricing`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Literal, TypeAlias

from pywrapai.core.process import keep_free_over_fork
from pywrapai.tokens.pricing import Cost, price_call, token_count

CallKind: TypeAlias = Literal["chat", "embedding"]

_KINDS = ("chat", "embedding")
# Money is summed as whole units of 1e-18 USD. Integers neither drift over a million additions nor
# depend on the order in which threads come, and costs written in decimals sum as on paper.
_UNITS = 10**18
_MAX_USD = 10**12
_BATCH = 256

_lock = Lock()  # one for all trackers: it is held for microseconds
keep_free_over_fork(_lock)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One model call. `cost_usd` is 0 and says nothing where `priced` is False.

    `input_tokens` includes the cached ones, `output_tokens` the reasoning.
    """

    model: str
    provider: str | None
    kind: CallKind
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost_usd: float
    priced: bool
    timestamp: datetime
    """In UTC, when the call was recorded."""
    duration_ms: float

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over calls. `cost_usd` is without the `unpriced_calls`."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: int

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class TokenTracker:
    """Adds up calls, from any number of threads.

    The totals are of all calls since the start or the last `reset`; of the calls themselves only
    the newest `max_records` are kept.
    """

    def __init__(self, max_records: int = 10_000) -> None:
        if not isinstance(max_records, int) or max_records < 0:
            raise ValueError(f"max_records is {max_records!r}; expected an int of 0 or more")
        self._records: deque[CallRecord] = deque(maxlen=max_records)
        self._sums: dict[tuple[str, str], _Sums] = {}
        # `record` only appends here, which is one step: it neither waits nor can be caught half
        # done by another thread, a signal, or a garbage collection that ends a stream in mid-sum.
        self._pending: deque[CallRecord] = deque()

    def record(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        kind: CallKind = "chat",
        *,
        provider: str | None = None,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        duration_ms: float = 0.0,
        cost_usd: float | None = None,
        priced: bool | None = None,
    ) -> CallRecord:
        """Count one call. Without `cost_usd` the cost is looked up; one below 0 or not finite is
        taken for unknown. None counts as 0 tokens. ValueError for an unknown kind.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind is {kind!r}; expected one of {', '.join(_KINDS)}")
        raw = (input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens)
        prompt, output, read, written, reasoning = map(token_count, raw)
        if cost_usd is None:
            cost = _table_cost(model, provider, prompt, output, read, written)
        else:
            cost = _stated_cost(cost_usd)
        call = CallRecord(
            "" if model is None else str(model),
            provider,
            kind,
            *(prompt, output, read, written, reasoning),
            cost.usd,
            cost.priced and priced is not False,
            datetime.now(UTC),
            duration_ms,
        )
        self._pending.append(call)
        self._add_up_a_batch()
        return call

    @property
    def total_calls(self) -> int:
        """Calls of every kind."""
        return self._totals().calls

    @property
    def unpriced_calls(self) -> int:
        """Calls whose cost is unknown and missing from `total_cost`."""
        return self._totals().unpriced_calls

    @property
    def total_input_tokens(self) -> int:
        """Input of chats and embeddings."""
        return self._totals().input_tokens

    @property
    def total_output_tokens(self) -> int:
        """Output, reasoning included."""
        return self._totals().output_tokens

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self._totals().total_tokens

    @property
    def total_cost(self) -> float:
        """USD, without the `unpriced_calls`."""
        return self._totals().cost_usd

    @property
    def records(self) -> list[CallRecord]:
        """The newest calls, oldest first, as a list of the caller's own."""
        with _lock:
            self._add_up()
            return list(self._records)

    def by_model(self) -> dict[str, Totals]:
        """The totals of each model, by the name that its calls were recorded under."""
        sums: dict[str, _Sums] = {}
        for (_, model), part in self._snapshot().items():
            sums.setdefault(model, _Sums()).merge(part)
        return {model: part.totals() for model, part in sums.items()}

    def summary(self) -> str:
        """The totals as four lines of text, the unpriced calls among them."""
        sums = self._snapshot()
        chat, embedding = (
            _sum_of(part for (kind, _), part in sums.items() if kind == wanted) for wanted in _KINDS
        )
        total = _sum_of(sums.values())
        return (
            f"Total calls   : {total.calls:,}"
            f"  ({chat.calls:,} chat + {embedding.calls:,} embedding)\n"
            f"Total tokens  : {total.total_tokens:,}  (input: {chat.input_tokens:,}"
            f"  output: {total.output_tokens:,}  embedding: {embedding.input_tokens:,})\n"
            f"Total cost    : ${total.cost_usd:,.6f}\n"
            f"Unpriced calls: {total.unpriced_calls:,}"
        )

    def reset(self) -> None:
        """Forget every call and start at zero."""
        with _lock:
            self._pending.clear()
            self._records.clear()
            self._sums.clear()

    def _totals(self) -> Totals:
        return _sum_of(self._snapshot().values())

    def _snapshot(self) -> dict[tuple[str, str], _Sums]:
        with _lock:
            self._add_up()
            return {key: replace(part) for key, part in self._sums.items()}

    def _add_up_a_batch(self) -> None:
        if len(self._pending) >= _BATCH and _lock.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                _lock.release()

    def _add_up(self) -> None:
        while self._pending:
            call = self._pending.popleft()
            self._records.append(call)
            self._sums.setdefault((call.kind, call.model), _Sums()).add(call)


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    units: int = 0
    unpriced_calls: int = 0

    def add(self, call: CallRecord) -> None:
        self.calls += 1
        self.input_tokens += call.input_tokens
        self.output_tokens += call.output_tokens
        if call.priced:
            self.units += round(call.cost_usd * _UNITS)
        else:
            self.unpriced_calls += 1

    def merge(self, other: _Sums) -> None:
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.units += other.units
        self.unpriced_calls += other.unpriced_calls

    def totals(self) -> Totals:
        return Totals(
            self.calls,
            self.input_tokens,
            self.output_tokens,
            self.units / _UNITS,
            self.unpriced_calls,
        )


def _sum_of(parts: Iterable[_Sums]) -> Totals:
    sums = _Sums()
    for part in parts:
        sums.merge(part)
    return sums.totals()


def _table_cost(
    model: str, provider: str | None, prompt: int, output: int, read: int, written: int
) -> Cost:
    return price_call(
        model,
        prompt,
        output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        provider=provider,
    )


def _stated_cost(cost_usd: Any) -> Cost:
    known = isinstance(cost_usd, int | float) and 0 <= cost_usd <= _MAX_USD
    return Cost(float(cost_usd), True) if known else Cost(0.0, False)
