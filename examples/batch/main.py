"""Ten thousand rows through a model: some at a time, with a bar, a bill, and no fear of a crash.

Run: python examples/batch/main.py [RESULTS.db]
Needs: pip install ".[openai,rag]"

Stop it when you like, with Ctrl-C or kill -9, and run it again: it goes on with what is missing. No
row is in the results twice and none is lost; the calls that were on their way when it was killed
are made again, which are at most as many as `--concurrency`.

With OPENAI_API_KEY or ANTHROPIC_API_KEY set, that provider's model is asked, and costs money;
`--provider` names another. Without a key a stub answers, and says so. `--input` takes a CSV file
with a column `text`.

main.py wires it together; rows.py reads what to ask, model.py chooses the model, work.py asks,
results.py keeps the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from sqlite3 import OperationalError
from tempfile import TemporaryDirectory

from model import choose_llm
from results import Bill, Results
from rows import read_rows
from tqdm import tqdm
from work import ask_all

from pywrapai import ProviderError


def run(path: Path, given: argparse.Namespace) -> Bill:
    llm, note = choose_llm(given.provider, given.model)
    print(note, flush=True)
    rows = read_rows(given.input, given.rows)
    with Results(path) as results:
        answered = results.answered()
        missing = [(n, text) for n, text in enumerate(rows, 1) if n not in answered]
        print(f"{len(rows)} rows, {len(rows) - len(missing)} of them answered before", flush=True)
        with tqdm(total=len(rows), initial=len(rows) - len(missing), unit="row") as bar:
            asyncio.run(ask_all(llm, missing, results, given.concurrency, bar.update))
        return results.bill()


def show(bill: Bill) -> None:
    print(
        f"{bill.answered} answered, {bill.failed} failed; {bill.input_tokens:,} tokens in, "
        f"{bill.output_tokens:,} out: ${bill.cost_usd:.4f}"
    )
    if bill.unpriced:
        print(f"No price is known for {bill.unpriced} of them, which are not in that sum.")
    if bill.failed:
        print("Run it again to ask those that failed.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a model about many rows.")
    parser.add_argument("results", nargs="?", type=Path, help="else a temporary file")
    parser.add_argument("--input", type=Path, help="a CSV file; else rows are made up")
    parser.add_argument("--rows", type=int, default=10_000, help="how many to make up")
    parser.add_argument("--concurrency", type=int, default=50, help="calls at a time")
    parser.add_argument("--provider", help="openai, anthropic, local, ..., or stub")
    parser.add_argument("--model", help="without it, the provider's default")
    given = parser.parse_args()
    stopped = None  # what is raised within `except*` comes out as a group, SystemExit too
    try:
        with TemporaryDirectory() as folder:
            show(run(given.results or Path(folder) / "results.db", given))
    except* OperationalError as group:  # such as "database is locked" by a run that is not over
        stopped = f"{given.results}: {group.exceptions[0]}"
    except* ProviderError as group:
        stopped = f"stopped: {group.exceptions[0]}"
    except* KeyboardInterrupt:
        stopped = "stopped; run it again to go on"
    sys.exit(stopped)


if __name__ == "__main__":
    main()
