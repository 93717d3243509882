"""Where a document is cut: what always holds, and what a reader would call the right place."""

# ruff: noqa: RUF001  # quotes and stops of many scripts are meant

from __future__ import annotations

import math
import re
import time
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywrapai_graph.rag.chunker import Chunker, spans
from pywrapai_graph.rag.types import Chunk, Document

ACUTE = "\u0301"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
FLAG = "\U0001f1e9\U0001f1ea"
WAVING = "\U0001f44b\U0001f3fd"
HEART = "\u2764\ufe0f"
SCOTLAND = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f"
HANGUL = "\u1112\u1161\u11ab"

PIECES = (
    *(
        " ",
        "  ",
        "\n",
        "\n\n",
        "\r\n",
        "\r\n\r\n",
        "\n \t\n",
        "\t",
        "\xa0",
        "\u3000",
        "\f",
        " " * 40,
    ),
    *(". ", ".", "!", '?" ', "。", "！」", "．", "e.g. ", "Dr. ", "3. ", "..."),
    *("a", "lorem", "ipsum", "x" * 30, "好", "e" + ACUTE, ACUTE, FAMILY, FLAG, HEART, "\ud83d"),
)
pieces = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
texts = pieces | st.text(max_size=120)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """A chunk size, and any overlap that goes with it."""
    size = draw(st.integers(1, 60))
    return size, draw(st.integers(0, size - 1))


def split(text: str, size: int, overlap: int = 0) -> list[str]:
    return [chunk.text for chunk in Chunker(size, overlap).split(Document(text))]


def letters(text: str, found: list[tuple[int, int]]) -> set[int]:
    """Where the letters are that are in no chunk."""
    held = {at for start, end in found for at in range(start, end)}
    return {at for at, letter in enumerate(text) if not letter.isspace()} - held


# What always holds


@given(texts, sizes())
def test_every_chunk_is_an_exact_slice_of_its_document(text, sizes):
    doc = Document(text)

    chunks = Chunker(*sizes).split(doc)

    assert [(c.start, c.end) for c in chunks] == spans(text, *sizes)
    assert [c.text for c in chunks] == [text[c.start : c.end] for c in chunks]
    assert [c.id for c in chunks] == [f"{doc.id}:{n}" for n in range(len(chunks))]
    assert {c.doc_id for c in chunks} <= {doc.id}


@given(texts, sizes())
def test_starts_and_ends_always_increase(text, sizes):
    for (start, end), (next_start, next_end) in pairwise(spans(text, *sizes)):
        assert start < next_start
        assert end < next_end


@given(texts, sizes())
def test_no_letter_is_in_no_chunk(text, sizes):
    found = spans(text, *sizes)

    assert not letters(text, found) or (not found and len(text) < 10)


@given(texts, sizes())
def test_no_chunk_is_longer_than_allowed(text, sizes):
    size, _ = sizes

    *others, last = [end - start for start, end in spans(text, *sizes)] or [0]

    assert all(length <= size for length in others)
    assert last <= (size + 9 if size >= 10 else size)


@given(texts, sizes())
def test_no_chunk_is_blank_or_under_ten_characters(text, sizes):
    for chunk in split(text, *sizes):
        assert not chunk.isspace()
        assert len(chunk) >= 10 or sizes[0] < 10


@given(texts, sizes())
def test_a_text_under_ten_characters_or_of_white_space_alone_gives_no_chunk(text, sizes):
    assert bool(spans(text, *sizes)) == (len(text) >= 10 and not text.isspace())


