"""Asks many rows, never more than so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from results import Results

from pywrapai import LLM, AuthError, ModelNotFoundError, ProviderError

Row = tuple[int, str]


async def ask_all(
    llm: LLM, rows: Iterable[Row], results: Results, concurrency: int, done: Callable[[], object]
) -> None:
    """Ask every row and keep what comes of it; `done` is called after each.

    A row that fails is kept with its error. What would fail for all rows, such as a wrong key, is
    raised, and what was answered until then is kept.
    """
    waiting = iter(rows)  # shared: each worker takes the next one
    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(_work(llm, waiting, results, done))


async def _work(
    llm: LLM, waiting: Iterator[Row], results: Results, done: Callable[[], object]
) -> None:
    for number, text in waiting:
        try:
            response = await llm.achat(text)
        except (AuthError, ModelNotFoundError):
            raise
        except ProviderError as error:  # the LLM has tried it again already
            results.keep_error(number, f"{type(error).__name__}: {error}")
        else:
            results.keep(number, response)
        done()
