"""What counts as said in a source: property tests, numbers, and Unicode at its ugliest."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai_graph.workflows.containment import (
    contains,
    holds_number,
    normalised,
    sentences,
)

NOTE = (
    "Conveyor M3 jammed twice, at 13:45 and 14:10. Belt tension 2.5 bar, was 12.5 bar.\n"
    "Nobody was hurt. Oil on the floor near M3 \N{EN DASH} cleaned. Output 10 500 units, 3% scrap."
)


@pytest.mark.parametrize(
    "phrase",
    [
        "Conveyor M3 jammed twice",
        "conveyor m3   JAMMED\n\ttwice,",
        "jammed twice, at 13:45 and 14:10.",
        "2.5 bar",
        "12.5 bar",
        "Nobody was hurt!",
        '"Nobody was hurt"',
        "near M3 - cleaned",
        "10 500 units",
        "10\N{NO-BREAK SPACE}500 units",
        "3% scrap",
        "\N{FULLWIDTH DIGIT THREE}% scrap",
        "Co\N{SOFT HYPHEN}nveyor \N{ZERO WIDTH NO-BREAK SPACE}M3",
        "\N{MATHEMATICAL BOLD CAPITAL O}il on the floor",
    ],
)
def test_a_phrase_is_found_however_it_is_written(phrase):
    assert contains(NOTE, phrase)


@pytest.mark.parametrize(
    "phrase",
    [
        "",
        " \n",
        "Conveyor M4 jammed twice",
        "jam",
        "2.5 bar, was 2.5 bar",
        "5 bar",
        "tension 2",
        "13:4",
        "3:45",
        "3",
        "500 units",
        "Output 10",
        "M3 jammed twice at 13:45",  # without its comma
        "hurt. Oil is on the floor",
        "body was hurt",
    ],
)
def test_what_is_not_there_word_for_word_is_not_found(phrase):
    assert not contains(NOTE, phrase)


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("at 15 bar", "5 bar"),
        ("at 51 bar", "at 5"),
        ("at -5 degrees", "5 degrees"),
        ("at \N{MINUS SIGN}5 degrees", "5 degrees"),
        ("at .5 bar", "5 bar"),
        ("at 5.5", "at 5"),
        ("at 5,5 bar", "5 bar"),
        ("it costs 5%", "it costs 5"),
        ("it costs $5", "5"),
        ("it costs \N{EURO SIGN}5 now", "5 now"),
        ("5\N{EURO SIGN} each", "5"),
        ("pressure 5 000 kPa", "pressure 5"),
        ("pressure 5\N{NARROW NO-BREAK SPACE}000 kPa", "pressure 5"),
        ("pressure 5 000 kPa", "000 kPa"),
        ("pages 3-5", "pages 3"),
        ("pages 3\N{EN DASH}5", "5"),
        ("10\N{SUPERSCRIPT TWO} units", "102 units"),
        ("10\N{SUPERSCRIPT TWO} units", "10"),
        ("1\N{VULGAR FRACTION ONE HALF} bar", "1 bar"),
        ("1\N{VULGAR FRACTION ONE HALF} bar", "11/2 bar"),
        ("1\N{VULGAR FRACTION ONE HALF} bar", "11\N{FRACTION SLASH}2 bar"),
        ("\N{CIRCLED DIGIT ONE}5 bar", "15 bar"),
        ("5kg", "5"),
        ("1\N{ZERO WIDTH SPACE}5 bar", "15 bar"),
        ("version 1.2.3", "version 1.2"),
        ("at 7:30", "at 7"),
        ("ratio 1/2", "ratio 1"),
        ("1\N{ARABIC THOUSANDS SEPARATOR}234 units", "234 units"),
        ("5\N{PLUS-MINUS SIGN}1 bar", "5"),
        ("5\N{MULTIPLICATION SIGN}10\N{SUPERSCRIPT THREE} Pa", "at 5"),
        ("\N{NOT EQUAL TO}5 bar", "5 bar"),
    ],
)
def test_a_number_is_found_whole_or_not_at_all(source, phrase):
    assert not contains(source, phrase)
    assert contains(source, source)


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("the belt is unsafe", "safe"),
        ("a fail-safe valve", "safe valve"),
        ("a non\N{NON-BREAKING HYPHEN}conductive mat", "conductive mat"),
        ("you can't open it", "you can"),
        ("you can\N{RIGHT SINGLE QUOTATION MARK}t open it", "you can"),
        ("the categories", "the cat"),
        ("ROW_ID is wrong", "id is wrong"),
        ("x\N{COMBINING CIRCUMFLEX ACCENT} is high", "x"),
        ("\N{DEVANAGARI LETTER KA}\N{DEVANAGARI VOWEL SIGN I}", "\N{DEVANAGARI LETTER KA}"),
    ],
)
def test_a_word_is_found_whole_or_not_at_all(source, phrase):
    assert not contains(source, phrase)
    assert contains(source, source)


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("機械3号で水漏れがある。", "水漏れ"),
        ("機械3号で水漏れがある。", "3号"),
        ("펌프가 고장났습니다", "펌프"),
        ("ปั๊มเสียแล้ว", "เสีย"),
        ("Straße gesperrt", "STRASSE GESPERRT"),
        ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}zmir", "i\N{COMBINING DOT ABOVE}zmir"),
        ("ﬁlter ﬂow", "FILTER FLOW"),
        ("cafe\N{COMBINING ACUTE ACCENT} line", "CAFÉ LINE"),
        ("ΟΔΟΣ ΚΛΕΙΣΤΗ", "οδος κλειστη"),
        ("5㎏ of resin", "5kg of resin"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}valve 4", "valve 4"),
    ],
)
def test_other_scripts_have_their_own_ways(source, phrase):
    assert contains(source, phrase)


def test_digits_of_neighbouring_numbers_do_not_join_in_scripts_without_spaces():
    assert not contains("機械13号", "3号")


WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs", "Mn", "Cf")), max_size=40
)


@given(WORDS)
@settings(max_examples=500, deadline=None)
def test_normalising_twice_is_normalising_once(text):
    assert normalised(normalised(text)) == normalised(text)


@given(WORDS)
@settings(max_examples=500, deadline=None)
def test_every_text_that_says_something_contains_itself(text):
    assert contains(text, text) is bool(normalised(text))


SAID = ["alpha", "Beta", "don't", "12", "3.5", "Ärger", "7:30", "straße"]


@given(st.lists(st.sampled_from(SAID), min_size=2))
@settings(max_examples=200, deadline=None)
def test_whole_words_in_a_row_are_found_in_any_dress(words):
    source = " ".join(words)
    for start in range(len(words)):
        phrase = "\N{NO-BREAK SPACE}\n ".join(words[start : start + 3])
        assert contains(source, phrase)
        assert contains(source, unicodedata.normalize("NFD", phrase.upper()))


@given(st.integers(0, 99_999), st.integers(0, 99_999), st.sampled_from([" bar", " units", ""]))
@settings(max_examples=300, deadline=None)
def test_only_the_same_number_is_the_same_number(said, written, unit):
    source = f"the gauge shows {written}{unit} now"

    assert contains(source, f"{said}{unit} now") is (said == written)
    assert holds_number(normalised(source), said) is (said == written)


@given(st.text(alphabet="ab .-'5%", min_size=1, max_size=12), st.text(alphabet="ab .-'5%"))
@settings(max_examples=500, deadline=None)
def test_what_is_found_is_there_letter_by_letter(phrase, source):
    if contains(source, phrase):
        assert re.sub(r"^\W+|\W+$", "", normalised(phrase)) in normalised(source)


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("5kg of it", 5, True),
        ("it costs $5.00", 5, True),
        ("3% of it", 3, True),
        ("-5 degrees", -5, True),
        ("-5 degrees", 5, False),
        ("2.50 bar", 2.5, True),
        ("1,500 units", 1500, False),
        ("1 500 units", 500, False),
        ("15 units", 5, False),
        ("pages 3-5", 5, False),
        ("machine m3", 3, False),
        ("5.5", 5, False),
        ("5\N{MULTIPLICATION SIGN}10\N{SUPERSCRIPT THREE}", 5, False),
        ("5\N{ARABIC DECIMAL SEPARATOR}5", 5, False),
        ("nothing", float("nan"), False),
        ("nothing", float("inf"), False),
    ],
)
def test_a_number_by_its_value(text, value, held):
    assert holds_number(text, value) is held


def test_an_answer_has_sentences_and_lines():
    answer = (
        "Dr. Lee checked M3 at 2.5 bar. Is it safe? Yes!\n"
        "- Wait for No. 4.\n* Then call (see SOP 7.) ok\n\n機械を止める。待つ"
    )

    assert sentences(answer) == [
        "Dr. Lee checked M3 at 2.5 bar.",
        "Is it safe?",
        "Yes!",
        "Wait for No. 4.",
        "Then call (see SOP 7.)",
        "ok",
        "機械を止める。",
        "待つ",
    ]
    assert sentences(" \n ") == []
