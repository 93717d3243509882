from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai import TextDelta, ThinkingDelta
from pywrapai.core.text import well_formed
from pywrapai.core.thinking import Separated, Splitter, ThinkTags, split_thinking

END = re.compile("__END_[0-9a-f]+__")


def separated() -> Separated:
    return Separated(END, "_")


def in_pieces(pieces: list[str], splitter: Splitter) -> tuple[str, str]:
    parts = [part for piece in pieces for part in splitter.feed(piece)] + [*splitter.finish()]
    assert all(part.text for part in parts)
    thinking = "".join(part.text for part in parts if isinstance(part, ThinkingDelta))
    return thinking, "".join(part.text for part in parts if isinstance(part, TextDelta))


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


answers = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<thi", "</", "<", ">", "\n", " ", "a", "bé", "__END_", "0f__", "_"]
    )
).map("".join)


@pytest.mark.parametrize(
    ("answer", "thinking", "text"),
    [
        ("<think>why</think>because", "why", "because"),
        ("\n<think>\nwhy\n</think>\n\nbecause\n", "why\n", "because\n"),
        ("<think></think>because", "", "because"),
        ("<think>\n\n</think>\n\nbecause", "", "because"),
        ("because", "", "because"),
        ("  because", "", "  because"),
        ("\n", "", "\n"),
        ("", "", ""),
        ("a tag is <think>like</think> this", "", "a tag is <think>like</think> this"),
        ("<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"),
        ("<think>a<think>b</think>c", "a<think>b", "c"),
        ("<thi", "", "<thi"),
        ("\n<think", "", "\n<think"),
        ("<thinker>", "", "<thinker>"),
        ("<think>cut off", "cut off", ""),
        ("<think>cut off</thi", "cut off</thi", ""),
        ("</think>because", "", "</think>because"),
    ],
)
def test_a_think_block_at_the_start_is_thinking_and_all_else_is_text(answer, thinking, text):
    assert split_thinking(answer, ThinkTags()) == (thinking, text)


def test_thinking_and_text_come_as_soon_as_they_are_known():
    tags = ThinkTags()

    steps = [
        [*tags.feed(piece)] for piece in ("<thi", "nk>", "wh", "y</t", "hink>\n", "be", "cause")
    ]

    assert steps == [
        [],
        [],
        [ThinkingDelta("wh")],
        [ThinkingDelta("y")],
        [],
        [TextDelta("be")],
        [TextDelta("cause")],
    ]
    assert [*tags.finish()] == []


def test_what_only_looked_like_a_tag_is_given_out_when_that_shows():
    tags = ThinkTags()

    assert [*tags.feed("<think>a</th")] == [ThinkingDelta("a")]
    assert [*tags.feed("e end")] == [ThinkingDelta("</the end")]


@pytest.mark.parametrize(
    ("answer", "thinking", "text"),
    [
        ("Paris is meant.\n__END_f4e9__{}", "Paris is meant.", "{}"),
        ("__END_f4e9__{}", "", "{}"),
        ("a__END_0__b__END_1__c", "a", "b__END_1__c"),
        ("no separator __END_", "", "no separator __END_"),
        ("<think>why</think>because", "why", "because"),
        ("", "", ""),
    ],
)
def test_all_before_a_separator_is_thinking(answer, thinking, text):
    assert split_thinking(answer, separated()) == (thinking, text)


def test_after_the_separator_text_comes_as_it_is():
    splitter = separated()

    assert [*splitter.feed("why __END_f")] == []
    assert [*splitter.feed("4__be")] == [ThinkingDelta("why"), TextDelta("be")]
    assert [*splitter.feed("cause")] == [TextDelta("cause")]
    assert [*splitter.finish()] == []


@pytest.mark.parametrize("splitter", [ThinkTags, separated])
@given(answer=answers, places=st.lists(st.integers(min_value=0)))
def test_any_cut_into_pieces_gives_what_the_whole_gives(splitter, answer, places):
    assert in_pieces(cut(answer, places), splitter()) == split_thinking(answer, splitter())


@given(answers)
def test_nothing_is_lost_but_tags_and_the_space_around_them(answer):
    thinking, text = split_thinking(answer, ThinkTags())

    kept = re.sub(r"</?think>|\s", "", thinking + text)

    assert kept == re.sub(r"</?think>|\s", "", answer)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("plain", "plain"),
        ("héllo 😀", "héllo 😀"),
        ("half \ud83d", "half �"),
        ("\ude00\ud83d", "��"),
        ("whole \ud83d\ude00", "whole 😀"),
    ],
)
def test_halves_of_characters_are_joined_or_replaced(text, sent):
    assert well_formed(text) == sent


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_well_formed_text_has_utf8_and_stays_as_it_is(text):
    sent = well_formed(text)

    assert sent.encode().decode() == sent
    assert well_formed(sent) == sent
