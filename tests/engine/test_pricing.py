from __future__ import annotations

import json
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from fractions import Fraction
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai.exceptions import ConfigurationError, PyWrapAIError
from pywrapai.tokens import (
    PRICING,
    Cost,
    PricingError,
    UnpricedModelWarning,
    get_cost,
    load_user_pricing,
    price_call,
)

ROOT = Path(__file__).parents[2]
SHIPPED = json.loads((ROOT / "pywrapai" / "tokens" / "prices.json").read_text("utf-8"))
_numbers = count(1)


@pytest.fixture
def model() -> str:
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
tokens = st.integers(0, 5_000_000)


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

    @pytest.mark.parametrize("provider", ["local", "ollama", "lmstudio", "stub", "Ollama"])
    def test_a_local_provider_costs_nothing(self, provider: str) -> None:
        assert price_call("gpt-4o", 1_000, 1_000, provider=provider) == Cost(0.0, True)
        assert price_call("no-such.gguf", 1_000, 1_000, provider=provider) == Cost(0.0, True)


class TestShippedPrices:
    def test_every_listed_name_costs_what_the_list_says(self) -> None:
        wrong = {
            name
            for name, prices in PRICING.items()
            if price_call(name, 300_000, 500, cache_read_tokens=7_000, cache_write_tokens=100).usd
            != pytest.approx(on_paper(prices, 300_000, 500, 7_000, 100), abs=1e-9)
        }

        assert len(PRICING) > 300
        assert not wrong

    def test_a_provider_is_asked_for_its_own_price_first(self) -> None:
        for provider, models in SHIPPED["providers"].items():
            for name, row in models.items():
                if "later" not in row:
                    cost = price_call(name, 1_000, 100, cache_read_tokens=10, provider=provider)
                    expected = on_paper(row, 1_000, 100, 10, 0)
                    assert cost.usd == pytest.approx(expected, abs=1e-12), (provider, name)

    def test_a_name_at_several_providers_costs_the_first_ones_price_without_a_provider(
        self,
    ) -> None:
        contested = {}
        for provider, models in SHIPPED["providers"].items():
            for name, row in models.items():
                contested.setdefault(name, {})[provider] = row["input"]
        contested = {name: at for name, at in contested.items() if len(set(at.values())) > 1}
        assert contested

        for name, at in contested.items():
            assert get_cost(name, 10**5, 0) == pytest.approx(next(iter(at.values())) / 10)
            for provider, price in at.items():
                assert get_cost(name, 10**5, 0, provider=provider) == pytest.approx(price / 10)

    @pytest.mark.parametrize("provider", ["openai", "azure", "my-gateway", None])
    def test_a_provider_without_a_price_of_its_own_costs_what_the_vendor_takes(
        self, provider: str | None
    ) -> None:
        cost = price_call("claude-sonnet-4-5", 1_000, 100, provider=provider)

        expected = on_paper(PRICING["claude-sonnet-4-5"], 1_000, 100, 0, 0)
        assert cost.usd == pytest.approx(expected, abs=1e-12)

    def test_embedding_models_are_priced(self) -> None:
        for name in ("text-embedding-3-small", "gemini-embedding-001", "mistral-embed"):
            assert PRICING[name]["input"] > 0
            assert price_call(name, 1_000, 0).priced

    def test_announced_prices_hold_from_their_day_on(self) -> None:
        row = {"input": 1.0, "output": 2.0, "later": [{"since": "2027-01-01", "input": 3.0}]}

        at = {
            day: pricing_module()._in_force(row, day)["input"]
            for day in ("2026-12-31", "2027-01-01", "2028-01-01")
        }

        assert at == {"2026-12-31": 1.0, "2027-01-01": 3.0, "2028-01-01": 3.0}

    def test_changing_the_list_changes_no_price(self) -> None:
        code = (
            "from pywrapai.tokens import PRICING, get_cost\n"
            "before = get_cost('gpt-4o', 1000, 0)\n"
            "for prices in PRICING.values(): prices['input'] = 0\n"
            "PRICING.clear()\n"
            "assert get_cost('gpt-4o', 1000, 0) == before > 0\n"
            "assert get_cost('gpt-4o-mini', 1000, 0) > 0\n"
        )
        run_python(code)

    def test_importing_reads_no_price_file(self) -> None:
        code = (
            "import sys\n"
            "opened = []\n"
            "note = lambda event, args: event == 'open' and opened.append(str(args[0]))\n"
            "sys.addaudithook(note)\n"
            "import pywrapai.tokens\n"
            "assert not [path for path in opened if path.endswith('prices.json')]\n"
            "pywrapai.tokens.PRICING\n"
            "assert [path for path in opened if path.endswith('prices.json')]\n"
        )
        run_python(code)


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


