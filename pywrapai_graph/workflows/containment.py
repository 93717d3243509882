"""Whether a text says something, word for word, but for how it is written. Pure.

A phrase is in a text if the text holds it as it stands, after both were normalised: Unicode's
compatible forms, case, white space, typographic quotes and dashes, and characters without width
make no difference. Words and numbers are compared whole: "5" is in none of "15", "5.5", "-5",
"5%", "$5" and "5 000", and "safe" is not in "unsafe", "non-safe" or "safe's".

It is a necessary check and not a sufficient one. "The pump is safe" is in "nobody says that the
pump is safe".
"""

# ruff: noqa: RUF001, RUF002  # the quotes and dashes are meant

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import chain
from unicodedata import category, normalize

from pywrapai_graph.rag.chunker import is_abbreviation

_JOINERS_AND_DIRECTIONS = (range(0x200C, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070))
_VARIATIONS = range(0xFE00, 0xFE10)
_SOFT_HYPHEN_AND_OTHERS = (0xAD, 0x34F, 0x180E, 0xFEFF)
_WITHOUT_WIDTH = dict.fromkeys(
    [*chain(*_JOINERS_AND_DIRECTIONS, _VARIATIONS, _SOFT_HYPHEN_AND_OTHERS)]
)
_UNSEEN = {**_WITHOUT_WIDTH, 0x200B: " "}  # a space without width still parts words
_ALIKE = str.maketrans("‘’‚‛′“”„‟″«»‐‑‒–—―−", "'''''" + '"""""""' + "-------")
_OPENING = "\"'([{*_`~ "
_CLOSING = ".!?;:,。\"')]}*_`~ "
# Scripts that put no space between words, or join endings to them.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_JOINING = "'-_"
_MONEY = "$€£¥₹₽₩"
_BEFORE_A_NUMBER = "+-±×≠^⁄." + _MONEY
_AFTER_A_NUMBER = "±×^⁄%‰°" + _MONEY
_WITHIN_A_NUMBER = ",:/٫٬"
_THOUSANDS_AFTER = re.compile(r" \d{3}(?!\d)")
_THOUSANDS = re.compile(r"\d{3}(?!\d)")
_SHORT_NUMBER_LAST = re.compile(r"(?<![^\W_])\d{1,3}$")
_CONTEXT = 6
_NUMBER = re.compile(
    r"(?<![\w^⁄±×≠.])(?<!\d[,:/٫٬-])[+-]?\d+(?:\.\d+)?"
    r"(?![\d^⁄±×]|[.,:/٫٬-]\d| \d{3}(?!\d))"
)
_BULLET = re.compile(r"[ \t]*(?:[-*•–][ \t]+)?")
_SENTENCE_END = re.compile(r"[.!?…؟۔।][\"'”’»)\]]*(?=\s)|[。！？｡][」』）】]*")


def normalised(text: str) -> str:
    """The text without differences that nobody means. Doing it twice changes nothing more."""
    if not text.isascii():
        text = text.translate(_UNSEEN)
        text = normalize("NFKC", "".join(map(_apart, text))).casefold()
        text = normalize("NFKC", text).translate(_ALIKE)
    return " ".join(text.casefold().split())


def contains(source: str, phrase: str) -> bool:
    """Whether the source holds the phrase. Marks that close a sentence, and quotes and brackets
    around it, are no part of a phrase; a blank one is nowhere.
    """
    return holds(normalised(source), phrase)


def holds(text: str, phrase: str) -> bool:
    """`contains` for a source that is normalised already."""
    phrase = normalised(phrase)
    wanted = phrase.lstrip(_OPENING).rstrip(_CLOSING) or phrase
    if not wanted:
        return False
    at = text.find(wanted)
    while at >= 0:
        if _stands_alone(text, wanted, at):
            return True
        at = text.find(wanted, at + 1)
    return False


def holds_number(text: str, value: float) -> bool:
    """Whether a normalised source holds the number; "5kg" and "$5.00" hold 5, "1,500" does not."""
    wanted = Decimal(str(value))
    for found in _NUMBER.finditer(text):
        thousands = text[max(found.start() - 2, 0) : found.start()]
        if _THOUSANDS.fullmatch(found[0]) and re.fullmatch(r"\d ", thousands):
            continue
        if Decimal(found[0]) == wanted:
            return True
    return False


def sentences(text: str) -> list[str]:
    """The sentences of an answer. A line is one or more; what marks a list's item is left out."""
    return [sentence for line in text.splitlines() for sentence in _of_line(line)]


def _of_line(line: str) -> Iterator[str]:
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else 0
    for end in _SENTENCE_END.finditer(line, start):
        if line[end.start()] == "." and is_abbreviation(line, end.start()):
            continue
        if sentence := line[start : end.end()].strip():
            yield sentence
        start = end.end()
    if rest := line[start:].strip():
        yield rest


@cache
def _apart(char: str) -> str:
    """The character; "10²" must not become 102, nor "1½" 11⁄2."""
    if char.isascii() or category(char) == "Nd":
        return char
    composed = normalize("NFKC", char)
    return f"^{composed}^" if any(map(str.isdecimal, composed)) else char


def _stands_alone(text: str, wanted: str, start: int) -> bool:
    """Whether what stands there goes on neither to the left nor to the right."""
    end = start + len(wanted)
    left, right = text[max(start - _CONTEXT, 0) : start], text[end : end + _CONTEXT]
    return not _goes_on_left(left, wanted) and not _goes_on_right(wanted, right)


def _goes_on_left(left: str, wanted: str) -> bool:
    if not left:
        return False
    first = wanted[0]
    if not _is_word(first):
        mark_of_a_word = first in "+-.,:/^⁄'_" and _is_word(wanted[1:2])
        return mark_of_a_word and _is_word(left[-1])
    if _is_one_word(left[-1], first) or _is_joined(left[-2:-1], left[-1], first):
        return True
    if not first.isdecimal():
        return False
    if left[-1] in _BEFORE_A_NUMBER or (left[-1] in _WITHIN_A_NUMBER and left[-2:-1].isdecimal()):
        return True
    return left[-1] == " " and left[-2:-1].isdecimal() and bool(_THOUSANDS.match(wanted))


def _goes_on_right(wanted: str, right: str) -> bool:
    if not right:
        return False
    last = wanted[-1]
    if not _is_word(last):
        mark_of_a_word = last in "+-.,:/^⁄'_" and _is_word(wanted[-2:-1])
        return mark_of_a_word and _is_word(right[0])
    if _is_one_word(last, right[0]) or _is_joined(last, right[0], right[1:2]):
        return True
    if not last.isdecimal():
        return False
    within = right[0] == "." or right[0] in _WITHIN_A_NUMBER
    if right[0] in _AFTER_A_NUMBER or (within and right[1:2].isdecimal()):
        return True
    return bool(_THOUSANDS_AFTER.match(right) and _SHORT_NUMBER_LAST.search(wanted))


def _is_word(char: str) -> bool:
    return char.isalnum() or (char != "" and category(char)[0] == "M")


def _is_one_word(left: str, right: str) -> bool:
    if left.isdecimal() and right.isdecimal():
        return True
    spaced = not (_UNSPACED.match(left) or _UNSPACED.match(right))
    return spaced and _is_word(left) and _is_word(right)


def _is_joined(left: str, mark: str, right: str) -> bool:
    return mark in _JOINING and _is_word(left) and _is_word(right)
