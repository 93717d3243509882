"""How well the retrievers find the answers of Python's FAQ, asked with its own questions.

Run: python -m benchmarks.retrieval_quality FOLDER [--others FOLDER ...]

FOLDER holds the FAQ's pages as Debian's python3.11-doc has them, in
/usr/share/doc/python3.11/html/faq. A question is a heading, its answer the section's text; answers
under 100 characters, most of which point elsewhere, are left out. Each answer is one chunk. The
sections of other folders, such as ../library, are added as chunks that answer nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from bs4 import BeautifulSoup

from pywrapai import Embedder
from pywrapai_graph.rag.bm25 import BM25Retriever
from pywrapai_graph.rag.evaluation import RetrievalReport, evaluate_retrieval
from pywrapai_graph.rag.hybrid import HybridRetriever
from pywrapai_graph.rag.retriever import BaseRetriever, VectorRetriever
from pywrapai_graph.rag.store import InMemoryVectorStore
from pywrapai_graph.rag.types import Document

GOAL = 0.69
"""The least MRR@10 of the hybrid."""
LEAST_CHARACTERS = 100


def sections(folder: Path) -> Iterator[tuple[str, str]]:
    """Heading and text of each section that has no sections in it."""
    for page in sorted(folder.glob("*.html")):
        if page.name == "index.html":
            continue
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        for section in soup.find_all("section"):
            heading = section.find(["h1", "h2", "h3", "h4"])
            if section.find("section") or heading is None:
                continue
            for link in heading.select(".headerlink"):
                link.decompose()
            question = heading.extract().get_text().strip()
            answer = section.get_text().strip()
            if len(answer) >= LEAST_CHARACTERS:
                yield question, answer


def measured(
    retriever: BaseRetriever, pairs: list[tuple[str, str]], others: list[str]
) -> RetrievalReport:
    answers = [Document(answer, id=f"faq-{n}") for n, (_, answer) in enumerate(pairs)]
    retriever.add_documents(
        answers + [Document(text, id=f"o-{n}") for n, text in enumerate(others)]
    )
    relevant = [{answer.id} for answer in answers]
    return evaluate_retrieval(retriever, [question for question, _ in pairs], relevant, k=10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--others", type=Path, nargs="*", default=[])
    given = parser.parse_args()

    pairs = list(sections(given.folder))
    others = [text for folder in given.others for _, text in sections(folder)]
    vector, bm25 = VectorRetriever(Embedder("local"), InMemoryVectorStore()), BM25Retriever()
    print(f"{len(pairs)} questions, {len(pairs) + len(others)} chunks")
    print(f"{'retriever':10} {'MRR@10':>7} {'recall':>7} {'nDCG':>7}")
    retrievers = {"vector": vector, "bm25": bm25, "hybrid": HybridRetriever([vector, bm25])}
    for name, retriever in retrievers.items():
        report = measured(retriever, pairs, others)
        print(f"{name:10} {report.mrr:7.3f} {report.recall:7.3f} {report.ndcg:7.3f}")
    if others or report.mrr >= GOAL:
        return 0
    print(f"the hybrid's MRR@10 is under {GOAL}")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
