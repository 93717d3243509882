from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai import PromptTemplate

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


def test_each_place_gets_its_value():
    template = PromptTemplate("Hello {name}, you are {name} from {place}.")

    assert template.variables == ("name", "place")
    assert template.format(name="Ann", place="Oslo") == "Hello Ann, you are Ann from Oslo."
    assert PromptTemplate("Hello").format() == "Hello"
    assert PromptTemplate("").variables == ()


@pytest.mark.parametrize(
    "value", ['{"a": {"b": 1}}', "{name}", "{{x}}", "{0}", "%s $x", "", None, 1.5, ["{x}"]]
)
def test_a_value_goes_in_as_it_is(value):
    assert PromptTemplate("<{name}>").format(name=value) == f"<{value}>"


def test_a_brace_that_is_written_twice_is_a_brace():
    template = PromptTemplate('Answer as {{"city": "{city}"}}.')

    assert template.variables == ("city",)
    assert template.format(city="Rome") == 'Answer as {"city": "Rome"}.'


def test_what_is_missing_is_named():
    with pytest.raises(KeyError, match="place, when"):
        PromptTemplate("{name} {place} {when}").format(name="Ann")


def test_what_has_no_place_is_named():
    with pytest.raises(ValueError, match=r"no place for nmae.* it has name"):
        PromptTemplate("{name}").format(name="Ann", nmae="Ann")
    with pytest.raises(ValueError, match="no places"):
        PromptTemplate("Hello").format(name="Ann")


@pytest.mark.parametrize(
    "text",
    ["{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}", '{"a": 1}', "{", "}", "{a", "a}", "{ a }"],
)
def test_braces_that_are_no_place_are_refused_at_once(text):
    with pytest.raises(ValueError, match="written twice"):
        PromptTemplate(text)


def test_a_template_is_a_value():
    template = PromptTemplate("Hello {name}")

    assert template == PromptTemplate("Hello {name}")
    assert len({template, PromptTemplate("Hello {name}")}) == 1
    assert pickle.loads(pickle.dumps(template)).format(name="Ann") == "Hello Ann"
    assert repr(template) == "PromptTemplate(text='Hello {name}')"
    with pytest.raises(TypeError, match="str"):
        PromptTemplate(None)  # type: ignore[arg-type]


def test_any_name_can_be_a_place():
    template = PromptTemplate("{self} {values} {text} {größe}")

    assert template.format(self=1, values=2, text=3, größe=4) == "1 2 3 4"


@given(st.lists(st.tuples(st.text(), NAMES, st.text()), max_size=8), st.text())
def test_any_text_around_any_values_comes_out_whole(pieces, end):
    def escaped(words: str) -> str:
        return words.replace("{", "{{").replace("}", "}}")

    values = {name: value for _, name, value in pieces}
    template = PromptTemplate(
        "".join(f"{escaped(words)}{{{name}}}" for words, name, _ in pieces) + escaped(end)
    )

    expected = "".join(f"{words}{values[name]}" for words, name, _ in pieces) + end
    assert template.format(**values) == expected
