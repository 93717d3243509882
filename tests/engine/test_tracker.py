from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai.tokens import (
    TokenTracker,
    Totals,
    UnpricedModelWarning,
    get_cost,
    load_user_pricing,
)

# 0.0003 USD for each call of 100 input and 50 output tokens.
MODEL = "tracked-chat"
PRICES = {MODEL: {"input": 1, "output": 4, "cache_read": 0.1, "cache_write": 2}}
EMBEDDER = "tracked-embedding"


@pytest.fixture(autouse=True)
def _prices() -> None:
    load_user_pricing(PRICES | {EMBEDDER: {"input": 1, "output": 0}})


@pytest.fixture
def tracker() -> TokenTracker:
    return TokenTracker()


class TestRecord:
    def test_it_returns_what_is_known_of_the_call(self, tracker: TokenTracker) -> None:
        before = datetime.now(UTC)

        call = tracker.record(
            MODEL,
            100,
            50,
            provider="openai",
            cache_read_tokens=40,
            cache_write_tokens=20,
            reasoning_tokens=30,
            duration_ms=12.5,
        )

        assert (call.model, call.provider, call.kind) == (MODEL, "openai", "chat")
        assert (call.input_tokens, call.output_tokens, call.total_tokens) == (100, 50, 150)
        assert (call.cache_read_tokens, call.cache_write_tokens) == (40, 20)
        assert (call.reasoning_tokens, call.duration_ms) == (30, 12.5)
        assert call.cost_usd == get_cost(
            MODEL, 100, 50, cache_read_tokens=40, cache_write_tokens=20
        )
        assert call.cost_usd > 0
        assert call.priced
        assert call.timestamp.utcoffset() == timedelta(0)
        assert before <= call.timestamp <= datetime.now(UTC)

    def test_a_record_cannot_be_changed(self, tracker: TokenTracker) -> None:
        call = tracker.record(MODEL, 100, 50)

        with pytest.raises(FrozenInstanceError):
            call.cost_usd = 0.0  # type: ignore[misc]  # what the test is about

    def test_reasoning_is_part_of_the_output_and_not_counted_again(
        self, tracker: TokenTracker
    ) -> None:
        tracker.record(MODEL, 100, 50, reasoning_tokens=30)

        assert tracker.total_output_tokens == 50
        assert tracker.total_cost == pytest.approx(0.0003, abs=1e-12)

    def test_a_cost_that_is_given_is_taken(self, tracker: TokenTracker) -> None:
        assert tracker.record(MODEL, 100, 50, cost_usd=0.25).priced
        tracker.record("nobody-knows-it", 100, 50, cost_usd=0.5, priced=True)

        assert tracker.total_cost == 0.75
        assert tracker.unpriced_calls == 0

    def test_a_call_that_is_said_to_be_unpriced_is_counted_as_such(
        self, tracker: TokenTracker
    ) -> None:
        tracker.record(MODEL, 100, 50, cost_usd=0.0, priced=False)

        assert (tracker.total_calls, tracker.unpriced_calls, tracker.total_cost) == (1, 1, 0)

    @pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0, 10**400, "free"])
    def test_a_cost_that_is_no_amount_of_money_is_unknown(
        self, tracker: TokenTracker, cost: Any
    ) -> None:
        call = tracker.record(MODEL, 100, 50, cost_usd=cost)
        tracker.record(MODEL, 100, 50)

        assert (call.cost_usd, call.priced) == (0.0, False)
        assert tracker.unpriced_calls == 1
        assert tracker.total_cost == pytest.approx(0.0003, abs=1e-12)

    def test_an_unknown_model_is_counted_with_its_tokens_and_as_unpriced(
        self, tracker: TokenTracker
    ) -> None:
        with pytest.warns(UnpricedModelWarning, match="priced-by-nobody"):
            tracker.record(f"priced-by-nobody-{uuid4()}", 100, 50)
        tracker.record(MODEL, 100, 50)

        assert (tracker.total_calls, tracker.unpriced_calls) == (2, 1)
        assert tracker.total_tokens == 300
        assert tracker.total_cost == pytest.approx(0.0003, abs=1e-12)

    def test_a_local_provider_is_free_and_priced(self, tracker: TokenTracker) -> None:
        call = tracker.record("any.gguf", 100, 50, provider="local")

        assert (call.cost_usd, call.priced, tracker.unpriced_calls) == (0.0, True, 0)

    def test_counts_that_a_server_left_out_are_0(self, tracker: TokenTracker) -> None:
        nothing: Any = None

        call = tracker.record(MODEL, nothing, nothing, cache_read_tokens=nothing)

        assert (call.input_tokens, call.output_tokens, call.cache_read_tokens) == (0, 0, 0)
        assert tracker.total_tokens == 0

    def test_an_unknown_kind_is_refused(self, tracker: TokenTracker) -> None:
        kind: Any = "image"

        with pytest.raises(ValueError, match=r"image.*chat, embedding"):
            tracker.record(MODEL, 1, 1, kind)

        assert tracker.total_calls == 0


