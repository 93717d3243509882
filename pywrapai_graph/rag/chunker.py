"""Cut a document into chunks: first decide where each begins and ends, then cut the text there."""

# ruff: noqa: RUF001  # quotes and stops of many scripts are meant

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, partial
from unicodedata import category

from pywrapai_graph.rag.types import Chunk, Document

# A shorter text says too little to be found by its meaning.
_LEAST = 10

_BLANK_LINE = re.compile(r"(?s:.*)\n[^\S\n]*\n")
_AFTER_SENTENCE = re.compile(r"\s*\n|[^\S\n]*")
_WORD_START = re.compile(r"\s\S")
_LETTER = re.compile(r"\S")

# What must follow a stop that ends a sentence. Chinese and Japanese have no white space there.
_STOPS = dict.fromkeys(".!?…؟۔।", r"\s") | dict.fromkeys("。！？｡", r"[\s\S]") | {"．": r"\D"}
_CLOSERS = r"\"'”’»›)\]}」』）】》〉"

_SHORT = (
    "Mr Mrs Ms Dr Prof Rev Hon Gen Col Lt Sgt Capt Sr Jr St Mt Ave Blvd Inc Ltd Co Corp Bros Dept"
    " Univ vs etc cf al ca approx esp incl No Nos Nr Vol vol pp Fig fig Figs figs Eq eq Eqs eqs"
    " Sec sec Ch ch Ed ed Eds eds Ref ref Refs refs Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov"
    " Dec Hr Fr Str Abb Bd bzw evtl ggf inkl usw vgl Vgl Mio Mrd Sra Dra Mme Mlle"
)
_ABBREVIATIONS = frozenset(_SHORT.split())
_OPENERS = "\"'“‘„«‹([{*_"
# The longest abbreviation with two of these before it.
_BEFORE_A_STOP = 8

# Marks, skin tones, and what is not seen: joiners, the letters of a tagged flag.
_CONTINUING = ("Mn", "Mc", "Me", "Sk", "Cf")
_HALF_WIDTH_MARKS = "\uff9e\uff9f"
_ZERO_WIDTH_JOINER = "\u200d"
_FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
# No emoji has more code points. A letter with more marks than that is cut.
_LONGEST_CHARACTER = 64

_UNCHANGING = frozenset({str, int, float, bool, type(None), bytes, date, datetime})


@dataclass(frozen=True, slots=True)
class Chunker:
    """Cuts documents into chunks of about one size. May be shared by threads.

    A chunk ends at a blank line if there is one in its second half; otherwise after a sentence
    that ends there; otherwise after a line, or after a word. It is the last such place that keeps
    the chunk within `chunk_size`. A word with none of these is cut, but not inside a character
    as people see it (an emoji, a letter and its accent). The next chunk begins `overlap`
    characters before that end, or up to half as far, if that is where a word begins.

    Every chunk is a slice of its document, white space included, and every letter is in a chunk.
    Left out is only white space that would fill more than half a chunk, or that ends the document
    and does not fit. So without overlap the chunks of most documents join to the text.

    A text under 10 characters gives no chunk. If less than 10 characters would be left for the
    last chunk, they join the one before it, which may then be 9 longer than `chunk_size`: no chunk
    is under 10. Only where `chunk_size` itself is under 10, nothing is joined.

    Args:
        chunk_size: the most characters (code points) in a chunk.
        overlap: how many of them the next chunk repeats; fewer than `chunk_size`. If that is more
            than half a chunk, the places where a chunk may end begin after it.

    Raises:
        TypeError: a size is not an int.
        ValueError: a size is out of range.
    """

    chunk_size: int = 500
    overlap: int = 50

    def __post_init__(self) -> None:
        for name in ("chunk_size", "overlap"):
            given = getattr(self, name)
            if not isinstance(given, int) or isinstance(given, bool):
                raise TypeError(f"{name} is {given!r}; expected an int, a number of characters")
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size is {self.chunk_size}; expected 1 or more characters")
        if not 0 <= self.overlap < self.chunk_size:
            raise ValueError(
                f"overlap is {self.overlap}; expected 0 or more characters, and fewer than"
                f" chunk_size, which is {self.chunk_size}"
            )

    def split(self, doc: Document) -> list[Chunk]:
        """The chunks of `doc` in order, each with its own copy of the metadata.

        Their ids are the document's id and a number from 0: "ID:0", "ID:1".
        """
        if not isinstance(doc, Document):
            raise TypeError(f"split got {type(doc).__name__}; expected a Document: Document(text)")
        text, doc_id, metadata = doc.text, doc.id, doc.metadata
        flat = _UNCHANGING.issuperset(map(type, metadata.values()))
        copied = metadata.copy if flat else partial(deepcopy, metadata)
        return [
            Chunk(text[start:end], doc_id, copied(), f"{doc_id}:{number}", None, start, end)
            for number, (start, end) in enumerate(spans(text, self.chunk_size, self.overlap))
        ]


