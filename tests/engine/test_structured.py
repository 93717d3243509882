from __future__ import annotations

import asyncio
import json
import pickle
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from pywrapai import LLM, BaseLLM, LLMResponse, Role, ServerError, StructuredOutputError
from pywrapai.core.structured import Misfit, json_values, shape_of
from pywrapai.testing import StubProvider
from pywrapai.testing.server import StubServer


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)
    likes: list[Colour] = []


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
ANN = '{"name": "Ann", "age": 30}'


async def test_a_model_class_gives_an_instance_and_a_schema_a_dict():
    llm = LLM(StubProvider([ANN] * 4))

    assert llm.chat_structured("Who?", Person) == Person(name="Ann", age=30)
    assert await llm.achat_structured("Who?", Person) == Person(name="Ann", age=30)
    assert llm.chat_structured("Who?", PERSON) == {"name": "Ann", "age": 30}
    assert await llm.achat_structured("Who?", PERSON) == {"name": "Ann", "age": 30}


@pytest.mark.parametrize(
    "written",
    [
        ANN,
        f"\n\n  {ANN}  ",
        f"```json\n{ANN}\n```",
        f"Sure! Here it is:\n```\n{ANN}\n```\nAnything else?",
        f"Here is [1] the result: {ANN} as asked.",
        f'First {{"name": 7}}, no, {ANN}',
        f"[{{]}} {ANN}",
        '{"name": "Ann", "age": "30"}',
    ],
)
def test_json_is_found_in_what_models_write(written):
    assert shape_of(Person).read(written) == Person(name="Ann", age=30)


def test_an_array_at_the_root_is_read_whole():
    shape = shape_of({"type": "array", "items": {"type": "object"}, "minItems": 2})

    assert shape.read('Here: [{"a": 1}, {"a": 2}] ok') == [{"a": 1}, {"a": 2}]


def test_line_breaks_and_backticks_inside_strings_are_kept():
    shape = shape_of({"type": "object", "required": ["code"]})

    assert shape.read('{"code": "use `print`\nnow"}') == {"code": "use `print`\nnow"}
    assert shape.read('```json\n{"code": "```x```"}\n```')["code"] == "```x```"


@pytest.mark.parametrize("text", ["", "no", "{", "[" * 10_000, "{" * 5_000 + "}", "null", "3"])
def test_what_holds_nothing_that_fits_is_a_misfit(text):
    with pytest.raises(Misfit):
        shape_of(Person).read(text)


@given(st.text())
def test_any_text_is_searched_without_a_crash(text):
    list(json_values(text))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_any_json_between_prose_is_found(value):
    wrapped = {"value": value}

    assert wrapped in list(json_values(f"Well: {json.dumps(wrapped)} done."))


def test_what_was_wrong_is_told_once_and_the_next_answer_counts():
    provider = StubProvider(['{"name": "Ann", "age": -1}', ANN])
    llm = LLM(provider)

    assert llm.chat_structured("Who?", Person).age == 30

    asked, again = provider.requests[1].messages[-2:]
    assert (asked.role, asked.content) == (Role.ASSISTANT, '{"name": "Ann", "age": -1}')
    assert again.role == Role.USER
    assert "age" in again.text
    assert "greater than or equal to 0" in again.text
    assert llm.tokens.total_calls == 2


def test_after_the_last_attempt_the_error_has_everything():
    provider = StubProvider(["no", "still no"])

    with pytest.raises(StructuredOutputError) as caught:
        LLM(provider).chat_structured("Who?", Person)

    assert caught.value.raw == "still no"
    assert caught.value.errors == ("there is no JSON in the answer",)
    assert [r.content for r in caught.value.responses] == ["no", "still no"]
    assert caught.value.provider == "stub"


def test_every_error_has_the_answers_that_were_paid_for_before_it():
    provider = StubProvider(["no", ServerError("down")])

    with pytest.raises(ServerError) as caught:
        LLM(provider, max_retries=0).chat_structured("Who?", Person)

    assert [r.content for r in caught.value.responses] == ["no"]
    copy = pickle.loads(pickle.dumps(caught.value))
    assert [r.content for r in copy.responses] == ["no"]


def test_the_number_of_attempts_is_the_callers():
    provider = StubProvider(["no", "no", ANN])

    assert LLM(provider).chat_structured("Who?", Person, max_attempts=3).name == "Ann"
    with pytest.raises(StructuredOutputError):
        LLM(StubProvider(["no"])).chat_structured("Who?", Person, max_attempts=1)
    with pytest.raises(ValueError, match="max_attempts"):
        LLM(StubProvider(["no"])).chat_structured("Who?", Person, max_attempts=0)