class TestTotals:
    def test_an_unused_tracker_is_all_zeros(self, tracker: TokenTracker) -> None:
        totals = (tracker.total_calls, tracker.unpriced_calls, tracker.total_tokens)

        assert totals == (0, 0, 0)
        assert tracker.total_cost == 0
        assert tracker.records == []
        assert tracker.by_model() == {}

    def test_they_are_kept_apart_by_model(self, tracker: TokenTracker) -> None:
        tracker.record(MODEL, 100, 50)
        tracker.record(EMBEDDER, 10, 0, "embedding")
        tracker.record(MODEL, 100, 50, cost_usd=0.0, priced=False)

        by_model = tracker.by_model()

        assert by_model[EMBEDDER] == Totals(1, 10, 0, 0.00001, 0)
        assert by_model[MODEL] == Totals(2, 200, 100, 0.0003, 1)
        assert by_model[MODEL].total_tokens == 300
        assert sum(totals.cost_usd for totals in by_model.values()) == tracker.total_cost

    def test_one_model_used_both_ways_is_one_line(self, tracker: TokenTracker) -> None:
        tracker.record(MODEL, 100, 0)
        tracker.record(MODEL, 100, 0, "embedding")

        assert tracker.by_model()[MODEL].calls == 2

    def test_small_amounts_do_not_drift_however_many_they_are(self, tracker: TokenTracker) -> None:
        for _ in range(50_000):
            tracker.record(MODEL, 100, 50, cost_usd=0.1)
            tracker.record(MODEL, 100, 50, cost_usd=0.0000001)

        assert tracker.total_cost == 5_000.005

    @given(st.lists(st.integers(0, 10**9), max_size=50))
    @settings(deadline=None)
    def test_amounts_in_billionths_sum_as_on_paper(self, amounts: list[int]) -> None:
        tracker = TokenTracker(max_records=3)
        for amount in amounts:
            tracker.record(MODEL, 1, 1, cost_usd=amount / 10**9)

        assert tracker.total_cost == pytest.approx(float(Fraction(sum(amounts), 10**9)), abs=1e-9)
        assert tracker.total_calls == len(amounts)

    def test_they_outlive_the_records(self) -> None:
        tracker = TokenTracker(max_records=10)
        for number in range(1_000):
            tracker.record(MODEL, number, 0)

        assert [call.input_tokens for call in tracker.records] == list(range(990, 1_000))
        assert (tracker.total_calls, tracker.total_input_tokens) == (1_000, sum(range(1_000)))

    def test_a_tracker_that_nobody_reads_keeps_no_more_either(self) -> None:
        code = (
            "import tracemalloc\n"
            "from pywrapai.tokens import TokenTracker\n"
            "tracker = TokenTracker(max_records=100)\n"
            "def run(): [tracker.record('gpt-4o', 1, 1) for _ in range(20_000)]\n"
            "run()\n"
            "tracemalloc.start()\n"
            "run()\n"
            "assert tracemalloc.get_traced_memory()[0] < 500_000\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    def test_records_may_be_left_out_altogether(self) -> None:
        tracker = TokenTracker(max_records=0)
        tracker.record(MODEL, 100, 50)

        assert (tracker.records, tracker.total_calls) == ([], 1)

    @pytest.mark.parametrize("size", [-1, None, "10", 1.5])
    def test_a_limit_that_is_no_size_is_refused(self, size: Any) -> None:
        with pytest.raises(ValueError, match="max_records"):
            TokenTracker(max_records=size)

    def test_the_list_of_records_is_the_callers_own(self, tracker: TokenTracker) -> None:
        call = tracker.record(MODEL, 100, 50)

        tracker.records.clear()
        tracker.by_model().clear()

        assert tracker.records == [call]
        assert tracker.total_calls == 1

    def test_reset_starts_at_zero(self, tracker: TokenTracker) -> None:
        tracker.record(MODEL, 100, 50)
        assert tracker.total_calls == 1
        tracker.record(MODEL, 100, 50)

        tracker.reset()

        assert (tracker.total_calls, tracker.total_cost, tracker.records) == (0, 0, [])
        assert tracker.by_model() == {}
        tracker.record(MODEL, 100, 50)
        assert tracker.total_calls == 1


class TestSummary:
    def test_it_breaks_the_totals_down_by_kind(self, tracker: TokenTracker) -> None:
        for _ in range(10):
            tracker.record(MODEL, 789, 51)
        for tokens in (14, 15):
            tracker.record(EMBEDDER, tokens, 0, "embedding")
        tracker.record(MODEL, 1, 2, cost_usd=0.0, priced=False)

        assert tracker.summary() == (
            "Total calls   : 13  (11 chat + 2 embedding)\n"
            "Total tokens  : 8,432  (input: 7,891  output: 512  embedding: 29)\n"
            "Total cost    : $0.009959\n"
            "Unpriced calls: 1"
        )


@pytest.fixture
def _eager_collection() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*thresholds)


