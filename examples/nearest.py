"""Find the text that is nearest in meaning to a question; no key, no network.

Run: python examples/nearest.py ["a question"]
Needs: pip install ".[local-embeddings]"
"""

from __future__ import annotations

import sys

from pywrapai import Embedder

TEXTS = [
    "We are open from nine to five, Monday to Friday.",
    "A parcel takes two days; the link in our e-mail shows where it is.",
    "To send something back, put the label on the box and take it to any post office.",
    "You can pay by card, by invoice, or in cash at the counter.",
]
QUESTIONS = ["When will my package arrive?", "Do you take credit cards?"]


def main() -> None:
    embedder = Embedder("local")
    texts = embedder.embed_array(TEXTS)
    questions = sys.argv[1:] or QUESTIONS
    for question, vector in zip(questions, embedder.embed_array(questions), strict=True):
        likeness = texts @ vector  # the vectors have length 1, so this is their cosine
        best = int(likeness.argmax())
        print(f"{question}\n  {TEXTS[best]}  [{likeness[best]:.2f}]\n")
    print(f"{embedder.tokens.total_tokens} tokens in {embedder.tokens.total_calls} requests")


if __name__ == "__main__":
    main()