class TestUserPrices:
    def test_they_add_a_model_and_end_its_being_unpriced(self, model: str) -> None:
        with pytest.warns(UnpricedModelWarning):
            assert not price_call(model, 1_000, 0).priced

        load_user_pricing({model: {"input": 1, "output": 2}})

        assert price_call(model, 1_000, 1_000) == Cost(0.003, True)
        assert PRICING[model] == {"input": 1.0, "output": 2.0}

    def test_they_override_shipped_prices_at_every_provider_and_date(self) -> None:
        code = (
            "from pywrapai.tokens import get_cost, load_user_pricing, PRICING\n"
            "other = get_cost('gpt-4o-mini', 1000, 0)\n"
            "load_user_pricing({'gpt-4o': {'input': 7, 'output': 8}})\n"
            "for name in ('gpt-4o', 'openai/gpt-4o', 'gpt-4o-2024-08-06', 'GPT-4o'):\n"
            "    for provider in (None, 'openai', 'azure'):\n"
            "        assert get_cost(name, 10**6, 10**6, provider=provider) == 15, name\n"
            "assert PRICING['gpt-4o'] == {'input': 7, 'output': 8}\n"
            "assert get_cost('gpt-4o', 10**6, 0, provider='ollama') == 0\n"
            "assert get_cost('gpt-4o-mini', 1000, 0) == other > 0\n"
        )
        run_python(code)

    def test_two_fine_tuned_models_of_one_base_can_have_their_own(self) -> None:
        base = "ft:gpt-4o-mini-2024-07-18"
        for name, price in ((f"{base}:acme::A1", 11), (f"{base}:acme::B2", 12)):
            load_user_pricing({name: {"input": price, "output": 0}})

        assert get_cost(f"{base}:acme::A1", 10**6, 0) == 11
        assert get_cost(f"{base}:acme::B2", 10**6, 0) == 12
        assert get_cost(f"{base}:acme::C3", 10**5, 0) == get_cost("ft:gpt-4o-mini", 10**5, 0)

    def test_the_last_one_given_holds(self, model: str) -> None:
        load_user_pricing({model: {"input": 1, "output": 0}})
        load_user_pricing({model: {"input": 5, "output": 0}})

        assert get_cost(model, 10**6, 0) == 5

    def test_they_can_come_from_a_json_file(self, model: str, tmp_path: Path) -> None:
        path = tmp_path / "prices.json"
        path.write_text(json.dumps({model: {"input": 1, "output": 2}}), "utf-8-sig")

        load_user_pricing(path)
        load_user_pricing(str(path))

        assert get_cost(model, 10**6, 10**6) == 3

    def test_what_the_caller_gave_stays_his_own(self, model: str) -> None:
        prices = {model: {"input": 1, "output": 0, "tiers": [{"above": 10, "input": 2}]}}
        load_user_pricing(prices)
        before = json.dumps(prices)

        prices[model]["input"] = 100
        prices[model]["tiers"][0]["input"] = 100

        assert get_cost(model, 10, 0) == pytest.approx(10 / 1e6)
        assert get_cost(model, 11, 0) == pytest.approx(22 / 1e6)
        assert json.loads(before)[model]["input"] == 1

    @pytest.mark.parametrize(
        ("prices", "named"),
        [
            ({"input": 1, "output": 2, "cached": 1}, "cached"),
            ({"input": -1, "output": 2}, "input"),
            ({"input": 1, "output": float("nan")}, "output"),
            ({"input": 1, "output": float("inf")}, "output"),
            ({"input": 1, "output": 10**400}, "output"),
            ({"input": "1", "output": 2}, "input"),
            ({"input": True, "output": 2}, "input"),
            ({"input": 1, "output": 2, "cache_read": None}, "cache_read"),
            ({"input": 1}, "output"),
            ({"output": 1}, "input"),
            ({"input": 1, "output": 2, "tiers": {"above": 1}}, "tiers"),
            ({"input": 1, "output": 2, "tiers": [{"input": 1}]}, "above"),
            ({"input": 1, "output": 2, "tiers": [{"above": -1}]}, "above"),
            ({"input": 1, "output": 2, "tiers": [{"above": 1.5}]}, "above"),
            ({"input": 1, "output": 2, "tiers": [{"above": 1, "tiers": []}]}, "tiers"),
            ({"input": 1, "output": 2, "tiers": [{"above": 1, "input": -1}]}, "input"),
            ({"input": 1, "output": 2, "above": 5}, "above"),
        ],
    )
    def test_a_wrong_price_names_model_and_key_and_nothing_is_taken(
        self, model: str, prices: dict[str, Any], named: str
    ) -> None:
        good = f"{model}-good"

        with pytest.raises(PricingError, match=f"{model}(?s:.)*{named}") as raised:
            load_user_pricing({good: {"input": 1, "output": 1}, model: prices})

        assert isinstance(raised.value, ConfigurationError | ValueError)
        assert isinstance(raised.value, PyWrapAIError)
        assert good not in PRICING
        with pytest.warns(UnpricedModelWarning):
            assert not price_call(good, 1, 1).priced

    @pytest.mark.parametrize("prices", [[], "", None, 3])
    def test_a_price_that_is_no_dict_is_refused(self, model: str, prices: Any) -> None:
        with pytest.raises(PricingError, match=model):
            load_user_pricing({model: prices})

    @pytest.mark.parametrize("name", ["", "  ", None, 3])
    def test_a_key_that_is_no_model_name_is_refused(self, name: Any) -> None:
        with pytest.raises(PricingError, match="model name"):
            load_user_pricing({name: {"input": 1, "output": 1}})

    @pytest.mark.parametrize("text", ["", "{", "[]", "nonsense", '{"m": {"input": NaN}}'])
    def test_a_file_that_holds_no_prices_is_refused(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "prices.json"
        path.write_text(text)

        with pytest.raises(PricingError):
            load_user_pricing(path)

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(PricingError, match=r"none\.json"):
            load_user_pricing(tmp_path / "none.json")

    def test_threads_that_load_at_once_lose_no_price(self, model: str) -> None:
        names = [f"{model}-v{number}x" for number in range(64)]

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: load_user_pricing({name: {"input": 1, "output": 1}}), names))

        assert all(price_call(name, 1, 1).priced for name in names)


