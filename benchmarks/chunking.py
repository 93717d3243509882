"""How fast texts become chunks of 500 characters, beside other libraries, in MB of UTF-8 a second.

Run: python -m benchmarks.chunking [--rounds 15] [--texts "docs/**/*.txt"]

Beside the bare window, which is the least that it can cost: it looks back for the last blank line,
line, sentence or space, cuts, and tells no offsets. Ours makes whole chunks: offsets, ids,
metadata. The texts are those of Python's own help, if none are given. A library that is not
installed is left out. The exit code is 1 if one was faster that overlaps its chunks as ours does;
one that does not is beside ours without overlap.
"""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure, compare

SIZE = 500
OVERLAP = 50

Split = Callable[[str], Any]


def help_texts() -> list[str]:
    from pydoc_data.topics import topics

    return [str(text) for text in topics.values()]


def read(pattern: str) -> list[str]:
    paths = sorted(glob.glob(pattern, recursive=True))
    texts = [Path(path).read_text("utf-8", errors="replace") for path in paths]
    if not texts:
        raise SystemExit(f"no file matches {pattern!r}")
    return texts


def bare_window(text: str) -> list[str]:
    found, start, length = [], 0, len(text)
    while length - start > SIZE:
        low, high = start + SIZE // 2, start + SIZE
        for separator in ("\n\n", "\n", ". ", " "):
            if (at := text.rfind(separator, low, high)) >= 0:
                break
        end = at + 1 if at >= 0 else high
        found.append(text[start:end])
        word = text.rfind(" ", end - 2 * OVERLAP, end - OVERLAP)
        start = word + 1 if word > start else end
    found.append(text[start:])
    return found


def ours(overlap: int = OVERLAP) -> Split:
    from pywrapai_graph.rag.chunker import Chunker
    from pywrapai_graph.rag.types import Document

    chunker = Chunker(SIZE, overlap)
    return lambda text: chunker.split(Document(text))


def langchain() -> Split:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP).split_text


def langchain_with_offsets() -> Split:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(
        chunk_size=SIZE, chunk_overlap=OVERLAP, add_start_index=True
    )
    return lambda text: splitter.create_documents([text])


def semantic_text_splitter() -> Split:
    from semantic_text_splitter import TextSplitter

    split: Split = TextSplitter(SIZE, overlap=OVERLAP).chunk_indices
    return split


def chonkie_sentence() -> Split:
    from chonkie import SentenceChunker

    split: Split = SentenceChunker("character", chunk_size=SIZE, chunk_overlap=OVERLAP).chunk
    return split


def chonkie_recursive() -> Split:
    from chonkie import RecursiveChunker

    split: Split = RecursiveChunker("character", chunk_size=SIZE).chunk
    return split


def chonkie_fast() -> Split:
    from chonkie import FastChunker

    split: Split = FastChunker(chunk_size=SIZE).chunk
    return split


OVERLAPPING = (langchain, langchain_with_offsets, semantic_text_splitter, chonkie_sentence)
APART = (chonkie_recursive, chonkie_fast)


def figures(texts: list[str], rounds: int) -> Iterator[Figure]:
    """Ours beside the bare window, then beside every library that is installed."""

    def case(name: str, mine: Split, theirs: Split, goal: float | None) -> Figure:
        return compare(
            name,
            lambda: [len(mine(text)) for text in texts],
            lambda: [len(theirs(text)) for text in texts],
            calls=1,
            rounds=rounds,
            goal=goal,
        )

    yield case("bare window", ours(), bare_window, None)
    for library in (*OVERLAPPING, *APART):
        try:
            theirs = library()
        except ImportError:
            print(f"{library.__name__:24} not installed")
            continue
        overlap, goal = (OVERLAP, 1.0) if library in OVERLAPPING else (0, None)
        yield case(library.__name__, ours(overlap), theirs, goal)


def main() -> int:
    """Print the table; 1 if a library that overlaps was faster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--texts", help="files to split, as a glob pattern")
    options = parser.parse_args()
    texts = read(options.texts) if options.texts else help_texts()
    kilobytes = sum(len(text.encode()) for text in texts) / 1000
    print(f"{len(texts)} texts, {kilobytes / 1000:.1f} MB")
    print(f"{'beside':24} {'ours MB/s':>9} {'theirs':>9} {'time ratio':>11}")
    missed = False
    for f in figures(texts, options.rounds):
        speeds = f"{kilobytes / f.ours_ms:9.1f} {kilobytes / f.theirs_ms:9.1f}"
        print(f"{f.case:24} {speeds} {f.ratio:11.2f}{'  MISSED' if f.missed else ''}")
        missed |= f.missed
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