def spans(text: str, chunk_size: int, overlap: int) -> list[tuple[int, int]]:
    """Where the chunks of `text` begin and end, as `Chunker` says.

    An end is more than `overlap` after its start, and the next start at most `overlap` before it,
    so that starts and ends always increase.
    """
    length, last = len(text), len(text.rstrip())
    if length < _LEAST or not last:
        return []
    least = _LEAST if chunk_size >= _LEAST else 1
    reach = max(chunk_size // 2 + 1, overlap + 1, least)
    repeated = overlap - overlap // 2  # the least, where a word begins late
    composed = "\r" in text or not text.isascii()  # if not, no cut is inside a character
    stops = [stop for stop in _STOPS if stop in text]
    found: list[tuple[int, int]] = []
    start = end = 0
    while True:
        if text[start].isspace():
            start = _past_blanks(text, start, end, chunk_size // 2, length - least)
        high = start + chunk_size
        if high >= last:
            end = length if length <= high else _whole(text, high, start + least, start)
            break
        at = text.rfind("\n\n", start + reach - 2, high + 2)
        end = at + 2 if at >= 0 else _end(text, start + reach, high, stops)
        if end > high:
            end = high
        if composed and not "\n" < text[end] < "\u0300":
            end = _whole(text, end, start + reach, start)
        if end > last - least:
            end = length if length - end < least else last
            break
        found.append((start, end))
        at = text.find(" ", end - overlap - 1, end - repeated)
        at = at + 1 if at >= 0 else _word_start(text, end - overlap, end - repeated)
        if composed and not "\n" < text[at] < "\u0300":
            at = _whole(text, at, end, start)
        start = at
    found.append((start, end))
    return found


def _past_blanks(text: str, start: int, end: int, most: int, latest: int) -> int:
    """The first letter from `start`, if the white space before it is long or not new."""
    found = _LETTER.search(text, start)
    assert found is not None  # the text has a letter after `start`
    letter = found.start()
    return min(letter, latest) if letter < end or letter - start > most else start


def _end(text: str, low: int, high: int, stops: list[str]) -> int:
    """The best end from `low` to `high`, or more if only white space is between; else `high`."""
    if blank_line := _BLANK_LINE.match(text, low - 2, high + 2):
        return blank_line.end()
    end = 0
    for stop in stops:
        since = end or low - 1
        at = text.rfind(stop, since, high)
        if at < 0:
            continue
        if text[at + 1].isspace() and not (stop == "." and is_abbreviation(text, at)):
            end = at + 1
        else:
            end = _sentence_end(text, since, high, stop) or end
    if end:
        return _past_space(text, end, high)
    at = text.rfind("\n", low - 1, high + 1)
    return at + 1 if at >= 0 else _word_end(text, low, high)


def _past_space(text: str, end: int, high: int) -> int:
    """After the white space of a sentence, but not the indentation of the next line."""
    if end < high and text[end] == " " and not text[end + 1].isspace():
        return end + 1
    blank = _AFTER_SENTENCE.match(text, end, high)
    return blank.end() if blank else end


@cache
def _last(stop: str) -> re.Pattern[str]:
    """Matches up to the last such stop that may end a sentence, and what closes after it.

    It takes all of the text and gives it back from the end, to the first stop that fits, which
    takes linear time.
    """
    return re.compile(rf"(?s:.*){re.escape(stop)}[{_CLOSERS}]*+(?={_STOPS[stop]})")


def _sentence_end(text: str, since: int, high: int, stop: str) -> int:
    """The last place up to `high` where a sentence ends with this stop; 0 if none does."""
    until = high + 1
    while found := _last(stop).match(text, since, until):
        until = text.rfind(stop, since, found.end())
        if stop != "." or not is_abbreviation(text, until):
            return found.end()
    return 0


def is_abbreviation(text: str, stop: int) -> bool:
    """Whether the stop there ends an abbreviation, an initial or the number of a list item."""
    words = text[max(stop - _BEFORE_A_STOP, 0) : stop].split()
    if not words:
        return False
    word = words[-1]
    if word.isdigit():
        before = text[max(stop - 20, 0) : stop - len(word)].rstrip(" \t")
        return len(word) < 4 and before[-1:] in ("", "\n")
    word = word.lstrip(_OPENERS)
    return word in _ABBREVIATIONS or (word[-1:].isalpha() and word[-2:-1] in ("", "."))


def _word_end(text: str, low: int, high: int) -> int:
    if text[high].isspace() or text[high - 1].isspace():
        return high
    word = text[low - 1 : high].rsplit(None, 1)[-1]
    return high - len(word) if len(word) <= high - low else high


def _word_start(text: str, at: int, latest: int) -> int:
    word = _WORD_START.search(text, at - 1, latest + 1)
    return word.end() - 1 if word else at


def _whole(text: str, place: int, furthest: int, start: int) -> int:
    """The first place on the way to `furthest` that is inside no character; else `place`."""
    step = 1 if furthest > place else -1
    for at in range(place, furthest + step, step)[:_LONGEST_CHARACTER]:
        if not _is_inside(text, at, start):
            return at
    return place


def _is_inside(text: str, place: int, start: int) -> bool:
    """Whether the place is inside a character, as people see them; `start` is inside none."""
    before, after = text[place - 1], text[place]
    if after < "\u0300":
        return after == "\n" and before == "\r"
    if after in _FLAG_HALVES and before in _FLAG_HALVES:
        halves = place - start - len(text[start:place].rstrip(_FLAG_HALVES))
        return halves % 2 == 1
    return (
        before == _ZERO_WIDTH_JOINER
        or category(after) in _CONTINUING
        or "\u1160" <= after <= "\u11ff"  # vowels and finals of a Hangul syllable
        or after in _HALF_WIDTH_MARKS
    )
