"""A shop's assistant: a chat beside a live log of the tools that the model calls.

Run: python examples/retail_agent/main.py
Then: open the address that it prints, and ask "What sells best?"
Needs: pip install ".[openai,tools,monitor]"

The shop is an SQLite file with 33 products, 40 customers and 500 sales, the same each time. With
OPENAI_API_KEY or ANTHROPIC_API_KEY set, that provider's model is asked; `--provider` names another.
Without a key a stub plays the model, and says so.

main.py wires it together; shop.py makes the data, tools.py has the four tools, model.py chooses the
model, web.py serves the page. Conversations are kept beside the shop, for the dashboard.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from model import choose_llm
from shop import make_shop
from tools import make_tools
from waitress.server import create_server
from web import create_app

from pywrapai_graph import AgentConfig, GraphLLM
from pywrapai_monitor import Monitor, MonitoredAgent

PROMPT = (
    "You help the people who run a small shop. Look things up with the tools, and never guess a "
    "number. Sales are from 2026-01-01 to 2026-06-30. Answer in a few short sentences."
)


def serve(folder: Path, port: int, provider: str | None, model: str | None) -> None:
    shop = folder / "shop.db"
    make_shop(shop)
    llm, note = choose_llm(provider, model)
    graph, tools = GraphLLM(llm).with_system_prompt(PROMPT), make_tools(shop)
    config = AgentConfig(max_turns=6, tool_timeout=10)

    with Monitor(db_path=folder / "monitor.db") as monitor:

        def agent_of(session: str) -> MonitoredAgent:
            return monitor.wrap_agent(graph, tools, "shopkeeper", session, config)

        with monitor.serve(port=0, block=False) as dashboard:
            app = create_app(agent_of, dashboard.url, note)
            try:
                server = create_server(app, host="127.0.0.1", port=port, threads=8)
            except OSError as error:  # such as "Address already in use"
                sys.exit(f"port {port}: {error.strerror}; give another --port, or 0 for a free one")
            print(note)
            with closing(server), suppress(KeyboardInterrupt):
                print(f"Shop: http://127.0.0.1:{server.effective_port}", flush=True)
                server.run()  # until Ctrl-C


def main() -> None:
    parser = argparse.ArgumentParser(description="A shop's assistant, with a live tool log.")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--provider", help="openai, anthropic, lmstudio, ..., or stub")
    parser.add_argument("--model", help="without it, the provider's default")
    parser.add_argument("--folder", type=Path, help="where to keep the data; else it is temporary")
    given = parser.parse_args()
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
    with nullcontext(given.folder) if given.folder else TemporaryDirectory() as folder:
        serve(Path(folder).resolve(), given.port, given.provider, given.model)


if __name__ == "__main__":
    main()