def pricing_module() -> ModuleType:
    import pywrapai.tokens.pricing

    return pywrapai.tokens.pricing


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    import importlib.util

    genai_prices = pytest.importorskip("genai_prices", reason='pip install "pywrapai[dev]"')
    if genai_prices.__version__ != SHIPPED["version"]:
        pytest.skip(
            f"prices.json is of genai-prices {SHIPPED['version']}, not {genai_prices.__version__}:"
            " run scripts/generate_prices.py"
        )
    path = ROOT / "scripts" / "generate_prices.py"
    spec = importlib.util.spec_from_file_location("generate_prices", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestGeneratedFile:
    def test_it_is_what_the_installed_package_says(self, generator: ModuleType) -> None:
        written = generator.TARGET.read_text("utf-8")

        assert written == generator.render(date.fromisoformat(SHIPPED["generated"]))
        assert generator.check(written, date.today()) == 0

    def test_it_has_one_model_a_line_in_order(self, generator: ModuleType) -> None:
        lines = generator.TARGET.read_text("utf-8").splitlines()

        for models in SHIPPED["providers"].values():
            assert list(models) == sorted(models)
        indented = [line for line in lines if line.startswith(" " * 6)]
        assert len(indented) == sum(map(len, SHIPPED["providers"].values()))

    def test_a_date_alone_makes_it_no_staler(self, generator: ModuleType) -> None:
        written = generator.render(date(2026, 11, 30))
        redated = written.replace('"generated": "2026-11-30"', '"generated": "2001-01-01"')

        assert redated != written
        assert generator.check(redated, date(2026, 11, 30)) == 0

    def test_an_announced_price_that_comes_into_force_fails_no_check(
        self, generator: ModuleType
    ) -> None:
        written = generator.render(date(2026, 11, 30))

        assert '"later"' in written
        assert generator.check(written, date(2027, 6, 1)) == 0

    @pytest.mark.parametrize("edit", [('"input": ', '"input": 9'), ("0", "1"), ("{", "")])
    def test_any_other_difference_is_stale_and_shown(
        self, generator: ModuleType, edit: tuple[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        edited = generator.TARGET.read_text("utf-8").replace(*edit)

        assert generator.check(edited, date.today()) == 1
        assert "generate_prices.py" in capsys.readouterr().out

    def test_wherever_both_know_a_name_we_bill_what_genai_prices_bills(
        self, generator: ModuleType
    ) -> None:
        import genai_prices

        noon = datetime.combine(datetime.now(UTC).date(), time(12), UTC)
        usage = genai_prices.Usage(
            input_tokens=300_000,
            cache_read_tokens=7_000,
            cache_write_tokens=100,
            output_tokens=500,
        )
        names = [
            (provider, name + ending)
            for provider, models in SHIPPED["providers"].items()
            for model, row in models.items()
            for name in (model, *row.get("aliases", ()), *row.get("prefixes", ()))
            for ending in ("", "-2099-01-01", "-20990101", "-001", "-preview", "-latest")
        ]
        compared, wrong = 0, []
        for provider, name in names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnpricedModelWarning)
                ours = price_call(
                    name,
                    300_000,
                    500,
                    cache_read_tokens=7_000,
                    cache_write_tokens=100,
                    provider=provider,
                )
            try:
                theirs = genai_prices.calc_price(
                    usage, name, provider_id=provider, genai_request_timestamp=noon
                )
            except LookupError:
                continue
            if ours.priced:
                compared += 1
                if ours.usd != pytest.approx(float(theirs.total_price), abs=1e-9):
                    wrong.append((provider, name, ours.usd, theirs.total_price))

        assert compared > 500
        assert not wrong
