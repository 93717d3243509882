"""A store of somebody's own: it has the nineteen methods, and passes the contract for those."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pywrapai_monitor.db import BaseStore, SQLiteStore
from tests.contracts.sql_store import StoreContract
from tests.contracts.store_rows import Clock


def forwarded(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: getattr(self.inner, name)(*args, **options)


class Base(BaseStore):
    """All that is abstract, by a store that nobody sees."""

    def __init__(self, clock: Clock) -> None:
        self.inner = SQLiteStore(":memory:", clock=clock)


Foreign: Any = type(
    "Foreign", (Base,), {name: forwarded(name) for name in BaseStore.__abstractmethods__}
)


class TestForeignStore(StoreContract):
    @pytest.fixture
    def store(self, clock: Clock) -> Iterator[BaseStore]:
        store = Foreign(clock)
        yield store
        store.inner.close()

    def test_it_says_what_it_leaves_out(self, store: BaseStore) -> None:
        for leave_out in (
            store.get_feedback,
            store.list_prompts,
            lambda: store.delete_user("alice"),
            lambda: store.export_rows("conversations"),
        ):
            with pytest.raises(NotImplementedError, match="Foreign cannot"):
                leave_out()
