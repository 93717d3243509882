"""Retrieval by the words that a question and a chunk share: BM25, as bm25s counts it."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from pywrapai.core.checks import at_least_1
from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow, blocking
from pywrapai.core.process import ProcessLock
from pywrapai_graph.rag.metadata import Where, is_same
from pywrapai_graph.rag.portions import (
    PORTION,
    Portion,
    Splitter,
    next_of,
    portions,
    without_vector,
)
from pywrapai_graph.rag.retriever import FlowRetriever, checked_query
from pywrapai_graph.rag.types import Chunk, Document, ScoredChunk

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Kana, Hangul, Thai, Lao, Myanmar, Khmer: letters and what is written around them.
_RUNNING = (
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uac00-\ud7a3"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
)
_IS_HAN = re.compile(f"[{_HAN}]")
_SOFT_HYPHEN = "\xad"


class BM25Retriever(FlowRetriever):
    """Finds chunks by their words, the rare ones above all. Keeps everything in memory.

    Good where vectors are weak: names, numbers, error codes. A chunk that has no word of the
    query is not found. Scores are BM25's own, above 0 and without a top. The index is built by the
    first `retrieve` after a change, so add in few calls. May be shared by threads and by tasks.

    Args:
        k: how many chunks `retrieve` gives if it is not told.
        k1: how much a word counts that is there again and again.
        b: how much long chunks are held back, from 0 to 1.
        tokenize: gives the words of a text, of chunks and of queries; by default
            `pywrapai_graph.rag.words`. Stems and stop words go here:
            `lambda text: [stem(word) for word in words(text)]`.

    Raises:
        ValueError: `k` is under 1, `k1` under 0, or `b` not from 0 to 1.
    """

    def __init__(
        self,
        k: int = 4,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        tokenize: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            raise ValueError(f"k1 is {k1!r} and b {b!r}; expected k1 of 0 or more, b from 0 to 1")
        with needs("bm25"):
            from bm25s import BM25
        self.k = at_least_1("k", k)
        self._scorer: Callable[[], Any] = lambda: BM25(k1=k1, b=b)
        self._tokenize = words if tokenize is None else tokenize
        self._lock = ProcessLock()
        self._empty()

    def _empty(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ids_of: dict[str, set[str]] = {}
        self._numbers: dict[str, int] = {}
        self._index: _Index | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return True  # an empty retriever is a retriever

    def retrieve_flow(
        self, query: str, k: int | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> Flow[list[ScoredChunk]]:
        """`retrieve` as a flow."""
        k = at_least_1("k", self.k if k is None else k)
        return (yield from blocking(self._search, checked_query(query), k, Where.of(filter)))

    def add_flow(self, docs: Iterable[Document], chunker: Splitter | None = None) -> Flow[int]:
        """`add_documents` as a flow."""
        written = 0
        cut = portions(docs, chunker, PORTION)
        while (portion := (yield from blocking(next_of, cut))) is not None:
            written += yield from blocking(self._write, portion)
        return written

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the chunks with these ids; unknown ones are no error."""
        if isinstance(ids, str):
            raise TypeError(f"ids is a list of ids, not one text: [{ids!r:.80}]")
        with self._lock:
            self._drop(ids)

    def clear(self) -> None:
        """Remove all chunks."""
        with self._lock:
            self._empty()

    def __repr__(self) -> str:
        return f"BM25Retriever(k={self.k}, chunks={len(self)})"

    def _write(self, portion: Portion) -> int:
        """Take in what is new, and drop what its documents no longer have."""
        todo = [chunk for chunk in portion.chunks.values() if self._is_new(chunk)]
        texts = [list(self._tokenize(chunk.text)) for chunk in todo]
        with self._lock:
            self._drop(chunk.id for chunk in todo)
            for chunk, found in zip(todo, texts, strict=True):
                self._index = None
                self._entries[chunk.id] = _Entry(chunk, array("i", map(self._number, found)))
                self._ids_of.setdefault(chunk.doc_id, set()).add(chunk.id)
            for doc, ids in portion.ended.items():
                self._drop(self._ids_of.get(doc, set()).difference(ids))
        return len(todo)

    def _is_new(self, chunk: Chunk) -> bool:
        entry = self._entries.get(chunk.id)
        return entry is None or not is_same(chunk, entry.chunk)

    def _number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))

    def _drop(self, ids: Iterable[str]) -> None:
        for id in ids:
            if (entry := self._entries.pop(id, None)) is not None:
                self._index = None
                siblings = self._ids_of[entry.chunk.doc_id]
                siblings.discard(id)
                if not siblings:
                    del self._ids_of[entry.chunk.doc_id]

    def _search(self, query: str, k: int, where: Where | None) -> list[ScoredChunk]:
        asked = list(self._tokenize(query))
        with self._lock:
            if self._index is None:
                self._index = _Index.of(self._scorer(), self._entries, len(self._numbers))
            index = self._index
            numbers = [self._numbers[word] for word in asked if word in self._numbers]
        return [
            ScoredChunk(without_vector(chunk), score)
            for chunk, score in index.best(numbers, k, where)
        ]


