from __future__ import annotations

import json
import warnings
from datetime import UTC, date, datetime, time
from types import ModuleType

import pytest

from pywrapai.tokens import (
    PRICING,
    UnpricedModelWarning,
    get_cost,
    price_call,
)
from tests.engine.bills import ROOT, new_model, on_paper, run_python

SHIPPED = json.loads((ROOT / "pywrapai" / "tokens" / "prices.json").read_text("utf-8"))


@pytest.fixture
def model() -> str:
    return new_model()


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
