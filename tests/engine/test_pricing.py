from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai.tokens import (
    PRICING,
    Cost,
    UnpricedModelWarning,
    get_cost,
    load_user_pricing,
    price_call,
)
from tests.engine.bills import new_model, on_paper, run_python, tokens


@pytest.fixture
def model() -> str:
    return new_model()


class TestBills:
    def test_cache_writes_cost_their_own_price(self, model: str) -> None:
        load_user_pricing({model: {"input": 3, "output": 15, "cache_write": 3.75}})

        cost = get_cost(model, 3 + 12_304, 550, cache_write_tokens=12_304)

        assert cost == pytest.approx(0.054399, abs=1e-9)

    def test_cache_reads_cost_their_own_price(self, model: str) -> None:
        load_user_pricing({model: {"input": 0.8, "output": 4, "cache_read": 0.08}})

        cost = get_cost(model, 2_459, 23, cache_read_tokens=2_455)

        assert cost == pytest.approx(0.0002916, abs=1e-9)

    def test_without_a_cache_price_the_input_price_holds(self, model: str) -> None:
        load_user_pricing({model: {"input": 2, "output": 8}})

        cached = get_cost(model, 1_000, 10, cache_read_tokens=700, cache_write_tokens=200)

        assert cached == get_cost(model, 1_000, 10)

    def test_fresh_written_and_read_tokens_of_one_prompt_are_each_priced_once(
        self, model: str
    ) -> None:
        prices = {"input": 1, "output": 0, "cache_read": 0.1, "cache_write": 1.25}
        load_user_pricing({model: prices})

        cost = get_cost(model, 1_000, 0, cache_read_tokens=200, cache_write_tokens=700)

        assert cost == pytest.approx((100 * 1 + 700 * 1.25 + 200 * 0.1) / 1e6, abs=1e-12)

    def test_a_server_that_counts_cached_tokens_apart_is_billed_for_them(self, model: str) -> None:
        load_user_pricing({model: {"input": 1, "output": 0, "cache_read": 0.1}})

        assert get_cost(model, 3, 0, cache_read_tokens=1_000) == pytest.approx(0.0001, abs=1e-12)

    @pytest.mark.parametrize(("prompt", "price"), [(200_000, 1.25), (200_001, 2.5), (250_000, 2.5)])
    def test_all_of_a_prompt_above_the_threshold_costs_the_upper_rate(
        self, model: str, prompt: int, price: float
    ) -> None:
        tier = {"above": 200_000, "input": 2.5, "output": 15}
        load_user_pricing({model: {"input": 1.25, "output": 10, "tiers": [tier]}})

        assert get_cost(model, prompt, 0) == pytest.approx(prompt * price / 1e6, abs=1e-9)

    def test_the_threshold_counts_cached_tokens_and_moves_the_output_price_too(
        self, model: str
    ) -> None:
        tier = {"above": 100, "output": 20, "cache_read": 0.2}
        load_user_pricing(
            {model: {"input": 1, "output": 10, "cache_read": 0.1, "tiers": [tier]}},
        )

        cost = get_cost(model, 101, 1, cache_read_tokens=100)

        assert cost == pytest.approx((1 * 1 + 100 * 0.2 + 20) / 1e6, abs=1e-12)

    def test_the_highest_threshold_that_is_passed_counts_in_whatever_order_they_stand(
        self, model: str
    ) -> None:
        tiers = [{"above": above, "input": above} for above in (300, 100, 200)]
        load_user_pricing({model: {"input": 1, "output": 0, "tiers": tiers}})

        per_token = [get_cost(model, prompt, 0) / prompt * 1e6 for prompt in (100, 101, 201, 999)]

        assert per_token == pytest.approx([1, 100, 200, 300])


prices_per_million = st.decimals(0, 1000, places=6).map(float)


@st.composite
def price_tables(draw: st.DrawFn, tiered: bool = True) -> dict[str, Any]:
    keys = {"input": prices_per_million, "output": prices_per_million}
    caches = {"cache_read": prices_per_million, "cache_write": prices_per_million}
    prices = draw(st.fixed_dictionaries(keys, optional=caches))
    if tiered and draw(st.booleans()):
        above = draw(st.integers(0, 300_000))
        prices["tiers"] = [{"above": above} | {key: 2 * prices[key] for key in prices}]
    return prices