@dataclass(frozen=True, slots=True)
class _Entry:
    chunk: Chunk
    words: array[int]
    """The numbers of its words, in their order."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The chunks at one moment, ready to be asked; nothing changes it any more."""

    chunks: list[Chunk]
    scorer: Any
    """A bm25s.BM25; None where no chunk has a word."""

    @classmethod
    def of(cls, scorer: Any, entries: Mapping[str, _Entry], vocabulary: int) -> _Index:
        with_words = [entry for entry in entries.values() if entry.words]
        if not with_words:
            return cls([], None)
        # Not its `index`, which logs, and makes a word of its own out of the empty text.
        scorer.scores = scorer.build_index_from_ids(
            list(range(vocabulary)), [entry.words for entry in with_words], show_progress=False
        )
        return cls([entry.chunk for entry in with_words], scorer)

    def best(self, numbers: list[int], k: int, where: Where | None) -> list[tuple[Chunk, float]]:
        """The k chunks of the highest scores that pass the filter; ties as they were added."""
        if self.scorer is None or not numbers:
            return []
        scores: Array = self.scorer.get_scores_from_ids(numbers)
        ordered = _ordered(scores, k if where is None else len(scores))
        found = ((self.chunks[place], float(scores[place])) for place in ordered)
        passed = (hit for hit in found if where is None or where.admits(hit[0].metadata))
        return list(islice(passed, k))


def _ordered(scores: Array, k: int) -> list[int]:
    """The places of scores above 0, the highest first; at least k of them, if there are."""
    import numpy as np

    places = np.flatnonzero(scores > 0)
    found = scores[places]
    if len(found) > k:
        least = np.partition(found, len(found) - k)[len(found) - k]
        places = places[found >= least]
    order = np.argsort(-scores[places], kind="stable")
    return [int(place) for place in places[order]]


def words(text: str) -> list[str]:
    """The words of a text in any language, in one form for upper and lower case.

    Where a script puts no spaces between words, as Chinese, Japanese and Thai do, and in Korean,
    where endings join them, they are pairs of characters, and each Chinese character too.
    """
    if text.isascii():
        return re.findall(r"\w+", text.lower())
    plain = unicodedata.normalize("NFKC", text).casefold().replace(_SOFT_HYPHEN, "")
    return [part for run in _runs().finditer(plain) for part in _parts(run)]


def _parts(run: re.Match[str]) -> Iterator[str]:
    found = run.group()
    if run.lastgroup != "unspaced":
        yield found
        return
    if len(found) == 1 or _IS_HAN.search(found):
        yield from (sign for sign in found if len(found) == 1 or _IS_HAN.match(sign))
    yield from (found[at : at + 2] for at in range(len(found) - 1))


@cache
def _runs() -> re.Pattern[str]:
    """Runs without spaces, and words: letters, digits, _ and the marks on them."""
    marks = _marks()
    letters = rf"[^\W{_HAN}{_RUNNING}]"
    return re.compile(rf"(?P<unspaced>[{_HAN}{_RUNNING}]+)|{letters}+(?:[{marks}]+{letters}*)*")


def _marks() -> str:
    """The characters that combine with a letter, which `\\w` lacks, as ranges for a pattern."""
    signs = [code for code in range(0x20000) if unicodedata.category(chr(code))[0] == "M"]
    signs += range(0xE0100, 0xE01F0)
    ranges = groupby(enumerate(signs), lambda pair: pair[1] - pair[0])
    ends = ([code for _, code in run] for _, run in ranges)
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in ends)