@given(texts, sizes())
def test_every_chunk_but_the_last_is_more_than_half_full_and_more_than_its_overlap(text, sizes):
    size, overlap = sizes

    for start, end in spans(text, *sizes)[:-1]:
        assert end - start > max(size // 2, overlap)


@given(texts, sizes())
def test_a_chunk_repeats_no_more_than_the_overlap(text, sizes):
    for (_, end), (start, _) in pairwise(spans(text, *sizes)):
        assert end - start <= sizes[1]
        assert start <= end or text[end:start].isspace()


@given(texts, sizes())
def test_a_chunk_that_is_not_the_first_begins_at_a_word_or_exactly_the_overlap_earlier(text, sizes):
    text = re.sub("[^\x20-\x7f]", "-", text)

    for (_, end), (start, _) in pairwise(spans(text, *sizes)):
        assert start == end - sizes[1] or text[start - 1].isspace() or text[start].isspace()


@given(pieces, sizes())
def test_without_overlap_the_chunks_join_to_the_text(text, sizes):
    text = re.sub(r"\s{2,}", "\n", text)  # white space that fills half a chunk may be left out
    size = max(sizes[0], 4)

    joined = "".join(split(text, size))

    assert joined == (text if len(text) >= 10 and not text.isspace() else "") or (
        joined == text.rstrip()
    )


@given(
    st.lists(st.sampled_from(["lorem", "ipsum", " ", ". ", "! ", "\n", "\n\n"]), max_size=80),
    st.integers(20, 60),
    st.integers(0, 19),
)
def test_a_chunk_ends_at_the_last_of_the_best_places_in_its_second_half(parts, size, overlap):
    text = re.sub(" +\n", "\n", "".join(parts))
    kinds = [r"(?<=\n\n)|(?<=\n)(?=\n)|(?=\n\n)", r"(?<=[.!])(?=\s)", r"(?<=\n)", r"(?<=\s)|(?=\s)"]
    places = [[found.end() for found in re.finditer(kind, text)] for kind in kinds]

    for start, end in spans(text, size, overlap)[:-1]:
        low, high = start + max(size // 2, overlap) + 1, start + size
        fitting = [[at for at in ends if low <= at <= high] for ends in places]
        best = next((ends[-1] for ends in fitting if ends), high)
        assert not text[min(best, end) : max(best, end)].strip()


@given(
    st.lists(
        st.sampled_from(["好", "x", " ", "\r\n", "e" + ACUTE, FLAG, FAMILY, WAVING, HEART, HANGUL]),
        max_size=60,
    ),
    st.integers(24, 60),
    st.integers(0, 11),
)
def test_no_character_that_a_reader_sees_is_cut(characters, size, overlap):
    characters = [*characters, *"the end of it"]
    text = "".join(characters)
    edges, at = {0}, 0
    for character in characters:
        at += len(character)
        edges.add(at)

    assert {place for span in spans(text, size, overlap) for place in span} <= edges


# Sizes


@pytest.mark.parametrize(
    ("size", "overlap"), [(5, 5), (5, 6), (0, 0), (-1, 0), (5, -1)], ids=lambda value: str(value)
)
def test_sizes_that_never_end_are_refused(size, overlap):
    with pytest.raises(ValueError, match="expected"):
        Chunker(chunk_size=size, overlap=overlap)


def test_an_error_names_what_was_given_and_what_is_allowed():
    with pytest.raises(ValueError, match=r"overlap is 60; expected .* chunk_size, which is 50"):
        Chunker(50, 60)


@pytest.mark.parametrize("given", [True, 5.0, "5", None])
@pytest.mark.parametrize("name", ["chunk_size", "overlap"])
def test_a_size_that_is_no_int_is_a_type_error(name, given):
    with pytest.raises(TypeError, match=name):
        Chunker(**{name: given})


def test_the_sizes_are_500_and_50_if_none_are_given():
    assert Chunker() == Chunker(chunk_size=500, overlap=50)
    assert repr(Chunker()) == "Chunker(chunk_size=500, overlap=50)"


def test_text_instead_of_a_document_is_a_type_error_that_says_what_to_do():
    with pytest.raises(TypeError, match=r"got str; .*Document\(text\)"):
        Chunker().split("a text")  # type: ignore[arg-type]


# Short texts and tails


def test_a_text_under_ten_characters_gives_no_chunk_whatever_the_size():
    assert split("too short", 500) == split("too short", 4) == []


def test_a_short_document_is_one_chunk_as_it_is():
    text = "\n  Paris is the capital of France.\n"

    assert split(text, 500, 50) == [text]


def test_a_tail_under_ten_characters_joins_the_chunk_before_it():
    assert split("x" * 29, 20) == ["x" * 29]
    assert split("x" * 30, 20) == ["x" * 20, "x" * 10]


def test_a_tail_is_not_repeated_as_a_chunk_that_is_overlap_alone():
    assert spans("x" * 109, 100, 50) == [(0, 109)]
    assert spans("x" * 110, 100, 50) == [(0, 100), (50, 110)]


def test_a_chunk_size_under_ten_is_kept_to_the_end():
    assert split("abcdefghijk", 4) == ["abcd", "efgh", "ijk"]


def test_white_space_that_does_not_fit_at_the_end_is_left_out():
    text = "x" * 30 + " " * 400

    assert spans(text, 100, 10) == [(0, 100)]
    assert spans("x" * 95 + "\n" * 200, 100, 10) == [(0, 100)]
    assert spans("x" * 105 + "\n" * 200, 100, 10) == [(0, 105)]


def test_a_gap_of_white_space_gives_no_blank_chunk():
    text = "x" * 30 + " " * 400 + "y" * 30

    assert [chunk.strip() for chunk in split(text, 100, 10)] == ["x" * 30, "y" * 30]


def test_the_last_letters_after_a_long_gap_are_kept_in_a_chunk_that_is_long_enough():
    chunks = split("x" * 30 + " " * 400 + "end", 100, 10)

    assert chunks[-1] == "       end"


# The cases that made other splitters fail


def test_lines_shorter_than_the_overlap_end_and_never_stand_still():
    found = spans("abc\n" * 50, 50, 49)

    assert found[0] == (0, 50)
    assert not letters("abc\n" * 50, found)
    assert all(a < b for (a, _), (b, _) in pairwise(found))


def test_the_tail_is_given_once():
    assert spans("x" * 1055, 500, 50) == [(0, 500), (450, 950), (900, 1055)]


@pytest.mark.parametrize("character", [FAMILY, FLAG, HEART, HANGUL, "e" + ACUTE * 9])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_size_smaller_than_one_character_still_ends(character, size):
    text = character * 10

    assert "".join(split(text, size)) == text


def test_double_spaces_end_and_keep_every_space():
    text = "foo  bar  baz"

    assert "".join(split(text, 8)) == text
    assert spans(text, 10, 0) == [(0, 13)]


def test_a_word_that_occurs_twice_has_two_offsets():
    assert spans("chunk chunk", 6, 0) == [(0, 6), (6, 11)]


def test_with_two_kinds_of_separator_and_overlap_every_chunk_is_in_the_text():
    text = "One line.\nAnother one. More.\n\n" * 20

    chunks = split(text, 60, 20)

    assert len(chunks) > 8
    assert all(chunk in text for chunk in chunks)


def test_a_tail_that_joins_repeats_nothing():
    assert split("a b c d e f", 6) == ["a b c ", "d e f"]


def test_without_any_separator_the_overlap_is_exact():
    assert split("abcdefghij", 5, 2) == ["abcde", "defgh", "ghij"]
    assert spans("x" * 1000, 100, 30)[:3] == [(0, 100), (70, 170), (140, 240)]


def test_a_separator_at_the_end_moves_no_offset():
    text = "one two three four five six "

    chunks = Chunker(12, 4).split(Document(text))

    assert [text[c.start : c.end] for c in chunks] == [c.text for c in chunks]
    assert chunks[-1].end == len(text)


def test_no_chunk_begins_or_ends_inside_a_letter_with_an_umlaut_or_an_emoji():
    for character in ("a\u0308", WAVING, FAMILY, FLAG, SCOTLAND):
        chunks = split(character * 40, 50, 20)

        assert all(
            len(chunk) % len(character) == 0 and chunk[0] == character[0] for chunk in chunks
        )


def test_offsets_count_characters_and_not_bytes():
    text = "ä😀 " * 100

    for chunk in Chunker(50, 10).split(Document(text)):
        assert text[chunk.start : chunk.end] == chunk.text


def test_paragraphs_of_a_windows_file_are_paragraphs():
    text = "First line.\r\nStill the first.\r\n\r\nThe second paragraph. It is longer.\r\n"

    first, second = split(text, 45)

    assert first == "First line.\r\nStill the first.\r\n\r\n"
    assert second == "The second paragraph. It is longer.\r\n"


def test_a_carriage_return_stays_with_its_line_feed():
    for size in range(2, 40):
        chunks = split("ab\r\n" * 20, size)

        assert not any(chunk.startswith("\n") for chunk in chunks)


def test_a_line_of_blanks_ends_a_paragraph():
    for blank in ("\n \n", "\n\t \n", "\r\n \r\n", "\n\f\n", "\n\u3000\n"):
        first, _ = split(f"First. And so on.{blank}Second. {'It is longer. ' * 3}", 30)[:2]

        assert first == f"First. And so on.{blank}"


def test_chinese_without_a_single_space_is_cut_after_sentences():
    text = "今天天气很好，我们去公园散步吧！你觉得怎么样？我觉得很好。" * 20

    chunks = split(text, 50, 10)

    assert all(len(chunk) <= 59 for chunk in chunks)
    assert all(chunk[-1] in "。！？" for chunk in chunks)


@pytest.mark.parametrize("stop", ["。", "！", "？", "．", "｡", "。」", "！』）", "……。”"])
def test_a_wide_stop_needs_no_white_space_after_it(stop):
    text = "好" * 30 + stop + "好" * 40

    assert split(text, 50)[0] == "好" * 30 + stop


def test_a_wide_stop_in_a_number_is_none():
    assert split("好" * 30 + "３．１４" + "好" * 40, 50)[0] == "好" * 30 + "３．１４" + "好" * 16


def test_the_indentation_of_code_is_kept():
    text = "def f():\n    if x:\n        return 1\n\n    return 2\n\n\ndef g():\n    pass\n"

    chunks = split(text, 30)

    assert "".join(chunks) == text
    assert chunks[0].endswith("return 1\n\n") or chunks[0].endswith("    if x:\n")
    assert chunks[1].startswith("    ")


def test_tabs_and_unbroken_spaces_come_through():
    text = "a\tb\xa0c\u2009d " * 30

    assert "".join(split(text, 40)) == text


def test_long_metadata_does_not_count():
    doc = Document("x" * 100, {"about": "y" * 10_000})

    assert len(Chunker(100, 10).split(doc)) == 1


PATHOLOGICAL = {
    "quotes": '"',
    "blanks": " ",
    "one letter": "x",
    "newlines": "\n",
    "Windows newlines": "\r\n",
    "lines of blanks": " \n  ",
    "stops": ".",
    "stops and quotes": '."',
    "quotes and stops": '""""""""".',
    "stops and spaces": ". ",
    "abbreviations": "e.g. ",
    "wide stops": "。",
    "wide stops in numbers": "．1",
    "dotted names": "a.b.",
    "marks": ACUTE,
    "joiners": "\u200d",
    "halves of flags": FLAG[0],
    "list numbers": "3. ",
}


@pytest.mark.parametrize("unit", PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
@pytest.mark.parametrize(("size", "overlap"), [(500, 50), (100_000, 1000)])
def test_no_text_takes_more_than_linear_time(unit, size, overlap):
    text = f"a{unit * (300_000 // len(unit))}z"

    started = time.process_time()
    found = spans(text, size, overlap)

    assert time.process_time() - started < 10  # it takes 0.3 s at worst; squared time, minutes
    assert len(found) <= math.ceil(300_000 / (size // 2 - overlap)) + 1


# The best place


def test_a_blank_line_goes_before_a_later_sentence():
    text = "The first paragraph, in a row.\n\nThe second. And more. " + "And so on. " * 5

    assert split(text, 56)[0] == "The first paragraph, in a row.\n\n"


def test_a_blank_line_in_the_first_half_does_not_make_a_tiny_chunk():
    text = "Title.\n\nThe first sentence is here. The second one follows it at once, and ends."

    assert split(text, 50)[0] == "Title.\n\nThe first sentence is here. "


def test_a_sentence_goes_before_a_later_line():
    text = "Here a sentence ends. Here\nanother line\nbegins and\ngoes on to the end"

    assert split(text, 40)[0] == "Here a sentence ends. "


def test_a_line_goes_before_a_later_word():
    text = "a list of words\nand then a list\nof some other words\nand the last"

    assert split(text, 44)[0] == "a list of words\nand then a list\n"


def test_a_word_goes_before_a_cut():
    assert split("supercalifragilistic expialidocious", 30)[0] == "supercalifragilistic "


def test_what_fits_exactly_is_not_cut_earlier():
    first = "One sentence. And one more that fits."

    for after in (" Then more. And more.", "\nThen more. And more.", "\n\nThen more. And more."):
        assert split(first + after, len(first))[0] == first


@pytest.mark.parametrize(
    "end", [". ", "! ", "? ", "... ", "?! ", '." ', ".) ", ".”  ", "؟ ", "।\n"]
)
def test_a_sentence_ends_with_its_quotes_brackets_and_white_space(end):
    text = f"A sentence of some words{end}and then a good many more words"

    assert split(text, 44)[0] == f"A sentence of some words{end}"


@pytest.mark.parametrize(
    "no_end",
    [
        *("Dr. No", "(e.g. this)", "z.B. das", "J. Bach", "J.S. Bach", "U.S. law", "Fig. 3"),
        *("vs. them", "3.14 rad", "os.path", "p. 12", "(cf. it)", "approx. 5", '"Mr. X'),
    ],
)
def test_an_abbreviation_does_not_end_a_sentence(no_end):
    text = f"It ends here, in a row. And this {no_end} that goes on and on"

    assert split(text, 44)[0] == "It ends here, in a row. "


def test_the_number_of_a_list_item_is_not_cut_from_it():
    text = "The steps are these.\n  1. Take it\n  2. Put it there\n  3. Go on and on and on"

    assert split(text, 37)[0] == "The steps are these.\n"


@pytest.mark.parametrize("word", ["don't", "1999", "fine", "x2", "(yes)"])
def test_an_ordinary_word_does_end_a_sentence(word):
    text = f"It ends here, in a row. And this {word}. That goes on and on"

    assert split(text, 44)[0] == f"It ends here, in a row. And this {word}. "


def test_the_next_chunk_begins_at_a_word_within_the_overlap():
    text = "alpha beta gamma delta epsilon zeta eta theta iota kappa"

    first, second, *_ = split(text, 25, 8)

    assert first == "alpha beta gamma delta "
    assert second.startswith("delta epsilon ")


# Metadata


def test_each_chunk_has_its_own_copy_of_the_metadata():
    metadata = {"source": "a.txt", "page": 1, "day": date(2026, 1, 2), "tags": None}
    doc = Document("word " * 100, metadata)

    first, second, *_ = Chunker(50, 10).split(doc)
    first.metadata["page"] = 2

    assert second.metadata == doc.metadata == {**metadata, "page": 1}


def test_nested_metadata_is_copied_too():
    doc = Document("word " * 100, {"tags": ["a"], "place": {"page": 1}})

    first, second, *_ = Chunker(50, 10).split(doc)
    first.metadata["tags"].append("b")
    first.metadata["place"]["page"] = 2

    assert second.metadata == doc.metadata == {"tags": ["a"], "place": {"page": 1}}


def test_chunks_are_numbered_and_name_their_document():
    chunks = Chunker(50, 0).split(Document("word " * 20, id="doc"))

    assert chunks == [
        Chunk("word " * 10, "doc", {}, "doc:0", start=0, end=50),
        Chunk("word " * 10, "doc", {}, "doc:1", start=50, end=100),
    ]


def test_the_document_is_not_changed():
    doc = Document("word " * 100, {"tags": ["a"]}, "doc")

    Chunker(50, 10).split(doc)

    assert doc == Document("word " * 100, {"tags": ["a"]}, "doc")