class TestProperties:
    @given(price_tables(), tokens, tokens, tokens, tokens)
    @settings(deadline=None)
    def test_every_bill_is_the_one_on_paper(
        self, prices: dict[str, Any], fresh: int, read: int, written: int, output: int
    ) -> None:
        load_user_pricing({"acme-paper": prices})

        cost = price_call(
            "acme-paper",
            fresh + read + written,
            output,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )

        expected = on_paper(prices, fresh + read + written, output, read, written)
        assert cost.priced
        assert cost.usd == pytest.approx(expected, rel=1e-12, abs=1e-9)
        assert cost.usd >= 0

    @given(price_tables(tiered=False), tokens, tokens, tokens, tokens)
    @settings(deadline=None)
    def test_two_calls_cost_what_one_of_both_costs(
        self, prices: dict[str, Any], first: int, second: int, output: int, more: int
    ) -> None:
        load_user_pricing({"acme-sum": prices})

        apart = get_cost("acme-sum", first, output) + get_cost("acme-sum", second, more)

        together = get_cost("acme-sum", first + second, output + more)
        assert apart == pytest.approx(together, rel=1e-12, abs=1e-9)

    @given(price_tables(), tokens, tokens, tokens, tokens)
    @settings(deadline=None)
    def test_more_tokens_never_cost_less(
        self, prices: dict[str, Any], prompt: int, output: int, more: int, longer: int
    ) -> None:
        load_user_pricing({"acme-more": prices})

        less = get_cost("acme-more", prompt, output)

        assert get_cost("acme-more", prompt + more, output + longer) >= less - 1e-12

    @given(
        st.none() | st.integers() | st.binary() | st.text() | st.lists(st.none()),
        st.none() | st.integers() | st.floats() | st.text() | st.just(10**400),
        st.none() | st.integers() | st.text() | st.lists(st.none()),
    )
    @settings(deadline=None)
    def test_nothing_that_a_provider_may_report_raises(
        self, name: Any, counted: Any, provider: Any
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnpricedModelWarning)
            cost = price_call(name, counted, counted, cache_read_tokens=counted, provider=provider)

        assert cost.usd >= 0
        assert cost.priced or cost.usd == 0

    @given(st.none() | st.just("many") | st.integers(max_value=0) | st.just(float("nan")))
    @settings(deadline=None)
    def test_what_is_no_count_is_no_tokens(self, counted: Any) -> None:
        load_user_pricing({"acme-none": {"input": 1, "output": 1}})

        cost = price_call("acme-none", counted, counted, cache_write_tokens=counted)

        assert cost == Cost(0.0, True)


