from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

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
from tests.engine.bills import new_model, run_python


@pytest.fixture
def model() -> str:
    return new_model()


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