def test_the_text_that_is_sent_back_is_bounded_and_holds_no_input():
    class Numbers(BaseModel):
        numbers: list[int]

    secret = "s3cret" * 10_000
    provider = StubProvider([json.dumps({"numbers": [secret] * 50}), '{"numbers": [1]}'])

    LLM(provider).chat_structured("Numbers?", Numbers)

    told = provider.requests[1].messages[-1].text
    assert len(told) < 4000
    assert "s3cret" not in told


def test_an_answer_that_was_cut_off_is_told_so():
    cut = LLMResponse('{"name": "An', finish_reason="length")
    provider = StubProvider([cut, ANN])

    LLM(provider).chat_structured("Who?", Person)

    assert "cut off" in provider.requests[1].messages[-1].text


@pytest.mark.parametrize("schema", [int, "Person", None, ["a"], Person(name="a", age=1)])
def test_what_is_no_schema_is_a_type_error(schema):
    with pytest.raises(TypeError, match="schema"):
        LLM(StubProvider(["never"])).chat_structured("Who?", schema)


def test_an_invalid_schema_is_a_value_error_before_any_call():
    provider = StubProvider(["never"])

    with pytest.raises(ValueError, match="JSON Schema"):
        LLM(provider).chat_structured("Who?", {"type": "nonsense"})
    assert provider.requests == []


def test_a_model_that_cannot_be_held_to_a_schema_is_told_it_in_words():
    provider = StubProvider([ANN])

    LLM(provider, system_prompt="Be kind.").chat_structured("Who?", PERSON)

    system = provider.requests[0].messages[0]
    assert system.role == Role.SYSTEM
    assert system.text.startswith("Be kind.")
    assert '"minimum": 0' in system.text


def test_a_provider_of_ones_own_may_hold_it_itself():
    class Native(StubProvider):
        def chat_structured(self, messages, schema, **settings):
            self.schema = schema
            return LLMResponse(ANN)

    provider = Native()
    llm = LLM(provider)

    assert llm.chat_structured("Who?", PERSON)["name"] == "Ann"
    assert asyncio.run(llm.achat_structured("Who?", PERSON))["name"] == "Ann"
    assert provider.schema == PERSON
    assert provider.requests == []


def test_the_openai_wire_sends_the_schema_and_leaves_it_alone(server: StubServer, llm: LLM):
    server.reply(ANN)
    before = json.dumps(PERSON)

    assert llm.chat_structured("Who?", PERSON) == {"name": "Ann", "age": 30}

    sent = server.requests[0].json["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"] == PERSON
    assert json.dumps(PERSON) == before


def test_an_answer_that_does_not_fit_is_not_kept_in_the_cache():
    provider = StubProvider(["no", "no", ANN])
    llm = LLM(provider, cache=True)

    with pytest.raises(StructuredOutputError):
        llm.chat_structured("Who?", Person, max_attempts=1)
    with pytest.raises(StructuredOutputError):
        llm.chat_structured("Who?", Person, max_attempts=1)
    assert llm.chat_structured("Who?", Person, max_attempts=1).name == "Ann"
    assert llm.chat_structured("Who?", Person, max_attempts=1).name == "Ann"
    assert len(provider.requests) == 3


def test_the_real_model_is_held_to_a_schema():
    class City(BaseModel):
        city: str
        country: str
        people: int

    llm = LLM("local", temperature=0.0, max_tokens=120)

    city = llm.chat_structured("Describe Paris as JSON.", City)
    again = asyncio.run(llm.achat_structured("Describe Paris as JSON.", City.model_json_schema()))

    assert isinstance(city, City)
    assert set(again) == {"city", "country", "people"}


def test_a_custom_provider_needs_no_structured_method():
    assert BaseLLM.chat_structured.__doc__


def test_a_server_that_takes_no_schema_is_told_it_in_words(server: StubServer):
    llm = LLM("deepseek", api_key="k", base_url=server.url(), max_retries=0)
    server.reply(ANN)

    assert llm.chat_structured("Who?", PERSON)["name"] == "Ann"

    body = server.requests[0].json
    assert body["response_format"] == {"type": "json_object"}
    assert '"minimum": 0' in body["messages"][0]["content"]