class TestNames:
    @pytest.mark.parametrize(
        "ending", ["-2024-07-18", "-20250929", "@20250929", "-001", "-latest", "@latest"]
    )
    def test_a_dated_snapshot_costs_what_its_model_costs(self, model: str, ending: str) -> None:
        load_user_pricing({model: {"input": 1, "output": 2}})

        assert price_call(model + ending, 10, 10) == price_call(model, 10, 10)

    @pytest.mark.parametrize(
        "ending", ["-mini", "-audio-preview", "2", "-2", "-12", "-2411", "-20259999", "-preview"]
    )
    def test_another_ending_is_another_model(self, model: str, ending: str) -> None:
        load_user_pricing({model: {"input": 1, "output": 2}})

        with pytest.warns(UnpricedModelWarning):
            assert not price_call(model + ending, 10, 10).priced

    @pytest.mark.parametrize(
        ("name", "same_as"),
        [
            ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
            ("gpt-4o-2099-01-01", "gpt-4o"),
            ("models/gemini-2.5-flash", "gemini-2.5-flash"),
            ("openai/gpt-4o", "gpt-4o"),
            ("openrouter/openai/gpt-4o", "gpt-4o"),
            ("publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
            ("xai/grok-4", "grok-4"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
            ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
            ("gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"),
            ("magistral-medium-2506", "magistral-medium"),
            ("ft:gpt-4o-mini-2024-07-18:acme::Ab1", "ft:gpt-4o-mini"),
            (" GPT-4o-Mini ", "gpt-4o-mini"),
        ],
    )
    def test_a_name_is_found_under_its_spellings(self, name: str, same_as: str) -> None:
        prices = PRICING[same_as]

        cost = price_call(name, 1_000, 100, cache_read_tokens=400)

        assert cost.usd == pytest.approx(on_paper(prices, 1_000, 100, 400, 0), abs=1e-12)
        assert cost.priced

    @pytest.mark.parametrize(
        "name",
        [
            "gpt-4o-audio",
            "gpt-4o-mini-next",
            "claude-opus-4-12",
            "claude-opus-4-1-lite",
            "gemini-2.5-pro-2",
            "some-company/gpt-4o",
            "ft:gpt-4o-mega-2024-07-18:acme::Ab1",
        ],
    )
    @pytest.mark.filterwarnings("ignore::pywrapai.tokens.UnpricedModelWarning")
    def test_a_name_that_only_begins_like_a_model_is_not_priced_as_it(self, name: str) -> None:
        assert price_call(name, 1_000, 1_000) == Cost(0.0, False)

    def test_a_variant_with_a_price_of_its_own_is_not_its_base(self) -> None:
        audio = price_call("gpt-4o-audio-preview-2024-12-17", 1_000, 0, cache_read_tokens=1_000)

        expected = on_paper(PRICING["gpt-4o-audio-preview"], 1_000, 0, 1_000, 0)
        assert audio.usd == pytest.approx(expected, abs=1e-12)

    def test_a_stub_costs_what_the_model_does_that_it_stands_for(self) -> None:
        assert price_call("stub-model", 1_000, 1_000, provider="stub") == Cost(0.0, True)
        assert price_call("gpt-4o", 1_000, 1_000, provider="stub") == price_call(
            "gpt-4o", 1_000, 1_000, provider="openai"
        )

    @pytest.mark.parametrize("provider", ["local", "ollama", "lmstudio", "Ollama"])
    def test_a_local_provider_costs_nothing(self, provider: str) -> None:
        assert price_call("gpt-4o", 1_000, 1_000, provider=provider) == Cost(0.0, True)
        assert price_call("no-such.gguf", 1_000, 1_000, provider=provider) == Cost(0.0, True)


class TestUnpricedModels:
    def test_an_unknown_model_is_unpriced_and_warned_about_once(self, model: str) -> None:
        with pytest.warns(UnpricedModelWarning, match=model) as caught:
            costs = [
                price_call(model, 1_000, 1_000),
                price_call(model, 1_000, 1_000, provider="openai"),
            ]

        assert costs == [Cost(0.0, False)] * 2
        assert len(caught) == 1
        assert get_cost(model, 1_000, 1_000) == 0

    def test_many_threads_get_one_warning(self, model: str) -> None:
        with pytest.warns(UnpricedModelWarning) as caught, ThreadPoolExecutor(8) as pool:
            costs = list(pool.map(lambda _: price_call(model, 1, 1), range(200)))

        assert costs == [Cost(0.0, False)] * 200
        assert len(caught) == 1

    def test_the_warning_points_at_the_caller_and_says_what_to_do(self, model: str) -> None:
        with pytest.warns(UnpricedModelWarning, match="load_user_pricing") as caught:
            price_call(model, 1, 1)

        assert caught[0].filename == __file__

    def test_a_stream_of_unknown_names_fills_no_memory(self) -> None:
        code = (
            "import tracemalloc, warnings\n"
            "from pywrapai.tokens import price_call\n"
            "warnings.simplefilter('ignore')\n"
            "price_call('gpt-4o', 1, 1)\n"
            "for number in range(10_000): price_call(f'first-{number}', 1, 1)\n"
            "tracemalloc.start()\n"
            "for number in range(30_000): price_call(f'second-{number}', 1, 1)\n"
            "for number in range(100): price_call('x' * 100_000 + str(number), 1, 1)\n"
            "assert tracemalloc.get_traced_memory()[0] < 3_000_000\n"
            "assert price_call('gpt-4o', 1, 1).priced\n"
        )
        run_python(code)