class TestConcurrency:
    def test_eight_threads_lose_no_call_and_no_cent(self, tracker: TokenTracker) -> None:
        def work(_: int) -> None:
            for _ in range(1_000):
                tracker.record(MODEL, 100, 50)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

        assert tracker.total_calls == 8_000
        assert tracker.total_cost == 2.4
        assert tracker.total_input_tokens == 800_000
        assert len(tracker.records) == 8_000

    def test_reading_while_others_record_never_shows_half_a_call(
        self, tracker: TokenTracker
    ) -> None:
        def work(_: int) -> None:
            for _ in range(2_000):
                tracker.record(MODEL, 100, 50)

        torn = []
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(work, number) for number in range(4)]
            while not all(future.done() for future in running):
                for totals in tracker.by_model().values():
                    if (totals.input_tokens, totals.output_tokens) != (
                        100 * totals.calls,
                        50 * totals.calls,
                    ):
                        torn.append(totals)

        assert not torn
        assert tracker.total_calls == 8_000

    @pytest.mark.usefixtures("_eager_collection")
    def test_a_call_that_ends_in_a_garbage_collection_is_counted_and_blocks_nothing(
        self, tracker: TokenTracker
    ) -> None:
        collected = 0

        def on_collection(phase: str, _: Any) -> None:
            nonlocal collected
            if phase == "start" and collected < 2_000:
                collected += 1
                tracker.record(MODEL, 100, 50)

        gc.callbacks.append(on_collection)
        try:
            for _ in range(1_000):
                tracker.record(MODEL, 100, 50)
                assert tracker.total_calls > 0
        finally:
            gc.callbacks.remove(on_collection)

        assert collected > 0
        assert tracker.total_calls == 1_000 + collected

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
    def test_a_forked_child_counts_on_whatever_other_threads_were_doing(self) -> None:
        code = (
            "import os, signal, threading\n"
            "from pywrapai.tokens import TokenTracker\n"
            "tracker = TokenTracker()\n"
            "stop = threading.Event()\n"
            "def work():\n"
            "    while not stop.is_set():\n"
            "        tracker.record('gpt-4o', 1, 1)\n"
            "        tracker.by_model()\n"
            "threads = [threading.Thread(target=work) for _ in range(3)]\n"
            "for thread in threads: thread.start()\n"
            "for _ in range(40):\n"
            "    if (child := os.fork()) == 0:\n"
            "        signal.alarm(20)  # ends a child that hangs\n"
            "        before = tracker.total_calls\n"
            "        tracker.record('gpt-4o', 1, 1)\n"
            "        os._exit(0 if tracker.total_calls == before + 1 else 1)\n"
            "    assert os.waitpid(child, 0)[1] == 0\n"
            "stop.set()\n"
            "for thread in threads: thread.join()\n"
        )
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
