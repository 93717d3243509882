"""The description of the API, and whether the API does what it says: by schemathesis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pywrapai_monitor.dashboard import create_app
from pywrapai_monitor.dashboard.api import ROUTES
from pywrapai_monitor.dashboard.params import Param
from pywrapai_monitor.db.base import BaseStore, Feedback
from tests.contracts.store_rows import Clock, entry
from tests.monitor.dashboard_client import TOKEN, Foreign, client, long_talk, sqlite

# A schema cannot say that a range excludes dates, nor which time zones there are.
NOT_ASKED = [positive_data_acceptance]


def filled():
    store = sqlite(*long_talk(3), entry("q", "bad", status="error", prompt_name="p"))
    store.save_prompt("p", "v1", "text", is_active=True)
    store.save_feedback(Feedback(call_id="c1", score=1.0))
    return store


STORES = {"sqlite": filled(), "foreign": Foreign(Clock())}
DOCUMENT = client(STORES["sqlite"]).get("/api/openapi.json").json
PARAMETERS = {path: found["get"]["parameters"] for path, found in DOCUMENT["paths"].items()}
PATHS = sorted(PARAMETERS)


EXAMPLES = settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
MODES = {"as_described": GenerationMode.POSITIVE, "otherwise": GenerationMode.NEGATIVE}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mode", MODES)
def test_no_question_makes_the_server_fail_and_answers_are_as_described(path, mode):
    ask_all(STORES["sqlite"], path, MODES[mode], NOT_ASKED)


@pytest.mark.parametrize("path", PATHS)
def test_a_store_that_cannot_do_everything_says_so_as_described(path):
    ask_all(STORES["foreign"], path, GenerationMode.POSITIVE, [*NOT_ASKED, not_a_server_error])


def ask_all(store: BaseStore, path: str, mode: GenerationMode, excluded: Sequence[Any]) -> None:
    app = create_app(store, clock=Clock())
    operation = schemathesis.openapi.from_wsgi("/api/openapi.json", app)[path]["GET"]
    if mode is GenerationMode.NEGATIVE and not PARAMETERS[path]:
        return  # there is nothing that could be wrong

    @EXAMPLES
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call_and_validate(excluded_checks=list(excluded))
        assert answer.status_code != 500

    ask()


def test_every_route_under_api_is_described_and_nothing_else():
    app = create_app(STORES["sqlite"])
    served = {rule.rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/api/")}

    assert set(PATHS) == served


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_the_parameters_that_are_described_are_those_that_are_read(route):
    described = client(STORES["sqlite"]).get("/api/openapi.json").json["paths"][route.path]["get"]

    assert [p["name"] for p in described["parameters"]] == [p.name for p in route.params]
    for param, told in zip(route.params, described["parameters"], strict=True):
        assert told["description"]
        assert told["schema"] == param.schema
        for example in examples(param):
            assert param.read(example) is not None


def examples(param: Param) -> list[str]:
    schema = param.schema
    found = [*map(str, schema.get("enum", schema.get("examples", [])))]
    return found + [str(schema[end]) for end in ("minimum", "maximum") if end in schema]


def test_it_says_that_a_token_is_needed_where_one_is():
    document = create_app(STORES["sqlite"], TOKEN).test_client()
    answer = document.get("/api/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json

    assert answer["openapi"].startswith("3.1")
    assert answer["security"] == [{"token": []}]
    assert "401" in answer["paths"]["/api/overview"]["get"]["responses"]
    assert not re.search(TOKEN, str(answer))
